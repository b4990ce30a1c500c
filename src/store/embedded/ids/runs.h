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

/* Keeps `files->dir`. ERR_STORAGE: the files cannot be read or synced, or a run is damaged or
 * missing. Missing newest runs are for the caller to notice: see id_runs_last. */
MUST_USE enum err id_runs_open(struct id_runs **runs_out, const struct id_files *files);
void id_runs_free(struct id_runs *runs); /* may be NULL */

/* Any thread may call. Looks only into runs that hold any set of `span`, and finds the newest
 * record of an id. ERR_NOT_FOUND or ERR_STORAGE. */
MUST_USE enum err id_runs_find(struct id_runs *runs, struct id_span span, struct fingerprint print,
                               struct id_entry *entry_out);

/* The rest is for one thread at a time. */

/* Makes a new run of what `next` gives, in order, until it says false; `*set_out` is its set. The
 * run is durable when it returns. */
typedef bool id_next_fn(void *context, struct id_entry *entry_out);
MUST_USE enum err id_runs_add(struct id_runs *runs, id_next_fn *next, void *context,
                              uint64_t *set_out);

/* Takes a step of merging, if there is something to merge; true: call again. The caller need not
 * know of errors: what was there before is still there, and the merge is tried again when the next
 * run comes. */
bool id_runs_merge(struct id_runs *runs);
uint64_t id_runs_merges_failed(struct id_runs *runs); /* since the opening; any thread */

/* Visits every id of the runs with a sequence later than `after`, and some more, from the oldest
 * run to the newest; `span` is what its run holds. An id that came back is visited once for each of
 * its runs. */
typedef void id_visit_fn(void *context, struct id_span span, const struct id_entry *entry);
MUST_USE enum err id_runs_scan(struct id_runs *runs, uint64_t after, id_visit_fn *visit,
                               void *context);

uint64_t id_runs_last(struct id_runs *runs);  /* the newest set; 0: there is none */
uint64_t id_runs_count(struct id_runs *runs); /* an id that came back counts again until merged */

#endif
