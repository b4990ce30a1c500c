/* test_cursors.c -- where SCANs are, and how long that is known (SPEC 14). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/resp/cursors.h"

#define MINUTES (INT64_C(60) * 1000000000)

static struct cursors *cursors;
static struct arena arena;

static int setup(void **state)
{
    cursors = cursors_new();
    arena_init(&arena, 512);
    return 0;
}

static int teardown(void **state)
{
    arena_release(&arena);
    cursors_free(cursors);
    return 0;
}

static bool is_known(const char *tenant, uint64_t number, int64_t now_ns, const char *name)
{
    struct bytes found;
    if (!cursors_find(cursors, bytes_str(tenant), number, now_ns, &arena, &found)) return false;
    return bytes_equal(found, bytes_str(name));
}

static void a_cursor_is_its_tenants_for_ten_minutes(void **state)
{
    uint64_t a = cursors_keep(cursors, BYTES("acme"), BYTES("name"), 0);
    uint64_t b = cursors_keep(cursors, BYTES("acmen"), BYTES("ame"), 5 * MINUTES);
    assert_true(a != 0 && b != 0 && a != b && a < UINT64_C(1) << 53);
    assert_true(is_known("acme", a, 10 * MINUTES - 1, "name"));
    assert_true(is_known("acme", a, 10 * MINUTES - 1, "name"));
    assert_false(is_known("acme", a, 10 * MINUTES, "name"));
    assert_false(is_known("acmen", a, 1, "ame"));
    assert_true(is_known("acmen", b, 10 * MINUTES, "ame"));
    assert_false(is_known("acme", b + 1, 1, "name"));
}

static void they_are_bounded_and_who_has_many_loses_their_own(void **state)
{
    uint64_t other = cursors_keep(cursors, BYTES("other"), BYTES("n"), 0);
    uint64_t first = cursors_keep(cursors, BYTES("acme"), BYTES("n"), 0);
    uint64_t last = first;
    for (unsigned i = 0; i < 20000; i++)
        last = cursors_keep(cursors, BYTES("acme"), BYTES("n"), 1);
    assert_true(is_known("other", other, 2, "n"));
    assert_true(is_known("acme", last, 2, "n"));
    assert_false(is_known("acme", first, 2, "n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cursor_is_its_tenants_for_ten_minutes, setup, teardown),
        cmocka_unit_test_setup_teardown(they_are_bounded_and_who_has_many_loses_their_own, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
