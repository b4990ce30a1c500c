/* fuzz_json.c -- arbitrary bytes as a JSON body, as text and as a query: everything is walked,
 * every kind of field is read from every value, and what was understood must be understood again,
 * from its text and from its source too. */
#include <stdlib.h>

#include "api/unknown.h"
#include "core/bucket.h"
#include "core/name.h"
#include "core/timefmt.h"

static const char *const words[] = {"increment", "decrement", "set", NULL};

static const struct field fields[] = {
    {BYTES("durationSeconds"), FIELD_I64, .required = true, .max = INT32_MAX},
    {BYTES("timestamp"), FIELD_TIME, .required = true},
    {BYTES("amount"), FIELD_I64, .min = 1, .max = INT64_MAX, .fallback = 1},
    {BYTES("name"), FIELD_NAME, .required = true},
    {BYTES("op"), FIELD_CHOICE, .choices = words},
    {BYTES("type"), FIELD_TEXT, .min = 1, .max = 255},
    {BYTES("idempotencyKey"), FIELD_KEY, .required = false},
    {BYTES("atomic"), FIELD_BOOL, .fallback = 0},
};

#define SOURCES_MAX 400u /* to ask for all takes the square of it */
#define FIELDS ((unsigned)ARRAY_COUNT(fields))

/* A time that was read is in range, is in its bucket, and is read back from how it is written. */
static void check_time(int64_t ms)
{
    must(ms >= TIME_MS_MIN && ms <= TIME_MS_MAX);
    int64_t start = bucket_start(ms, 3600), back;
    must(start * 1000 <= ms && ms < (start + 3600) * 1000);

    struct buf buf;
    buf_init(&buf, 64);
    time_format(&buf, ms);
    must(time_parse(buf_bytes(&buf), &back) && back == ms);
    buf_release(&buf);
}

static void check_value(enum err e, const struct field *field, const struct field_value *value,
                        const struct reason *why)
{
    if (e != ERR_OK) {
        must(e == ERR_INVALID);
        must(strnlen(why->text, sizeof why->text) < sizeof why->text);
        return;
    }
    if (!value->present) return;
    if (field->type == FIELD_TIME) check_time(value->integer);
    if (field->type == FIELD_I64)
        must(value->integer >= field->min && value->integer <= field->max);
    if (field->type == FIELD_NAME) must(counter_name_valid(value->text));
}

static void check_json(const struct json_value *value)
{
    struct field_value out[ARRAY_COUNT(fields)];
    struct reason why = {""};
    for (unsigned i = 0; i < FIELDS; i++)
        check_value(field_from_json(value, &fields[i], &out[i], &why), &fields[i], &out[i], &why);
    struct bytes names[FIELDS];
    struct json_value picked[FIELDS];
    for (unsigned i = 0; i < FIELDS; i++)
        names[i] = fields[i].name;
    struct known known = {.names = names, .count = FIELDS};
    size_t others = json_pick(value, names, FIELDS, picked);
    must(!unknown_field(value, &known, &why) || others > 0);
    must(strnlen(why.text, sizeof why.text) < sizeof why.text);
    if (fields_from_picked(picked, fields, FIELDS, out, &why) == ERR_OK)
        for (unsigned i = 0; i < FIELDS; i++)
            check_value(ERR_OK, &fields[i], &out[i], &why);

    struct json_iter iter; /* the parser limits the depth of this recursion */
    for (json_each(value, &iter); json_next(&iter);)
        check_json(&iter.value);
}

/* What was written reads as the same value, and is what is written of that. */
static void check_source(struct json_parser *parser, const struct json_value *value)
{
    static struct json_parser *other;
    if (!other) other = json_parser_new(1 << 20);
    struct bytes source = json_source(parser, value);
    char *copy = must_alloc(source.size + JSON_PADDING);
    memcpy(copy, source.data, source.size);
    memset(copy + source.size, '"', JSON_PADDING);
    source.data = copy;
    struct json_value again;
    must(json_parse(other, source, &again));
    must(bytes_equal(json_source(other, &again), source));
    must(bytes_equal(json_text(other, &again), json_text(parser, value)));
    free(copy);
}

/* Parents before and after what is in them: both ways of walking. */
static void check_sources(struct json_parser *parser, const struct json_value *value)
{
    struct json_iter iter;
    check_source(parser, value);
    for (json_each(value, &iter); json_next(&iter);)
        check_sources(parser, &iter.value);
    check_source(parser, value);
}

static void check_text(struct bytes text)
{
    struct field_value out;
    struct reason why;
    for (unsigned i = 0; i < FIELDS; i++)
        check_value(field_from_text(text, &fields[i], &out, &why), &fields[i], &out, &why);

    struct bytes tenant, name, segments[8];
    unsigned count;
    char kind, key[COUNTER_KEY_SIZE_MAX];
    if (counter_key_split(text, &tenant, &kind, &name) && kind == COUNTER_KIND_DIRECT)
        must(bytes_equal(counter_key(key, tenant, name), text));
    if (path_split(text, segments, 8, &count)) must(count >= 1 && count <= 8);
}

static void check_query(struct bytes text, struct arena *arena)
{
    struct params params;
    struct reason why;
    if (params_parse(text, arena, &params, &why) == ERR_OK) {
        must(params.count <= PARAMS_MAX);
        for (unsigned i = 0; i < params.count; i++)
            must(params_get(&params, params.items[i].name).data == params.items[i].value.data);
    }

    struct bytes raw;
    struct buf again;
    buf_init(&again, 2 * text.size + 4);
    if (cursor_decode(text, arena, &raw)) { /* one spelling only */
        cursor_encode(&again, raw);
        must(bytes_equal(buf_bytes(&again), text));
    }
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_parser *parser;
    if (!parser) parser = json_parser_new(1 << 20);

    char *copy = must_alloc(size + JSON_PADDING); /* so that a read past the padding is seen */
    memset(copy + size, 'x', JSON_PADDING);
    if (size) memcpy(copy, data, size);
    struct bytes text = bytes_of(copy, size);

    struct json_value root;
    if (json_parse(parser, text, &root)) {
        check_json(&root);
        if (size <= SOURCES_MAX)
            check_sources(parser, &root);
        else
            check_source(parser, &root);
    } else {
        must(json_problem(parser) != NULL);
    }

    struct arena arena;
    arena_init(&arena, 4096);
    check_text(text);
    check_query(text, &arena);
    arena_release(&arena);
    free(copy);
    return 0;
}
