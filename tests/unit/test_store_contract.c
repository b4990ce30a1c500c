/* test_store_contract.c -- the laws (1) to (4) of store.h, on every store there is. What the reads
 * find is in test_store_reads.c. */
#include "support/store_expect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- (1) load sees every earlier submit ---- */

static void load_sees_what_is_submitted_and_not_yet_durable(void **state)
{
    struct heart *heart = *state;
    submit(heart, increment(heart, "views", 5));
    submit(heart, increment(heart, "views", 6));
    struct sent *last = submit(heart, increment(heart, "views", 7));
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(last->bundle.ops[0].after.net, 18);
    assert_int_equal(heart_net(heart, "views"), 18);
    assert_int_equal(heart_tenant_cells(heart), 1);
}

static void load_sees_a_delete_that_is_not_yet_durable(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 5));
    submit(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    struct sent *refused = submit(heart, ask(&heart->asks, OP_DECREMENT, "views", 1));
    struct sent *anew = submit(heart, increment(heart, "views", 2));
    heart_run(heart);
    assert_int_equal(refused->bundle.ops[0].err, ERR_NEGATIVE);
    assert_int_equal(anew->bundle.ops[0].after.added, 2);
    assert_int_equal(heart_net(heart, "views"), 2);
}

static void load_sees_a_key_that_is_not_yet_durable(void **state)
{
    struct heart *heart = *state;
    struct op op = ask_keyed(&heart->asks, increment(heart, "views", 5), "k", 1);
    submit(heart, op);
    struct sent *again = submit(heart, op);
    heart_run(heart);
    assert_true(again->bundle.ops[0].replayed);
    assert_int_equal(heart_net(heart, "views"), 5);
}

/* A turn that ends without a submit must not take the values of batches in flight with it. */
static void an_abandoned_turn_leaves_what_others_submitted(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 1));
    submit(heart, increment(heart, "views", 10));

    struct op op = increment(heart, "views", 100);
    struct bundle bundle = {.ops = &op, .count = 1};
    struct slice slice = {&bundle, 0, 1};
    struct arena arena;
    arena_init(&arena, 4096);
    struct apply apply = {
        .arena = &arena, .slices = &slice, .slices_count = 1, .secret = &heart->store->secret};
    assert_int_equal(writer_begin(&heart->store->writer), ERR_OK);
    apply_identify(&apply);
    apply_needs(&apply);
    assert_int_equal(writer_load(&heart->store->writer, &apply.reads, &arena), ERR_OK);
    assert_int_equal(apply.reads.cells[0].value.added, 11);
    writer_abandon(&heart->store->writer, &apply.reads);
    arena_release(&arena);

    struct sent *after = submit(heart, increment(heart, "views", 1000));
    struct sent *new_cell = submit(heart, increment_at(heart, "views", 60, 0, 1));
    heart_run(heart);
    assert_int_equal(after->bundle.ops[0].after.net, 1011);
    assert_int_equal(new_cell->bundle.ops[0].err, ERR_OK);
    assert_int_equal(heart_net(heart, "views"), 1011);
    expect_whole(heart);
}

/* ---- (2) readers see what is durable, all of it and nothing else ---- */

static void readers_see_nothing_before_the_sync(void **state)
{
    struct heart *heart = *state;
    struct cell cell;
    struct op op = increment_at(heart, "views", 60, 120, 5);
    op.expires_ms = 1;
    submit(heart, op);
    assert_int_equal(heart_get(heart, "views", 60, 120, &cell), ERR_NOT_FOUND);
    assert_string_equal(range(heart, "views", 60, INT64_MIN, INT64_MAX, EVERY), "");
    assert_string_equal(list(heart, "", NULL, EVERY), "");
    assert_string_equal(due(heart, 10, EVERY), "");
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(heart_get(heart, "views", 60, 120, &cell), ERR_OK);
    assert_int_equal(cell.added, 5);
    assert_int_equal(cell.updated_ms, HEART_START_MS);
    assert_string_equal(range(heart, "views", 60, INT64_MIN, INT64_MAX, EVERY), "120:5 ");
    assert_string_equal(list(heart, "", NULL, EVERY), "views/60 ");
    assert_string_equal(due(heart, 10, EVERY), "views/60@120 ");
}

static void readers_see_the_old_value_before_the_sync(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 1));
    submit(heart, increment(heart, "views", 10));
    assert_int_equal(heart_net(heart, "views"), 1);
    submit(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    assert_int_equal(heart_net(heart, "views"), 1);
    assert_string_equal(list(heart, "", NULL, EVERY), "views/0 ");
    heart_run(heart);
    assert_int_equal(heart_net(heart, "views"), -1);
}

static struct heart *looking; /* done callbacks have no other way to find it */
static int64_t seen_net;

