/* test_event_read.c -- one event as any client might send it (SPEC 6), plain and as a CloudEvent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/events/read.h"

#define NOW_MS 1767225600000 /* 2026-01-01T00:00:00Z */

static struct arena arena;
static struct json_parser *parser;
static struct event_reader reader;
static struct event event;
static struct json_value payload;
static struct reason why;

static void assert_bytes(struct bytes got, const char *want)
{
    if (!bytes_equal(got, bytes_str(want)))
        fail_msg("got %.*s, not %s", (int)got.size, got.data, want);
}

static struct json_value json(struct bytes text)
{
    char *copy = arena_zalloc(&arena, text.size + JSON_PADDING);
    struct json_value root;
    memcpy(copy, text.data, text.size);
    if (!json_parse(parser, bytes_of(copy, text.size), &root))
        fail_msg("not JSON: %.*s", (int)text.size, text.data);
    return root;
}

static enum err read_as(enum event_form form, struct bytes text)
{
    struct json_value object = json(text);
    reader.form = form;
    memset(&event, 0, sizeof event);
    why.text[0] = '\0';
    enum err e = event_read(&reader, &object, &event, &payload, &why);
    if (e != ERR_OK && why.text[0] == '\0') fail_msg("refused without a sentence");
    return e;
}

static void reads(const char *text)
{
    if (read_as(EVENT_PLAIN, bytes_str(text)) != ERR_OK) fail_msg("%s: %s", text, why.text);
}

static void reads_cloud(const char *text)
{
    if (read_as(EVENT_CLOUD, bytes_str(text)) != ERR_OK) fail_msg("%s: %s", text, why.text);
}

static void refused(const char *text, enum err e, const char *sentence)
{
    enum err got = read_as(EVENT_PLAIN, bytes_str(text));
    if (got != e) fail_msg("%s: %s, not %s", text, err_code(got), err_code(e));
    assert_string_equal(why.text, sentence);
}

static void refused_cloud(const char *text, enum err e, const char *sentence)
{
    enum err got = read_as(EVENT_CLOUD, bytes_str(text));
    if (got != e) fail_msg("%s: %s, not %s", text, err_code(got), err_code(e));
    assert_string_equal(why.text, sentence);
}

static int set_up(void **state)
{
    arena_init(&arena, 64 << 10);
    parser = json_parser_new(1 << 20);
    event_reader_init(&reader, EVENT_PLAIN, parser, &arena, NOW_MS);
    return 0;
}

static int tear_down(void **state)
{
    event_reader_release(&reader);
    json_parser_free(parser);
    arena_release(&arena);
    return 0;
}

/* -- Plain ------------------------------------------------------------------------------------- */

#define E1 "\"eventId\":\"E1\",\"type\":\"account.connected\""
#define ID_REQUIRED "eventId is required: 1 to 255 bytes of text."
#define DIMENSION_WRONG "A dimension must be a string, an integer, a boolean or null."

static void S1_03_the_event_of_the_contract_is_read(void **state)
{
    reads("{" E1 ",\"occurredAt\":\"2026-01-01T00:00:00.250Z\","
          "\"dimensions\":{\"masterAccountId\":\"m1\"},\"payload\":{ \"content_size\" : 1234 }}");
    assert_bytes(event.id, "E1");
    assert_bytes(event.type, "account.connected");
    assert_int_equal(event.occurred_ms, NOW_MS + 250);
    assert_int_equal(event.dimensions_count, 1);
    assert_bytes(event.dimensions[0].key, "masterAccountId");
    assert_bytes(event.dimensions[0].value, "m1");
    assert_bytes(event.dimensions_json, "{\"masterAccountId\":\"m1\"}");
    assert_bytes(event.payload, "{\"content_size\":1234}");
    assert_int_equal(payload.type, JSON_OBJECT);
    assert_int_equal(event.digest, event_digest(&event));
}

static void A_27e_null_fields_are_absent(void **state)
{
    reads("{" E1 ",\"occurredAt\":null,\"dimensions\":null,\"payload\":null}");
    assert_int_equal(event.occurred_ms, NOW_MS);
    assert_int_equal(event.dimensions_count, 0);
    assert_bytes(event.dimensions_json, "{}");
    assert_int_equal(event.payload.size, 0);
    assert_int_equal(payload.type, JSON_ABSENT);
    reads("{" E1 "}");
    assert_int_equal(event.occurred_ms, NOW_MS);
    assert_int_equal(payload.type, JSON_ABSENT);
}

