/* run.h -- one sorted file of event ids, written once and never changed.
 *
 *   page 0         magic, format, identity of the state, first and last set, ids, pages, highest
 *                  sequence, checksum of the index, checksum of this head; zeros
 *   pages 1..n     checksum, number of the page, records in it, last set; then up to 113 records of
 *                  36 bytes: fingerprint (high, low), sequence, first seen (ms), digest (32 bits)
 *   index          `high` of each page's first record, 8 bytes each
 *
 * Fingerprints are random, so there is nothing to compress, and a record of fixed size is found by
 * the index in memory (0.07 bytes an id) and one read of a page. Each page has a checksum of its
 * own: a page that does not check is an error, never "not seen".
 *
 * A run covers the sets `first` to `last`, in the order they were sealed; its file is named by
 * them. Reading is for any thread, writing for one. */
#ifndef TALLY_STORE_EMBEDDED_IDS_RUN_H
#define TALLY_STORE_EMBEDDED_IDS_RUN_H

#include "base/err.h"
#include "base/hash.h"
#include "core/sets.h"
#include "store/embedded/io.h"

#define ID_RUN_PAGE 4096u
#define ID_RUN_PAGE_RECORDS 113u
#define ID_RUN_PATH_MAX 4096u

/* An id that such a file can hold: an event's, with nothing to say but when it came. The registry
 * keeps all other ids elsewhere, and all records of one id are of one kind. */
struct id_entry {
    struct fingerprint print;
    uint64_t sequence;
    int64_t first_seen_ms;
    uint32_t digest;
};

/* Sets of ids, counted from 1 in the order they were sealed: `first` to `last`, both included. */
struct id_span {
    uint64_t first;
    uint64_t last;
};

#define ID_SPAN_ALL ((struct id_span){1, UINT64_MAX})
#define ID_SPAN_NONE ((struct id_span){UINT64_MAX, 0})

/* Where runs are kept. `identity` names the state they belong to. */
struct id_files {
    struct io *io;
    const char *dir;
    uint64_t identity;
};

struct id_run {
    struct io *io;
    int fd;
    uint64_t first;
    uint64_t last;
    uint64_t count;
    uint64_t pages;
    uint64_t sequence_max;
    uint64_t *starts;  /* the index */
    _Atomic bool said; /* the log says only once that the run cannot be read */
};

void id_run_name(char *name, size_t size, uint64_t first, uint64_t last);
/* False: a file of that name is not a run. */
MUST_USE bool id_run_name_parse(const char *name, uint64_t *first_out, uint64_t *last_out);

/* ERR_CORRUPT: damaged, or of another state. ERR_STORAGE: could not be read. */
MUST_USE enum err id_run_open(struct id_run *run, const struct id_files *files, uint64_t first,
                              uint64_t last);
void id_run_close(struct id_run *run);
uint64_t id_run_bytes(const struct id_run *run);

/* ERR_NOT_FOUND, ERR_CORRUPT or ERR_STORAGE. */
MUST_USE enum err id_run_find(const struct id_run *run, struct fingerprint print,
                              struct id_entry *entry_out);

/* -- Reading all of it in order ---------------------------------------------------------------- */

struct id_cursor {
    const struct id_run *run;
    char *pages; /* as many as are read at once */
    uint64_t pages_read;
    uint32_t page;    /* the one of these pages */
    uint32_t record;  /* the next one of that page */
    uint32_t records; /* in that page */
    uint32_t pages_here;
};

void id_cursor_init(struct id_cursor *cursor, const struct id_run *run);
void id_cursor_release(struct id_cursor *cursor);
/* ERR_NOT_FOUND: that was all. */
MUST_USE enum err id_cursor_next(struct id_cursor *cursor, struct id_entry *entry_out);

/* -- Writing ----------------------------------------------------------------------------------- */

struct id_writer {
    const struct id_files *files;
    const char *beside; /* the name until it is whole */
    int fd;
    uint64_t first;
    uint64_t last;
    uint64_t count;
    uint64_t pages; /* begun */
    uint64_t sequence_max;
    uint64_t *starts;
    size_t starts_capacity;
    char *buffer;
    uint64_t written; /* pages, the head among them */
    size_t unsynced;  /* bytes of those */
    uint32_t records; /* in the page being filled */
    enum err err;     /* the first that failed: nothing more is done */
};

void id_writer_begin(struct id_writer *writer, const struct id_files *files, const char *beside,
                     uint64_t first, uint64_t last);
/* Ids come in the order of record_compare, each once. What is written is synced in pieces, so that
 * the end need not wait for it all. */
void id_writer_add(struct id_writer *writer, const struct id_entry *entry);
/* Ends the writer. ERR_OK: the run is durable and named; else there is no such run. */
MUST_USE enum err id_writer_finish(struct id_writer *writer);
void id_writer_abandon(struct id_writer *writer);

#endif
