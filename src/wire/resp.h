/* resp.h -- Redis's protocol: commands out of bytes, and replies as bytes.
 *
 * A command is an array of strings, or a line of words (an "inline" command). The wire frames what
 * it reads: resp_frame says how far commands are whole, at a few nanoseconds an argument and
 * without memory, going on where it stopped. The API then reads the whole commands one by one with
 * resp_next and writes replies by the functions at the end, in the protocol's second or third
 * version. */
#ifndef TALLY_WIRE_RESP_H
#define TALLY_WIRE_RESP_H

#include "base/arena.h"
#include "wire/faults.h"

/* -- Framing ----------------------------------------------------------------------------------- */

#define RESP_LINE_BYTES_MAX (64u << 10) /* an inline command, as Redis has it */
#define RESP_FEW 8u

struct resp_limits {
    size_t bytes_max;       /* a whole command may have */
    uint32_t arguments_max; /* it may have, and its name counts as one */
    unsigned commands_max;  /* framed at a time */
    bool stranger;          /* Redis words it differently for those that have shown no token */
};

/* All zero: nothing was looked at. Places are counted from the first byte that was not taken. */
struct resp_frames {
    size_t whole;            /* up to here commands are whole */
    unsigned commands;       /* so many */
    size_t at;               /* looked at up to here */
    uint32_t arguments_left; /* the command at hand still lacks; 0: a new one begins */
    size_t need;             /* the argument at hand ends here; 0: it is not known yet */
    char got;                /* instead of what FAULT_RESP_EXPECTED expected */
};

/* Looks on in what is here. A fault stays where it is: commands before it are whole. */
enum fault resp_frame(struct resp_frames *frames, struct bytes here,
                      const struct resp_limits *limits);

/* -- Reading ----------------------------------------------------------------------------------- */

struct resp_reader {
    struct bytes rest;
};

struct resp_command {
    uint32_t count; /* at least 1 */
    struct bytes *items;
    struct bytes few[RESP_FEW]; /* where `items` points if there are no more */
};

/* Takes the next command off. The bytes were framed. False: there is none left. */
bool resp_next(struct resp_reader *reader, struct arena *arena, struct resp_command *command_out);

/* -- Writing ----------------------------------------------------------------------------------- */

enum resp_version { RESP_2, RESP_3 };

void resp_add_simple(struct buf *buf, struct bytes text); /* +text */
/* `text` begins with the error's code, as in "ERR ..."; control bytes in it become spaces. */
void resp_add_error(struct buf *buf, struct bytes text);
void resp_add_integer(struct buf *buf, int64_t value);
void resp_add_bulk(struct buf *buf, struct bytes text);
void resp_add_bulk_integer(struct buf *buf, int64_t value); /* the number as a string */
void resp_add_null(struct buf *buf, enum resp_version version);
void resp_add_array(struct buf *buf, uint64_t count); /* `count` values follow */
/* `count` pairs follow: a map, in the second version an array of twice as many. */
void resp_add_map(struct buf *buf, enum resp_version version, uint64_t count);
void resp_add_set(struct buf *buf, enum resp_version version, uint64_t count);

#endif