static void an_unknown_field_of_a_plain_event_is_refused_by_name(void **state)
{
    refused("{" E1 ",\"occuredAt\":0}", ERR_UNKNOWN_FIELD,
            "Unknown field \"occuredAt\": did you mean \"occurredAt\"?");
    refused("{\"eventID\":\"E1\",\"type\":\"t\"}", ERR_UNKNOWN_FIELD,
            "Unknown field \"eventID\": did you mean \"eventId\"?");
    reads("{" E1 ",\"x-trace\":[1],\"payload\":{\"any\":1},\"dimensions\":{\"any\":1}}");
}

static void nothing_read_points_into_the_parser(void **state)
{
    reads("{" E1 ",\"dimensions\":{\"a\":\"x\",\"b\":7},\"payload\":[\"p\"]}");
    struct event kept = event;
    reads("{\"eventId\":\"zzzzzz\",\"type\":\"zzzzzzzzzzzzzzzzz\","
          "\"dimensions\":{\"z\":\"z\",\"y\":0},\"payload\":[\"z\"]}");
    assert_bytes(kept.id, "E1");
    assert_bytes(kept.type, "account.connected");
    assert_bytes(kept.dimensions[0].key, "a");
    assert_bytes(kept.dimensions[1].value, "7");
    assert_bytes(kept.payload, "[\"p\"]");
}

static void S1_18_an_event_needs_an_id(void **state)
{
    char text[600];
    refused("{\"type\":\"t\"}", ERR_EVENT_ID, ID_REQUIRED);
    refused("{\"eventId\":null,\"type\":\"t\"}", ERR_EVENT_ID, ID_REQUIRED);
    refused("{\"eventId\":\"\",\"type\":\"t\"}", ERR_EVENT_ID, ID_REQUIRED);
    snprintf(text, sizeof text, "{\"eventId\":\"%0*d\",\"type\":\"t\"}", 256, 1);
    refused(text, ERR_EVENT_ID, ID_REQUIRED);
    snprintf(text, sizeof text, "{\"eventId\":\"%0*d\",\"type\":\"t\"}", 255, 1);
    reads(text);
    assert_int_equal(event.id.size, 255);
    refused("{\"eventId\":7,\"type\":\"t\"}", ERR_INVALID, "eventId must be a string.");
    refused("{\"eventId\":{},\"type\":\"t\"}", ERR_INVALID, "eventId must be a string.");
}

static void S1_26_an_id_is_any_text(void **state)
{
    reads("{\"eventId\":\"7d9f0c9e-1c1b-4c52-9d0f-2b6a8b7f6f11\",\"type\":\"t\"}");
    reads("{\"eventId\":\" \\u0000/%2F\\n\xc3\xa9\",\"type\":\"t\"}");
    assert_true(bytes_equal(event.id, BYTES(" \0/%2F\n\xc3\xa9")));
}

static void ids_are_made_only_where_that_is_configured(void **state)
{
    struct bytes first;
    reader.generate_ids = true;
    reads("{\"type\":\"t\"}");
    first = event.id;
    assert_int_equal(first.size, 36);
    assert_int_equal(first.data[14], '4');
    assert_non_null(strchr("89ab", first.data[19]));
    reads("{\"eventId\":null,\"type\":\"t\"}");
    assert_int_equal(event.id.size, 36);
    assert_false(bytes_equal(first, event.id));
    reads("{\"eventId\":\"mine\",\"type\":\"t\"}");
    assert_bytes(event.id, "mine");
    refused("{\"eventId\":\"\",\"type\":\"t\"}", ERR_EVENT_ID, ID_REQUIRED);
}

static void a_type_is_required_text(void **state)
{
    char text[600];
    refused("{\"eventId\":\"e\"}", ERR_INVALID, "type is required.");
    refused("{\"eventId\":\"e\",\"type\":null}", ERR_INVALID, "type is required.");
    refused("{\"eventId\":\"e\",\"type\":\"\"}", ERR_INVALID,
            "type must be text of 1 to 255 bytes.");
    refused("{\"eventId\":\"e\",\"type\":5}", ERR_INVALID, "type must be text of 1 to 255 bytes.");
    snprintf(text, sizeof text, "{\"eventId\":\"e\",\"type\":\"%0*d\"}", 256, 1);
    refused(text, ERR_INVALID, "type must be text of 1 to 255 bytes.");
}

