/* job.c -- see the header. */
#include "jobs/job.h"

#include "core/object.h"
#include "core/timefmt.h"
#include "store/damage.h"

#define RECORD_SIZE_MAX (32u << 10) /* a node's name has paths in it */
#define PROGRESS_MAX 0.999          /* while it is not over */

enum {
    FORMAT = 'j',
    /* Before this format, rebuilds had one of their own, and the other kinds another. */
    FORMAT_REBUILD = 3,
    FORMAT_FILES = 'e',
};

/* What an export has, as flags. */
enum { EXPORT_IDS = 1, EXPORT_EVENTS = 2 };

/* What differs in how the kinds are shown. */
static const struct {
    const char *type;
    const char *name;
    const char *size;
    bool sequence;
} shown[JOB_KINDS] = {
    [JOB_BACKUP] = {"backup", "name", "bytes", true},
    [JOB_EXPORT] = {"export", "name", "lines", true},
    [JOB_IMPORT] = {"import", "name", "lines", true},
    [JOB_REBUILD] = {"rebuild", "counter", "events", false},
};

static const char *const state_names[] = {
    [JOB_WAITING] = "waiting",
    [JOB_RUNNING] = "running",
    [JOB_DONE] = "done",
    [JOB_FAILED] = "failed",
};

const char *job_type(enum job_kind kind)
{
    return shown[kind].type;
}

/* What a job that is shown must be true to: it may be put together from the records of several
 * lanes. */
static bool end_fits(const struct job_record *job)
{
    if (!job_is_over(job) && (job->ended_ms != 0 || job->why.size > 0)) return false;
    return job->state != JOB_FAILED || job->why.size > 0;
}

/* Which fields each state and kind allows. A record that is written must fit, and bytes that are
 * read and do not fit are not a job. */
static bool job_fits(const struct job_record *job)
{
    const struct job_rebuild *rebuild = &job->rebuild;
    if (!end_fits(job)) return false;
    if (job->state == JOB_WAITING && (job->position > 0 || job->size > 0)) return false;
    if ((job->ids || job->events) && job->kind != JOB_EXPORT) return false;
    if (job->node.size > 0 && (job->kind == JOB_REBUILD || job->state == JOB_WAITING)) return false;
    if (job->kind != JOB_REBUILD) return true;
    if ((rebuild->based || rebuild->base_lines > 0) && rebuild->from.size == 0) return false;
    if (job->state == JOB_FAILED) return true; /* perhaps before it began */
    return (job->state == JOB_WAITING) == (rebuild->generation == 0);
}

struct bytes job_key(struct arena *arena, uint64_t id)
{
    char number[8];
    put_ordered_u64(number, id);
    return object_key(arena, OBJECT_JOB, bytes_of(number, sizeof number));
}

/* -- Bytes ------------------------------------------------------------------------------------- */

static void add_rebuild(struct buf *buf, const struct job_rebuild *rebuild)
{
    buf_add_char(buf, rebuild->force);
    buf_add_sized(buf, rebuild->from);
    buf_add_char(buf, rebuild->based);
    buf_add_varint(buf, rebuild->base_lines);
    buf_add_varint(buf, rebuild->generation);
    buf_add_fixed64(buf, rebuild->rules_digest);
    buf_add_varint(buf, rebuild->since);
}

struct bytes job_encode(struct arena *arena, const struct job_record *job)
{
    struct buf buf;
    must(job_fits(job));
    buf_init(&buf, RECORD_SIZE_MAX);
    buf_add_char(&buf, FORMAT);
    buf_add_varint(&buf, job->kind);
    buf_add_varint(&buf, job->id);
    buf_add_varint(&buf, job->state);
    buf_add_sized(&buf, job->name);
    buf_add_varint(&buf, job->position);
    buf_add_varint(&buf, job->size);
    buf_add_varint(&buf, job->sequence);
    buf_add_signed(&buf, job->asked_ms);
    buf_add_signed(&buf, job->ended_ms);
    buf_add_sized(&buf, job->why);
    if (job->kind == JOB_EXPORT)
        buf_add_char(&buf, (char)((job->ids ? EXPORT_IDS : 0) | (job->events ? EXPORT_EVENTS : 0)));
    if (job->kind == JOB_REBUILD) add_rebuild(&buf, &job->rebuild);
    if (job->node.size > 0) buf_add_sized(&buf, job->node);
    must(!buf.failed);
    struct bytes value = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return value;
}

static bool read_bool(struct reader *reader)
{
    uint8_t value = read_u8(reader);
    reader->failed |= value > 1;
    return value == 1;
}

static uint64_t read_below(struct reader *reader, uint64_t end)
{
    uint64_t value = read_varint(reader);
    reader->failed |= value >= end;
    return reader->failed ? 0 : value;
}

static uint32_t read_generation(struct reader *reader)
{
    return (uint32_t)read_below(reader, UINT64_C(1) << 32);
}

static enum job_state read_state(struct reader *reader)
{
    return (enum job_state)read_below(reader, JOB_FAILED + 1);
}

static void read_end(struct reader *reader, struct job_record *job)
{
    job->asked_ms = read_signed(reader);
    job->ended_ms = read_signed(reader);
    job->why = read_sized(reader);
}

