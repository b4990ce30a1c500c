/* batch.c -- changes or events gathered, and sent as NDJSON in one call.
 *
 * Each line has its own key or id, so the whole can be sent again as it is: what took effect the
 * first time answers as it did then. Lines are kept until the server has answered for all. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define OPS_MAX 100000
#define BYTES_FULL (8u << 20) /* half of what a server takes in one body by default */

enum batch_kind { BATCH_EMPTY, BATCH_CHANGES, BATCH_EVENTS };

struct tally_batch {
    struct tally *tally;
    size_t ops_max;
    tally_refused *refused;
    void *context;
    enum batch_kind kind;
    struct text lines;
    size_t lines_count;
    uint64_t sent; /* put in before the first of `lines` */
    struct tally_batch_totals totals;
};

struct tally_batch *tally_batch_new(struct tally *tally, size_t ops_max, tally_refused *refused,
                                    void *context)
{
    struct tally_batch *batch = calloc(1, sizeof *batch);
    if (!batch) return NULL;
    if (ops_max < 1) ops_max = 1;
    *batch = (struct tally_batch){.tally = tally,
                                  .ops_max = ops_max < OPS_MAX ? ops_max : OPS_MAX,
                                  .refused = refused,
                                  .context = context};
    return batch;
}

void tally_batch_free(struct tally_batch *batch)
{
    if (!batch) return;
    text_release(&batch->lines);
    free(batch);
}

struct tally_batch_totals tally_batch_totals(const struct tally_batch *batch)
{
    struct tally_batch_totals totals = batch->totals;
    totals.waiting = batch->lines_count;
    return totals;
}

/* -- Sending ----------------------------------------------------------------------------------- */

static void tell_refused(struct tally_batch *batch, uint64_t index, json_t *result)
{
    struct tally_error error;
    error_read(&error, (int)json_integer_value(json_object_get(result, "status")), result);
    batch->totals.refused++;
    if (batch->refused) batch->refused(batch->context, batch->sent + index, &error);
}

static bool take_changes(struct tally_batch *batch, json_t *results)
{
    size_t index;
    json_t *each;
    if (json_array_size(results) != batch->lines_count) return false;
    json_array_foreach (results, index, each) {
        if (json_integer_value(json_object_get(each, "status")) != 200)
            tell_refused(batch, index, each);
        else if (json_is_true(json_object_get(each, "replayed")))
            batch->totals.duplicates++;
        else
            batch->totals.applied++;
    }
    return true;
}

static bool take_events(struct tally_batch *batch, json_t *json)
{
    size_t index;
    json_t *each;
    int64_t applied, duplicates, at;
    if (!read_i64(json, "applied", &applied) || !read_i64(json, "duplicates", &duplicates))
        return false;
    batch->totals.applied += (uint64_t)applied;
    batch->totals.duplicates += (uint64_t)duplicates;
    json_array_foreach (json_object_get(json, "results"), index, each)
        if (read_i64(each, "index", &at)) tell_refused(batch, (uint64_t)at, each);
    return true;
}

static enum tally_end send_lines(struct tally_batch *batch, json_t **json_out,
                                 struct tally_error *error)
{
    struct tally_reply reply;
    bool events = batch->kind == BATCH_EVENTS;
    enum tally_end end = path_begin(batch->tally, events ? "events" : "counters", error);
    if (end) return end;
    text_add_str(&batch->tally->path, events ? "?results=errors" : "/batch");
    return call_json(batch->tally,
                     &(struct tally_request){.method = "POST",
                                             .body = batch->lines.data,
                                             .body_size = batch->lines.size,
                                             .type = "application/x-ndjson",
                                             .repeatable = true},
                     &reply, json_out, error);
}

enum tally_end tally_batch_flush(struct tally_batch *batch, struct tally_error *error)
{
    json_t *json = NULL;
    if (batch->lines_count == 0) return TALLY_OK;
    enum tally_end end = send_lines(batch, &json, error);
    if (!end) {
        bool good = batch->kind == BATCH_EVENTS
                        ? take_events(batch, json)
                        : take_changes(batch, json_object_get(json, "results"));
        if (!good) end = fail_reply(error);
    }
    json_decref(json);
    if (end) return end;
    batch->sent += batch->lines_count;
    batch->lines_count = 0;
    batch->kind = BATCH_EMPTY;
    text_reset(&batch->lines);
    return TALLY_OK;
}

/* -- Gathering --------------------------------------------------------------------------------- */

/* A full batch that could not be sent takes no more: memory stays bounded. */
static enum tally_end make_room(struct tally_batch *batch, enum batch_kind kind,
                                struct tally_error *error)
{
    if (batch->kind != BATCH_EMPTY && batch->kind != kind)
        return fail_argument(error, "Changes and events do not go into the same batch.");
    if (batch->lines_count < batch->ops_max && batch->lines.size < BYTES_FULL) return TALLY_OK;
    enum tally_end end = tally_batch_flush(batch, error);
    return end == TALLY_OK ? TALLY_OK : TALLY_INVALID;
}

static enum tally_end add_line(struct tally_batch *batch, enum batch_kind kind, json_t *json,
                               struct tally_error *error)
{
    char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t before = batch->lines.size;
    json_decref(json);
    if (!line) return fail_memory(error);
    text_add_str(&batch->lines, line);
    text_add_str(&batch->lines, "\n");
    free(line);
    if (batch->lines.failed) { /* what was there before is whole */
        batch->lines.failed = false;
        batch->lines.size = before;
        return fail_memory(error);
    }
    batch->kind = kind;
    batch->lines_count++;
    bool full = batch->lines_count >= batch->ops_max || batch->lines.size >= BYTES_FULL;
    return full ? tally_batch_flush(batch, error) : TALLY_OK;
}

static enum tally_end add_change(struct tally_batch *batch, const struct tally_change *change,
                                 enum change_kind kind, struct tally_error *error)
{
    enum tally_end end = make_room(batch, BATCH_CHANGES, error);
    if (end) return end;
    json_t *json = change_json(change, kind, error);
    if (!json) return TALLY_INVALID;
    if (!change_to_op(json, change, kind)) {
        json_decref(json);
        return fail_argument(error, "The name or the key is not UTF-8, or memory ran out.");
    }
    return add_line(batch, BATCH_CHANGES, json, error);
}

enum tally_end tally_batch_increment(struct tally_batch *batch, const struct tally_change *change,
                                     struct tally_error *error)
{
    return add_change(batch, change, CHANGE_INCREMENT, error);
}

enum tally_end tally_batch_decrement(struct tally_batch *batch, const struct tally_change *change,
                                     struct tally_error *error)
{
    return add_change(batch, change, CHANGE_DECREMENT, error);
}

enum tally_end tally_batch_set(struct tally_batch *batch, const struct tally_change *change,
                               struct tally_error *error)
{
    return add_change(batch, change, CHANGE_SET, error);
}

enum tally_end tally_batch_event(struct tally_batch *batch, const struct tally_event *event,
                                 struct tally_error *error)
{
    enum tally_end end = make_room(batch, BATCH_EVENTS, error);
    if (end) return end;
    json_t *json = event_json(event, error);
    if (!json) return TALLY_INVALID;
    return add_line(batch, BATCH_EVENTS, json, error);
}