static void a_time_is_read_as_everywhere(void **state)
{
    reads("{" E1 ",\"occurredAt\":1767225600}");
    assert_int_equal(event.occurred_ms, NOW_MS);
    reads("{" E1 ",\"occurredAt\":\"2026-01-01T02:00:00+02:00\"}");
    assert_int_equal(event.occurred_ms, NOW_MS);
    static const char sentence[] =
        "occurredAt must be an ISO 8601 time or an epoch number, in the years 0001 to 9999.";
    refused("{" E1 ",\"occurredAt\":\"yesterday\"}", ERR_INVALID, sentence);
    refused("{" E1 ",\"occurredAt\":1.5}", ERR_INVALID,
            "occurredAt must be a whole epoch number, without fraction or exponent: send "
            "milliseconds (1739548800500) or ISO 8601.");
    refused("{" E1 ",\"occurredAt\":{}}", ERR_INVALID, sentence);
}

static void A_11_dimensions_are_compared_by_their_string_form(void **state)
{
    reads("{" E1 ",\"dimensions\":{\"s\":\"1\",\"i\":1,\"n\":-9223372036854775808,\"t\":true,"
          "\"f\":false,\"e\":\"\",\"gone\":null}}");
    assert_bytes(event.dimensions_json,
                 "{\"e\":\"\",\"f\":\"false\",\"i\":\"1\","
                 "\"n\":\"-9223372036854775808\",\"s\":\"1\",\"t\":\"true\"}");
    uint32_t digest = event.digest;
    reads("{" E1 ",\"dimensions\":{\"t\":\"true\",\"f\":false,\"n\":\"-9223372036854775808\","
          "\"i\":\"1\",\"s\":1,\"e\":\"\"}}");
    assert_int_equal(event.digest, digest);
}

static void the_last_of_a_repeated_dimension_stands(void **state)
{
    reads("{" E1 ",\"dimensions\":{\"a\":\"1\",\"b\":\"x\",\"a\":\"2\"}}");
    assert_bytes(event.dimensions_json, "{\"a\":\"2\",\"b\":\"x\"}");
    reads("{" E1 ",\"dimensions\":{\"a\":\"1\",\"b\":\"x\",\"a\":null}}");
    assert_bytes(event.dimensions_json, "{\"b\":\"x\"}");
    reads("{" E1 ",\"dimensions\":{\"a\":null,\"a\":\"1\"}}");
    assert_bytes(event.dimensions_json, "{\"a\":\"1\"}");
}

static void dimensions_are_a_flat_map(void **state)
{
    refused("{" E1 ",\"dimensions\":[]}", ERR_INVALID, "dimensions must be an object.");
    refused("{" E1 ",\"dimensions\":\"a\"}", ERR_INVALID, "dimensions must be an object.");
    refused("{" E1 ",\"dimensions\":{\"a\":{}}}", ERR_INVALID, DIMENSION_WRONG);
    refused("{" E1 ",\"dimensions\":{\"a\":[]}}", ERR_INVALID, DIMENSION_WRONG);
    refused("{" E1 ",\"dimensions\":{\"a\":1.5}}", ERR_INVALID, DIMENSION_WRONG);
    refused("{" E1 ",\"dimensions\":{\"a\":9223372036854775808}}", ERR_INVALID, DIMENSION_WRONG);
    refused("{" E1 ",\"dimensions\":{\"\":1}}", ERR_INVALID,
            "A dimension's key must have 1 to 255 bytes.");
}

static struct bytes with_dimensions(unsigned count)
{
    struct buf buf;
    buf_init(&buf, 64 << 10);
    buf_add(&buf, BYTES("{" E1 ",\"dimensions\":{"));
    for (unsigned i = 0; i < count; i++)
        buf_addf(&buf, "%s\"k%u\":%u", i ? "," : "", i, i);
    buf_add(&buf, BYTES("}}"));
    struct bytes text = arena_copy(&arena, buf_bytes(&buf));
    buf_release(&buf);
    return text;
}

static void there_are_at_most_64_dimensions(void **state)
{
    assert_int_equal(read_as(EVENT_PLAIN, with_dimensions(64)), ERR_OK);
    assert_int_equal(event.dimensions_count, 64);
    assert_int_equal(read_as(EVENT_PLAIN, with_dimensions(65)), ERR_INVALID);
    assert_string_equal(why.text, "dimensions must have at most 64 keys.");
}