static void read_rebuild(struct reader *reader, struct job_rebuild *rebuild)
{
    rebuild->force = read_bool(reader);
    rebuild->from = read_sized(reader);
    rebuild->based = read_bool(reader);
    rebuild->base_lines = read_varint(reader);
    rebuild->generation = read_generation(reader);
    rebuild->rules_digest = read_fixed64(reader);
    rebuild->since = read_varint(reader);
}

static void read_export(struct reader *reader, struct job_record *job)
{
    uint64_t flags = read_below(reader, 2 * EXPORT_EVENTS);
    job->ids = flags & EXPORT_IDS;
    job->events = flags & EXPORT_EVENTS;
}

static void read_job(struct reader *reader, struct job_record *job)
{
    job->kind = (enum job_kind)read_below(reader, JOB_KINDS);
    job->id = read_varint(reader);
    job->state = read_state(reader);
    job->name = read_sized(reader);
    job->position = read_varint(reader);
    job->size = read_varint(reader);
    job->sequence = read_varint(reader);
    read_end(reader, job);
    if (job->kind == JOB_EXPORT) read_export(reader, job);
    if (job->kind == JOB_REBUILD) read_rebuild(reader, &job->rebuild);
    if (reader_left(reader) == 0) return;
    job->node = read_sized(reader);
    reader->failed |= job->node.size == 0;
}

static void read_older_files(struct reader *reader, struct job_record *job)
{
    job->id = read_varint(reader);
    job->kind = (enum job_kind)read_below(reader, JOB_REBUILD);
    job->state = read_state(reader);
    job->name = read_sized(reader);
    job->ids = read_bool(reader);
    job->position = read_varint(reader);
    job->size = read_varint(reader);
    job->sequence = read_varint(reader);
    read_end(reader, job);
}

static void read_older_rebuild(struct reader *reader, struct job_record *job)
{
    job->kind = JOB_REBUILD;
    job->id = read_varint(reader);
    job->state = read_state(reader);
    job->name = read_sized(reader);
    read_rebuild(reader, &job->rebuild);
    job->position = read_varint(reader);
    job->sequence = read_varint(reader);
    job->size = read_varint(reader);
    read_end(reader, job);
}

enum err job_decode(struct bytes value, struct job_record *job_out)
{
    struct reader reader = reader_of(value);
    struct job_record job = {0};
    switch (read_u8(&reader)) {
    case FORMAT:
        read_job(&reader, &job);
        break;
    case FORMAT_FILES:
        read_older_files(&reader, &job);
        break;
    case FORMAT_REBUILD:
        read_older_rebuild(&reader, &job);
        break;
    default:
        return ERR_CORRUPT;
    }
    if (reader.failed || reader_left(&reader) > 0 || !job_fits(&job)) return ERR_CORRUPT;
    *job_out = job;
    return ERR_OK;
}

bool job_met(struct bytes key, struct bytes value, struct job_record *job_out)
{
    struct bytes number = bytes_of(key.data + 1, key.size - 1);
    bool met = job_decode(value, job_out) == ERR_OK && number.size == sizeof job_out->id &&
               get_ordered_u64(number.data) == job_out->id;
    if (!met) damage_say("a job", key, 1);
    return met;
}

/* -- JSON -------------------------------------------------------------------------------------- */

/* A rebuild is measured against the events there were when it began: each event it counts is a
 * sequence more, so measured against the newest one it would seem half done at its end. */
static double progress_of(const struct job_record *job, double share)
{
    if (job->state == JOB_DONE) return 1;
    if (job->kind != JOB_REBUILD) return share;
    if (job->sequence == 0) return 0;
    share = (double)job->position / (double)job->sequence;
    return share < PROGRESS_MAX ? share : PROGRESS_MAX;
}

static void write_sequence(struct buf *json, const struct job_record *job)
{
    if (job->state == JOB_DONE)
        buf_addf(json, ",\"sequence\":\"%llu\"", (unsigned long long)job->sequence);
    else
        buf_add(json, BYTES(",\"sequence\":null"));
}

static void write_end(struct buf *json, const struct job_record *job)
{
    buf_add(json, BYTES(",\"askedAt\":"));
    time_format_json(json, job->asked_ms);
    buf_add(json, BYTES(",\"endedAt\":"));
    if (job_is_over(job))
        time_format_json(json, job->ended_ms);
    else
        buf_add(json, BYTES("null"));
    buf_add(json, BYTES(",\"error\":"));
    if (job->state == JOB_FAILED)
        buf_add_json(json, job->why);
    else
        buf_add(json, BYTES("null"));
    if (job->state == JOB_DONE && job->why.size > 0) {
        buf_add(json, BYTES(",\"warning\":"));
        buf_add_json(json, job->why);
    }
}

void job_write(struct buf *json, const struct job_record *job, double share)
{
    must(end_fits(job));
    buf_addf(json, "{\"job\":\"%llu\",\"type\":\"%s\",\"%s\":", (unsigned long long)job->id,
             shown[job->kind].type, shown[job->kind].name);
    buf_add_json(json, job->name);
    buf_addf(json, ",\"state\":\"%s\",\"progress\":%.3f,\"%s\":\"%llu\"", state_names[job->state],
             progress_of(job, share), shown[job->kind].size, (unsigned long long)job->size);
    if (shown[job->kind].sequence) write_sequence(json, job);
    if (job->node.size > 0) {
        buf_add(json, BYTES(",\"node\":"));
        buf_add_json(json, job->node);
    }
    write_end(json, job);
    buf_add_char(json, '}');
}
