/* test_config_refusals.c -- counters, statuses and event types that are refused, each with its
 * line, its column and its sentence. */
#include "config_world.h"

struct refusal {
    const char *text;
    const char *expected; /* the whole report, without its last line break */
};

static void refuses_all(const struct refusal *refusals, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        refuses(refusals[i].text, refusals[i].expected);
}

/* S1-42 */
static void S1_42_what_would_not_count_exactly_once_is_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {GOOD "idempotency: {requireEventId: false}\n",
         "x.yaml:4:33: requireEventId must be true: without an id nothing counts exactly once"},
        {GOOD "idempotency: {requireEventId: maybe}\n",
         "x.yaml:4:33: requireEventId must be true or false, not \"maybe\""},
        {GOOD "idempotency: {scope: perCounter}\n",
         "x.yaml:4:24: scope must be globalEventId, not \"perCounter\""},
        {GOOD "idempotency: {scope: globaleventid}\n",
         "x.yaml:4:24: scope must be globalEventId, not \"globaleventid\""},
        {GOOD "idempotency: {scope: [a]}\n", "x.yaml:4:24: scope must be globalEventId, not \"\""},
        {GOOD "idempotency: {ttl: 5}\n",
         "x.yaml:4:17: unknown key ttl: idempotency may hold requireEventId and scope"},
        {GOOD "idempotency: true\n",
         "x.yaml:4:16: idempotency must be a mapping, not a single value"},
        {GOOD "mode: eternal\n",
         "x.yaml:4:9: mode must be persistent, windowed or series, not \"eternal\""},
        {GOOD "mode: Persistent\n",
         "x.yaml:4:9: mode must be persistent, windowed or series, not \"Persistent\""},
        {GOOD "mode: rolling\n  window: 1h\n  keep: 5d\n",
         "x.yaml:4:9: mode must be persistent, windowed or series, not \"rolling\""},
        {RULE "{on: e, op: inc}\n", "x.yaml:4:17: op must be increment or decrement, not \"inc\""},
        {RULE "{on: e, op: INCREMENT}\n",
         "x.yaml:4:17: op must be increment or decrement, not \"INCREMENT\""},
        {RULE "{on: e, op: [increment]}\n",
         "x.yaml:4:17: op must be increment or decrement, not \"\""},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
}