/* An event whose payload is a string so long that everything has `total` bytes. */
static enum err read_of_size(size_t total)
{
    size_t filler = total - strlen("E1") - strlen("account.connected") - strlen("{}") - 2;
    char *text = arena_alloc(&arena, total + 200);
    int size = snprintf(text, total + 200, "{" E1 ", \"payload\" : \"%0*d\" }", (int)filler, 1);
    return read_as(EVENT_PLAIN, bytes_of(text, (size_t)size));
}

static void an_event_has_at_most_16_KiB_white_space_aside(void **state)
{
    assert_int_equal(read_of_size(EVENT_SIZE_MAX), ERR_OK);
    assert_int_equal(event.id.size + event.type.size + event.dimensions_json.size +
                         event.payload.size,
                     EVENT_SIZE_MAX);
    assert_int_equal(read_of_size(EVENT_SIZE_MAX + 1), ERR_EVENT_SIZE);
    assert_string_equal(why.text, "The event is over 16 KiB.");
}

static void dimensions_may_be_too_large_by_themselves(void **state)
{
    char *text = arena_alloc(&arena, 40000);
    int size = snprintf(text, 40000, "{" E1 ",\"dimensions\":{\"a\":\"%0*d\"}}", 17000, 1);
    assert_int_equal(read_as(EVENT_PLAIN, bytes_of(text, (size_t)size)), ERR_EVENT_SIZE);

    /* Small as sent, large once escaped. */
    struct buf buf;
    buf_init(&buf, 64 << 10);
    buf_add(&buf, BYTES("{" E1 ",\"dimensions\":{\"a\":\""));
    for (int i = 0; i < 3000; i++)
        buf_add(&buf, BYTES("\\n"));
    buf_add(&buf, BYTES("\"}}"));
    assert_int_equal(read_as(EVENT_PLAIN, buf_bytes(&buf)), ERR_EVENT_SIZE);
    buf_release(&buf);
}

static void white_space_makes_no_conflict_but_a_value_does(void **state)
{
    reads("{" E1 ",\"payload\":{\"a\":[1,2]}}");
    uint32_t digest = event.digest;
    reads("{ \"payload\" : { \"a\" : [ 1 , 2 ] } ," E1 "}");
    assert_int_equal(event.digest, digest);
    reads("{" E1 ",\"payload\":{\"a\":[1,3]}}");
    assert_int_not_equal(event.digest, digest);
}

