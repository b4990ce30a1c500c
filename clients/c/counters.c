/* counters.c -- changing and reading counters. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void now_text(char out[TALLY_TIME_SIZE])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tally_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, out);
}

/* The beginning of the bucket that it is now: a repeat with its key is then the same request. */
static void bucket_now_text(uint32_t duration_seconds, char out[TALLY_TIME_SIZE])
{
    int64_t seconds = duration_seconds ? time(NULL) / duration_seconds * duration_seconds : 0;
    tally_time(seconds * 1000, out);
}

/* -- Changes ----------------------------------------------------------------------------------- */

static const char *const op_names[] = {"increment", "decrement", "set"};

static int64_t change_amount(const struct tally_change *change, enum change_kind kind)
{
    return kind != CHANGE_SET && change->amount == 0 ? 1 : change->amount;
}

json_t *change_json(const struct tally_change *change, enum change_kind kind,
                    struct tally_error *error)
{
    char start[TALLY_TIME_SIZE];
    if (!change->name || !change->name[0]) {
        fail_argument(error, "A change needs the counter's name.");
        return NULL;
    }
    bucket_now_text(change->duration_seconds, start);
    json_t *body =
        json_pack("{s:I,s:s,s:I,s:s*}", "durationSeconds", (json_int_t)change->duration_seconds,
                  "timestamp", change->timestamp ? change->timestamp : start,
                  kind == CHANGE_SET ? "targetValue" : "amount",
                  (json_int_t)change_amount(change, kind), "expiresAt", change->expires_at);
    bool good = body;
    if (good && change->max) good = !json_object_set_new(body, "max", json_integer(*change->max));
    if (good) return body;
    json_decref(body);
    fail_argument(error, "The change's text is not UTF-8, or memory ran out.");
    return NULL;
}

bool change_to_op(json_t *body, const struct tally_change *change, enum change_kind kind)
{
    char key[TALLY_KEY_SIZE];
    if (!change->key) tally_random_key(key);
    return !json_object_set_new(body, "op", json_string(op_names[kind])) &&
           !json_object_set_new(body, "name", json_string(change->name)) &&
           !json_object_set_new(body, "idempotencyKey",
                                json_string(change->key ? change->key : key));
}

static const char *call_name(const struct tally_change *change, enum change_kind kind)
{
    if (kind == CHANGE_SET) return "set";
    if (kind == CHANGE_INCREMENT) return change->sync ? "incrementSync" : "increment";
    return change->sync ? "decrementSync" : "decrement";
}

/* `limit_exceeded` carries what there is; other refusals carry no value. */
static enum tally_end take_value(enum tally_end end, json_t *json, const struct tally_reply *reply,
                                 struct tally_value *value, struct tally_error *error)
{
    struct tally_value read = {.replayed = reply->replayed};
    bool there = json_object_get(json, "net");
    bool good = read_triple(json, &read);
    if (value) *value = read;
    if (end == TALLY_OK && !there) return fail_reply(error);
    if (end == TALLY_OK && !good)
        return fail(error, TALLY_REFUSED, "out_of_range", "The value does not fit into 64 bits.");
    return end;
}

static enum tally_end change_call(struct tally *tally, const struct tally_change *change,
                                  enum change_kind kind, struct tally_value *value,
                                  struct tally_error *error)
{
    char key[TALLY_KEY_SIZE];
    struct tally_reply reply;
    if (value) *value = (struct tally_value){0};
    json_t *body = change_json(change, kind, error);
    if (!body) return TALLY_INVALID;
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!text) return fail_memory(error);
    tally_random_key(key);
    json_t *json = NULL;
    enum tally_end end = path_begin(tally, "counters", error);
    if (!end) {
        path_segment(tally, change->name);
        path_segment(tally, call_name(change, kind));
        end = call_json(tally,
                        &(struct tally_request){.method = kind == CHANGE_SET ? "PUT" : "POST",
                                                .body = text,
                                                .body_size = strlen(text),
                                                .key = change->key ? change->key : key},
                        &reply, &json, error);
    }
    if (json) end = take_value(end, json, &reply, value, error);
    json_decref(json);
    free(text);
    return end;
}

enum tally_end tally_increment(struct tally *tally, const struct tally_change *change,
                               struct tally_value *value, struct tally_error *error)
{
    return change_call(tally, change, CHANGE_INCREMENT, value, error);
}