static void counters_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"counters: 5\n", "x.yaml:1:11: counters must be a list, not a single value"},
        {"counters: {a: 1}\n", "x.yaml:1:11: counters must be a list, not a mapping"},
        {"counters:\n- a\n", "x.yaml:2:3: a counter must be a mapping, not a single value"},
        {"counters:\n- [a]\n", "x.yaml:2:3: a counter must be a mapping, not a list"},
        {"counters:\n- rules: [{on: e, op: increment}]\n",
         "x.yaml:2:3: a counter needs a counterName"},
        {"counters:\n- counterName: c\n", "x.yaml:2:3: a counter needs rules"},
        {"counters:\n- counterName: c\n  rules: {on: e, op: increment}\n",
         "x.yaml:3:10: rules must be a list, not a mapping"},
        {"counters:\n- counterName: a b\n  rules: [{on: e, op: increment}]\n",
         "x.yaml:2:16: counterName must be 1 to 255 of A-Z a-z 0-9 _ . ~ - :, not \"a b\""},
        {"counters:\n- counterName: ''\n  rules: [{on: e, op: increment}]\n",
         "x.yaml:2:16: counterName must be 1 to 255 of A-Z a-z 0-9 _ . ~ - :, not \"\""},
        {"counters:\n- counterName: [c]\n  rules: [{on: e, op: increment}]\n",
         "x.yaml:2:16: counterName must be 1 to 255 of A-Z a-z 0-9 _ . ~ - :, not \"\""},
        {GOOD "limit: 1\n- counterName: c\n  rules: [{on: e, op: increment}]\n",
         "x.yaml:5:16: counter c is defined twice; the first is at x.yaml:2:16"},
        {GOOD "colour: red\n",
         "x.yaml:4:3: unknown key colour: a counter may hold counterName, mode, dimensions, "
         "rollups, floorAtZero, rules, idempotency, transition, group, limit, window, trailing, "
         "granularities and keep"},
        {GOOD "? [a]\n  : b\n",
         "x.yaml:4:5: a key of a counter must be a single value, not a list"},
        {GOOD "limit: 1\n  limit: 2\n", "x.yaml:5:3: limit is given twice; the first is in line 4"},
        {GOOD "limit: -1\n", "x.yaml:4:10: limit must be a whole number from 0 to "
                             "9223372036854775807, not \"-1\""},
        {GOOD "limit: 9223372036854775808\n", "x.yaml:4:10: limit must be a whole number from 0 to "
                                              "9223372036854775807, not \"9223372036854775808\""},
        {GOOD "limit: [1]\n", "x.yaml:4:10: limit must be a single value, not a list"},
        {GOOD "group: a b\n", "x.yaml:4:10: group must be 1 to 255 of A-Z a-z 0-9 _ . ~ -"},
        {GOOD "group: [usage]\n", "x.yaml:4:10: group must be 1 to 255 of A-Z a-z 0-9 _ . ~ -"},
        {GOOD "floorAtZero: yes\n", "x.yaml:4:16: floorAtZero must be true or false, not \"yes\""},
        {GOOD "floorAtZero: {}\n",
         "x.yaml:4:16: floorAtZero must be a single value, not a mapping"},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
}

static void dimension_sets_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {GOOD "dimensions: a\n", "x.yaml:4:15: dimensions must be a list, not a single value"},
        {GOOD "dimensions: [a, [b]]\n",
         "x.yaml:4:19: dimensions must be a single value, not a list"},
        {GOOD "dimensions: ['']\n",
         "x.yaml:4:16: dimensions must be a text of 1 to 255 bytes without NUL"},
        {GOOD "dimensions: [~]\n",
         "x.yaml:4:16: dimensions must be a text of 1 to 255 bytes without NUL"},
        {GOOD "dimensions: [\"a\\0b\"]\n",
         "x.yaml:4:16: dimensions must be a text of 1 to 255 bytes without NUL"},
        {GOOD "dimensions: [b, a, b]\n", "x.yaml:4:22: dimensions: b is listed twice"},
        {GOOD "dimensions: [payload.]\n",
         "x.yaml:4:16: dimensions: payload.<path> must have a name between its dots"},
        {GOOD "dimensions: [payload.a..b]\n",
         "x.yaml:4:16: dimensions: payload.<path> must have a name between its dots"},
        {GOOD "dimensions: [payload.a.]\n",
         "x.yaml:4:16: dimensions: payload.<path> must have a name between its dots"},
        {GOOD "dimensions: [payload.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17]\n",
         "x.yaml:4:16: dimensions: payload.<path> may have at most 16 parts"},
        {GOOD "dimensions: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]\n",
         "x.yaml:4:15: dimensions may hold at most 16 entries"},
        {GOOD "rollups: a\n", "x.yaml:4:12: rollups must be a list, not a single value"},
        {GOOD "rollups: [a]\n", "x.yaml:4:13: a rollup must be a list, not a single value"},
        {GOOD "rollups: [[a, a]]\n", "x.yaml:4:17: a rollup: a is listed twice"},
        {GOOD "rollups: [[]]\n", "x.yaml:4:13: a rollup has the same keys as dimensions"},
        {GOOD "dimensions: [a, b]\n  rollups: [[], [b, a]]\n",
         "x.yaml:5:17: a rollup has the same keys as dimensions"},
        {GOOD "dimensions: [a]\n  rollups: [[b], [], [b]]\n",
         "x.yaml:5:22: a rollup has the same keys as another"},
        {GOOD "rollups: [[1],[2],[3],[4],[5],[6],[7],[8],[9],[10],[11],[12],[13],[14],[15],[16]]\n",
         "x.yaml:4:12: rollups may hold at most 15 entries"},
        {GOOD "transition: {}\n",
         "x.yaml:4:15: transition needs entity, the keys that say whose state it is"},
        {GOOD "transition: {entity: ~}\n",
         "x.yaml:4:15: transition needs entity, the keys that say whose state it is"},
        {GOOD "transition: {entity: []}\n", "x.yaml:4:24: entity needs one key at least"},
        {GOOD "transition: {entity: a}\n",
         "x.yaml:4:24: entity must be a list, not a single value"},
        {GOOD "transition: {entity: [a, a]}\n", "x.yaml:4:28: entity: a is listed twice"},
        {GOOD "transition: true\n",
         "x.yaml:4:15: transition must be a mapping, not a single value"},
        {GOOD "transition: {entities: [a]}\n",
         "x.yaml:4:16: unknown key entities: transition may hold entity"},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
}