static void only_objects_are_events(void **state)
{
    static const char *const texts[] = {"7", "\"e\"", "null", "true", "[]"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        refused(texts[i], ERR_INVALID, "An event must be a JSON object.");
}

/* -- CloudEvents ------------------------------------------------------------------------------- */

#define CLOUD "\"specversion\":\"1.0\",\"id\":\"A-1\",\"source\":\"/s\",\"type\":\"t\""

static void a_cloud_event_is_an_event(void **state)
{
    reads_cloud("{" CLOUD ",\"time\":\"2026-01-01T00:00:00Z\",\"subject\":\"x\","
                "\"datacontenttype\":\"application/json\",\"dataschema\":\"#\","
                "\"data\":{\"size\": 5}}");
    assert_bytes(event.id, "/s A-1");
    assert_bytes(event.type, "t");
    assert_int_equal(event.occurred_ms, NOW_MS);
    assert_bytes(event.payload, "{\"size\":5}");
    assert_bytes(event.dimensions_json, "{}");
    reads_cloud("{" CLOUD "}");
    assert_int_equal(event.payload.size, 0);
}

static void extension_attributes_are_dimensions(void **state)
{
    reads_cloud("{" CLOUD ",\"org\":\"o1\",\"shard\":7,\"test\":true,\"none\":null,\"data\":1}");
    assert_bytes(event.dimensions_json, "{\"org\":\"o1\",\"shard\":\"7\",\"test\":\"true\"}");
    assert_bytes(event.payload, "1");
    refused_cloud("{" CLOUD ",\"org\":{}}", ERR_INVALID, DIMENSION_WRONG);
}

static void dimensions_in_the_data_stand_before_attributes(void **state)
{
    reads_cloud("{" CLOUD ",\"org\":\"o1\",\"data\":{\"dimensions\":{\"a\":1}}}");
    assert_bytes(event.dimensions_json, "{\"a\":\"1\"}");
    assert_bytes(event.payload, "{\"dimensions\":{\"a\":1}}");
    reads_cloud("{" CLOUD ",\"org\":\"o1\",\"data\":{\"dimensions\":[1]}}");
    assert_bytes(event.dimensions_json, "{\"org\":\"o1\"}");
}

static void no_two_pairs_of_source_and_id_meet(void **state)
{
#define FROM(source, id) \
    "{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"" source "\",\"id\":\"" id "\"}"
    reads_cloud(FROM("/a", "b c"));
    assert_bytes(event.id, "/a b c");
    refused_cloud(FROM("/a b", "c"), ERR_INVALID,
                  "source must be a URI reference, which has no spaces.");
}

static void what_a_cloud_event_must_have(void **state)
{
    refused_cloud("{\"id\":\"a\",\"source\":\"s\",\"type\":\"t\"}", ERR_INVALID,
                  "specversion must be \"1.0\".");
    refused_cloud("{\"specversion\":\"0.3\",\"id\":\"a\",\"source\":\"s\",\"type\":\"t\"}",
                  ERR_INVALID, "specversion must be \"1.0\".");
    refused_cloud("{\"specversion\":1.0,\"id\":\"a\",\"source\":\"s\",\"type\":\"t\"}", ERR_INVALID,
                  "specversion must be \"1.0\".");
    refused_cloud("{\"specversion\":\"1.0\",\"source\":\"s\",\"type\":\"t\"}", ERR_EVENT_ID,
                  "id is required.");
    refused_cloud(FROM("s", ""), ERR_EVENT_ID, "id must not be empty.");
    refused_cloud("{\"specversion\":\"1.0\",\"id\":5,\"source\":\"s\",\"type\":\"t\"}", ERR_INVALID,
                  "id must be a string.");
    refused_cloud("{\"specversion\":\"1.0\",\"id\":\"a\",\"type\":\"t\"}", ERR_INVALID,
                  "source is required: a URI reference.");
    refused_cloud(FROM("", "a"), ERR_INVALID, "source is required: a URI reference.");
    refused_cloud("{\"specversion\":\"1.0\",\"id\":\"a\",\"source\":\"s\"}", ERR_INVALID,
                  "type is required.");
    refused_cloud("{" CLOUD ",\"time\":\"noon\"}", ERR_INVALID,
                  "time must be an ISO 8601 time or an epoch number, in the years 0001 to 9999.");
    refused_cloud("{" CLOUD ",\"data_base64\":\"AAAA\"}", ERR_INVALID,
                  "data_base64 is not understood: send JSON as data.");
    reads_cloud("{" CLOUD ",\"data_base64\":null}");
}

static void source_and_id_have_254_bytes_together(void **state)
{
    char text[600];
    snprintf(text, sizeof text, FROM("%0*d", "%0*d"), 127, 1, 127, 1);
    reads_cloud(text);
    assert_int_equal(event.id.size, 255);
    snprintf(text, sizeof text, FROM("%0*d", "%0*d"), 127, 1, 128, 1);
    refused_cloud(text, ERR_EVENT_ID, "source and id must have at most 254 bytes together.");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(S1_03_the_event_of_the_contract_is_read),
        TEST(A_27e_null_fields_are_absent),
        TEST(an_unknown_field_of_a_plain_event_is_refused_by_name),
        TEST(nothing_read_points_into_the_parser),
        TEST(S1_18_an_event_needs_an_id),
        TEST(S1_26_an_id_is_any_text),
        TEST(ids_are_made_only_where_that_is_configured),
        TEST(a_type_is_required_text),
        TEST(a_time_is_read_as_everywhere),
        TEST(A_11_dimensions_are_compared_by_their_string_form),
        TEST(the_last_of_a_repeated_dimension_stands),
        TEST(dimensions_are_a_flat_map),
        TEST(there_are_at_most_64_dimensions),
        TEST(an_event_has_at_most_16_KiB_white_space_aside),
        TEST(dimensions_may_be_too_large_by_themselves),
        TEST(white_space_makes_no_conflict_but_a_value_does),
        TEST(only_objects_are_events),
        TEST(a_cloud_event_is_an_event),
        TEST(extension_attributes_are_dimensions),
        TEST(dimensions_in_the_data_stand_before_attributes),
        TEST(no_two_pairs_of_source_and_id_meet),
        TEST(what_a_cloud_event_must_have),
        TEST(source_and_id_have_254_bytes_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
