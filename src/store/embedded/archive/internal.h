/* internal.h -- what the archive's files share.
 *
 *   archive.c   which files there are, and which go
 *   format.c    their bytes
 *   pack.c      compression
 *   write.c     adding and sealing
 *   index.c     indexes held in memory
 *   read.c      reading
 *
 * (1) The files in the list follow one another without a gap; at most the first is being dropped.
 * (2) The list holds a reference to each of its files. One without an index is not open.
 * (3) The run comes behind the last file: its sequences lie after that one's, up to `added_last`.
 *
 * archive_check asserts them when a file came or went, for the thread that adds and drops. */
#ifndef TALLY_STORE_EMBEDDED_ARCHIVE_INTERNAL_H
#define TALLY_STORE_EMBEDDED_ARCHIVE_INTERNAL_H

#include <pthread.h>

#include "store/embedded/archive/archive.h"

#define ARCHIVE_PATH_MAX 4096
#define ARCHIVE_NAME_SIZE 48
#define ARCHIVE_TEMPORARY "events.tmp"
#define ARCHIVE_HEADER_SIZE 48u
#define ARCHIVE_TRAILER_SIZE 72u

/* A frame is filled up to FRAME_SIZE; a single record that is larger has one of its own. */
#ifdef TALLY_SMALL_WORLD
#define ARCHIVE_FRAME_SIZE 512u
#define ARCHIVE_WRITE_SIZE 1024u
#define ARCHIVE_INDEXES_MAX 2u
#else
#define ARCHIVE_FRAME_SIZE (64u << 10)
#define ARCHIVE_WRITE_SIZE (1u << 20) /* given to the disk at once */
#define ARCHIVE_INDEXES_MAX 32u /* held in memory with their files open, besides those in use */
#endif
#define ARCHIVE_FRAME_MAX (128u << 10)  /* raw bytes */
#define ARCHIVE_STORED_MAX (256u << 10) /* more than zstd makes of them in the worst case */
#define ARCHIVE_INDEX_MAX (256u << 20)
_Static_assert(ARCHIVE_FRAME_SIZE + EVENT_SIZE_MAX + 1024 < ARCHIVE_FRAME_MAX, "any event fits");

/* What is known of a file without its index; as in its header and trailer. */
struct archive_summary {
    uint64_t first; /* the run's, whether or not it has a record */
    uint64_t last;
    uint64_t size; /* the file's */
    uint64_t index_offset;
    uint64_t index_size;
    uint64_t index_checksum;
    uint32_t frames_count;
    uint32_t records_count;
    int64_t arrived_min; /* only if there are records, here and below */
    int64_t arrived_max;
};

/* Where the records of one frame lie: (tenant, sequence), in that order. Tenants borrow. */
struct archive_key {
    struct bytes tenant;
    uint64_t sequence;
};
int archive_key_compare(const struct archive_key *a, const struct archive_key *b);

struct archive_frame {
    struct archive_key first;
    struct archive_key last;
    int64_t arrived_min;
    int64_t arrived_max;
    uint64_t offset;
    uint32_t stored_size;
    uint32_t raw_size;
    uint32_t records_count;
    uint64_t checksum; /* the raw bytes' */
    bool events;       /* it has some */
    bool duplicates;
};

struct archive_index {
    struct archive_frame *frames; /* summary.frames_count of them */
    char *bytes;                  /* what the frames borrow from */
};

/* A file in the list. The list holds one reference, each reader in it another; the last to let go
 * closes and frees it. */
struct archive_file {
    struct archive_summary summary; /* never changes */
    bool damaged;                   /* header or trailer; only the range is known, from the name */

    /* The mutex of the archive guards these; `fd` and `index` stay as they are while a reader holds
     * a reference. */
    uint32_t references;
    bool dropped; /* no reader begins with it */
    int fd;       /* -1: not open; if so, `index.frames` is NULL */
    struct archive_index index;
    uint64_t used; /* by the archive's `uses`, for the choice of whose index goes */
};

/* One record added to the run, in archive->run. */
struct archive_entry {
    uint64_t sequence;
    int64_t arrived_ms;
    size_t offset; /* the tenant's, with the encoded event behind it */
    uint32_t tenant_size;
    uint32_t event_size;
    bool duplicate;
};

