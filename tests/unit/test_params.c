/* test_params.c -- paths, queries, fields and cursors, as any client might send them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/params.h"
#include "core/op.h"

static struct arena arena;
static struct json_parser *parser;
static struct reason why;

static void assert_bytes(struct bytes got, const char *want)
{
    struct bytes expected = bytes_str(want);
    if (!bytes_equal(got, expected)) fail_msg("got %.*s, not %s", (int)got.size, got.data, want);
}

static struct json_value json(const char *text)
{
    size_t size = strlen(text);
    char *copy = arena_zalloc(&arena, size + JSON_PADDING);
    struct json_value root;
    memcpy(copy, text, size);
    if (!json_parse(parser, bytes_of(copy, size), &root)) fail_msg("not JSON: %s", text);
    return root;
}

static enum err read_object(const struct json_value *object, const struct field *fields,
                            unsigned count, struct field_value *values)
{
    struct bytes names[FIELDS_MAX];
    struct json_value picked[FIELDS_MAX];
    for (unsigned i = 0; i < count; i++)
        names[i] = fields[i].name;
    json_pick(object, names, count, picked);
    return fields_from_picked(picked, fields, count, values, &why);
}

static struct params query(const char *text)
{
    struct params params;
    if (params_parse(bytes_str(text), &arena, &params, &why) != ERR_OK)
        fail_msg("%s: %s", text, why.text);
    return params;
}

/* -- Fields ------------------------------------------------------------------------------------ */

enum { DURATION, TIMESTAMP, AMOUNT, EXPIRES, CHANGE_FIELDS };

static const struct field change_fields[] = {
    [DURATION] = {BYTES("durationSeconds"), FIELD_I64, .required = true, .max = INT32_MAX},
    [TIMESTAMP] = {BYTES("timestamp"), FIELD_TIME, .required = true},
    [AMOUNT] = {BYTES("amount"), FIELD_I64, .min = 1, .max = INT64_MAX, .fallback = 1},
    [EXPIRES] = {BYTES("expiresAt"), FIELD_TIME, .fallback = TIME_NONE},
};

#define AMOUNT_WRONG "amount must be an integer from 1 to 9223372036854775807."
#define DURATION_WRONG "durationSeconds must be an integer from 0 to 2147483647."
#define TIMESTAMP_WRONG \
    "timestamp must be an ISO 8601 time or an epoch number, in the years 0001 to 9999."
#define TIMESTAMP_FRACTION                                                                     \
    "timestamp must be a whole epoch number, without fraction or exponent: send milliseconds " \
    "(1739548800500) or ISO 8601."

static void S3_28_the_seed_s_body_is_read(void **state)
{
    struct json_value object =
        json("{\"durationSeconds\":3600,\"timestamp\":\"2024-03-15T10:30:00Z\","
             "\"amount\":5,\"expiresAt\":\"2024-04-15T10:30:00Z\"}");
    struct field_value v[CHANGE_FIELDS];
    assert_int_equal(read_object(&object, change_fields, CHANGE_FIELDS, v), ERR_OK);
    assert_int_equal(v[DURATION].integer, 3600);
    assert_int_equal(v[TIMESTAMP].integer, 1710498600000);
    assert_int_equal(v[AMOUNT].integer, 5);
    assert_int_equal(v[EXPIRES].integer, 1713177000000);
    assert_true(v[AMOUNT].present && v[EXPIRES].present);
}

/* S3-29, A-27e */
static void absent_and_null_fields_take_their_fallback(void **state)
{
    static const char *const texts[] = {
        "{\"durationSeconds\":0,\"timestamp\":0}",
        "{\"durationSeconds\":0,\"timestamp\":0,\"amount\":null,\"expiresAt\":null,\"x\":[1]}",
        "{\"durationSeconds\":0,\"timestamp\":0,\"amount\":7,\"amount\":null}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value object = json(texts[i]);
        struct field_value v[CHANGE_FIELDS];
        assert_int_equal(read_object(&object, change_fields, CHANGE_FIELDS, v), ERR_OK);
        assert_int_equal(v[AMOUNT].integer, 1);
        assert_false(v[AMOUNT].present);
        assert_true(v[EXPIRES].integer == TIME_NONE);
    }
}

