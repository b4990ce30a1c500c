/* parcel.h -- many lines sent in one request, and what became of each.
 *
 * A parcel is filled by one thread (parcel_add), sent by another (parcel_send), and read by the
 * first again. Every line it sends can be sent again without counting twice: events have their ids,
 * and an operation without a key gets one made of the work's name, the line's number and its text.
 * So the same file with the same name counts once, however it is cut into parcels. */
#ifndef TALLY_CLI_PARCEL_H
#define TALLY_CLI_PARCEL_H

#include "cli/client.h"

enum parcel_kind { PARCEL_UNDECIDED, PARCEL_EVENTS, PARCEL_OPERATIONS };

#define PARCEL_BYTES_FULL (4u << 20)

/* What the lines are, and what they are called. */
struct parcel_rules {
    enum parcel_kind kind; /* undecided: the first object says what it is */
    char name[33];         /* the work's: part of every key */
    bool make_ids;         /* events without an id get one, made as the keys of operations are */
    struct json_parser *parser;
};

struct rejection {
    uint64_t line;
    struct tally_error why;
};

struct parcel {
    struct buf body;
    size_t *begins;    /* where each line begins in the body; one more than there are lines */
    uint64_t *numbers; /* each line's in the file */
    unsigned count;
    unsigned count_max;
    unsigned sent; /* how many were decided */
    uint64_t applied;
    uint64_t duplicates;
    struct rejection *rejections;
    unsigned rejections_count;
    unsigned rejections_room;
};

void parcel_init(struct parcel *parcel, unsigned lines_max);
void parcel_release(struct parcel *parcel);
void parcel_reset(struct parcel *parcel);
bool parcel_is_full(const struct parcel *parcel);

/* Puts one line in, or a rejection if the server could make nothing of the line. Empty lines are
 * passed over. `line` is followed by JSON_PADDING readable bytes. */
void parcel_add(struct parcel *parcel, struct parcel_rules *rules, uint64_t number,
                struct bytes line);
void parcel_reject(struct parcel *parcel, uint64_t number, const char *code, const char *sentence);

/* Sends all of it and notes what the server said. A parcel that is too much for one request goes
 * in halves. TALLY_OK: every line was decided. Otherwise `client->error` says why; a further
 * call goes on. */
enum tally_end parcel_send(struct parcel *parcel, enum parcel_kind kind, struct client *client);

#endif
