/* internal.h -- what journal.c, files.c and recover.c share. */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_INTERNAL_H
#define TALLY_STORE_EMBEDDED_JOURNAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/embedded/journal/segment.h"

#define JOURNAL_PATH_MAX 4096

/* Where a block begins, and what comes before it in the chain. */
#define SEGMENT_PLACES 64u
struct segment_place {
    uint64_t offset;
    struct chain_end before;
};

/* A live segment holds the chain's blocks from the one after `previous` to the one that the next
 * segment names as previous; what else is in the file is void. */
struct segment {
    uint64_t number;
    struct chain_end previous;
    uint64_t size; /* the file's */
    uint64_t used; /* the part of it with blocks; `size` if that is not known */
    bool zeroed;   /* every block of the file is known to have been written once */
    bool doubtful; /* naming it failed: it may be there or not */
    unsigned places_count;
    struct segment_place places[SEGMENT_PLACES]; /* in order */
};

/* A whole segment file that holds nothing yet. */
struct spare {
    uint64_t number; /* as in its name, spare-<number>.seg */
    uint64_t size;
};

struct journal {
    struct journal_config config;
    struct io *io;

    /* These belong to the appending thread. */
    uint64_t epoch;
    uint64_t number_next;
    int fd;          /* the current segment's; -1: none yet */
    uint64_t key;    /* the current segment's */
    uint64_t size;   /* its file's */
    bool zeroed;     /* the current segment was zero-written ahead; else its syncs are dear */
    uint64_t offset; /* where the staged bytes go */
    char *stage;     /* blocks appended but not yet written */
    size_t stage_size;
    size_t stage_capacity;
    struct chain_end last;    /* appended */
    struct chain_end durable; /* synced */
    bool failed;
    uint64_t place_segment; /* where the next place is noted */
    uint64_t place_next;

    /* This belongs to the preparing thread: the spare under way. */
    int making_fd; /* -1: none */
    struct spare making;

    pthread_mutex_t mutex;
    /* The mutex guards these. */
    struct segment *segments; /* in order; the last is the current one */
    size_t segments_count;
    size_t segments_capacity;
    struct spare *spares;
    size_t spares_count;
    size_t spares_capacity;
    uint64_t spare_next; /* number of the next spare to be made */
    uint64_t applied;    /* as of the last trim */

    atomic_uint_fast64_t durable_sequence;
    atomic_int_fast64_t last_time_ms;
    atomic_uint_fast64_t appended_bytes;
    atomic_uint_fast64_t syncs;
    atomic_uint_fast64_t making_bytes;
    atomic_uint_fast64_t files_failed;
    atomic_int last_error;
};

/* journal.c */
/* Goes on in a new segment that names `previous`; synced, file and directory. It has `size` bytes
 * or more, or on a disk without room for that, what is enough for a block of `block_size`.
 * `previous` must be durable. On failure nothing has changed but that a file or two may lie about.
 */
MUST_USE enum err journal_begin_segment(struct journal *journal, const struct chain_end *previous,
                                        uint64_t size, uint64_t block_size);
/* Notes the errno (given negative, as io returns it) and returns ERR_STORAGE. */
enum err journal_storage_error(struct journal *journal, int64_t result);

/* files.c */
void journal_path(const struct journal *journal, char path[JOURNAL_PATH_MAX],
                  enum segment_kind kind, uint64_t number);
void journal_add_segment(struct journal *journal, const struct segment *segment);
/* Notes that the current segment has been written nearly to its end: it is as good as zero-written
 * for its next use. */
void journal_mark_zeroed(struct journal *journal);
/* Notes now and then where a block begins, so that scans need not read a segment from its start.
 * For the thread that appends or recovers. */
void journal_note_place(struct journal *journal, uint64_t number, uint64_t offset,
                        const struct chain_end *before);
/* A copy of the list, to be freed. */
struct segment *journal_copy_segments(struct journal *journal, size_t *count_out);

/* The same for the thread that prepares and trims: a file could not be made or let go of. */
void journal_file_failed(struct journal *journal, int64_t result);

/* spares.c */
/* The size of a segment that shall hold `size` bytes: first_size, doubled as often as it takes, but
 * segment_size at most. */
uint64_t journal_size_for(const struct journal *journal, uint64_t size);
void journal_add_spare(struct journal *journal, const struct spare *spare);
/* Gives a file of at least `size` bytes under a spare's name, from the stock (zero-written) or made
 * now (only reserved); one of `size_min` bytes if there is no room for more. It is the caller's. */
MUST_USE enum err journal_take_spare(struct journal *journal, uint64_t size, uint64_t size_min,
                                     struct spare *spare_out, bool *zeroed_out);
bool journal_has_spare(struct journal *journal, uint64_t size_min);
/* The size of the spare that is wanted now; 0: there are enough. */
uint64_t journal_spare_wanted(struct journal *journal);
/* Makes a spare of a live segment. A file whose new name did not become durable is not used: a
 * crash could bring the old name back with a new header inside. Returns as io does. */
int journal_recycle(struct journal *journal, const char *path, uint64_t size);

/* recover.c */
/* Finds the files, replays the blocks and leaves `last`, `durable`, `epoch` and the lists set, and
 * all that was replayed durable. The cut is made by the journal_begin_segment that must follow. */
MUST_USE enum err journal_recover(struct journal *journal, uint64_t applied,
                                  journal_replay_fn *replay, void *context, struct reason *why);

#endif
