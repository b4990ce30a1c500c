/* test_event.c -- events as canonical text, as a hash, as stored bytes and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/event.h"

#define PARSER_TEXT_MAX (64u << 10)

static struct json_parser *parser;
static struct arena arena;
static struct buf out;

static void assert_bytes(struct bytes got, struct bytes want)
{
    if (!bytes_equal(got, want))
        fail_msg("got %.*s, not %.*s", (int)got.size, got.data, (int)want.size, want.data);
}

static struct dimension dimension(const char *key, const char *value)
{
    return (struct dimension){bytes_str(key), bytes_str(value)};
}

static struct bytes canonical(struct dimension *dimensions, uint32_t count)
{
    buf_reset(&out);
    dimensions_write(&out, dimensions, dimensions_sort(dimensions, count));
    assert_false(out.failed);
    return buf_bytes(&out);
}

/* S1-04: the same set in any key order gives the same form. */
static void S1_04_any_order_of_keys_gives_one_canonical_form(void **state)
{
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(orders); i++) {
        const struct dimension all[] = {dimension("a", "1"), dimension("ab", "x"),
                                        dimension("b", "")};
        struct dimension mixed[3];
        for (size_t j = 0; j < 3; j++)
            mixed[j] = all[orders[i][j]];
        assert_bytes(canonical(mixed, 3), BYTES("{\"a\":\"1\",\"ab\":\"x\",\"b\":\"\"}"));
    }
}

static void S1_04_different_sets_have_different_forms(void **state)
{
    struct dimension a[] = {dimension("a", "1\",\"b\":\"2")};
    struct dimension b[] = {dimension("a", "1"), dimension("b", "2")};
    char first[64];
    struct bytes form = canonical(a, 1);
    memcpy(first, form.data, form.size);
    assert_false(bytes_equal(bytes_of(first, form.size), canonical(b, 2)));
    assert_bytes(canonical(NULL, 0), BYTES("{}"));
}

static void of_a_repeated_key_the_last_stands(void **state)
{
    struct dimension d[] = {dimension("b", "1"), dimension("a", "1"), dimension("b", "2"),
                            dimension("a", "2"), dimension("b", "3")};
    assert_int_equal(dimensions_sort(d, 5), 2);
    assert_bytes(d[0].key, BYTES("a"));
    assert_bytes(d[0].value, BYTES("2"));
    assert_bytes(d[1].value, BYTES("3"));
}

static void keys_sort_by_their_bytes(void **state)
{
    struct dimension d[] = {dimension("\u00e9", "1"), dimension("z", "2"), dimension("Z", "3"),
                            dimension("", "4")};
    assert_bytes(canonical(d, 4), BYTES("{\"\":\"4\",\"Z\":\"3\",\"z\":\"2\",\"\u00e9\":\"1\"}"));
}

/* The bytes are in stored keys: this form never changes. */
static void escapes_are_the_ones_that_were_promised(void **state)
{
    struct dimension d[] = {
        {BYTES("q\"\\/"), BYTES("\0\b\t\n\r\x1f\x7f\xff \u20ac")},
    };
    assert_bytes(canonical(d, 1),
                 BYTES("{\"q\\\"\\\\/\":\"\\u0000\\u0008\\u0009\\u000a\\u000d\\u001f\x7f\xff "
                       "\u20ac\"}"));
}

/* Each byte at each place of the eight that are looked at together, and in what is left over. */
static void every_byte_is_escaped_or_not_wherever_it_stands(void **state)
{
    for (int byte = 0; byte < 256; byte++) {
        for (size_t place = 0; place < 19; place++) {
            char text[19], want[64];
            memset(text, byte & 1 ? '!' : '\xe9', sizeof text); /* next to '"', and not ASCII */
            text[place] = (char)byte;
            char *at = mempcpy(want, "{\"\":\"", 5);
            at = mempcpy(at, text, place);
            if (byte < 0x20)
                at += sprintf(at, "\\u%04x", (unsigned)byte);
            else if (byte == '"' || byte == '\\')
                at += sprintf(at, "\\%c", byte);
            else
                *at++ = (char)byte;
            at = mempcpy(at, text + place + 1, sizeof text - place - 1);
            at = mempcpy(at, "\"}", 2);
            struct dimension d[] = {{BYTES(""), bytes_of(text, sizeof text)}};
            assert_bytes(canonical(d, 1), bytes_of(want, (size_t)(at - want)));
        }
    }
}

static void a_form_that_does_not_fit_fails_the_buffer_and_one_that_just_fits_does_not(void **state)
{
    struct dimension d[] = {dimension("a", "\n")};
    for (size_t max = 13; max <= 15; max++) {
        struct buf small;
        buf_init(&small, max);
        dimensions_write(&small, d, 1);
        assert_int_equal(small.failed, max < sizeof "{\"a\":\"\\u000a\"}" - 1);
        buf_release(&small);
    }
}