static void look(struct bundle *bundle)
{
    seen_net = heart_net(looking, "views");
    ((struct sent *)bundle->owner)->answered++;
}

static void a_batch_is_visible_when_its_durable_runs(void **state)
{
    looking = *state;
    struct op op = increment(looking, "views", 5);
    struct sent *sent = heart_send(looking, (struct bundle){0}, &op, 1);
    sent->bundle.done = look;
    seen_net = 0;
    heart_run(looking);
    assert_int_equal(seen_net, 5);
}

static void what_durable_reported_survives_a_crash(void **state)
{
    struct heart *heart = *state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        done_ok(heart, increment(heart, "views", 1));
        done_ok(heart, increment_at(heart, "views", 60, (int64_t)seed * 60, 1));
        heart_crash(heart, seed);
        assert_int_equal(heart_net(heart, "views"), seed);
        expect_whole(heart);
    }
    assert_string_equal(range(heart, "views", 60, 0, 1000, EVERY), "60:1 120:1 180:1 ");
}

static void after_a_crash_the_unsynced_is_there_whole_or_not_at_all(void **state)
{
    struct heart *heart = *state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        int64_t before = heart_net(heart, "views") < 0 ? 0 : heart_net(heart, "views");
        struct op ops[] = {increment(heart, "views", 1), increment(heart, "likes", 1)};
        heart_send(heart, (struct bundle){0}, ops, 2);
        commit_turn(heart->commit);
        heart_crash(heart, seed);
        int64_t after = heart_net(heart, "views") < 0 ? 0 : heart_net(heart, "views");
        int64_t other = heart_net(heart, "likes") < 0 ? 0 : heart_net(heart, "likes");
        assert_true(after == before || after == before + 1);
        assert_int_equal(other, after);
        expect_whole(heart);
    }
}

static void keys_survive_a_crash(void **state)
{
    struct heart *heart = *state;
    struct op op = ask_keyed(&heart->asks, increment(heart, "views", 5), "k", 1);
    struct op first = done_ok(heart, op);
    heart_crash(heart, 1);
    struct op again = done_ok(heart, op);
    assert_true(again.replayed);
    assert_int_equal(again.sequence, first.sequence);
    assert_int_equal(again.after.net, 5);
    assert_int_equal(heart_net(heart, "views"), 5);
}

static void numbers_go_on_after_a_crash(void **state)
{
    struct heart *heart = *state;
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 1);
    assert_int_equal(done_ok(heart, increment(heart, "likes", 1)).sequence, 2);
    heart_crash(heart, 1);
    heart->time->wall_ms -= 5000; /* the clock stepped back meanwhile */
    assert_int_equal(done_ok(heart, increment(heart, "stars", 1)).sequence, 3);
    struct cell cell;
    assert_int_equal(heart_get(heart, "stars", 0, 0, &cell), ERR_OK);
    assert_int_equal(cell.updated_ms, HEART_START_MS); /* batch time never runs back */
    assert_int_equal(heart_net(heart, "views"), 1);    /* a series id given out twice would mix */
    assert_int_equal(heart_net(heart, "likes"), 1);
}

/* ---- (3) a failed sync ---- */

static void recover(struct heart *heart)
{
    heart_tend(heart);
    assert_true(heart_tenant_cells(heart) >= 0);
}

static unsigned answer_order[4];
static unsigned answer_count;

static void note_answer(struct bundle *bundle)
{
    assert_int_equal(bundle->err, ERR_STORAGE);
    answer_order[answer_count++] = (unsigned)bundle->ops[0].amount;
    ((struct sent *)bundle->owner)->answered++;
}

static void a_failed_sync_fails_every_submitted_batch_in_order(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 1));
    answer_count = 0;
    for (int64_t amount = 1; amount <= 3; amount++)
        submit(heart, increment(heart, "views", amount))->bundle.done = note_answer;
    break_next_sync(heart);
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(answer_count, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(answer_order[i], i + 1);
    assert_int_equal(heart_net(heart, "views"), 1);
    recover(heart);
}

static void a_failed_sync_drops_what_was_staged(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 1));
    struct op keyed = ask_keyed(&heart->asks, increment(heart, "views", 10), "k", 1);
    submit(heart, keyed);
    submit(heart, increment_at(heart, "views", 60, 0, 1));
    submit(heart, increment(heart, "likes", 1));
    submit(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    recover(heart);
    assert_int_equal(heart_tenant_cells(heart), 1);
    struct op again = done_ok(heart, keyed);
    assert_false(again.replayed);
    assert_int_equal(again.after.net, 11);
    assert_int_equal(heart_net(heart, "likes"), -1);
    assert_string_equal(list(heart, "", NULL, EVERY), "views/0 ");
    expect_whole(heart);
}

