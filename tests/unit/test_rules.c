/* test_rules.c -- compiled rules: lookups, sets, and definitions as the store keeps them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/rules.h"

#define SOURCES(...) ((struct source[]){__VA_ARGS__})
#define DIMENSION(text)     \
    {                       \
        .name = BYTES(text) \
    }

static void assert_bytes(struct bytes got, struct bytes want)
{
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
}

static struct rule on(const char *type, enum op_kind op)
{
    return (struct rule){.on = bytes_str(type), .op = op, .amount = 1};
}

/* Two counters in force with a type in common, and a frozen one. */
static struct rules *some_rules(void)
{
    static struct rule first[2], second[2], frozen[1];
    static struct definition definitions[3];
    static struct status_rule statuses[] = {{BYTES("Provisioned"), BYTES("active")},
                                            {BYTES("up"), BYTES("growing")}};
    first[0] = on("up", OP_INCREMENT), first[1] = on("down", OP_DECREMENT);
    second[0] = on("up", OP_INCREMENT), second[1] = on("up", OP_DECREMENT);
    frozen[0] = on("up", OP_INCREMENT);
    definitions[0] = (struct definition){.name = BYTES("first"), .rules = first, .rules_count = 2};
    definitions[1] =
        (struct definition){.name = BYTES("second"), .rules = second, .rules_count = 2};
    definitions[2] = (struct definition){
        .name = BYTES("gone"), .rules = frozen, .rules_count = 1, .frozen = true};

    struct rules *rules = rules_new();
    rules->definitions = definitions;
    rules->definitions_count = 3;
    rules->statuses = statuses;
    rules->statuses_count = 2;
    rules_seal(rules);
    return rules;
}

static void rules_that_say_nothing_answer_every_question(void **state)
{
    struct rules *rules = rules_new();
    unsigned count = 9;
    rules_seal(rules);
    assert_null(rules_find(rules, BYTES("x")));
    rules_triggers(rules, BYTES("x"), &count);
    assert_int_equal(count, 0);
    assert_int_equal(rules_status(rules, BYTES("x")).size, 0);
    assert_true(rules_type_known(rules, BYTES("x")));
    rules_release(rules);
    rules_release(NULL);
}

static void the_last_reference_frees(void **state)
{
    struct rules *rules = some_rules();
    assert_ptr_equal(rules_hold(rules), rules);
    rules_release(rules);
    assert_non_null(rules_find(rules, BYTES("first")));
    rules_release(rules); /* the leak checker sees the rest */
}

static void a_counter_is_found_by_its_whole_name_also_if_frozen(void **state)
{
    struct rules *rules = some_rules();
    assert_ptr_equal(rules_find(rules, BYTES("first")), &rules->definitions[0]);
    assert_ptr_equal(rules_find(rules, BYTES("gone")), &rules->definitions[2]);
    assert_null(rules_find(rules, BYTES("firs")));
    assert_null(rules_find(rules, BYTES("First")));
    assert_null(rules_find(rules, BYTES_NONE));
    rules_release(rules);
}

static void a_type_sets_off_its_rules_in_the_order_of_the_file(void **state)
{
    struct rules *rules = some_rules();
    unsigned count;
    const struct trigger *triggers = rules_triggers(rules, BYTES("up"), &count);
    assert_int_equal(count, 3);
    assert_ptr_equal(triggers[0].rule, &rules->definitions[0].rules[0]);
    assert_ptr_equal(triggers[1].rule, &rules->definitions[1].rules[0]);
    assert_ptr_equal(triggers[2].rule, &rules->definitions[1].rules[1]);
    assert_ptr_equal(triggers[2].definition, &rules->definitions[1]);
    rules_triggers(rules, BYTES("down"), &count);
    assert_int_equal(count, 1);
    rules_release(rules);
}

/* S1-44 and S0-16: a type without a rule. */
static void S1_44_a_type_that_no_rule_names_sets_off_nothing(void **state)
{
    struct rules *rules = some_rules();
    unsigned count = 9;
    rules_triggers(rules, BYTES("artifact_status_changed"), &count);
    assert_int_equal(count, 0);
    rules_triggers(rules, BYTES("Provisioned"), &count); /* known for its status only */
    assert_int_equal(count, 0);
    rules_release(rules);
}

