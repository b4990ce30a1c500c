/* rebuild_internal.h -- what rebuild.c, which works, and rebuild_ask.c, which is asked, share. */
#ifndef TALLY_JOBS_REBUILD_INTERNAL_H
#define TALLY_JOBS_REBUILD_INTERNAL_H

#include "base/json.h"
#include "jobs/import.h"
#include "jobs/rebuild.h"
#include "jobs/job.h"

/* The rebuilds of one lane: each lane counts its own tenants' events, at its own position. */
struct rebuilder {
    struct caretaker config;
    unsigned lane;  /* which lane it is */
    unsigned lanes; /* how many there are */
    const char *exports;
    struct json_parser *parser;        /* the stepping thread's */
    struct json_parser *commit_parser; /* for the last chunk, which the commit thread makes */

    /* The export that a job begins with; the stepping thread's. */
    struct importer *base;
    struct import_lane base_lane;
    uint64_t base_job;   /* the job whose it is */
    uint64_t base_lines; /* how many of its lines the job says are taken */
    struct effort base_effort;
};

/* rebuild.c */
void rebuilder_init(struct rebuilder *rebuilder, const struct lanes *lanes, unsigned lane,
                    const char *exports);
void rebuilder_release(struct rebuilder *rebuilder);
/* Makes one chunk of the lane's oldest rebuild that is not over. `*idle_out`: the lane has nothing
 * to do until an operator asks. True: there is more to do now. */
bool rebuilder_step(struct rebuilder *rebuilder, bool *idle_out);

/* rebuild_ask.c */
/* Whether the lane can count the counter again: see rebuild_ask. */
MUST_USE enum err rebuilder_check(struct rebuilder *rebuilder, struct arena *arena,
                                  const struct rebuild_wish *wish, struct reason *why);
/* Finds a job that waits for the same; `*job_out` lives in `arena`, its id is 0 if there is
 * none. */
MUST_USE enum err rebuilder_find(struct rebuilder *rebuilder, struct arena *arena,
                                 const struct rebuild_wish *wish, struct job_record *job_out);
/* Puts a new job under the next number. ERR_CONFLICT: that number was taken meanwhile. */
MUST_USE enum err rebuilder_number(struct rebuilder *rebuilder, struct arena *arena,
                                   struct job_record *job);
/* Puts the lane's part of a job, unless it is there. */
MUST_USE enum err rebuilder_join(struct rebuilder *rebuilder, struct arena *arena,
                                 const struct job_record *job);
/* Reads the lane's record of a job into `arena`. ERR_NOT_FOUND. */
MUST_USE enum err rebuilder_read_job(struct rebuilder *rebuilder, struct arena *arena, uint64_t id,
                                     struct job_record *job_out);
MUST_USE enum err rebuilder_forget(struct rebuilder *rebuilder, struct bytes counter);

/* Copies one object of the store into `arena`; size 0 if there is none. */
MUST_USE enum err rebuild_read(struct rebuilder *rebuilder, struct arena *arena, struct bytes key,
                               struct bytes *value_out);
/* An op that gives out the number after `last` of a meta object. */
struct op rebuild_count_on(struct rebuilder *rebuilder, struct arena *arena, struct bytes name,
                           uint64_t last);

/* ERR_HISTORY: events that the counter counted are gone, or its value came from elsewhere too. */
MUST_USE enum err rebuild_check_history(struct rebuilder *rebuilder,
                                        const struct definition *definition);

/* rebuild_base.c */
/* Whether a rebuild can begin with this export: it is of this installation, and unless `force`
 * every event after it is retained. ERR_INVALID with a sentence, or ERR_HISTORY. */
MUST_USE enum err rebuild_check_base(struct rebuilder *rebuilder, struct arena *arena,
                                     struct bytes from, bool force, struct reason *why);
/* Puts one chunk of the export into the job's generation, with the caller's mark. For the stepping
 * thread, which holds `enacting`. `*more_out` false: nothing was left to be taken. `*sequence_out`
 * is the lane's moment in the export. */
MUST_USE enum err rebuild_base_chunk(struct rebuilder *rebuilder, const struct job_record *job,
                                     enum counter_mode mode, import_mark_fn *mark, void *context,
                                     bool *more_out, uint64_t *sequence_out, struct reason *why);
void rebuild_base_close(struct rebuilder *rebuilder);

#endif
