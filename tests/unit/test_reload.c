/* test_reload.c -- rules come into force in every lane (SPEC 7, 11), in some later than in others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "serve/reload.h"
#include "store/fault.h"
#include "store/memory.h"

#define LANES 3
#define AUTH "auth: { jwtSecret: 0123456789abcdef0123456789abcdef }\ncounters:\n"
#define COUNTER(name) "  - { counterName: " name ", rules: [{ on: up, op: increment }] }\n"
#define MOVED(name)            \
    "  - { counterName: " name \
    ", mode: windowed, window: 1h, rules: [{ on: up, op: increment }] }\n"

static struct lane items[LANES];
static struct lanes lanes = {LANES, items};
static struct config_source source = {.file = "x.yaml"};
static struct config config;
static struct auth *auth;
static struct reloader *reloader;
static struct buf why;

static void nobody_waits(void *context)
{
    (void)context;
}

static void make_lane(unsigned index)
{
    struct store *inner;
    assert_int_equal(memory_open(&inner), ERR_OK);
    const struct lane_config lane = {
        .index = index,
        .store = fault_new(inner, NULL, NULL),
        .clock = &clock_system,
        .timeline = {.tolerance_ms = 300000, .settle_ms = 0},
        .queue = {.ops_max = 1000,
                  .tenant_ops_max = 1000,
                  .urgent_ops_max = 1000,
                  .bytes_max = 64u << 20},
        .limits = {.batch_weight = 1u << 20, .tenant_cells = 1000, .granularities = 4},
        .batch_ops_max = 100,
        .answered = nobody_waits,
    };
    assert_int_equal(lane_open(&items[index], &lane), ERR_OK);
    lane_start(&items[index]);
}

static void load(struct config *out, const char *text)
{
    struct config_report report;
    source.text = bytes_str(text);
    config_report_init(&report);
    if (config_load(out, &source, &report) != ERR_OK) fail_msg("%s", report.text.data);
    config_report_release(&report);
}

static int setup(void **state)
{
    (void)state;
    char error[256] = "";
    struct reload_config reload = {.source = &source, .lanes = &lanes};
    log_set_level(LOG_ERROR);
    buf_init(&why, 64u << 10);
    for (unsigned i = 0; i < LANES; i++)
        make_lane(i);
    load(&config, AUTH COUNTER("first"));
    assert_int_equal(auth_new(&auth, &config, error, sizeof error), ERR_OK);
    reload.auth = auth;
    reloader = reloader_new(&reload);
    assert_int_equal(reload_start(reloader, &config, &why), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LANES; i++)
        lane_stop(&items[i]);
    reloader_free(reloader);
    auth_free(auth);
    for (unsigned i = 0; i < LANES; i++)
        lane_close(&items[i]);
    config_release(&config);
    config = (struct config){0};
    buf_release(&why);
    return 0;
}

/* Counters in force in each lane, as digits. */
static const char *in_force(void)
{
    static char digits[LANES + 1];
    for (unsigned i = 0; i < LANES; i++) {
        struct rules *rules = rulebook_hold(items[i].rulebook);
        unsigned count = 0;
        for (unsigned d = 0; d < rules->definitions_count; d++)
            count += !rules->definitions[d].frozen;
        digits[i] = (char)('0' + count);
        rules_release(rules);
    }
    return digits;
}

static bool same_digest(unsigned a, unsigned b)
{
    struct rules *of_a = rulebook_hold(items[a].rulebook);
    struct rules *of_b = rulebook_hold(items[b].rulebook);
    bool same = of_a->digest == of_b->digest && of_a->digest != 0;
    rules_release(of_a);
    rules_release(of_b);
    return same;
}

/* The lane's next batch is not written. */
static void spoil(unsigned lane)
{
    fault_fail(items[lane].store, FAULT_BEGIN, 1);
}

static enum err reload(const char *text)
{
    source.text = bytes_str(text);
    buf_reset(&why);
    return reload_now(reloader, &why);
}

