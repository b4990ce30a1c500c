/* test_postgres_moments.c -- SPEC 12: one moment of a store that other nodes write, and many readers
 * who are answered together: what a reader sees is whole, and not older than its question. */
#include "support/store_expect.h"

struct nodes {
    struct heart *a;
    struct heart *b;
};

static int start_nodes(void **state)
{
    struct nodes *nodes = must_calloc(1, sizeof *nodes);
    nodes->a = heart_new((struct heart_config){.store = "postgres", .lanes = 2});
    nodes->b =
        heart_new((struct heart_config){.store = "postgres", .lanes = 2, .beside = nodes->a});
    *state = nodes;
    return 0;
}

static int stop_nodes(void **state)
{
    struct nodes *nodes = *state;
    heart_free(nodes->a);
    heart_free(nodes->b);
    free(nodes);
    return 0;
}

/* A reader of two counters; another node counts at both whenever it has read the first. */
struct pair {
    struct nodes *nodes;
    unsigned runs;
    bool follows; /* asks for the second one only if the first is there */
    bool disturbed;
    int64_t first, second;
    enum err err;
};

static int64_t net_of(struct heart *heart, struct view *view, const char *name, enum err *err_out)
{
    const struct cell_ref ref = heart_ref(heart, name, 0);
    struct cell cell;
    *err_out = view_get(view, &ref, 0, READ_ALL, &cell);
    return *err_out == ERR_OK ? cell_triple(&cell).net : -1;
}

static void count_both(struct heart *heart)
{
    done_ok(heart, increment(heart, "first", 1));
    done_ok(heart, increment(heart, "second", 1));
}

static void read_pair(void *context, struct view *moment)
{
    struct pair *pair = context;
    pair->runs++;
    pair->second = -1;
    pair->first = net_of(pair->nodes->a, moment, "first", &pair->err);
    if (pair->disturbed) count_both(pair->nodes->b);
    if (pair->follows && pair->err == ERR_NOT_FOUND) return;
    pair->second = net_of(pair->nodes->a, moment, "second", &pair->err);
}

static void a_moment_is_whole_whatever_another_node_does_meanwhile(void **state)
{
    struct nodes *nodes = *state;
    struct pair pair = {.nodes = nodes, .disturbed = true};
    count_both(nodes->b);
    view_instant(&nodes->a->store->view, read_pair, &pair);
    assert_int_equal(pair.err, ERR_OK);
    assert_int_equal(pair.runs, 2);
    assert_int_equal(pair.first, 2); /* what its first run had caused came before its question */
    assert_int_equal(pair.second, 2);
}

static void a_reader_that_goes_on_by_what_it_found_has_its_moment_too(void **state)
{
    struct nodes *nodes = *state;
    struct pair pair = {.nodes = nodes, .disturbed = true, .follows = true};
    count_both(nodes->b);
    view_instant(&nodes->a->store->view, read_pair, &pair);
    assert_int_equal(pair.err, ERR_OK);
    assert_int_equal(pair.runs, 3);
    assert_int_equal(pair.first, pair.second);
    assert_true(pair.first >= 2);
}

static void a_reader_sees_what_was_acknowledged_before_it_asked(void **state)
{
    struct nodes *nodes = *state;
    for (int64_t i = 1; i <= 5; i++) {
        struct pair pairs[3];
        struct view_reading readings[3];
        count_both(i % 2 ? nodes->a : nodes->b);
        for (unsigned k = 0; k < 3; k++) {
            pairs[k] = (struct pair){.nodes = nodes};
            readings[k] = (struct view_reading){&nodes->a->store->view, read_pair, &pairs[k]};
        }
        view_gather(readings, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(pairs[k].first, i);
            assert_int_equal(pairs[k].second, i);
        }
    }
}

/* Everything that a moment has. */
struct all {
    struct heart *heart;
    enum err get, absent, object, sum, few, newest;
    int64_t net;
    struct buf value;
    struct range_sum total;
    uint64_t sequence;
};

static void read_all(void *context, struct view *moment)
{
    struct all *all = context;
    struct heart *heart = all->heart;
    const struct cell_ref minutes = heart_ref(heart, "views", 60);
    struct range_sum few;
    enum err e;
    all->net = net_of(heart, moment, "views", &all->get);
    net_of(heart, moment, "likes", &e);
    all->absent = e;
    all->object = view_object(moment, BYTES("u1"), &all->value);
    all->sum = view_sum(moment, &minutes, 60, 180, UINT32_MAX, &all->total);
    all->few = view_sum(moment, &minutes, 60, 180, 2, &few);
    all->newest = view_newest(moment, &all->sequence);
}

