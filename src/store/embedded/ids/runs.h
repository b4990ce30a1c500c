/* runs.h -- event ids for ever: sorted files, the newest last, merged as they become many.
 *
 * Each sealed set of ids becomes a run (run.h). Runs of like size are merged, eight to one, so
 * each id is written once for every eightfold of ids there are, and a lookup of a known id reads
 * one page a run. Merging is done in steps of some milliseconds by the thread that tends, beside
 * everything else; one that is cut short costs nothing but its own work.
 *
 * RocksDB did this before, for records of any size and kind: up to 1.8 us of CPU an id in
 * compactions and 0.6 in making its files. */
#ifndef TALLY_STORE_EMBEDDED_IDS_RUNS_H
#define TALLY_STORE_EMBEDDED_IDS_RUNS_H

#include "store/embedded/ids/run.h"

struct id_runs;

/* Keeps `files->dir`. ERR_STORAGE: cannot be read or synced, or a run is damaged or missing. That
 * the newest ones are missing is for the caller to notice: see id_runs_last. */
MUST_USE enum err id_runs_open(struct id_runs **runs_out, const struct id_files *files);
void id_runs_free(struct id_runs *runs); /* may be NULL */

/* Looks only into runs that hold any set of `span`. Any thread. ERR_NOT_FOUND or ERR_STORAGE. The
 * newest record of an id is found. */
MUST_USE enum err id_runs_find(struct id_runs *runs, struct id_span span, struct fingerprint print,
                               struct id_entry *entry_out);

/* The rest is for one thread at a time. */

/* A new run of what `next` gives, in order, until it says false: the set `*set_out`. Durable when
 * it returns. */
typedef bool id_next_fn(void *context, struct id_entry *entry_out);
MUST_USE enum err id_runs_add(struct id_runs *runs, id_next_fn *next, void *context,
                              uint64_t *set_out);

/* A step of merging, if there is something to merge; true: call again. Errors are its own affair:
 * what was there before is still there, and it is tried again when the next run comes. */
bool id_runs_merge(struct id_runs *runs);
uint64_t id_runs_merges_failed(struct id_runs *runs); /* since it was opened; any thread */

/* Every id of runs with any later sequence than `after`, and some more, from the oldest run to the
 * newest; `span` is what its run holds. */
typedef void id_visit_fn(void *context, struct id_span span, struct fingerprint print);
MUST_USE enum err id_runs_scan(struct id_runs *runs, uint64_t after, id_visit_fn *visit,
                               void *context);

uint64_t id_runs_last(struct id_runs *runs);  /* the newest set; 0: there is none */
uint64_t id_runs_count(struct id_runs *runs); /* an id that came back counts again until merged */

#endif
