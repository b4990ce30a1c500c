/* test_object.c -- keys and values of the objects beside the counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/object.h"

static struct arena arena;

static void assert_bytes(struct bytes got, struct bytes want)
{
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
}

static void a_key_is_kind_and_name(void **state)
{
    assert_bytes(object_key(&arena, OBJECT_USAGE, BYTES("t1")), BYTES("ut1"));
    assert_bytes(object_key(&arena, OBJECT_META, BYTES("generation")), BYTES("mgeneration"));
    assert_bytes(object_key(&arena, OBJECT_JOB, BYTES_NONE), BYTES("j"));
}

static void a_state_s_key_holds_tenant_counter_generation_and_entity(void **state)
{
    assert_bytes(object_state_key(&arena, BYTES("t1"), BYTES("n"), 258, BYTES("{\"e\":\"1\"}")),
                 BYTES("st1\0n\0\0\0\1\2{\"e\":\"1\"}"));
}

static void states_of_two_tenants_or_counters_never_meet(void **state)
{
    struct bytes json = BYTES("{}");
    struct bytes key = object_state_key(&arena, BYTES("a"), BYTES("bc"), 1, json);
    assert_false(bytes_equal(key, object_state_key(&arena, BYTES("ab"), BYTES("c"), 1, json)));
    assert_false(bytes_equal(key, object_state_key(&arena, BYTES("a"), BYTES("bc"), 2, json)));
}

static void a_usage_row_comes_back_and_is_never_an_absent_object(void **state)
{
    static const struct usage_row rows[] = {
        {BYTES("active"), 1739548800000}, {{NULL, 0}, 0}, {BYTES("x"), INT64_MIN}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct usage_row back;
        struct bytes value = usage_row_encode(&arena, &rows[i]);
        assert_true(value.size > 0);
        assert_true(usage_row_decode(value, &back));
        assert_bytes(back.status, rows[i].status);
        assert_true(back.updated_ms == rows[i].updated_ms);
    }
}

static void a_number_comes_back(void **state)
{
    static const uint64_t numbers[] = {0, 1, 1u << 31, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        uint64_t back;
        assert_true(object_number_decode(object_number(&arena, numbers[i]), &back));
        assert_true(back == numbers[i]);
    }
}

static void values_of_another_size_are_refused(void **state)
{
    struct usage_row row;
    uint64_t number;
    assert_false(usage_row_decode(BYTES_NONE, &row));
    assert_false(usage_row_decode(BYTES("1234567"), &row));
    assert_false(object_number_decode(BYTES_NONE, &number));
    assert_false(object_number_decode(BYTES("1234567"), &number));
    assert_false(object_number_decode(BYTES("123456789"), &number));
}

static int setup(void **state)
{
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_kind_and_name),
        cmocka_unit_test(a_state_s_key_holds_tenant_counter_generation_and_entity),
        cmocka_unit_test(states_of_two_tenants_or_counters_never_meet),
        cmocka_unit_test(a_usage_row_comes_back_and_is_never_an_absent_object),
        cmocka_unit_test(a_number_comes_back),
        cmocka_unit_test(values_of_another_size_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
