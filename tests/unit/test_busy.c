/* test_busy.c -- which names change most, among far more than are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/views/busy.h"

#define S INT64_C(1000000000)

static struct busy *busy;
static struct buf json;

static int set_up(void **state)
{
    (void)state;
    busy = busy_new(0);
    buf_init(&json, 1u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    busy_free(busy);
    buf_release(&json);
    return 0;
}

static void add(const char *name, int64_t now_ns)
{
    busy_add(busy, bytes_str(name), 60, now_ns);
}

static void expect(int64_t now_ns, size_t limit, const char *text)
{
    buf_reset(&json);
    busy_write(busy, now_ns, limit, &json);
    buf_add_char(&json, '\0');
    assert_string_equal(json.data, text);
}

static void the_busiest_come_first_then_by_name(void **state)
{
    (void)state;
    expect(S, 10, "{\"milliseconds\":1000,\"counters\":[]}");
    add("b", S);
    add("a", S);
    add("c", S);
    add("c", S);
    expect(
        S, 2,
        "{\"milliseconds\":1000,\"counters\":[{\"name\":\"c\",\"durationSeconds\":60,\"changes\":\"2\"},"
        "{\"name\":\"a\",\"durationSeconds\":60,\"changes\":\"1\"}]}");
}

static void what_was_busy_some_seconds_ago_is_not(void **state)
{
    (void)state;
    add("old", S);
    add("new", 3 * S);
    expect(
        4 * S, 10,
        "{\"milliseconds\":4000,\"counters\":[{\"name\":\"new\",\"durationSeconds\":60,\"changes\":\"1\"},"
        "{\"name\":\"old\",\"durationSeconds\":60,\"changes\":\"1\"}]}");
    expect(
        5 * S, 10,
        "{\"milliseconds\":2000,\"counters\":[{\"name\":\"new\",\"durationSeconds\":60,\"changes\":\"1\"}]}");
    expect(8 * S, 10, "{\"milliseconds\":3000,\"counters\":[]}");
}

/* Each of 20,000 names once, five times what is kept, and twenty of them fifty times. */
static void names_that_change_often_stay_however_many_others_come_by(void **state)
{
    (void)state;
    char name[32];
    unsigned other = 0;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "z-busy-%02u", i);
            add(name, S);
        }
        for (unsigned i = 0; i < 400; i++, other++) {
            snprintf(name, sizeof name, "n%05u", other);
            add(name, S);
        }
    }
    buf_reset(&json);
    busy_write(busy, S, 20, &json);
    buf_add_char(&json, '\0');
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "\"z-busy-%02u\"", i);
        assert_non_null(strstr(json.data, name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_busiest_come_first_then_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_busy_some_seconds_ago_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_that_change_often_stay_however_many_others_come_by,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests_name("busy", tests, NULL, NULL);
}