struct archive {
    char *dir;
    struct io *io;
    uint64_t installation;

    /* The adding thread's: the run so far, and what a failed seal may have left on disk. */
    struct buf run;
    struct archive_entry *entries;
    size_t entries_count;
    size_t entries_capacity;
    bool unsorted;        /* they are not all of one tenant */
    uint64_t added_last;  /* the run's, or archive_last */
    uint64_t litter_last; /* the run's last sequence then; 0: nothing is left */

    pthread_mutex_t loading; /* held while an index is read, one at a time; taken before `mutex` */
    pthread_mutex_t mutex;
    /* `mutex` guards these. */
    struct archive_file **files; /* in order */
    size_t files_count;
    size_t files_capacity;
    uint64_t uses;
    int64_t dropped_before_ms; /* by archive_drop, as far as files can go */
};

/* ---- archive.c ---- */

/* The laws above; the mutex must not be held. */
void archive_check(struct archive *archive);
void archive_path(const struct archive *archive, char path[ARCHIVE_PATH_MAX], const char *name);
/* Puts a file of that summary at the end of the list; the mutex must not be held. */
void archive_list_add(struct archive *archive, const struct archive_summary *summary, bool damaged);
/* The mutex is held: gives up a reference. */
void archive_release_locked(struct archive *archive, struct archive_file *file);
/* Logs what is wrong with the file and returns `e`. */
enum err archive_complain(const struct archive_summary *summary, enum err e, const char *what);

/* ---- format.c ---- */

void archive_name(char name[ARCHIVE_NAME_SIZE], uint64_t first, uint64_t last);
MUST_USE bool archive_name_parse(const char *name, uint64_t *first_out, uint64_t *last_out);

void archive_header_encode(char header[ARCHIVE_HEADER_SIZE], uint64_t installation, uint64_t first,
                           uint64_t last);
void archive_trailer_encode(char trailer[ARCHIVE_TRAILER_SIZE],
                            const char header[ARCHIVE_HEADER_SIZE],
                            const struct archive_summary *summary);
enum archive_verdict {
    ARCHIVE_GOOD,
    ARCHIVE_DAMAGED,
    ARCHIVE_FOREIGN, /* another installation's */
    ARCHIVE_NEWER,   /* in a format that this version does not know */
};
/* Compares with `first`, `last` and `size` in the summary, and fills in the rest. */
enum archive_verdict archive_summary_decode(const char header[ARCHIVE_HEADER_SIZE],
                                            const char trailer[ARCHIVE_TRAILER_SIZE],
                                            uint64_t installation, struct archive_summary *summary);

void archive_frame_encode(struct buf *index, const struct archive_frame *frame);
/* False: not what an encoder wrote. Takes `bytes` over if true. */
MUST_USE bool archive_index_decode(const struct archive_summary *summary, char *bytes,
                                   struct archive_index *index_out);
void archive_index_release(struct archive_index *index);

/* Records of a frame follow one another by a cursor, all zero before the first. */
struct archive_cursor {
    struct archive_key key;
    int64_t arrived_ms;
};
void archive_record_encode(struct buf *raw, struct archive_cursor *cursor,
                           const struct archive_key *key, int64_t arrived_ms, struct bytes event);
/* Borrows from the reader's bytes. False: not what an encoder wrote. */
MUST_USE bool archive_record_decode(struct reader *reader, struct archive_cursor *cursor,
                                    struct stored_event *event_out);

/* ---- index.c ---- */

/* The first file that may have something after `after` for the query, its index not necessarily in
 * memory; NULL: there is none. The caller releases it. */
struct archive_file *archive_acquire(struct archive *archive, const struct event_query *query,
                                     uint64_t after);
void archive_release(struct archive *archive, struct archive_file *file);
/* Opens the file and reads its index unless it is in memory, then `*read_out` is its size.
 * ERR_NOT_FOUND: it was dropped meanwhile. ERR_STORAGE, ERR_CORRUPT. */
MUST_USE enum err archive_load(struct archive *archive, struct archive_file *file,
                               size_t *read_out);

#endif