static void rules_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {RULE "e\n", "x.yaml:4:5: a rule must be a mapping, not a single value"},
        {RULE "{op: increment}\n", "x.yaml:4:5: a rule needs on"},
        {RULE "{on: e}\n", "x.yaml:4:5: a rule needs op"},
        {RULE "{on: ~, op: increment}\n", "x.yaml:4:5: a rule needs on"},
        {RULE "{on: e, op: increment, of: x}\n",
         "x.yaml:4:28: unknown key of: a rule may hold on, op, amount and where"},
        {RULE "{on: e, on: f, op: increment}\n",
         "x.yaml:4:13: on is given twice; the first is in line 4"},
        {RULE "{on: [e], op: increment}\n", "x.yaml:4:10: on must be a single value, not a list"},
        {RULE "{on: '', op: increment}\n",
         "x.yaml:4:10: on must be a text of 1 to 255 bytes without NUL"},
#define AMOUNT "amount must be a whole number from 1, payload.<path> or a dimension"
        {RULE "{on: e, op: increment, amount: 0}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: -1}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: 1.5}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: 1e3}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: 9223372036854775808}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: ''}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: [1]}\n", "x.yaml:4:36: " AMOUNT},
        {RULE "{on: e, op: increment, amount: payload.}\n",
         "x.yaml:4:36: amount: payload.<path> must have a name between its dots"},
        {RULE "{on: e, op: increment, where: [a]}\n",
         "x.yaml:4:35: where must be a mapping, not a list"},
        {RULE "{on: e, op: increment, where: {a: [1]}}\n",
         "x.yaml:4:39: where: a must be a single value, not a list"},
        {RULE "{on: e, op: increment, where: {a: {b: 1}}}\n",
         "x.yaml:4:39: where: a must be a single value, not a mapping"},
        {RULE "{on: e, op: increment, where: {a: ~}}\n",
         "x.yaml:4:39: where: a must be a single value, not null"},
        {RULE "{on: e, op: increment, where: {a: 1, a: 2}}\n",
         "x.yaml:4:42: where: a key is given twice; the first is in line 4"},
        {RULE "{on: e, op: increment, where: {payload..a: 1}}\n",
         "x.yaml:4:36: where: payload.<path> must have a name between its dots"},
        {RULE "{on: e, op: increment, where: {? [a] : 1}}\n",
         "x.yaml:4:38: where must be a single value, not a list"},
        {RULE "{on: e, op: increment, where: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, "
              "i: 1, j: 1, k: 1, l: 1, m: 1, n: 1, o: 1, p: 1, q: 1}}\n",
         "x.yaml:4:35: where may hold at most 16 conditions"},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
}

