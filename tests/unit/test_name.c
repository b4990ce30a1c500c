/* test_name.c -- which names are names, and keys made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/name.h"

static void S3_14_names_have_1_to_255_characters(void **state)
{
    char text[300];
    memset(text, 'n', sizeof text);
    for (size_t size = 0; size < sizeof text; size++)
        assert_int_equal(name_valid(bytes_of(text, size)), size >= 1 && size <= 255);
    assert_false(name_valid(BYTES_NONE));
}

/* S3-15, A-24: each byte on its own and between good ones. */
static void A_24_only_the_unreserved_characters_are_valid(void **state)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-";
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool valid = byte != 0 && strchr(good, c) != NULL;
        assert_int_equal(name_valid(bytes_of(&c, 1)), valid);
        assert_int_equal(name_valid(bytes_of((char[]){'a', c, 'b'}, 3)), valid);
    }
}

static void SPEC_14_counter_names_may_have_colons_and_tenants_may_not(void **state)
{
    static const char *const names[] = {":", "page:home", "a::b", "user:1:hits"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_true(counter_name_valid(bytes_str(names[i])));
        assert_false(name_valid(bytes_str(names[i])));
    }
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        assert_int_equal(counter_name_valid(bytes_of(&c, 1)),
                         c == ':' || name_valid(bytes_of(&c, 1)));
    }
}