static void a_failed_sync_winds_the_numbers_back(void **state)
{
    struct heart *heart = *state;
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 1);
    submit(heart, increment(heart, "views", 1));
    submit(heart, increment(heart, "likes", 1));
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    recover(heart);
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 2);
    heart_crash(heart, 1);
    assert_int_equal(heart_net(heart, "views"), 2);
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 3);
}

static void until_it_has_recovered_load_answers_storage(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment(heart, "views", 1));
    submit(heart, increment(heart, "views", 1));
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    struct op op = heart_do(heart, increment(heart, "views", 1));
    if (op.err != ERR_OK) {
        struct store_stats stats;
        assert_int_equal(op.err, ERR_STORAGE);
        store_stats(heart->store, &stats);
        assert_false(stats.writable);
        assert_true(stats.storage_errors > 0);
        assert_int_equal(heart_net(heart, "views"), 1); /* reads go on */
        recover(heart);
        op = done_ok(heart, increment(heart, "views", 1));
    }
    assert_int_equal(op.after.net, 2);
}

/* ---- (4) one turn at a time ---- */

struct second_turn {
    struct store *store;
    atomic_bool began;
};

static void *take_second_turn(void *context)
{
    struct second_turn *second = context;
    struct read_set reads = {0};
    enum err e = writer_begin(&second->store->writer);
    must(e == ERR_OK);
    second->began = true;
    writer_abandon(&second->store->writer, &reads);
    return NULL;
}

static void a_turn_waits_for_the_one_before_it_to_end(void **state)
{
    struct heart *heart = *state;
    struct second_turn second = {.store = heart->store};
    struct read_set reads = {0};
    pthread_t thread;
    assert_int_equal(writer_begin(&heart->store->writer), ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_second_turn, &second), 0);
    usleep(50 * 1000);
    assert_false(second.began);
    writer_abandon(&heart->store->writer, &reads);
    pthread_join(thread, NULL);
    assert_true(second.began);
}

static void sync_says_how_many_batches_it_reported(void **state)
{
    struct heart *heart = *state;
    assert_int_equal(writer_sync(&heart->store->writer), 0);
    assert_false(commit_sync_now(heart->commit));
    struct sent *changed = submit(heart, increment(heart, "views", 1));
    struct sent *refused = submit(heart, ask(&heart->asks, OP_DECREMENT, "views", 9));
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(changed->answered, 1);
    assert_int_equal(refused->answered, 1);
    assert_false(commit_sync_now(heart->commit));
}

static uint64_t last_shown(struct view *view)
{
    uint64_t newest;
    assert_int_equal(view_newest(view, &newest), ERR_OK);
    assert_int_equal(view_sequence(view), newest);
    return newest;
}

/* SPEC 13: what a write was told is reached by every read that begins after it. */
static void the_last_sequence_shown_is_the_last_durable_one(void **state)
{
    struct heart *heart = *state;
    struct view *view = &heart->store->view;
    assert_int_equal(last_shown(view), 0);
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 1);
    assert_int_equal(last_shown(view), 1);
    submit(heart, increment(heart, "views", 1));
    submit(heart, increment(heart, "likes", 1));
    assert_int_equal(last_shown(view), 1);
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    assert_int_equal(last_shown(view), 1);
    recover(heart);
    assert_int_equal(done_ok(heart, increment(heart, "views", 1)).sequence, 2);
    assert_int_equal(last_shown(view), 2);
    heart_crash(heart, 1);
    assert_int_equal(last_shown(&heart->store->view), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(load_sees_what_is_submitted_and_not_yet_durable),
        LAW(load_sees_a_delete_that_is_not_yet_durable),
        LAW(load_sees_a_key_that_is_not_yet_durable),
        LAW(an_abandoned_turn_leaves_what_others_submitted),
        LAW(readers_see_nothing_before_the_sync),
        LAW(readers_see_the_old_value_before_the_sync),
        LAW(a_batch_is_visible_when_its_durable_runs),
        LAW(what_durable_reported_survives_a_crash),
        LAW(after_a_crash_the_unsynced_is_there_whole_or_not_at_all),
        LAW(keys_survive_a_crash),
        LAW(numbers_go_on_after_a_crash),
        LAW(a_failed_sync_fails_every_submitted_batch_in_order),
        LAW(a_failed_sync_drops_what_was_staged),
        LAW(a_failed_sync_winds_the_numbers_back),
        LAW(until_it_has_recovered_load_answers_storage),
        LAW(a_turn_waits_for_the_one_before_it_to_end),
        LAW(sync_says_how_many_batches_it_reported),
        LAW(the_last_sequence_shown_is_the_last_durable_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