static struct event plain(void)
{
    return (struct event){.id = BYTES("E1"),
                          .type = BYTES("t"),
                          .dimensions_json = BYTES("{\"a\":\"1\"}"),
                          .payload = BYTES("{\"x\":1}")};
}

static void the_check_tells_type_dimensions_and_payload_apart(void **state)
{
    struct event event = plain();
    uint32_t digest = event_digest(&event);
    event.id = BYTES("other");
    event.occurred_ms = 7;
    assert_int_equal(event_digest(&event), digest);

    event = plain(), event.type = BYTES("u");
    assert_int_not_equal(event_digest(&event), digest);
    event = plain(), event.dimensions_json = BYTES("{\"a\":\"2\"}");
    assert_int_not_equal(event_digest(&event), digest);
    event = plain(), event.payload = BYTES("{\"x\":2}");
    assert_int_not_equal(event_digest(&event), digest);
    event = plain(), event.payload = BYTES_NONE;
    assert_int_not_equal(event_digest(&event), digest);
}

/* Bytes that move from one part to the next make another event. */
static void the_check_sees_where_its_parts_end(void **state)
{
    struct event a = {.type = BYTES("ab"), .dimensions_json = BYTES("c"), .payload = BYTES("d")};
    struct event b = {.type = BYTES("a"), .dimensions_json = BYTES("bc"), .payload = BYTES("d")};
    struct event c = {.type = BYTES("ab"), .dimensions_json = BYTES("cd")};
    assert_int_not_equal(event_digest(&a), event_digest(&b));
    assert_int_not_equal(event_digest(&a), event_digest(&c));
}

/* It is kept with each id for ever. */
static void the_check_is_the_one_on_disk(void **state)
{
    struct event event = plain();
    assert_int_equal(event_digest(&event), 0xb44a5cc4);
}

static struct stored_event stored(void)
{
    return (struct stored_event){.tenant = BYTES("t1"),
                                 .id = BYTES("E1"),
                                 .type = BYTES("account.connected"),
                                 .occurred_ms = -1,
                                 .dimensions_json = BYTES("{\"a\":\"1\",\"b\":\"x\\\"\"}"),
                                 .payload = BYTES("{\"x\":[1,{}]}"),
                                 .arrived_ms = 77};
}

static struct bytes encoded(const struct stored_event *event)
{
    buf_reset(&out);
    stored_event_encode(&out, event);
    assert_false(out.failed);
    return buf_bytes(&out);
}

static bool decoded(struct bytes bytes, struct stored_event *event)
{
    struct reader reader = reader_of(bytes);
    stored_event_decode(&reader, event);
    return !reader.failed && reader_left(&reader) == 0;
}

static void a_stored_event_comes_back(void **state)
{
    struct stored_event before = stored(), after;
    assert_true(decoded(encoded(&before), &after));
    assert_bytes(after.id, before.id);
    assert_bytes(after.type, before.type);
    assert_bytes(after.dimensions_json, before.dimensions_json);
    assert_bytes(after.payload, before.payload);
    assert_int_equal(after.occurred_ms, -1);
    assert_false(after.duplicate);
}

static void a_duplicate_comes_back_with_what_it_repeats(void **state)
{
    struct stored_event before = stored(), after;
    before.duplicate = true;
    before.first_sequence = UINT64_MAX;
    before.first_seen_ms = INT64_MIN;
    before.payload = BYTES_NONE;
    assert_true(decoded(encoded(&before), &after));
    assert_true(after.duplicate);
    assert_true(after.first_sequence == UINT64_MAX);
    assert_true(after.first_seen_ms == INT64_MIN);
    assert_int_equal(after.payload.size, 0);
}

static void a_stored_event_cut_short_anywhere_is_refused(void **state)
{
    struct stored_event event = stored(), after;
    event.duplicate = true;
    event.first_sequence = 300;
    struct bytes whole = encoded(&event);
    for (size_t size = 0; size < whole.size; size++)
        assert_false(decoded(bytes_of(whole.data, size), &after));
}

static void add_parts(size_t id, size_t type, size_t dimensions, size_t payload)
{
    static char filler[EVENT_SIZE_MAX + 1];
    buf_add_sized(&out, bytes_of(filler, id));
    buf_add_sized(&out, bytes_of(filler, type));
    buf_add_signed(&out, 0);
    buf_add_sized(&out, bytes_of(filler, dimensions));
    buf_add_sized(&out, bytes_of(filler, payload));
}