static void S3_15_to_S3_17_the_seed_s_examples(void **state)
{
    static const char *const good[] = {
        "user_logins", "api_calls_v2", "payment_success", "cache_hits", "a",
        ".",           "..",           "A.b~c-d_9"};
    static const char *const bad[] = {"user logins", "api/calls", "\U0001F600", "caf\u00e9",
                                      "a%20b"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        assert_true(name_valid(bytes_str(good[i])));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(name_valid(bytes_str(bad[i])));
}

static void assert_bytes(struct bytes got, struct bytes want)
{
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
}

static void a_key_is_tenant_kind_and_name(void **state)
{
    char out[COUNTER_KEY_SIZE_MAX];
    assert_bytes(counter_key(out, BYTES("t1"), BYTES("logins")), BYTES("t1\0dlogins\0"));
    assert_bytes(counter_key_prefix(out, BYTES("t1"), BYTES("log")), BYTES("t1\0dlog"));
    assert_bytes(counter_key_prefix(out, BYTES("t1"), BYTES_NONE), BYTES("t1\0d"));
}

static void the_longest_names_fit_a_key_and_come_back(void **state)
{
    char long_name[NAME_SIZE_MAX], out[COUNTER_KEY_SIZE_MAX], kind;
    struct bytes tenant, name, whole = bytes_of(long_name, sizeof long_name);
    memset(long_name, 'x', sizeof long_name);
    struct bytes key = counter_key(out, whole, whole);
    assert_int_equal(key.size, COUNTER_KEY_SIZE_MAX);
    assert_true(counter_key_split(key, &tenant, &kind, &name));
    assert_bytes(tenant, whole);
    assert_bytes(name, whole);
    assert_int_equal(kind, COUNTER_KIND_DIRECT);
    assert_bytes(counter_key_name(key), whole);
    assert_bytes(counter_key_name(counter_key(out, BYTES("t"), BYTES("n"))), BYTES("n"));
}

static int key_order(const char *tenant_a, const char *name_a, const char *tenant_b,
                     const char *name_b)
{
    char out_a[COUNTER_KEY_SIZE_MAX], out_b[COUNTER_KEY_SIZE_MAX];
    struct bytes a = counter_key(out_a, bytes_str(tenant_a), bytes_str(name_a));
    struct bytes b = counter_key(out_b, bytes_str(tenant_b), bytes_str(name_b));
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* S3-13: no two tenants' counters share a key, however their names are cut. */
static void keys_order_by_tenant_then_name(void **state)
{
    assert_true(key_order("a", "z", "ab", "a") < 0);
    assert_true(key_order("a", "b", "a", "ba") < 0);
    assert_true(key_order("a", "b", "a", "b-") < 0);
    assert_true(key_order("ab", "c", "a", "bc") != 0);
    assert_true(key_order("ad", "c", "a", "dc") != 0);
}

static void what_is_no_key_is_refused(void **state)
{
    static const struct bytes bad[] = {
        {NULL, 0},
        BYTES("t"),
        BYTES("t\0"),
        BYTES("t\0d"),
        BYTES("t\0d\0"),
        BYTES("t\0dname"),       /* not closed */
        BYTES("t\0dname\0x"),    /* goes on */
        BYTES("t\0dname\0\0"),   /* goes on */
        BYTES("\0dname\0"),      /* no tenant */
        BYTES("t\0\0name\0"),    /* no kind */
        BYTES("t\0Dname\0"),     /* a kind that is no lower-case letter */
        BYTES("t/u\0dname\0"),   /* not a name */
        BYTES("t\0dna me\0"),    /* not a name */
        BYTES("t\0dname\xff\0"), /* not a name */
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct bytes tenant, name;
        char kind;
        if (counter_key_split(bad[i], &tenant, &kind, &name)) fail_msg("accepted %zu", i);
    }
}

static void a_key_with_a_part_too_long_is_refused(void **state)
{
    char key[400], kind;
    struct bytes tenant, name;
    memset(key, 'x', sizeof key);
    key[256] = '\0';
    key[257] = 'd';
    key[300] = '\0';
    assert_false(counter_key_split(bytes_of(key, 301), &tenant, &kind, &name));
    assert_true(counter_key_split(bytes_of(key + 1, 300), &tenant, &kind, &name));
}

static void a_rule_counter_s_key_goes_on_with_generation_and_dimensions(void **state)
{
    struct arena arena;
    arena_init(&arena, 4096);
    struct bytes prefix = rule_key_prefix(&arena, BYTES("t1"), BYTES("logins"), 258);
    struct bytes key = rule_key(&arena, BYTES("t1"), BYTES("logins"), 258, BYTES("{\"a\":\"1\"}"));
    assert_bytes(prefix, BYTES("t1\0rlogins\0\0\0\1\2"));
    assert_bytes(key, BYTES("t1\0rlogins\0\0\0\1\2{\"a\":\"1\"}"));

    struct bytes tenant, name, dimensions;
    uint32_t generation;
    char kind;
    assert_true(rule_key_split(key, &tenant, &name, &generation, &dimensions));
    assert_bytes(tenant, BYTES("t1"));
    assert_bytes(name, BYTES("logins"));
    assert_int_equal(generation, 258);
    assert_bytes(dimensions, BYTES("{\"a\":\"1\"}"));
    assert_true(counter_key_split(key, &tenant, &kind, &name));
    assert_int_equal(kind, COUNTER_KIND_RULE);
    assert_int_equal(counter_key_name(key).size, 0);
    arena_release(&arena);
}

static void what_is_no_rule_counter_s_key_is_refused(void **state)
{
    static const struct bytes bad[] = {
        {NULL, 0},
        BYTES("t\0dname\0"),         /* a direct counter */
        BYTES("t\0dname\0\0\0\0\1"), /* and one that goes on */
        BYTES("t\0rname\0"),         /* no generation */
        BYTES("t\0rname\0\0\0\1"),   /* half a generation */
        BYTES("t\0rname"),
        BYTES("t\0r\0\0\0\0\1{}"),
        BYTES("\0rname\0\0\0\0\1{}"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct bytes tenant, name, dimensions;
        uint32_t generation;
        if (rule_key_split(bad[i], &tenant, &name, &generation, &dimensions))
            fail_msg("accepted %zu", i);
    }
}

/* A scan by prefix finds one generation of one counter and nothing else. */
static void generations_of_a_counter_order_by_number(void **state)
{
    struct arena arena;
    arena_init(&arena, 4096);
    struct bytes t = BYTES("t"), n = BYTES("n"), json = BYTES("{\"z\":\"1\"}");
    struct bytes low = rule_key(&arena, t, n, 255, json);
    struct bytes high = rule_key(&arena, t, n, 256, BYTES("{}"));
    assert_true(bytes_compare(low, high) < 0);
    assert_true(bytes_starts(low, rule_key_prefix(&arena, t, n, 255)));
    assert_false(bytes_starts(high, rule_key_prefix(&arena, t, n, 255)));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S3_14_names_have_1_to_255_characters),
        cmocka_unit_test(A_24_only_the_unreserved_characters_are_valid),
        cmocka_unit_test(SPEC_14_counter_names_may_have_colons_and_tenants_may_not),
        cmocka_unit_test(S3_15_to_S3_17_the_seed_s_examples),
        cmocka_unit_test(a_key_is_tenant_kind_and_name),
        cmocka_unit_test(the_longest_names_fit_a_key_and_come_back),
        cmocka_unit_test(keys_order_by_tenant_then_name),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(a_key_with_a_part_too_long_is_refused),
        cmocka_unit_test(a_rule_counter_s_key_goes_on_with_generation_and_dimensions),
        cmocka_unit_test(what_is_no_rule_counter_s_key_is_refused),
        cmocka_unit_test(generations_of_a_counter_order_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