static void what_belongs_to_another_mode_is_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {GOOD "mode: windowed\n", "x.yaml:2:3: a windowed counter needs a window, such as 1h"},
        {GOOD "mode: windowed\n  window: 999ms\n", "x.yaml:5:11: window must be from 1s to 366d"},
        {GOOD "mode: windowed\n  window: 367d\n", "x.yaml:5:11: window must be from 1s to 366d"},
        {GOOD "mode: windowed\n  window: 3600\n",
         "x.yaml:5:11: window must be a duration such as 60s, 5m, 1h or 30d, not \"3600\""},
        {GOOD "mode: windowed\n  window: [1h]\n",
         "x.yaml:5:11: window must be a single value, not a list"},
        {GOOD "mode: windowed\n  window: 1h\n  trailing: 1\n",
         "x.yaml:6:13: trailing must be true or false, not \"1\""},
        {GOOD "window: 1h\n", "x.yaml:4:3: window is only for mode windowed"},
        {GOOD "trailing: false\n", "x.yaml:4:3: trailing is only for mode windowed"},
        {GOOD "mode: series\n  granularities: [0]\n  window: 1h\n",
         "x.yaml:6:3: window is only for mode windowed"},
        {GOOD "granularities: [60]\n", "x.yaml:4:3: granularities is only for mode series"},
        {GOOD "keep: 1d\n", "x.yaml:4:3: keep is only for mode series"},
        {GOOD "mode: windowed\n  window: 1h\n  keep: 1d\n",
         "x.yaml:6:3: keep is only for mode series"},
        {GOOD "mode: series\n", "x.yaml:2:3: a series needs granularities, such as [60, 3600]"},
        {GOOD "mode: series\n  granularities: []\n",
         "x.yaml:5:18: granularities needs one at least"},
        {GOOD "mode: series\n  granularities: 60\n",
         "x.yaml:5:18: granularities must be a list, not a single value"},
        {GOOD "mode: series\n  granularities: [60, 0, 60]\n",
         "x.yaml:5:26: granularity 60 is listed twice"},
        {GOOD "mode: series\n  granularities: [{bucket: day}, {bucket: day, zone: UTC}]\n",
         "x.yaml:5:34: a calendar's bucket is listed twice"},
        {GOOD "mode: series\n  granularities: [{bucket: hour}]\n",
         "x.yaml:5:28: bucket must be day, week, month or year, not \"hour\""},
        {GOOD "mode: series\n  granularities: [{zone: UTC}]\n",
         "x.yaml:5:19: a granularity is a number of seconds, or has a bucket: day, week, month or "
         "year"},
        {GOOD "mode: series\n  granularities: [{bucket: day, zone: Mars/Olympus}]\n",
         "x.yaml:5:39: there is no time zone \"Mars/Olympus\" (is the package tzdata installed?)"},
        {GOOD "mode: series\n  granularities: [-1]\n",
         "x.yaml:5:19: a granularity must be a whole number from 0 to 2147483647, not \"-1\""},
        {GOOD "mode: series\n  granularities: [2147483648]\n",
         "x.yaml:5:19: a granularity must be a whole number from 0 to 2147483647, not "
         "\"2147483648\""},
        {GOOD "mode: series\n  granularities: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]\n",
         "x.yaml:5:18: granularities may hold at most 16 entries"},
        {GOOD "mode: series\n  granularities: [60]\n  keep: 0\n",
         "x.yaml:6:9: keep must be from 1s to 36500d"},
        {"limits: {counterGranularities: 1}\n" GOOD "mode: windowed\n  window: 1h\n"
         "  trailing: true\n",
         "x.yaml:3:16: counter c is kept in 2 durations, more than limits.counterGranularities (1)"},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
}

