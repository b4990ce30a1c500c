/* rebuild_internal.h -- what rebuild.c, which works, and rebuild_ask.c, which is asked, share. */
#ifndef TALLY_JOBS_REBUILD_INTERNAL_H
#define TALLY_JOBS_REBUILD_INTERNAL_H

#include "base/json.h"
#include "jobs/import.h"
#include "jobs/rebuild.h"
#include "jobs/job.h"

struct rebuilds {
    struct caretaker config;
    const char *exports;
    struct garbage *garbage;
    struct json_parser *parser;        /* the stepping thread's */
    struct json_parser *commit_parser; /* for the last chunk, which the commit thread makes */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t asked; /* how often somebody did */
    bool idle;      /* nothing to do until somebody asks */
    bool stopped;

    /* The stepping thread's: the export that a job begins with. */
    struct importer *base;
    uint64_t base_job; /* whose it is */
    struct effort base_effort;
};

/* One object of the store, copied into `arena`; size 0 if there is none. */
MUST_USE enum err rebuild_read(struct rebuilds *rebuilds, struct arena *arena, struct bytes key,
                               struct bytes *value_out);
/* An op that gives out the number after `last` of a meta object. */
struct op rebuild_count_on(struct rebuilds *rebuilds, struct arena *arena, struct bytes name,
                           uint64_t last);

/* ERR_HISTORY: events that the counter counted are gone, or its value came from elsewhere too. */
MUST_USE enum err rebuild_check_history(struct rebuilds *rebuilds,
                                        const struct definition *definition);

/* rebuild_base.c */
/* Whether a rebuild can begin with this export: it is of this installation, and unless `force`
 * every event after it is retained. ERR_INVALID with a sentence, or ERR_HISTORY. */
MUST_USE enum err rebuild_check_base(struct rebuilds *rebuilds, struct arena *arena,
                                     struct bytes from, bool force, struct buf *why);
/* One chunk of what the export says, into the job's generation, with the caller's mark; by the
 * stepping thread, which holds `enacting`. `*sequence_out` is the export's moment. */
MUST_USE enum err rebuild_base_chunk(struct rebuilds *rebuilds, const struct job_record *job,
                                     enum counter_mode mode, import_mark_fn *mark, void *context,
                                     bool *more_out, uint64_t *sequence_out, struct buf *why);
void rebuild_base_close(struct rebuilds *rebuilds);

/* There is something new to do. */
void rebuild_wake(struct rebuilds *rebuilds);

#endif