static void a_status_goes_with_its_type(void **state)
{
    struct rules *rules = some_rules();
    assert_bytes(rules_status(rules, BYTES("Provisioned")), BYTES("active"));
    assert_bytes(rules_status(rules, BYTES("up")), BYTES("growing"));
    assert_int_equal(rules_status(rules, BYTES("down")).size, 0);
    rules_release(rules);
}

static void a_closed_list_knows_what_it_lists_and_an_empty_one_nothing(void **state)
{
    struct bytes types[] = {BYTES("up")};
    struct rules *rules = rules_new();
    rules->types = types;
    rules->types_count = 1;
    rules->types_closed = true;
    rules_seal(rules);
    assert_true(rules_type_known(rules, BYTES("up")));
    assert_false(rules_type_known(rules, BYTES("down")));
    rules_release(rules);

    rules = rules_new();
    rules->types_closed = true;
    rules_seal(rules);
    assert_false(rules_type_known(rules, BYTES("up")));
    rules_release(rules);
}

static void as_many_counters_as_there_may_be_are_all_found(void **state)
{
    static struct definition definitions[RULES_COUNTERS_MAX];
    static struct rule rules_of[RULES_COUNTERS_MAX];
    static char names[RULES_COUNTERS_MAX][16];
    for (int i = 0; i < RULES_COUNTERS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        rules_of[i] = on(names[i], OP_INCREMENT);
        definitions[i] = (struct definition){
            .name = bytes_str(names[i]), .rules = &rules_of[i], .rules_count = 1};
    }
    struct rules *rules = rules_new();
    rules->definitions = definitions;
    rules->definitions_count = RULES_COUNTERS_MAX;
    rules_seal(rules);
    for (int i = 0; i < RULES_COUNTERS_MAX; i++) {
        unsigned count;
        struct bytes name = bytes_str(names[i]);
        assert_ptr_equal(rules_find(rules, name), &definitions[i]);
        assert_ptr_equal(rules_triggers(rules, name, &count)->rule, &rules_of[i]);
        assert_int_equal(count, 1);
    }
    rules_release(rules);
}

static void sealing_sorts_dimensions_entity_and_granularities(void **state)
{
    struct dimension_set sets[] = {{3, SOURCES(DIMENSION("b"), DIMENSION("a"), DIMENSION("ab"))}};
    int32_t granularities[] = {3600, 0, 60};
    struct definition definition = {
        .name = BYTES("n"),
        .mode = MODE_SERIES,
        .sets = sets,
        .sets_count = 1,
        .entity = SOURCES(DIMENSION("y"), DIMENSION("x")),
        .entity_count = 2,
        .granularities = granularities,
        .granularities_count = 3,
    };
    struct rules *rules = rules_new();
    rules->definitions = &definition;
    rules->definitions_count = 1;
    rules_seal(rules);
    assert_bytes(sets[0].sources[0].name, BYTES("a"));
    assert_bytes(sets[0].sources[1].name, BYTES("ab"));
    assert_bytes(sets[0].sources[2].name, BYTES("b"));
    assert_bytes(definition.entity[0].name, BYTES("x"));
    assert_int_equal(granularities[0], 0);
    assert_int_equal(granularities[2], 3600);
    rules_release(rules);
}

/* SPEC 7: dim. parameters name exactly one kept set. */
static void a_set_is_found_by_exactly_its_keys(void **state)
{
    struct dimension_set sets[] = {
        {2, SOURCES(DIMENSION("a"), DIMENSION("b"))}, {0, NULL}, {1, SOURCES(DIMENSION("b"))}};
    struct definition definition = {.sets = sets, .sets_count = 3};
    struct bytes ab[] = {BYTES("a"), BYTES("b")}, c[] = {BYTES("c")};
    assert_int_equal(definition_set(&definition, ab, 2), 0);
    assert_int_equal(definition_set(&definition, NULL, 0), 1);
    assert_int_equal(definition_set(&definition, ab + 1, 1), 2);
    assert_int_equal(definition_set(&definition, ab, 1), -1);
    assert_int_equal(definition_set(&definition, c, 1), -1);
    definition.sets_count = 1;
    assert_int_equal(definition_set(&definition, NULL, 0), -1);
}

