/* rebuild_job.c -- see the header. States are stored by their numbers: append only. */
#include "jobs/rebuild_job.h"

#include "core/object.h"
#include "core/timefmt.h"
#include "store/damage.h"
#include "jobs/errand_job.h"

#define PROGRESS_MAX 0.999 /* of what is not over */

enum { JOB_FORMAT = 3 };

static const char *const state_names[] = {
    [REBUILD_WAITING] = "waiting",
    [REBUILD_RUNNING] = "running",
    [REBUILD_DONE] = "done",
    [REBUILD_FAILED] = "failed",
};

struct bytes rebuild_job_key(struct arena *arena, uint64_t id)
{
    char number[8];
    put_ordered_u64(number, id);
    return object_key(arena, OBJECT_JOB, bytes_of(number, sizeof number));
}

struct bytes rebuild_job_encode(struct arena *arena, const struct rebuild_job *job)
{
    struct buf buf;
    buf_init(&buf, 4096);
    buf_add_char(&buf, JOB_FORMAT);
    buf_add_varint(&buf, job->id);
    buf_add_varint(&buf, job->state);
    buf_add_sized(&buf, job->counter);
    buf_add_char(&buf, job->force);
    buf_add_sized(&buf, job->from);
    buf_add_char(&buf, job->based);
    buf_add_varint(&buf, job->base_lines);
    buf_add_varint(&buf, job->generation);
    buf_add_fixed64(&buf, job->rules_check);
    buf_add_varint(&buf, job->since);
    buf_add_varint(&buf, job->position);
    buf_add_varint(&buf, job->target);
    buf_add_varint(&buf, job->events);
    buf_add_signed(&buf, job->asked_ms);
    buf_add_signed(&buf, job->ended_ms);
    buf_add_sized(&buf, job->why);
    must(!buf.failed);
    struct bytes value = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return value;
}

bool rebuild_job_decode(struct bytes value, struct rebuild_job *job_out)
{
    struct reader reader = reader_of(value);
    if (read_u8(&reader) != JOB_FORMAT) return false;
    struct rebuild_job job = {.id = read_varint(&reader)};
    uint64_t state = read_varint(&reader);
    job.counter = read_sized(&reader);
    uint64_t force = read_u8(&reader);
    job.from = read_sized(&reader);
    uint64_t based = read_u8(&reader);
    job.base_lines = read_varint(&reader);
    uint64_t generation = read_varint(&reader);
    job.rules_check = read_fixed64(&reader);
    job.since = read_varint(&reader);
    job.position = read_varint(&reader);
    job.target = read_varint(&reader);
    job.events = read_varint(&reader);
    job.asked_ms = read_signed(&reader);
    job.ended_ms = read_signed(&reader);
    job.why = read_sized(&reader);
    if (reader.failed || reader_left(&reader) > 0) return false;
    if (state > REBUILD_FAILED || force > 1 || based > 1 || generation > UINT32_MAX) return false;
    job.force = force;
    job.based = based;
    job.state = (enum rebuild_state)state;
    job.generation = (uint32_t)generation;
    *job_out = job;
    return true;
}

bool rebuild_job_met(struct bytes key, struct bytes value, struct rebuild_job *job_out)
{
    bool decoded = rebuild_job_decode(value, job_out);
    if (!decoded && !errand_job_is(value)) damage_say("a rebuild", key, 1);
    return decoded;
}

/* Of what there was when it began: every event it counts is a sequence more, so measured against
 * the newest one it would seem half done at its end. What came meanwhile is the rest. */
static double progress(const struct rebuild_job *job)
{
    if (job->state == REBUILD_DONE) return 1;
    if (job->target == 0) return 0;
    double share = (double)job->position / (double)job->target;
    return share < PROGRESS_MAX ? share : PROGRESS_MAX;
}

void rebuild_job_write(struct buf *json, const struct rebuild_job *job)
{
    buf_addf(json,
             "{\"job\":\"%llu\",\"type\":\"rebuild\",\"counter\":", (unsigned long long)job->id);
    buf_add_json(json, job->counter);
    buf_addf(json, ",\"state\":\"%s\",\"progress\":%.3f,\"events\":\"%llu\",\"askedAt\":",
             state_names[job->state], progress(job), (unsigned long long)job->events);
    time_format_json(json, job->asked_ms);
    buf_add(json, BYTES(",\"endedAt\":"));
    if (rebuild_is_over(job))
        time_format_json(json, job->ended_ms);
    else
        buf_add(json, BYTES("null"));
    buf_add(json, BYTES(",\"error\":"));
    if (job->state == REBUILD_FAILED)
        buf_add_json(json, job->why);
    else
        buf_add(json, BYTES("null"));
    buf_add_char(json, '}');
}