static struct all all_of(struct heart *heart)
{
    struct all all = {.heart = heart};
    buf_init(&all.value, 100);
    return all;
}

static void a_moment_has_cells_objects_sums_and_the_newest_sequence(void **state)
{
    struct nodes *nodes = *state;
    struct heart *heart = nodes->a;
    done_ok(heart, increment(heart, "views", 5));
    for (int64_t i = 0; i < 5; i++)
        done_ok(heart, increment_at(heart, "views", 60, i * 60, INT64_MAX));
    done_ok(heart, ask_object(&heart->asks, "u1", "one"));
    struct all all = all_of(heart);
    view_instant(&nodes->b->store->view, read_all, &all);
    assert_int_equal(all.get, ERR_OK);
    assert_int_equal(all.net, 5);
    assert_int_equal(all.absent, ERR_NOT_FOUND);
    assert_int_equal(all.object, ERR_OK);
    assert_true(bytes_equal(buf_bytes(&all.value), BYTES("one")));
    assert_int_equal(all.sum, ERR_OK);
    assert_true(all.total.added == (__int128)INT64_MAX * 3 && all.total.subbed == 0);
    assert_int_equal(all.few, ERR_TOO_MANY_CELLS);
    assert_int_equal(all.newest, ERR_OK);
    assert_int_equal(all.sequence, 7);
    buf_release(&all.value);
}

/* What has the same name in another lane is something else. */
static void readers_of_several_lanes_are_answered_together(void **state)
{
    struct nodes *nodes = *state;
    struct reason why;
    struct store *other;
    assert_int_equal(postgres_lane(nodes->a->database, 1, &other, &why), ERR_OK);
    count_both(nodes->a);
    struct pair here = {.nodes = nodes}, there = {.nodes = nodes};
    const struct view_reading readings[] = {{&other->view, read_pair, &there},
                                            {&nodes->a->store->view, read_pair, &here}};
    view_gather(readings, 2);
    assert_int_equal(here.first, 1);
    assert_int_equal(here.second, 1);
    assert_int_equal(there.err, ERR_NOT_FOUND);
    assert_int_equal(there.first, -1);
    store_close(other);
}

static void read_memory(void *context, struct view *moment)
{
    struct all *all = context;
    const struct cell_ref ref = heart_ref(all->heart, "views", 0);
    struct cell cell;
    all->sequence++; /* runs */
    all->get = view_get(moment, &ref, 0, READ_MEMORY, &cell);
}

static void what_must_not_wait_is_told_so_at_once(void **state)
{
    struct nodes *nodes = *state;
    struct all all = all_of(nodes->a);
    view_instant(&nodes->a->store->view, read_memory, &all);
    assert_int_equal(all.get, ERR_BUSY);
    assert_int_equal(all.sequence, 1);
}

static void every_reader_is_told_that_the_database_cannot_answer(void **state)
{
    struct nodes *nodes = *state;
    struct all all = all_of(nodes->a);
    struct pair pair = {.nodes = nodes};
    const struct view_reading readings[] = {{&nodes->a->store->view, read_pair, &pair},
                                            {&nodes->a->store->view, read_all, &all}};
    count_both(nodes->b);
    atomic_store(&nodes->a->store->outdated, true);
    view_gather(readings, 2);
    atomic_store(&nodes->a->store->outdated, false);
    assert_int_equal(pair.err, ERR_STORAGE);
    assert_int_equal(all.get, ERR_STORAGE);
    assert_int_equal(all.object, ERR_STORAGE);
    assert_int_equal(all.sum, ERR_STORAGE);
    assert_int_equal(all.newest, ERR_STORAGE);
    buf_release(&all.value);
}

#define ON_NODES(name) cmocka_unit_test_setup_teardown(name, start_nodes, stop_nodes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_NODES(a_moment_is_whole_whatever_another_node_does_meanwhile),
        ON_NODES(a_reader_that_goes_on_by_what_it_found_has_its_moment_too),
        ON_NODES(a_reader_sees_what_was_acknowledged_before_it_asked),
        ON_NODES(a_moment_has_cells_objects_sums_and_the_newest_sequence),
        ON_NODES(readers_of_several_lanes_are_answered_together),
        ON_NODES(what_must_not_wait_is_told_so_at_once),
        ON_NODES(every_reader_is_told_that_the_database_cannot_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
