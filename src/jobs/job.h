/* job.h -- what the store keeps of a job: a long piece of work that an operator asked for.
 *
 *   waiting -> running -> done
 *      \__________\_____> failed
 *
 * A job is an object under OBJECT_JOB and its number; all kinds take their numbers from META_JOBS.
 * The record says how far the job is, and moves in the same commit as what it says was done. So a
 * job resumes exactly where it was, in the store that holds the record: a store with several
 * journals keeps one record, and with it one position, for each of them.
 *
 *   'j' kind id state name position size sequence asked_ms ended_ms why, then the kind's own:
 *       export: flags         rebuild: force from based base_lines generation rules_digest since
 *   and, of an export or import in a store that nodes share, once one of them does it: node
 *
 * Kinds and states are stored by their numbers: append only. Two older formats are still read. */
#ifndef TALLY_JOBS_JOB_H
#define TALLY_JOBS_JOB_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/err.h"

enum job_kind {
    JOB_BACKUP,
    JOB_EXPORT,
    JOB_IMPORT,
    JOB_REBUILD,
    JOB_KINDS, /* how many there are */
};

enum job_state {
    JOB_WAITING,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
};

/* Only a rebuild has these. */
struct job_rebuild {
    bool force;            /* also from an incomplete history */
    bool based;            /* it begins with an export, whose part is there */
    struct bytes from;     /* name of the export to begin with; size 0: none */
    uint64_t base_lines;   /* how many of the export's lines are taken */
    uint32_t generation;   /* the one being made; 0: none yet */
    uint64_t rules_digest; /* says by which rules it goes */
    uint64_t since;        /* events that arrived earlier were gone when it began */
};

struct job_record {
    uint64_t id;
    enum job_kind kind;
    enum job_state state;
    struct bytes name; /* the backup's or the export's; a rebuild has the counter's */
    bool ids;          /* an export has event ids and idempotency keys */
    bool events;       /* an export has the retained events and duplicates */
    uint64_t position; /* lines of the file that an import took; the last sequence counted */
    uint64_t size;     /* bytes of a backup, lines of an export or import, events counted */
    uint64_t sequence; /* a backup's or export's moment; an import's last change; the last there
                        * was when a rebuild began */
    int64_t asked_ms;
    int64_t ended_ms; /* once it is done or failed */
    struct bytes why; /* why it failed; once it is done, a warning or nothing */
    struct bytes
        node; /* whose files an export or import makes or takes; size 0: there is but one */
    struct job_rebuild rebuild;
};

/* The object's key, in `arena`. */
struct bytes job_key(struct arena *arena, uint64_t id);
struct bytes job_encode(struct arena *arena, const struct job_record *job);
/* Views of `value`. ERR_CORRUPT: these are not the bytes of a job. */
MUST_USE enum err job_decode(struct bytes value, struct job_record *job_out);
/* The same for a walk over all jobs, which a damaged one must not end: bytes that are not a job's,
 * or lie under another job's key, are reported (store/damage.h) and left out. */
MUST_USE bool job_met(struct bytes key, struct bytes value, struct job_record *job_out);

static inline bool job_is_over(const struct job_record *job)
{
    return job->state == JOB_DONE || job->state == JOB_FAILED;
}

/* What the kind is called. */
const char *job_type(enum job_kind kind);

/* As a JSON object. `share` from 0 to 1 is how much of a running job is done, for the kinds whose
 * record does not tell. */
void job_write(struct buf *json, const struct job_record *job, double share);

#endif