static void says(const char *expected)
{
    buf_add_char(&why, 0);
    assert_string_equal(why.data, expected);
}

static void a_reload_is_answered_when_every_lane_has_the_rules(void **state)
{
    (void)state;
    assert_string_equal(in_force(), "111");
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("second")), ERR_OK);
    assert_string_equal(in_force(), "222");
    assert_true(same_digest(0, 1) && same_digest(1, 2));
    assert_false(reload_owed(reloader));
}

static void a_lane_that_cannot_be_written_is_named_and_gets_them_later(void **state)
{
    (void)state;
    spoil(1);
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("second")), ERR_STORAGE);
    says(
        "The new rules are in force in 2 of 3 lanes. Lane 1 cannot be written now and gets them as "
        "soon as that is possible.");
    assert_string_equal(in_force(), "212");
    assert_false(same_digest(0, 1));
    spoil(1);
    assert_true(reload_owed(reloader));
    assert_string_equal(in_force(), "212");
    assert_false(reload_owed(reloader));
    assert_string_equal(in_force(), "222");
    assert_true(same_digest(0, 1));
}

static void rules_that_no_lane_takes_change_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LANES; i++)
        spoil(i);
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("second")), ERR_STORAGE);
    says(err_sentence(ERR_STORAGE));
    assert_false(reload_owed(reloader));
    assert_string_equal(in_force(), "111");
}

static void rules_that_one_lane_does_not_allow_change_nothing(void **state)
{
    (void)state;
    spoil(0);
    spoil(2);
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("mine")), ERR_STORAGE);
    says(
        "The new rules are in force in 1 of 3 lanes. Lanes 0, 2 cannot be written now and get them as "
        "soon as that is possible.");
    assert_int_equal(reload(AUTH COUNTER("first") MOVED("mine")), ERR_INVALID);
    assert_string_equal(in_force(), "121");
    assert_false(reload_owed(reloader)); /* what was owed before still is, until now */
    assert_string_equal(in_force(), "222");
}

static void a_later_reload_takes_the_place_of_what_is_owed(void **state)
{
    (void)state;
    spoil(2);
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("second")), ERR_STORAGE);
    assert_int_equal(reload(AUTH COUNTER("other") COUNTER("more") COUNTER("most")), ERR_OK);
    assert_string_equal(in_force(), "333");
    assert_false(reload_owed(reloader));
    assert_string_equal(in_force(), "333");
}

static void *run_main(void *context)
{
    reloader_run(context);
    return NULL;
}

static void the_thread_gives_lanes_what_they_are_owed(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_main, reloader), 0);
    spoil(1);
    assert_int_equal(reload(AUTH COUNTER("first") COUNTER("second")), ERR_STORAGE);
    while (in_force()[1] != '2')
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    reloader_stop(reloader);
    pthread_join(thread, NULL);
    assert_string_equal(in_force(), "222");
}

static void a_start_with_a_lane_that_cannot_be_written_goes_by_the_rules_it_holds(void **state)
{
    (void)state;
    spoil(1);
    buf_reset(&why);
    assert_int_equal(reload_start(reloader, &config, &why), ERR_OK);
    assert_string_equal(in_force(), "111");
    config_release(&config);
    config = (struct config){0};
    load(&config, AUTH COUNTER("first") COUNTER("second"));
    spoil(1);
    assert_int_equal(reload_start(reloader, &config, &why), ERR_STORAGE);
    says(
        "lane 1: The store cannot be written now, and the rules of the config are not those that it "
        "holds. Make room, or start with the old ones.");
}

#define DO(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DO(a_reload_is_answered_when_every_lane_has_the_rules),
        DO(a_lane_that_cannot_be_written_is_named_and_gets_them_later),
        DO(rules_that_no_lane_takes_change_nothing),
        DO(rules_that_one_lane_does_not_allow_change_nothing),
        DO(a_later_reload_takes_the_place_of_what_is_owed),
        DO(the_thread_gives_lanes_what_they_are_owed),
        DO(a_start_with_a_lane_that_cannot_be_written_goes_by_the_rules_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