static void S3_26_S3_30_S3_32_S3_33_wrong_fields_say_which_and_why(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {
        {"{}", "durationSeconds is required."},
        {"{\"durationSeconds\":null,\"timestamp\":1}", "durationSeconds is required."},
        {"{\"durationSeconds\":60}", "timestamp is required."},
        {"{\"durationSeconds\":-1,\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":2147483648,\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":60.0,\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":\"\",\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":true,\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":[60],\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":{},\"timestamp\":1}", DURATION_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":\"soon\"}", TIMESTAMP_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1739548800.5}", TIMESTAMP_FRACTION},
        {"{\"durationSeconds\":1,\"timestamp\":1.7e12}", TIMESTAMP_FRACTION},
        {"{\"durationSeconds\":1,\"timestamp\":\"-1739548800.5\"}", TIMESTAMP_FRACTION},
        {"{\"durationSeconds\":1,\"timestamp\":\"17e8\"}", TIMESTAMP_FRACTION},
        {"{\"durationSeconds\":1,\"timestamp\":\"-.5\"}", TIMESTAMP_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":false}", TIMESTAMP_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":9223372036854775807}", TIMESTAMP_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":0}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":-5}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":1.5}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":1e3}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":9223372036854775808}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":\"9223372036854775808\"}",
         AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":\"+5\"}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":\" 5\"}", AMOUNT_WRONG},
        {"{\"durationSeconds\":1,\"timestamp\":1,\"amount\":\"five\"}", AMOUNT_WRONG},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_value object = json(cases[i].text);
        struct field_value v[CHANGE_FIELDS];
        enum err e = read_object(&object, change_fields, CHANGE_FIELDS, v);
        if (e != ERR_INVALID) fail_msg("accepted %s", cases[i].text);
        assert_string_equal(why.text, cases[i].sentence);
    }
}

/* strings and numbers mean the same, in bodies and queries. */
static void A_18_A_19_strings_and_numbers_mean_the_same(void **state)
{
    static const char *const bodies[] = {
        "{\"durationSeconds\":60,\"timestamp\":1710498600,\"amount\":9223372036854775807}",
        "{\"durationSeconds\":\"60\",\"timestamp\":\"1710498600\",\"amount\":\"9223372036854775807\"}",
        "{\"durationSeconds\":60,\"timestamp\":1710498600000,\"amount\":\"9223372036854775807\"}",
    };
    struct field_value v[CHANGE_FIELDS];
    for (size_t i = 0; i <= ARRAY_COUNT(bodies); i++) {
        enum err e;
        if (i < ARRAY_COUNT(bodies)) {
            struct json_value object = json(bodies[i]);
            e = read_object(&object, change_fields, CHANGE_FIELDS, v);
        } else {
            struct params params = query("amount=9223372036854775807&timestamp=1710498600"
                                         "&durationSeconds=60&unknown=x");
            e = fields_from_params(&params, change_fields, CHANGE_FIELDS, v, &why);
        }
        assert_int_equal(e, ERR_OK);
        assert_int_equal(v[DURATION].integer, 60);
        assert_int_equal(v[TIMESTAMP].integer, 1710498600000);
        assert_true(v[AMOUNT].integer == INT64_MAX);
    }
}

static void A_19_an_offset_survives_a_query_either_way(void **state)
{
    static const char *const texts[] = {
        "timestamp=2024-03-15T12:30:00%2B02:00", "timestamp=2024-03-15T12%3A30%3A00%2b02%3a00",
        "timestamp=2024-03-15T12:30:00+02:00", "timestamp=2024-03-15+10:30"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct params params = query(texts[i]);
        struct field_value v;
        enum err e = fields_from_params(&params, &change_fields[TIMESTAMP], 1, &v, &why);
        assert_int_equal(e, ERR_OK);
        assert_int_equal(v.integer, 1710498600000);
    }
}