static void sizes_and_flags_that_no_encoder_writes_are_refused(void **state)
{
    static const struct {
        bool good;
        char flags;
        size_t id, type, dimensions, payload;
    } cases[] = {
        {true, 0, 1, 1, 2, 0},
        {true, 0, 255, 255, 2, EVENT_SIZE_MAX - 512},
        {false, 0, 255, 255, 2, EVENT_SIZE_MAX - 511},
        {false, 0, 0, 1, 2, 0},
        {false, 0, 256, 1, 2, 0},
        {false, 0, 1, 0, 2, 0},
        {false, 0, 1, 256, 2, 0},
        {false, 0, 1, 1, 1, 0},
        {false, 2, 1, 1, 2, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct stored_event event;
        buf_reset(&out);
        buf_add_char(&out, cases[i].flags);
        add_parts(cases[i].id, cases[i].type, cases[i].dimensions, cases[i].payload);
        if (decoded(buf_bytes(&out), &event) != cases[i].good) fail_msg("case %zu", i);
    }
}

static void a_stored_event_can_be_projected_again(void **state)
{
    struct stored_event from = stored();
    struct event event;
    struct json_value payload, x;
    assert_true(event_of_stored(&from, parser, &arena, &event, &payload));
    assert_bytes(event.id, BYTES("E1"));
    assert_int_equal(event.dimensions_count, 2);
    assert_bytes(event.dimensions[0].value, BYTES("1"));
    assert_bytes(event.dimensions[1].key, BYTES("b"));
    assert_bytes(event.dimensions[1].value, BYTES("x\""));
    assert_int_equal(event.arrived_ms, 77);
    json_pick(&payload, (struct bytes[]){BYTES("x")}, 1, &x);
    assert_int_equal(x.type, JSON_ARRAY);

    struct event same = {
        .type = from.type, .dimensions_json = from.dimensions_json, .payload = from.payload};
    assert_int_equal(event.digest, event_digest(&same));
}

static void an_event_without_payload_or_dimensions_can_be_projected_again(void **state)
{
    struct stored_event from = stored();
    struct event event;
    struct json_value payload;
    from.dimensions_json = BYTES("{}");
    from.payload = BYTES_NONE;
    assert_true(event_of_stored(&from, parser, &arena, &event, &payload));
    assert_int_equal(event.dimensions_count, 0);
    assert_int_equal(payload.type, JSON_ABSENT);
}

static void what_is_no_JSON_any_more_is_noticed(void **state)
{
    static const char *const bad[] = {"{", "[]", "{\"a\":1}", "{\"a\":null}", "{\"a\":\"\x80\"}"};
    struct event event;
    struct json_value payload;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct stored_event from = stored();
        from.dimensions_json = bytes_str(bad[i]);
        if (event_of_stored(&from, parser, &arena, &event, &payload)) fail_msg("%s", bad[i]);
    }
    struct stored_event from = stored();
    from.payload = BYTES("{\"x\":");
    assert_false(event_of_stored(&from, parser, &arena, &event, &payload));
}

static int setup(void **state)
{
    parser = json_parser_new(PARSER_TEXT_MAX);
    arena_init(&arena, 4096);
    buf_init(&out, 1u << 20);
    return 0;
}

static int teardown(void **state)
{
    json_parser_free(parser);
    arena_release(&arena);
    buf_release(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_04_any_order_of_keys_gives_one_canonical_form),
        cmocka_unit_test(S1_04_different_sets_have_different_forms),
        cmocka_unit_test(of_a_repeated_key_the_last_stands),
        cmocka_unit_test(keys_sort_by_their_bytes),
        cmocka_unit_test(escapes_are_the_ones_that_were_promised),
        cmocka_unit_test(every_byte_is_escaped_or_not_wherever_it_stands),
        cmocka_unit_test(a_form_that_does_not_fit_fails_the_buffer_and_one_that_just_fits_does_not),
        cmocka_unit_test(the_check_tells_type_dimensions_and_payload_apart),
        cmocka_unit_test(the_check_sees_where_its_parts_end),
        cmocka_unit_test(the_check_is_the_one_on_disk),
        cmocka_unit_test(a_stored_event_comes_back),
        cmocka_unit_test(a_duplicate_comes_back_with_what_it_repeats),
        cmocka_unit_test(a_stored_event_cut_short_anywhere_is_refused),
        cmocka_unit_test(sizes_and_flags_that_no_encoder_writes_are_refused),
        cmocka_unit_test(a_stored_event_can_be_projected_again),
        cmocka_unit_test(an_event_without_payload_or_dimensions_can_be_projected_again),
        cmocka_unit_test(what_is_no_JSON_any_more_is_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