static void a_set_has_as_many_cells_as_its_mode_needs(void **state)
{
    struct definition definition = {.mode = MODE_PERSISTENT};
    assert_int_equal(definition_cells(&definition), 1);
    definition.mode = MODE_WINDOWED;
    assert_int_equal(definition_cells(&definition), 1);
    definition.trailing = true;
    assert_int_equal(definition_cells(&definition), 2);
    definition.mode = MODE_SERIES;
    definition.granularities_count = 4;
    assert_int_equal(definition_cells(&definition), 4);
}

/* ---- as the store keeps them ---- */

static struct arena arena;
static struct buf out;

static struct definition windowed(void)
{
    static struct dimension_set sets[] = {{2, NULL}, {0, NULL}};
    static struct source first[] = {DIMENSION("a"), DIMENSION("payload.x.y")};
    static struct source entity[] = {DIMENSION("e")};
    sets[0].sources = first;
    return (struct definition){
        .name = BYTES("artifacts_1h"),
        .mode = MODE_WINDOWED,
        .sets = sets,
        .sets_count = 2,
        .floor_at_zero = true,
        .entity = entity,
        .entity_count = 1,
        .group = BYTES("usage"),
        .limit = LIMIT_NONE,
        .window_ms = 3600 * 1000,
        .trailing = true,
        .trailing_seconds = 60,
        .generation = UINT32_MAX,
        .since = UINT64_MAX,
        .adjusted = true,
    };
}

static struct definition series(void)
{
    static int32_t granularities[] = {0, 60, INT32_MAX};
    static struct dimension_set sets[] = {{0, NULL}};
    return (struct definition){.name = BYTES("views"),
                               .mode = MODE_SERIES,
                               .sets = sets,
                               .sets_count = 1,
                               .limit = 10000,
                               .granularities = granularities,
                               .granularities_count = 3,
                               .keep_ms = INT64_MAX,
                               .generation = 1,
                               .frozen = true};
}

static struct bytes encoded(const struct definition *definition)
{
    buf_reset(&out);
    definition_encode(&out, definition);
    assert_false(out.failed);
    return buf_bytes(&out);
}

static void a_windowed_definition_comes_back(void **state)
{
    struct definition before = windowed(), d;
    assert_int_equal(definition_decode(encoded(&before), &arena, &d), ERR_OK);
    buf_reset(&out), buf_add(&out, BYTES("overwritten ............")); /* nothing is borrowed */
    assert_bytes(d.name, before.name);
    assert_int_equal(d.mode, MODE_WINDOWED);
    assert_int_equal(d.window_ms, before.window_ms);
    assert_int_equal(d.trailing_seconds, 60);
    assert_true(d.floor_at_zero && d.trailing && d.adjusted && !d.frozen);
    assert_bytes(d.group, BYTES("usage"));
    assert_int_equal(d.limit, LIMIT_NONE);
    assert_true(d.generation == UINT32_MAX && d.since == UINT64_MAX);
    assert_int_equal(d.rules_count, 0);
    assert_int_equal(d.entity_count, 1);
    assert_bytes(d.entity[0].name, BYTES("e"));
    assert_int_equal(definition_set(&d, (struct bytes[]){BYTES("a"), BYTES("payload.x.y")}, 2), 0);
    assert_int_equal(definition_set(&d, NULL, 0), 1);
    assert_false(d.sets[0].sources[0].payload);
    assert_true(d.sets[0].sources[1].payload);
    assert_int_equal(d.sets[0].sources[1].parts_count, 2);
    assert_bytes(d.sets[0].sources[1].parts[1], BYTES("y"));
}

static void a_series_comes_back(void **state)
{
    struct definition before = series(), d;
    assert_int_equal(definition_decode(encoded(&before), &arena, &d), ERR_OK);
    assert_int_equal(d.mode, MODE_SERIES);
    assert_int_equal(d.granularities_count, 3);
    assert_memory_equal(d.granularities, before.granularities, 3 * sizeof(int32_t));
    assert_int_equal(d.limit, 10000);
    assert_true(d.keep_ms == INT64_MAX);
    assert_true(d.frozen && !d.adjusted && !d.floor_at_zero && !d.trailing);
}

