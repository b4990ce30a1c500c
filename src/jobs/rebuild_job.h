/* rebuild_job.h -- what the store keeps of a rebuild, and how it is shown. */
#ifndef TALLY_JOBS_REBUILD_JOB_H
#define TALLY_JOBS_REBUILD_JOB_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/err.h"

enum rebuild_state {
    REBUILD_WAITING,
    REBUILD_RUNNING,
    REBUILD_DONE,
    REBUILD_FAILED,
};

struct rebuild_job {
    uint64_t id;
    enum rebuild_state state;
    struct bytes counter;
    bool force;           /* also from an incomplete history */
    struct bytes from;    /* name of the export to begin with; size 0: none */
    bool based;           /* what the export says is there */
    uint64_t base_lines;  /* of it that are taken */
    uint32_t generation;  /* being made; 0: none yet */
    uint64_t rules_check; /* of the rules it goes by */
    uint64_t since;       /* events that arrived earlier were gone when it began */
    uint64_t position;    /* events up to this sequence are counted */
    uint64_t target;      /* the last sequence there was when it began */
    uint64_t events;      /* counted */
    int64_t asked_ms;
    int64_t ended_ms; /* of a job that is done or failed */
    struct bytes why; /* of one that failed */
};

struct bytes rebuild_job_key(struct arena *arena, uint64_t id);
struct bytes rebuild_job_encode(struct arena *arena, const struct rebuild_job *job);
/* Views of `value`. False: not the bytes of a job. */
MUST_USE bool rebuild_job_decode(struct bytes value, struct rebuild_job *job_out);
/* The same, of a value met on a walk through all jobs; one that is no errand either is said. */
MUST_USE bool rebuild_job_met(struct bytes key, struct bytes value, struct rebuild_job *job_out);

void rebuild_job_write(struct buf *json, const struct rebuild_job *job);

static inline bool rebuild_is_over(const struct rebuild_job *job)
{
    return job->state == REBUILD_DONE || job->state == REBUILD_FAILED;
}

#endif
