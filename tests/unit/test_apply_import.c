/* test_apply_import.c -- what an import decides: cells as an export has them, ids unless known. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/cell.h"
#include "support/decider.h"

static struct decider decider;

static int setup(void **state)
{
    (void)state;
    decider_init(&decider);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    decider_release(&decider);
    return 0;
}

static struct cell stored(const char *name)
{
    struct bytes key = ask_counter(&decider.asks, name);
    struct cell_ref ref = {key, fingerprint_of(decider.asks.secret, key), 0, 0};
    struct cell cell = {0};
    enum err e = view_get(&decider.store->view, &ref, 0, READ_ALL, &cell);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return cell;
}

static struct op import(const char *name, const struct cell *cell)
{
    struct op op = ask(&decider.asks, OP_IMPORT, name, 0);
    op.imported = cell;
    return op;
}

static const struct cell exported = {.exists = true,
                                     .added = 70,
                                     .subbed = 20,
                                     .expires_ms = TIME_NONE,
                                     .start_ms = TIME_NONE,
                                     .updated_ms = 12345};

static void SPEC_10_a_cell_becomes_what_the_export_says_its_times_too(void **state)
{
    (void)state;
    decider_do(&decider, ask(&decider.asks, OP_INCREMENT, "c", 900));
    struct op done = decider_do(&decider, import("c", &exported));
    assert_int_equal(done.err, ERR_OK);
    assert_int_equal(done.after.net, 50);
    struct cell now = stored("c");
    assert_true(cell_equal(&now, &exported));
    assert_int_equal(now.updated_ms, 12345);
    decider_do(&decider, import("new", &exported));
    now = stored("new");
    assert_true(cell_equal(&now, &exported));
}

static void SPEC_10_importing_twice_is_importing_once(void **state)
{
    (void)state;
    struct op first = decider_do(&decider, import("c", &exported));
    struct op again = decider_do(&decider, import("c", &exported));
    assert_int_equal(again.err, ERR_OK);
    assert_int_equal(again.after.net, 50);
    struct op next = decider_do(&decider, ask(&decider.asks, OP_INCREMENT, "c", 1));
    assert_int_equal(next.after.net, 51);
    assert_int_equal(next.sequence, first.sequence + 1); /* the second import was no change */
}

static void SPEC_10_an_imported_id_is_remembered_and_a_known_one_stays(void **state)
{
    (void)state;
    struct fingerprint known = ask_key(&decider.asks, "known");
    struct fingerprint later = ask_key(&decider.asks, "later");
    const struct key_record record = {
        .sequence = 999, .first_seen_ms = 77, .digest = 5, .event = true, .exists = true};
    struct op plain = ask(&decider.asks, OP_INCREMENT, "c", 1);
    struct op first = decider_do(&decider, ask_keyed(&decider.asks, plain, "known", 1));
    struct key_record found;
    struct op ids[] = {{.kind = OP_IMPORT_ID, .key = known, .imported_id = &record},
                       {.kind = OP_IMPORT_ID, .key = later, .imported_id = &record}};
    decider_do(&decider, ids[0]);
    decider_do(&decider, ids[1]);
    assert_int_equal(view_lookup(&decider.store->view, known, &found), ERR_OK);
    assert_int_equal(found.sequence, first.sequence);
    assert_int_equal(view_lookup(&decider.store->view, later, &found), ERR_OK);
    assert_int_equal(found.first_seen_ms, 77);
    assert_int_equal(found.digest, 5);
    assert_int_equal(found.sequence, first.sequence + 1); /* the import's: 999 means nothing here */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(SPEC_10_a_cell_becomes_what_the_export_says_its_times_too),
        TEST(SPEC_10_importing_twice_is_importing_once),
        TEST(SPEC_10_an_imported_id_is_remembered_and_a_known_one_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