static void a_definition_cut_short_or_with_more_behind_it_is_corrupt(void **state)
{
    struct definition before = windowed(), d;
    struct bytes whole = encoded(&before);
    for (size_t size = 0; size < whole.size; size++)
        assert_int_equal(definition_decode(bytes_of(whole.data, size), &arena, &d), ERR_CORRUPT);
    buf_add_char(&out, 0);
    assert_int_equal(definition_decode(buf_bytes(&out), &arena, &d), ERR_CORRUPT);
}

/* Whatever a byte is changed to, decoding ends, and with a definition that can be used. */
static void a_definition_with_any_byte_changed_is_corrupt_or_another_one(void **state)
{
    struct definition all[] = {windowed(), series()}, d;
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        encoded(&all[i]);
        for (size_t at = 0; at < out.size; at++) {
            char kept = out.data[at];
            for (int byte = 0; byte < 256; byte++) {
                out.data[at] = (char)byte;
                if (definition_decode(buf_bytes(&out), &arena, &d) != ERR_OK) continue;
                assert_true(definition_cells(&d) >= 1);
                assert_true(d.sets_count <= RULES_SETS_MAX);
            }
            out.data[at] = kept;
            arena_reset(&arena);
        }
    }
}

static void refused(struct definition definition)
{
    struct definition d;
    assert_int_equal(definition_decode(encoded(&definition), &arena, &d), ERR_CORRUPT);
}

static void definitions_that_no_encoder_was_given_are_corrupt(void **state)
{
    struct definition d = windowed();
    d.window_ms = 0, refused(d);
    d = windowed(), d.trailing_seconds = 0, refused(d);
    d = windowed(), d.limit = -2, refused(d);
    d = windowed(), d.name = BYTES("not a name"), refused(d);
    d = windowed(), d.name = BYTES_NONE, refused(d);
    d = windowed(), d.entity = SOURCES(DIMENSION("b"), DIMENSION("a")), d.entity_count = 2;
    refused(d);
    d = windowed(), d.entity = SOURCES(DIMENSION("a"), DIMENSION("a")), d.entity_count = 2;
    refused(d);
    d = series(), d.granularities_count = 0, refused(d);
    d = series(), d.granularities = (int32_t[]){60, 60, 61}, refused(d);
    d = series(), d.granularities = (int32_t[]){60, -1, 61}, refused(d);
    d = series(), d.keep_ms = -1, refused(d);
}

static int setup(void **state)
{
    arena_init(&arena, 4096);
    buf_init(&out, 1u << 16);
    return 0;
}

static int teardown(void **state)
{
    arena_release(&arena);
    buf_release(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_say_nothing_answer_every_question),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(a_counter_is_found_by_its_whole_name_also_if_frozen),
        cmocka_unit_test(a_type_sets_off_its_rules_in_the_order_of_the_file),
        cmocka_unit_test(S1_44_a_type_that_no_rule_names_sets_off_nothing),
        cmocka_unit_test(a_status_goes_with_its_type),
        cmocka_unit_test(a_closed_list_knows_what_it_lists_and_an_empty_one_nothing),
        cmocka_unit_test(as_many_counters_as_there_may_be_are_all_found),
        cmocka_unit_test(sealing_sorts_dimensions_entity_and_granularities),
        cmocka_unit_test(a_set_is_found_by_exactly_its_keys),
        cmocka_unit_test(a_set_has_as_many_cells_as_its_mode_needs),
        cmocka_unit_test(a_windowed_definition_comes_back),
        cmocka_unit_test(a_series_comes_back),
        cmocka_unit_test(a_definition_cut_short_or_with_more_behind_it_is_corrupt),
        cmocka_unit_test(a_definition_with_any_byte_changed_is_corrupt_or_another_one),
        cmocka_unit_test(definitions_that_no_encoder_was_given_are_corrupt),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