static void statuses_and_types_that_are_none_are_refused(void **state)
{
    (void)state;
#define STATUS "statuses: a status must be 1 to 64 of A-Z a-z 0-9 _ . ~ -"
#define C64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    static const struct refusal refusals[] = {
        {"statuses: [a]\n",
         "x.yaml:1:11: statuses must be a mapping of event types to statuses, not a list"},
        {"statuses:\n  A: b c\n", "x.yaml:2:6: " STATUS},
        {"statuses:\n  A:\n", "x.yaml:2:5: " STATUS},
        {"statuses:\n  A: ~\n", "x.yaml:2:6: " STATUS},
        {"statuses:\n  A: [b]\n", "x.yaml:2:6: " STATUS},
        {"statuses:\n  A: " C64 "a\n", "x.yaml:2:6: " STATUS},
        {"statuses:\n  A: b\n  A: c\n",
         "x.yaml:3:3: statuses: an event type is given twice; the first is in line 2"},
        {"statuses:\n  ? [a]\n  : b\n",
         "x.yaml:2:5: statuses: an event type must be a single value, not a list"},
        {"statuses:\n  '': b\n",
         "x.yaml:2:3: statuses: an event type must be a text of 1 to 255 bytes without NUL"},
        {"events: {types: a}\n", "x.yaml:1:17: events.types must be a list, not a single value"},
        {"events: {types: [a, [b]]}\n",
         "x.yaml:1:21: events.types: a type must be a single value, not a list"},
        {"events: {types: ['']}\n",
         "x.yaml:1:18: events.types: a type must be a text of 1 to 255 bytes without NUL"},
        {"events: {types: [a, b, a]}\n", "x.yaml:1:24: events.types: a is listed twice"},
    };
    refuses_all(refusals, ARRAY_COUNT(refusals));
    loads("statuses: {A: " C64 "}\n");
}

static void several_mistakes_are_listed_together_up_to_a_bound(void **state)
{
    (void)state;
    refuses("counters:\n- counterName: a\n  mode: x\n  rules: [{on: e, op: y}, {on: e}]\n"
            "- counterName: b c\n  rules: [{on: e, op: increment}]\n  limit: z\n",
            "x.yaml:3:9: mode must be persistent, windowed or series, not \"x\"\n"
            "x.yaml:4:23: op must be increment or decrement, not \"y\"\n"
            "x.yaml:4:27: a rule needs op\n"
            "x.yaml:5:16: counterName must be 1 to 255 of A-Z a-z 0-9 _ . ~ - :, not \"b c\"\n"
            "x.yaml:7:10: limit must be a whole number from 0 to 9223372036854775807, not \"z\"");
    struct buf text;
    buf_init(&text, 1u << 20);
    buf_addf(&text, "counters:\n");
    for (unsigned i = 0; i < 30; i++)
        buf_addf(&text, "- {counterName: c, mode: x, rules: [{}, {}, {}]}\n");
    buf_add_char(&text, 0);
    assert_int_equal(load_text(text.data), ERR_INVALID);
    assert_int_equal(report.count, CONFIG_ERRORS_MAX);
    assert_non_null(strstr(report.text.data, "(and perhaps more)\n"));
    buf_release(&text);
}

static void a_rule_list_is_bounded(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 20);
    buf_addf(&text, "counters:\n- counterName: c\n  rules:\n");
    for (unsigned i = 0; i < 257; i++)
        buf_addf(&text, "  - {on: e%u, op: increment}\n", i);
    buf_add_char(&text, 0);
    refuses(text.data, "x.yaml:4:3: rules may hold at most 256 entries");
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_42_what_would_not_count_exactly_once_is_refused),
        cmocka_unit_test(counters_that_are_none_are_refused),
        cmocka_unit_test(dimension_sets_that_are_none_are_refused),
        cmocka_unit_test(rules_that_are_none_are_refused),
        cmocka_unit_test(what_belongs_to_another_mode_is_refused),
        cmocka_unit_test(statuses_and_types_that_are_none_are_refused),
        cmocka_unit_test(several_mistakes_are_listed_together_up_to_a_bound),
        cmocka_unit_test(a_rule_list_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
