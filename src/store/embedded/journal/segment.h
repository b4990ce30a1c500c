/* segment.h -- the bytes of one journal segment file, and walking through them.
 *
 * Knows the format (segment.c opens with it) and nothing of the order of files. A reader goes from
 * block to block as long as each is whole, belongs to this very segment and continues the chain. */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_SEGMENT_H
#define TALLY_STORE_EMBEDDED_JOURNAL_SEGMENT_H

#include "store/embedded/io.h"
#include "store/embedded/journal/journal.h"

#define SEGMENT_NAME_SIZE 32 /* a file name with its NUL */
#define SEGMENT_BLOCK_HEADER 88u

enum segment_kind {
    SEGMENT_LIVE,   /* journal-<number>.seg: in the chain, its header is durable */
    SEGMENT_SPARE,  /* spare-<number>.seg: whole, but what it holds means nothing */
    SEGMENT_MAKING, /* making-<number>.seg: being zero-written; rubbish after a crash */
};

/* Names sort in the order of their numbers. */
void segment_name(char name[SEGMENT_NAME_SIZE], enum segment_kind kind, uint64_t number);
bool segment_name_parse(const char *name, enum segment_kind *kind_out, uint64_t *number_out);

/* Where a chain of blocks ends: its last block, or all zero before the first. */
struct chain_end {
    uint64_t sequence; /* the last one in the block */
    uint64_t checksum;
    int64_t time_ms;
};

struct segment_header {
    uint64_t installation;
    uint64_t epoch; /* grows with each opening and each restart */
    uint64_t number;
    struct chain_end previous; /* durable before this header was written */
    uint64_t key;              /* the header's checksum; every block of the segment repeats it */
};

/* Fills the page and sets `header->key`. */
void segment_header_encode(char page[IO_ALIGN], struct segment_header *header);
/* Returns NULL, or what is wrong as the end of a sentence: "has a damaged header". */
const char *segment_header_decode(struct bytes page, uint64_t installation,
                                  struct segment_header *header_out);

/* What ties a block to its place. */
struct segment_link {
    uint64_t segment_key;
    uint64_t epoch;
    uint64_t durable;  /* the last sequence known durable when the block was built */
    uint64_t previous; /* checksum of the block before */
};

/* Bytes of the segment that a block takes: header, body, zeros up to IO_ALIGN. */
size_t segment_block_size(size_t body_size);
/* Writes segment_block_size bytes and returns the block's checksum. */
uint64_t segment_block_encode(char *at, const struct segment_link *link,
                              const struct journal_block *block);

/* Members are the reader's own; `header`, `offset`, `end` and `error` are for looking at. */
struct segment_reader {
    struct io *io;
    int fd;
    int error; /* errno of a failed read */
    uint64_t size;
    uint64_t offset;      /* the next block's */
    struct chain_end end; /* the last block read; the predecessor at first */
    struct segment_header header;
    char *window;
    size_t window_capacity;
    size_t window_size;
    uint64_t window_offset;
};

/* ERR_STORAGE: cannot be read, see `error`. ERR_CORRUPT: `reason_out` says what is wrong with it.
 * Close it in every case. */
MUST_USE enum err segment_reader_open(struct segment_reader *reader, struct io *io,
                                      const char *path, uint64_t installation,
                                      const char **reason_out);
void segment_reader_close(struct segment_reader *reader);

/* The block's body is valid until the next call. ERR_CORRUPT: there is no good block at `offset`
 * that continues the chain. ERR_STORAGE: the disk could not be read. */
MUST_USE enum err segment_reader_next(struct segment_reader *reader,
                                      struct journal_block *block_out);

/* The highest `durable` in any block header of this segment from `offset` on, 0 if there is none:
 * the proof that what is missing at `offset` had been there. */
MUST_USE enum err segment_reader_claim(struct segment_reader *reader, uint64_t *durable_out);

#endif
