/* test_rebuild_lanes.c -- one rebuild over several lanes (SPEC 11): one number, a record and a
 * position in each lane. */
#include "jobs/job.h"
#include "support/rebuild_world.h"

#define LANES 3

static struct heart *hearts[LANES];
static struct lane wards[LANES];
static struct lanes lanes = {LANES, wards};
static int dead_lane; /* its commits fail; -1: none */

static enum err propose_in_lane(void *context, struct bundle *bundle)
{
    const struct lane *lane = context;
    if (dead_lane == (int)lane->index) return ERR_STORAGE;
    heart = hearts[lane->index];
    return propose(NULL, bundle);
}

static void make_lane(unsigned index)
{
    hearts[index] = heart = heart_new((struct heart_config){.store = "memory"});
    struct lane *lane = &wards[index];
    *lane = heart->lane;
    lane->index = index;
    lane->caretaker = (struct caretaker){.store = heart->store,
                                         .rulebook = heart->rulebook,
                                         .clock = &heart->time->clock,
                                         .enacting = &enacting,
                                         .batch_ops = 4,
                                         .batch_weight = 1 << 20,
                                         .propose = propose_in_lane,
                                         .context = lane};
}

static int lanes_setup(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LANES; i++)
        make_lane(i);
    dead_lane = -1;
    before_swap = NULL;
    rebuilds = rebuilds_new(&lanes, NULL, NULL);
    return 0;
}

static int lanes_teardown(void **state)
{
    (void)state;
    rebuilds_free(rebuilds);
    for (unsigned i = 0; i < LANES; i++)
        heart_free(hearts[i]);
    return 0;
}

static void enact_everywhere(const char *text)
{
    for (unsigned i = 0; i < LANES; i++) {
        heart = hearts[i];
        enact(text);
    }
}

/* Lane i has i + 1 of them, from before the counter. */
static void count_before_there_is_a_counter(void)
{
    for (unsigned i = 0; i < LANES; i++) {
        heart = hearts[i];
        events("early", i + 1);
    }
    enact_everywhere("counters:\n" COUNTER("a"));
}

static int64_t net_in(unsigned lane)
{
    heart = hearts[lane];
    return net("a");
}

/* What a job is described as, until the next call. */
static const char *described(const char *id)
{
    static char text[1000];
    struct buf json;
    buf_init(&json, sizeof text);
    assert_int_equal(rebuild_describe(rebuilds, bytes_str(id), &json), ERR_OK);
    snprintf(text, sizeof text, "%.*s", (int)json.size, (const char *)json.data);
    buf_release(&json);
    return text;
}

static bool says(const char *what)
{
    return strstr(described("1"), what) != NULL;
}

static void every_lane_counts_its_own_events_under_one_number(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_true(says("\"state\":\"waiting\""));
    assert_true(steps() > 0);
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(net_in(i), i + 1);
    assert_true(says("\"state\":\"done\""));
    assert_true(says("\"events\":\"6\""));
}

static void a_lane_with_an_incomplete_history_refuses_for_all(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    heart = hearts[LANES - 1];
    heart_wait_ms(heart, 5000);
    struct arena arena;
    arena_init(&arena, 1000);
    struct op op = propose_object(&arena, &heart->store->secret,
                                  object_key(&arena, OBJECT_META, META_RETAINED),
                                  object_number(&arena, (uint64_t)heart->time->wall_ms));
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    arena_release(&arena);
    assert_int_equal(ask_for("a"), ERR_HISTORY);
    struct buf json;
    buf_init(&json, 1000);
    assert_int_equal(rebuild_describe(rebuilds, BYTES("1"), &json), ERR_NOT_FOUND);
    buf_release(&json);
}

static void a_lane_that_a_crash_left_without_its_part_gets_it_at_the_next_start(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    dead_lane = 1;
    assert_int_equal(ask_for("a"), ERR_STORAGE);
    rebuilds_free(rebuilds);
    dead_lane = -1;
    rebuilds = rebuilds_new(&lanes, NULL, NULL);
    steps();
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(net_in(i), i + 1);
    assert_true(says("\"state\":\"done\""));
}

static void a_job_runs_until_its_last_lane_has_ended(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    assert_int_equal(ask_for("a"), ERR_OK);
    dead_lane = 2;
    for (unsigned i = 0; i < STEPS_MAX; i++)
        rebuild_step(rebuilds);
    assert_int_equal(net_in(0), 1);
    assert_int_equal(net_in(2), -1); /* nothing yet */
    assert_true(says("\"state\":\"running\""));
    assert_true(says("\"endedAt\":null"));
    dead_lane = -1;
    steps();
    assert_int_equal(net_in(2), 3);
    assert_true(says("\"state\":\"done\""));
}

static void a_lane_that_fails_fails_the_job_once_all_have_ended(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    assert_int_equal(ask_for("a"), ERR_OK);
    heart = hearts[1];
    enact("counters:\n" COUNTER("b")); /* there the counter is frozen before it is counted */
    steps();
    assert_int_equal(net_in(2), 3);
    assert_true(says("\"state\":\"failed\""));
    assert_true(says("no longer kept by rules"));
}

static void a_lane_that_failed_before_it_began_leaves_a_job_that_runs(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    assert_int_equal(ask_for("a"), ERR_OK);
    heart = hearts[0];
    enact("counters:\n" COUNTER("b"));
    dead_lane = 1;
    for (unsigned i = 0; i < STEPS_MAX; i++)
        rebuild_step(rebuilds);
    assert_true(says("\"state\":\"running\""));
    assert_true(says("\"error\":null"));
    dead_lane = -1;
    steps();
    assert_true(says("\"state\":\"failed\""));
}

static void who_asks_again_before_it_begins_gets_the_same_number(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_int_equal(ask_for("a"), ERR_OK);
    steps();
    struct buf json;
    buf_init(&json, 1000);
    assert_int_equal(rebuild_describe(rebuilds, BYTES("2"), &json), ERR_NOT_FOUND);
    buf_release(&json);
}

static void a_counter_is_forgotten_in_every_lane_also_after_half_a_try(void **state)
{
    (void)state;
    count_before_there_is_a_counter();
    enact_everywhere("counters:\n" COUNTER("b"));
    dead_lane = 1;
    assert_int_equal(rebuild_forget(rebuilds, BYTES("a")), ERR_STORAGE);
    dead_lane = -1;
    assert_int_equal(rebuild_forget(rebuilds, BYTES("a")), ERR_OK);
    assert_int_equal(rebuild_forget(rebuilds, BYTES("a")), ERR_NOT_FOUND);
    assert_int_equal(rebuild_forget(rebuilds, BYTES("b")), ERR_MANAGED);
}

#define LANES_DO(name) cmocka_unit_test_setup_teardown(name, lanes_setup, lanes_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANES_DO(every_lane_counts_its_own_events_under_one_number),
        LANES_DO(a_lane_with_an_incomplete_history_refuses_for_all),
        LANES_DO(a_lane_that_a_crash_left_without_its_part_gets_it_at_the_next_start),
        LANES_DO(a_job_runs_until_its_last_lane_has_ended),
        LANES_DO(a_lane_that_fails_fails_the_job_once_all_have_ended),
        LANES_DO(a_lane_that_failed_before_it_began_leaves_a_job_that_runs),
        LANES_DO(who_asks_again_before_it_begins_gets_the_same_number),
        LANES_DO(a_counter_is_forgotten_in_every_lane_also_after_half_a_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
