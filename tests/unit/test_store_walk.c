/* test_store_walk.c -- what an export takes of a store: every cell and every id, each once, on every
 * store there is. */
#include "support/store_expect.h"

#include "store/walk.h"

/* ---- cells ---- */

struct shown {
    struct buf text;
    const char *unwanted; /* a counter */
    unsigned left;
};

static bool show_counter(void *context, struct bytes key)
{
    struct shown *shown = context;
    found[0] = 0;
    found_name(key);
    if (shown->unwanted && strcmp(found, shown->unwanted) == 0) return false;
    buf_addf(&shown->text, "%s ", found);
    return true;
}

static bool show_cell(void *context, int32_t duration, int64_t bucket, const struct cell *cell)
{
    struct shown *shown = context;
    buf_addf(&shown->text, "%d@%lld:%lld ", duration, (long long)bucket,
             (long long)cell_triple(cell).net);
    return --shown->left > 0;
}

static void expect_walk(struct heart *heart, const char *unwanted, unsigned most,
                        const char *expected)
{
    struct shown shown = {.unwanted = unwanted, .left = most};
    const struct walk_visitor visitor = {show_counter, show_cell, &shown};
    buf_init(&shown.text, 1u << 20);
    assert_int_equal(walk_cells(&heart->store->view, &visitor), ERR_OK);
    buf_add_char(&shown.text, '\0');
    assert_string_equal(shown.text.data, expected);
    buf_release(&shown.text);
}

static void a_walk_shows_every_cell_once_in_the_order_of_keys(void **state)
{
    struct heart *heart = *state;
    static const char *const names[] = {"d", "a", "c", "e", "b", "gone"};
    uint64_t cells;
    expect_walk(heart, NULL, EVERY, "");
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        done_ok(heart, increment(heart, names[i], 1 + i));
        if (i == 2) heart_checkpoint(heart); /* some in the state, some in memory */
    }
    done_ok(heart, increment_at(heart, "c", 60, 120, 7));
    done_ok(heart, increment_at(heart, "c", 60, -60, 8));
    done_ok(heart, ask(&heart->asks, OP_DELETE, "gone", 0));
    submit(heart, increment(heart, "later", 9)); /* not durable yet */
    const char *all = "a 0@0:2 b 0@0:5 c 0@0:3 60@-60:8 60@120:7 d 0@0:1 e 0@0:4 ";
    expect_walk(heart, NULL, EVERY, all);
    heart_run(heart);
    done_ok(heart, ask(&heart->asks, OP_DELETE, "later", 0));
    heart_crash(heart, 1);
    expect_walk(heart, NULL, EVERY, all);
    heart_checkpoint(heart);
    expect_walk(heart, NULL, EVERY, all);
    expect_walk(heart, "c", EVERY, "a 0@0:2 b 0@0:5 d 0@0:1 e 0@0:4 ");
    expect_walk(heart, NULL, 3, "a 0@0:2 b 0@0:5 c 0@0:3 ");
    assert_int_equal(walk_count(&heart->store->view, &cells), ERR_OK);
    assert_int_equal(cells, 7);
}

/* ---- ids ---- */

struct known {
    struct fingerprint print;
    uint64_t digest;
    size_t outcome_size;
    unsigned met;
};

struct knowns {
    struct known *items;
    unsigned count;
    unsigned left;
    bool stray; /* one that is not among them */
};

static bool meet(void *context, struct fingerprint print, const struct key_record *record)
{
    struct knowns *knowns = context;
    struct known *known = knowns->items;
    while (known < knowns->items + knowns->count && !fingerprint_equal(known->print, print))
        known++;
    if (known == knowns->items + knowns->count) {
        knowns->stray = true;
    } else {
        known->met++;
        known->digest = record->digest;
        known->outcome_size = record->outcome.size;
        assert_true(record->exists && !record->event);
    }
    return --knowns->left > 0;
}

/* Keys 0 to `count`, and of which request each of them is. Those from `expired` on may be gone. */
static void expect_ids(struct heart *heart, struct known *items, unsigned count,
                       const uint64_t *digests, unsigned expired)
{
    struct knowns knowns = {items, count, EVERY, false};
    for (unsigned i = 0; i < count; i++)
        items[i].met = 0;
    assert_int_equal(view_ids(&heart->store->view, meet, &knowns), ERR_OK);
    assert_false(knowns.stray);
    for (unsigned i = 0; i < count; i++) {
        if (i >= expired && items[i].met == 0) continue;
        assert_int_equal(items[i].met, 1);
        assert_int_equal(items[i].digest, digests[i]);
        assert_true(items[i].outcome_size > 0);
    }
}

static void every_key_is_shown_once_with_its_newest_outcome(void **state)
{
    struct heart *heart = *state;
    enum { COUNT = 40 };
    struct known known[COUNT + 1] = {0};
    uint64_t digests[COUNT + 1];
    for (unsigned i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%u", i);
        digests[i] = 100 + i;
        struct op op = ask_keyed(&heart->asks, increment(heart, "n", 1), name, digests[i]);
        known[i].print = op.key;
        done_ok(heart, op);
        if (i == COUNT / 2) heart_checkpoint(heart); /* some stored, some in memory */
    }
    struct op late = ask_keyed(&heart->asks, increment(heart, "n", 1), "late", 1);
    submit(heart, late);
    expect_ids(heart, known, COUNT, digests, COUNT); /* it is not durable yet */
    heart_run(heart);
    known[COUNT].print = late.key;
    digests[COUNT] = 1;
    expect_ids(heart, known, COUNT + 1, digests, COUNT + 1);
    heart_crash(heart, 2);
    expect_ids(heart, known, COUNT + 1, digests, COUNT + 1);

    /* Long after, a key may be used anew. */
    heart_wait_ms(heart, 40 * INT64_C(86400000));
    digests[0] = 7;
    done_ok(heart, ask_keyed(&heart->asks, increment(heart, "n", 1), "k0", 7));
    expect_ids(heart, known, COUNT + 1, digests, 1);
    heart_checkpoint(heart);
    expect_ids(heart, known, COUNT + 1, digests, 1);

    struct knowns few = {known, COUNT + 1, 1, false};
    assert_int_equal(view_ids(&heart->store->view, meet, &few), ERR_OK);
    assert_int_equal(few.left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_walk_shows_every_cell_once_in_the_order_of_keys),
        LAW(every_key_is_shown_once_with_its_newest_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