static void S3_59_wrong_parameters_say_which_and_why(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {
        {"", "durationSeconds is required."},
        {"durationSeconds=60", "timestamp is required."},
        {"durationSeconds=&timestamp=1", DURATION_WRONG}, /* empty is not absent */
        {"durationSeconds&timestamp=1", DURATION_WRONG},
        {"durationSeconds=60&timestamp=", TIMESTAMP_WRONG},
        {"durationSeconds=6+0&timestamp=1", DURATION_WRONG},
        {"durationSeconds=null&timestamp=1", DURATION_WRONG},
        {"durationseconds=60&timestamp=1", "durationSeconds is required."},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct params params = query(cases[i].text);
        struct field_value v[CHANGE_FIELDS];
        enum err e = fields_from_params(&params, change_fields, CHANGE_FIELDS, v, &why);
        if (e != ERR_INVALID) fail_msg("accepted %s", cases[i].text);
        assert_string_equal(why.text, cases[i].sentence);
    }
}

static const char *const op_words[] = {"increment", "decrement", "set", NULL};
static const char *const fill_words[] = {"zero", NULL};

/* Each field type over the forms a value can have; sentence NULL means it is read. */
static void each_field_type_takes_its_values_and_no_others(void **state)
{
    static const struct field choice = {BYTES("op"), FIELD_CHOICE, .choices = op_words};
    static const struct field fill = {BYTES("fill"), FIELD_CHOICE, .choices = fill_words};
    static const struct field flag = {BYTES("atomic"), FIELD_BOOL, .fallback = 0};
    static const struct field text = {BYTES("type"), FIELD_TEXT, .min = 1, .max = 4};
    static const struct field name = {BYTES("name"), FIELD_NAME, .required = true};
    static const struct field key = {BYTES("idempotencyKey"), FIELD_KEY, .required = true};
    static const char choice_wrong[] = "op must be one of increment, decrement, set.";
    static const char flag_wrong[] = "atomic must be true or false.";
    static const char text_wrong[] = "type must be text of 1 to 4 bytes.";
    static const char name_wrong[] =
        "name must be 1 to 255 of the characters A-Z a-z 0-9 _ . ~ - and :.";
    static const char key_wrong[] = "idempotencyKey must be 1 to 255 printable ASCII characters.";
    static const struct {
        const struct field *field;
        const char *json;
        const char *sentence;
        int64_t integer;
    } cases[] = {
        {&choice, "\"increment\"", NULL, 0},
        {&choice, "\"set\"", NULL, 2},
        {&choice, "\"Set\"", choice_wrong, 0},
        {&choice, "\"\"", choice_wrong, 0},
        {&choice, "0", choice_wrong, 0},
        {&fill, "\"zero\"", NULL, 0},
        {&fill, "\"one\"", "fill must be zero.", 0},
        {&flag, "true", NULL, 1},
        {&flag, "false", NULL, 0},
        {&flag, "null", NULL, 0},
        {&flag, "\"true\"", flag_wrong, 0},
        {&flag, "1", flag_wrong, 0},
        {&text, "\"abcd\"", NULL, 0},
        {&text, "\"\\u00e9\\u00e9\"", NULL, 0},
        {&text, "\"\"", text_wrong, 0},
        {&text, "\"abcde\"", text_wrong, 0},
        {&text, "5", text_wrong, 0},
        {&text, "true", text_wrong, 0},
        {&name, "\"user_logins\"", NULL, 0},
        {&name, "\"user logins\"", name_wrong, 0},
        {&name, "\"a\\u0000\"", name_wrong, 0},
        {&name, "7", name_wrong, 0},
        {&name, "null", "name is required.", 0},
        {&key, "\"a key ~!\"", NULL, 0},
        {&key, "\"\"", key_wrong, 0},
        {&key, "\"a\\tb\"", key_wrong, 0},
        {&key, "\"\\u007f\"", key_wrong, 0},
        {&key, "\"\\u00e9\"", key_wrong, 0},
        {&key, "{}", key_wrong, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_value value = json(cases[i].json);
        struct field_value out;
        why.text[0] = '\0';
        enum err e = field_from_json(&value, cases[i].field, &out, &why);
        if (e != ERR_OK) assert_non_null(cases[i].sentence);
        assert_string_equal(why.text, cases[i].sentence ? cases[i].sentence : "");
        if (e == ERR_OK) assert_int_equal(out.integer, cases[i].integer);
        if (e == ERR_OK && value.type == JSON_STRING)
            assert_true(bytes_equal(out.text, value.string));
    }
}

static void a_flag_in_a_query_is_a_word(void **state)
{
    static const struct field flag = {BYTES("atomic"), FIELD_BOOL, .fallback = 1};
    struct field_value v;
    assert_int_equal(field_from_text(BYTES("true"), &flag, &v, &why), ERR_OK);
    assert_int_equal(v.integer, 1);
    assert_int_equal(field_from_text(BYTES("false"), &flag, &v, &why), ERR_OK);
    assert_int_equal(v.integer, 0);
    assert_int_equal(field_from_text(BYTES_NONE, &flag, &v, &why), ERR_OK);
    assert_int_equal(v.integer, 1);
    assert_int_equal(field_from_text(BYTES("1"), &flag, &v, &why), ERR_INVALID);
    assert_int_equal(field_from_text(BYTES(""), &flag, &v, &why), ERR_INVALID);
}

static void a_page_limit_is_1_to_10000_and_100_if_not_given(void **state)
{
    static const struct field limit[] = {{FIELD_PAGE_LIMIT}};
    static const struct {
        const char *text;
        int64_t limit;
    } cases[] = {{"", 100},        {"limit=1", 1},  {"limit=10000", 10000}, {"limit=10001", 0},
                 {"limit=0", 0},   {"limit=-1", 0}, {"limit=", 0},          {"limit=1.0", 0},
                 {"limit=007", 7}, {"limit", 0}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct params params = query(cases[i].text);
        struct field_value v;
        enum err e = fields_from_params(&params, limit, 1, &v, &why);
        assert_int_equal(e, cases[i].limit ? ERR_OK : ERR_INVALID);
        if (e == ERR_OK) assert_int_equal(v.integer, cases[i].limit);
        if (e != ERR_OK) assert_string_equal(why.text, "limit must be an integer from 1 to 10000.");
    }
}

static void the_longest_sentence_is_cut_not_overrun(void **state)
{
    const char *words[sizeof why.text / 10];
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        words[i] = i + 1 < ARRAY_COUNT(words) ? "aaaaaaaaaa" : NULL;
    const struct field field = {BYTES("f"), FIELD_CHOICE, .choices = words};
    struct field_value v;
    assert_int_equal(field_from_text(BYTES("x"), &field, &v, &why), ERR_INVALID);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
}

static void a_key_has_1_to_255_characters(void **state)
{
    char text[300];
    memset(text, 'k', sizeof text);
    for (size_t size = 0; size < sizeof text; size++)
        assert_int_equal(key_valid(bytes_of(text, size)), size >= 1 && size <= 255);
}

/* -- Queries ----------------------------------------------------------------------------------- */

static void a_query_is_taken_apart_and_decoded(void **state)
{
    struct params params = query("a=1&b=x%20y+z&c&d=&%64im.k=v%3D%26&e=p=q&&&f=%00");
    assert_int_equal(params.count, 7);
    assert_bytes(params_get(&params, BYTES("a")), "1");
    assert_bytes(params_get(&params, BYTES("b")), "x y z");
    assert_bytes(params_get(&params, BYTES("c")), "");
    assert_non_null(params_get(&params, BYTES("c")).data);
    assert_non_null(params_get(&params, BYTES("d")).data);
    assert_bytes(params_get(&params, BYTES("dim.k")), "v=&");
    assert_bytes(params_get(&params, BYTES("e")), "p=q");
    assert_true(bytes_equal(params_get(&params, BYTES("f")), BYTES("\0")));
    assert_null(params_get(&params, BYTES("g")).data);
    assert_null(params_get(&params, BYTES("A")).data);
}

static void of_a_repeated_parameter_the_last_wins_and_it_is_listed_once(void **state)
{
    struct params params = query("a=1&b=2&%61=3&a=4");
    assert_int_equal(params.count, 2);
    assert_bytes(params_get(&params, BYTES("a")), "4");
    assert_bytes(params.items[0].name, "a");
    assert_bytes(params.items[1].name, "b");
}

static void a_decoded_query_needs_nothing_of_the_one_sent(void **state)
{
    char text[] = "a=1%32&b=plain";
    struct params params;
    assert_int_equal(params_parse(bytes_str(text), &arena, &params, &why), ERR_OK);
    memset(text, '!', sizeof text - 1);
    assert_bytes(params_get(&params, BYTES("a")), "12");
    assert_bytes(params_get(&params, BYTES("b")), "plain");
}

static void a_malformed_percent_anywhere_refuses_the_query(void **state)
{
    static const char *const texts[] = {"a=%", "a=%2",     "a=%g0",  "a=%0g",  "a=1&unknown=%zz",
                                        "%=1", "a=%2&b=0", "a=%%20", "a=% 20", "a=%+1"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct params params;
        enum err e = params_parse(bytes_str(texts[i]), &arena, &params, &why);
        if (e != ERR_INVALID) fail_msg("accepted %s", texts[i]);
        assert_non_null(strstr(why.text, "hex digits"));
    }
}

static void the_number_of_parameters_is_bounded(void **state)
{
    struct params params;
    struct buf text;
    buf_init(&text, 4096);
    for (int i = 0; i < PARAMS_MAX; i++)
        buf_addf(&text, "p%d&", i);
    assert_int_equal(params_parse(buf_bytes(&text), &arena, &params, &why), ERR_OK);
    assert_int_equal(params.count, PARAMS_MAX);

    buf_add(&text, BYTES("p63=again&p0")); /* known names may go on */
    assert_int_equal(params_parse(buf_bytes(&text), &arena, &params, &why), ERR_OK);
    assert_bytes(params_get(&params, BYTES("p63")), "again");

    buf_add(&text, BYTES("&one"));
    assert_int_equal(params_parse(buf_bytes(&text), &arena, &params, &why), ERR_INVALID);
    assert_string_equal(why.text, "The query has too many parameters.");
    buf_release(&text);
}

static void no_query_has_no_parameters(void **state)
{
    struct params params;
    assert_int_equal(params_parse(BYTES_NONE, &arena, &params, &why), ERR_OK);
    assert_int_equal(params.count, 0);
    assert_null(params_get(&params, BYTES("a")).data);
    params = query("&&");
    assert_int_equal(params.count, 0);
}

/* -- Paths and encodings ------------------------------------------------------------------------
 */

static void percent_decoding_is_done_once(void **state)
{
    static const struct {
        const char *text;
        bool plus_is_space;
        const char *want;
    } cases[] = {
        {"plain", false, "plain"}, {"a%2Fb", false, "a/b"},
        {"a%2fb", false, "a/b"},   {"%2541", false, "%41"},
        {"a+b", false, "a+b"},     {"a+b", true, "a b"},
        {"a%2Bb", true, "a+b"},    {"%F0%9f%98%80", false, "\U0001F600"},
        {"", false, ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char out[64];
        size_t size;
        assert_true(percent_decode(bytes_str(cases[i].text), cases[i].plus_is_space, out, &size));
        assert_bytes(bytes_of(out, size), cases[i].want);
    }
    char out[8];
    size_t size;
    assert_false(percent_decode(BYTES("%"), false, out, &size));
    assert_false(percent_decode(BYTES("a%4"), false, out, &size));
    assert_false(percent_decode(BYTES("%4x"), false, out, &size));
}

/* %2F is part of its segment; nothing is tidied. */
static void A_24_a_path_is_cut_at_its_slashes_only(void **state)
{
    static const struct {
        const char *path;
        unsigned count;
        const char *segments[5];
    } cases[] = {
        {"/", 1, {""}},
        {"/a", 1, {"a"}},
        {"/api/counters/t1/n/get", 5, {"api", "counters", "t1", "n", "get"}},
        {"/api/counters/t1/a%2Fb", 4, {"api", "counters", "t1", "a%2Fb"}},
        {"//x", 2, {"", "x"}},
        {"/x/", 2, {"x", ""}},
        {"/x//y", 3, {"x", "", "y"}},
        {"/./../x", 3, {".", "..", "x"}},
        {"", 0, {0}},
        {"x", 0, {0}},
        {"*", 0, {0}},
        {"/1/2/3/4/5/6", 0, {0}}, /* one too many */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct bytes segments[5];
        unsigned count = 0;
        bool split = path_split(bytes_str(cases[i].path), segments, 5, &count);
        if (split != (cases[i].count > 0)) fail_msg("%s: %d", cases[i].path, split);
        assert_int_equal(count, cases[i].count);
        for (unsigned k = 0; k < count; k++)
            assert_bytes(segments[k], cases[i].segments[k]);
    }
}

static struct bytes encode(struct buf *buf, struct bytes raw)
{
    buf_init(buf, 4096);
    cursor_encode(buf, raw);
    return buf_bytes(buf);
}

static void cursors_of_every_length_come_back(void **state)
{
    char raw[80];
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (char)(i * 37 + 251);
    for (size_t size = 1; size <= sizeof raw; size++) {
        struct buf buf;
        struct bytes back, text = encode(&buf, bytes_of(raw, size));
        assert_int_equal(text.size, (size * 4 + 2) / 3);
        assert_true(cursor_decode(text, &arena, &back));
        assert_true(bytes_equal(back, bytes_of(raw, size)));
        buf_release(&buf);
    }
}

/* RFC 4648, section 10, without padding, and the two digits that differ from base64. */
static void cursors_are_base64url(void **state)
{
    static const char *const pairs[][2] = {
        {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},    {"foob", "Zm9vYg"},
        {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xff\xef", "_-8"}};
    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        struct buf buf;
        assert_bytes(encode(&buf, bytes_str(pairs[i][0])), pairs[i][1]);
        buf_release(&buf);
    }
}

static void a_cursor_with_a_second_spelling_is_refused(void **state)
{
    static const char *const texts[] = {"A",     "Zg=",   "Zg==",     "Zh",  "Zm9",
                                        "Zm9v ", " Zm9v", "Zm9vY",    "_+8", "_/8",
                                        "Zm\n8", "Zm9v=", "Z\xc3\xa9"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct bytes raw;
        if (cursor_decode(bytes_str(texts[i]), &arena, &raw)) fail_msg("accepted %s", texts[i]);
    }
}

static void after_is_a_cursor_or_nothing(void **state)
{
    struct bytes raw;
    struct params params = query("after=Zm9v");
    assert_int_equal(params_cursor(&params, &arena, &raw, &why), ERR_OK);
    assert_bytes(raw, "foo");

    params = query("after=&limit=1"); /* what a client's first page may look like */
    assert_int_equal(params_cursor(&params, &arena, &raw, &why), ERR_OK);
    assert_null(raw.data);

    params = query("after=not+one");
    assert_int_equal(params_cursor(&params, &arena, &raw, &why), ERR_INVALID);
    assert_string_equal(why.text, "after must be the next of an earlier reply.");
}

static int setup(void **state)
{
    arena_init(&arena, 4096);
    parser = json_parser_new(65536);
    return 0;
}

static int teardown(void **state)
{
    arena_release(&arena);
    json_parser_free(parser);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S3_28_the_seed_s_body_is_read),
        cmocka_unit_test(absent_and_null_fields_take_their_fallback),
        cmocka_unit_test(S3_26_S3_30_S3_32_S3_33_wrong_fields_say_which_and_why),
        cmocka_unit_test(A_18_A_19_strings_and_numbers_mean_the_same),
        cmocka_unit_test(A_19_an_offset_survives_a_query_either_way),
        cmocka_unit_test(S3_59_wrong_parameters_say_which_and_why),
        cmocka_unit_test(each_field_type_takes_its_values_and_no_others),
        cmocka_unit_test(a_flag_in_a_query_is_a_word),
        cmocka_unit_test(a_page_limit_is_1_to_10000_and_100_if_not_given),
        cmocka_unit_test(the_longest_sentence_is_cut_not_overrun),
        cmocka_unit_test(a_key_has_1_to_255_characters),
        cmocka_unit_test(a_query_is_taken_apart_and_decoded),
        cmocka_unit_test(of_a_repeated_parameter_the_last_wins_and_it_is_listed_once),
        cmocka_unit_test(a_decoded_query_needs_nothing_of_the_one_sent),
        cmocka_unit_test(a_malformed_percent_anywhere_refuses_the_query),
        cmocka_unit_test(the_number_of_parameters_is_bounded),
        cmocka_unit_test(no_query_has_no_parameters),
        cmocka_unit_test(percent_decoding_is_done_once),
        cmocka_unit_test(A_24_a_path_is_cut_at_its_slashes_only),
        cmocka_unit_test(cursors_of_every_length_come_back),
        cmocka_unit_test(cursors_are_base64url),
        cmocka_unit_test(a_cursor_with_a_second_spelling_is_refused),
        cmocka_unit_test(after_is_a_cursor_or_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
