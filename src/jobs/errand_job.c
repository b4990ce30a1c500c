/* errand_job.c -- see the header. Kinds and states are stored by their numbers: append only. */
#include "jobs/errand_job.h"

#include "core/timefmt.h"
#include "store/damage.h"

enum { JOB_FORMAT = 'e' }; /* none that a rebuild has */

static const char *const kind_names[] = {
    [ERRAND_BACKUP] = "backup",
    [ERRAND_EXPORT] = "export",
    [ERRAND_IMPORT] = "import",
};

static const char *const state_names[] = {
    [ERRAND_WAITING] = "waiting",
    [ERRAND_RUNNING] = "running",
    [ERRAND_DONE] = "done",
    [ERRAND_FAILED] = "failed",
};

struct bytes errand_job_encode(struct arena *arena, const struct errand_job *job)
{
    struct buf buf;
    buf_init(&buf, 4096);
    buf_add_char(&buf, JOB_FORMAT);
    buf_add_varint(&buf, job->id);
    buf_add_varint(&buf, job->kind);
    buf_add_varint(&buf, job->state);
    buf_add_sized(&buf, job->name);
    buf_add_char(&buf, job->ids);
    buf_add_varint(&buf, job->position);
    buf_add_varint(&buf, job->size);
    buf_add_varint(&buf, job->sequence);
    buf_add_signed(&buf, job->asked_ms);
    buf_add_signed(&buf, job->ended_ms);
    buf_add_sized(&buf, job->why);
    must(!buf.failed);
    struct bytes value = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return value;
}

bool errand_job_is(struct bytes value)
{
    return value.size > 0 && value.data[0] == JOB_FORMAT;
}

bool errand_job_met(struct bytes key, struct bytes value, struct errand_job *job_out)
{
    bool decoded = errand_job_decode(value, job_out);
    if (!decoded && errand_job_is(value)) damage_say("an errand", key, 1);
    return decoded;
}

bool errand_job_decode(struct bytes value, struct errand_job *job_out)
{
    struct reader reader = reader_of(value);
    if (read_u8(&reader) != JOB_FORMAT) return false;
    struct errand_job job = {.id = read_varint(&reader)};
    uint64_t kind = read_varint(&reader);
    uint64_t state = read_varint(&reader);
    job.name = read_sized(&reader);
    uint64_t ids = read_u8(&reader);
    job.position = read_varint(&reader);
    job.size = read_varint(&reader);
    job.sequence = read_varint(&reader);
    job.asked_ms = read_signed(&reader);
    job.ended_ms = read_signed(&reader);
    job.why = read_sized(&reader);
    if (reader.failed || reader_left(&reader) > 0) return false;
    if (kind > ERRAND_IMPORT || state > ERRAND_FAILED || ids > 1) return false;
    job.kind = (enum errand_kind)kind;
    job.state = (enum errand_state)state;
    job.ids = ids;
    *job_out = job;
    return true;
}

void errand_job_write(struct buf *json, const struct errand_job *job, double progress)
{
    if (job->state == ERRAND_DONE) progress = 1;
    buf_addf(json, "{\"job\":\"%llu\",\"type\":\"%s\",\"name\":", (unsigned long long)job->id,
             kind_names[job->kind]);
    buf_add_json(json, job->name);
    buf_addf(json, ",\"state\":\"%s\",\"progress\":%.3f,\"%s\":\"%llu\",\"sequence\":",
             state_names[job->state], progress, job->kind == ERRAND_BACKUP ? "bytes" : "lines",
             (unsigned long long)job->size);
    if (job->state == ERRAND_DONE)
        buf_addf(json, "\"%llu\"", (unsigned long long)job->sequence);
    else
        buf_add(json, BYTES("null"));
    buf_add(json, BYTES(",\"askedAt\":"));
    time_format_json(json, job->asked_ms);
    buf_add(json, BYTES(",\"endedAt\":"));
    if (errand_is_over(job))
        time_format_json(json, job->ended_ms);
    else
        buf_add(json, BYTES("null"));
    buf_add(json, BYTES(",\"error\":"));
    if (job->state == ERRAND_FAILED)
        buf_add_json(json, job->why);
    else
        buf_add(json, BYTES("null"));
    if (job->state == ERRAND_DONE && job->why.size > 0) {
        buf_add(json, BYTES(",\"warning\":"));
        buf_add_json(json, job->why);
    }
    buf_add_char(json, '}');
}