enum tally_end tally_decrement(struct tally *tally, const struct tally_change *change,
                               struct tally_value *value, struct tally_error *error)
{
    return change_call(tally, change, CHANGE_DECREMENT, value, error);
}

enum tally_end tally_set(struct tally *tally, const struct tally_change *change,
                         struct tally_value *value, struct tally_error *error)
{
    return change_call(tally, change, CHANGE_SET, value, error);
}

/* -- Reads ------------------------------------------------------------------------------------- */

static void add_query(struct text *path, const char *name, const char *value)
{
    text_add_str(path, strchr(path->data, '?') ? "&" : "?");
    text_add_escaped(path, name);
    text_add_str(path, "=");
    text_add_escaped(path, value);
}

static void add_dimensions(struct text *path, const struct tally_where *where)
{
    for (size_t i = 0; i < where->dimensions_count && !path->failed; i++) {
        struct text name = {0};
        text_add_str(&name, "dim.");
        text_add_str(&name, where->dimensions[i].key);
        if (name.failed)
            path->failed = true;
        else
            add_query(path, name.data, where->dimensions[i].value);
        text_release(&name);
    }
}

enum read_kind { READ_GET, READ_SUM, READ_SERIES };

static void add_times(struct text *path, const struct tally_where *where, enum read_kind kind)
{
    char now[TALLY_TIME_SIZE], seconds[16];
    now_text(now);
    snprintf(seconds, sizeof seconds, "%u", where->duration_seconds);
    add_query(path, "durationSeconds", seconds);
    if (kind == READ_GET) {
        add_query(path, "timestamp", where->timestamp ? where->timestamp : now);
        return;
    }
    add_query(path, "startTime", where->start_time);
    add_query(path, "endTime", where->end_time ? where->end_time : now);
    if (kind == READ_SERIES && where->fill) add_query(path, "fill", "zero");
}

static enum tally_end read_call(struct tally *tally, const struct tally_where *where,
                                enum read_kind kind, json_t **json_out, struct tally_error *error)
{
    static const char *const names[] = {"get", "sumRange", "series"};
    struct tally_reply reply;
    *json_out = NULL;
    if (!where->name || !where->name[0])
        return fail_argument(error, "A read needs the counter's name.");
    if (kind != READ_GET && !where->start_time)
        return fail_argument(error, "A range needs its beginning.");
    enum tally_end end = path_begin(tally, "counters", error);
    if (end) return end;
    path_segment(tally, where->name);
    path_segment(tally, names[kind]);
    if (!tally->path.failed) add_times(&tally->path, where, kind);
    if (!tally->path.failed) add_dimensions(&tally->path, where);
    path_consistency(tally);
    return call_json(tally, &(struct tally_request){0}, &reply, json_out, error);
}

static enum tally_end read_value(struct tally *tally, const struct tally_where *where,
                                 enum read_kind kind, struct tally_value *value,
                                 struct tally_error *error)
{
    json_t *json;
    *value = (struct tally_value){0};
    enum tally_end end = read_call(tally, where, kind, &json, error);
    if (!end) end = take_value(end, json, &(struct tally_reply){0}, value, error);
    json_decref(json);
    return end;
}

enum tally_end tally_get(struct tally *tally, const struct tally_where *where,
                         struct tally_value *value, struct tally_error *error)
{
    return read_value(tally, where, READ_GET, value, error);
}

enum tally_end tally_sum(struct tally *tally, const struct tally_where *where,
                         struct tally_value *value, struct tally_error *error)
{
    return read_value(tally, where, READ_SUM, value, error);
}

enum tally_end tally_series(struct tally *tally, const struct tally_where *where,
                            tally_bucket *bucket, void *context, struct tally_error *error)
{
    json_t *json, *each;
    size_t index;
    enum tally_end end = read_call(tally, where, READ_SERIES, &json, error);
    json_t *buckets = json_object_get(json, "buckets");
    if (!end && !json_is_array(buckets)) end = fail_reply(error);
    if (!end)
        json_array_foreach (buckets, index, each) {
            struct tally_value value = {0};
            const char *start = json_string_value(json_object_get(each, "timeStart"));
            if (!start || !read_triple(each, &value)) {
                end = fail_reply(error);
                break;
            }
            bucket(context, start, &value);
        }
    json_decref(json);
    return end;
}
