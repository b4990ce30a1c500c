/* errand_job.h -- what the store keeps of an errand, and how it is shown. Errands share their
 * numbers with rebuilds (rebuild_job.h) and tell themselves apart by the format of their bytes. */
#ifndef TALLY_JOBS_ERRAND_JOB_H
#define TALLY_JOBS_ERRAND_JOB_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/err.h"

enum errand_kind {
    ERRAND_BACKUP,
    ERRAND_EXPORT,
    ERRAND_IMPORT,
};

enum errand_state {
    ERRAND_WAITING,
    ERRAND_RUNNING,
    ERRAND_DONE,
    ERRAND_FAILED,
};

struct errand_job {
    uint64_t id;
    enum errand_kind kind;
    enum errand_state state;
    struct bytes name; /* of the backup or the export */
    bool ids;          /* of an export: with event ids and idempotency keys */
    uint64_t position; /* of an import: lines of the file that are dealt with */
    uint64_t size;     /* bytes of a backup, lines of an export or import */
    uint64_t sequence; /* the moment that a backup or export shows; of an import, its last change */
    int64_t asked_ms;
    int64_t ended_ms; /* of one that is done or failed */
    struct bytes why; /* of one that failed; a warning of one that is done, or nothing */
};

struct bytes errand_job_encode(struct arena *arena, const struct errand_job *job);
/* Views of `value`. False: not the bytes of an errand. */
MUST_USE bool errand_job_decode(struct bytes value, struct errand_job *job_out);
/* Errands and rebuilds lie under the same keys: whether these bytes say that they are an errand. */
bool errand_job_is(struct bytes value);
/* The same as decoding, of a value met on a walk through all jobs; a damaged errand is said. */
MUST_USE bool errand_job_met(struct bytes key, struct bytes value, struct errand_job *job_out);

/* `progress` from 0 to 1, of one that is running. */
void errand_job_write(struct buf *json, const struct errand_job *job, double progress);

static inline bool errand_is_over(const struct errand_job *job)
{
    return job->state == ERRAND_DONE || job->state == ERRAND_FAILED;
}

#endif
