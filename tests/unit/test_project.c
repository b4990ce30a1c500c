/* test_project.c -- what an event does to the counters: conditions, amounts, dimensions, keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/name.h"
#include "core/object.h"
#include "core/project.h"

#define GENERATION 7
#define SOURCES(...) ((struct source[]){__VA_ARGS__})
#define SETS(...) ((struct dimension_set[]){__VA_ARGS__})
#define RULES(...) ((struct rule[]){__VA_ARGS__})
#define DIMENSION(text)     \
    {                       \
        .name = BYTES(text) \
    }
#define PAYLOAD(part)                                                                            \
    {                                                                                            \
        .name = BYTES("payload." part), .payload = true, .parts_count = 1, .parts = &BYTES(part) \
    }
#define PATH(text, count, ...)                                                                  \
    {                                                                                           \
        .name = BYTES(text), .payload = true, .parts_count = (count), .parts = (struct bytes[]) \
        {                                                                                       \
            __VA_ARGS__                                                                         \
        }                                                                                       \
    }
#define WHOLE_TENANT \
    {                \
        0, NULL      \
    }
#define UP(...)                                            \
    {                                                      \
        .on = BYTES("up"), .op = OP_INCREMENT, __VA_ARGS__ \
    }
#define DOWN(...)                                            \
    {                                                        \
        .on = BYTES("down"), .op = OP_DECREMENT, __VA_ARGS__ \
    }

static struct json_parser *parser;
static struct arena arena;
static struct rules *rules;
static struct hash_secret secret;
static char *held; /* the payload's text */

static void assert_bytes(struct bytes got, struct bytes want)
{
    if (!bytes_equal(got, want))
        fail_msg("got %.*s, not %.*s", (int)got.size, got.data, (int)want.size, want.data);
}

static void use(struct definition *definitions, unsigned count)
{
    rules_release(rules);
    rules = rules_new();
    rules->definitions = definitions;
    rules->definitions_count = count;
    for (unsigned i = 0; i < count; i++)
        definitions[i].generation = GENERATION;
    rules_seal(rules);
}

static struct json_value payload_of(const char *text)
{
    struct json_value payload = {.type = JSON_ABSENT};
    if (!text) return payload;
    free(held);
    held = calloc(1, strlen(text) + JSON_PADDING);
    assert_non_null(held);
    memcpy(held, text, strlen(text));
    assert_true(json_parse(parser, bytes_of(held, strlen(text)), &payload));
    return payload;
}

/* `dimensions`: "key=value key=value", each once and sorted. */
static struct projection *project_only(const char *type, const char *dimensions,
                                       const char *payload_text, const struct definition *only)
{
    struct dimension found[EVENT_DIMENSIONS_MAX];
    struct json_value payload = payload_of(payload_text);
    struct event event = {.id = BYTES("E1"), .type = bytes_str(type), .dimensions = found};
    for (struct bytes rest = bytes_str(dimensions); rest.size;) {
        struct bytes value = bytes_split(&rest, ' ');
        struct bytes key = bytes_split(&value, '=');
        found[event.dimensions_count++] = (struct dimension){key, value};
    }
    struct buf json;
    buf_init(&json, EVENT_SIZE_MAX);
    dimensions_write(&json, found, event.dimensions_count);
    event.dimensions_json = arena_copy(&arena, buf_bytes(&json));
    buf_release(&json);
    if (payload_text) event.payload = bytes_str(payload_text);
    const struct project_input input = {.rules = rules,
                                        .secret = &secret,
                                        .tenant = BYTES("t1"),
                                        .only = only,
                                        .generation = GENERATION + 1,
                                        .payload = &payload,
                                        .arena = &arena};
    return project(&input, &event);
}

static struct projection *send(const char *type, const char *dimensions, const char *payload)
{
    return project_only(type, dimensions, payload, NULL);
}

static void assert_target(const struct target *target, const char *json)
{
    struct bytes tenant, name, dimensions;
    uint32_t generation;
    assert_true(rule_key_split(target->key, &tenant, &name, &generation, &dimensions));
    assert_bytes(tenant, BYTES("t1"));
    assert_bytes(dimensions, bytes_str(json));
    assert_int_equal(generation, GENERATION);
    assert_true(fingerprint_equal(target->print, fingerprint_of(&secret, target->key)));
    assert_non_null(target->cells);
}

/* A counter by `key` and for the whole tenant. */
static struct definition by_key(const char *name, struct rule *list, unsigned count)
{
    static struct source key[] = {DIMENSION("key")};
    static struct dimension_set sets[] = {{1, key}, WHOLE_TENANT};
    return (struct definition){.name = bytes_str(name),
                               .sets = sets,
                               .sets_count = 2,
                               .rules = list,
                               .rules_count = count,
                               .limit = LIMIT_NONE};
}

static void an_event_changes_every_set_of_every_counter_it_drives(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1), DOWN(.amount = 1)), 2),
                             by_key("b", RULES(UP(.amount = 5)), 1),
                             by_key("c", RULES(DOWN(.amount = 1)), 1)};
    use(d, 3);
    const struct projection *p = send("up", "key=k1", NULL);
    assert_int_equal(p->changes_count, 2);
    assert_ptr_equal(p->rules, rules);
    assert_ptr_equal(p->changes[0].definition, &d[0]);
    assert_int_equal(p->changes[0].op, OP_INCREMENT);
    assert_int_equal(p->changes[0].amount, 1);
    assert_int_equal(p->changes[0].generation, GENERATION);
    assert_null(p->changes[0].entity);
    assert_int_equal(p->changes[0].targets_count, 2);
    assert_target(&p->changes[0].targets[0], "{\"key\":\"k1\"}");
    assert_target(&p->changes[0].targets[1], "{}");
    assert_int_equal(p->changes[1].amount, 5);
    assert_int_equal(p->missing_dimension, 0);
    assert_null(p->row);
    assert_int_equal(send("down", "key=k1", NULL)->changes[0].op, OP_DECREMENT);
}

/* Where a set is all of the event's dimensions its JSON is not written again, so that must be told
 * from one that only looks like it. */
static void a_dimension_named_like_a_part_of_the_payload_is_not_that_part(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    d[0].sets = SETS({1, SOURCES(PAYLOAD("x"))});
    d[0].sets_count = 1;
    use(d, 1);
    const struct projection *p = send("up", "payload.x=dimension", "{\"x\":\"payload\"}");
    assert_int_equal(p->changes[0].targets_count, 1);
    assert_target(&p->changes[0].targets[0], "{\"payload.x\":\"payload\"}");
}

/* S1-44 and S0-16 */
static void S0_16_a_type_without_a_rule_changes_nothing(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    use(d, 1);
    assert_int_equal(send("artifact_status_changed", "key=k1", NULL)->changes_count, 0);
    d[0].frozen = true;
    use(d, 1);
    assert_int_equal(send("up", "key=k1", NULL)->changes_count, 0);
    assert_int_equal(project_only("up", "key=k1", NULL, &d[0])->changes_count, 0);
}

/* S1-43, S1-04 */
static void S1_43_only_the_named_dimensions_form_the_key_in_their_order(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    d[0].sets = SETS({2, SOURCES(DIMENSION("b"), DIMENSION("a"))});
    d[0].sets_count = 1;
    use(d, 1);
    const struct projection *p = send("up", "a=1 b=2 other=3", NULL);
    assert_target(&p->changes[0].targets[0], "{\"a\":\"1\",\"b\":\"2\"}");
    assert_int_equal(p->changes[0].targets_count, 1);
}

/* that set only. S0-24: without an organisation the whole tenant still counts. */
static void A_08_S0_24_a_missing_dimension_skips_its_set_only(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1),
                             by_key("b", RULES(UP(.amount = 1)), 1)};
    d[1].sets_count = 1;
    use(d, 2);
    const struct projection *p = send("up", "other=1", NULL);
    assert_int_equal(p->missing_dimension, 2);
    assert_int_equal(p->changes_count, 1); /* b has nothing left */
    assert_int_equal(p->changes[0].targets_count, 1);
    assert_target(&p->changes[0].targets[0], "{}");
    assert_target(&send("up", "key=", NULL)->changes[0].targets[0], "{\"key\":\"\"}");
}

/* 1 and "1" are the same, also where they come from the payload. */
static void A_11_values_from_the_payload_count_by_their_string_form(void **state)
{
    static const struct {
        const char *payload, *json; /* NULL: missing */
    } cases[] = {
        {"{\"x\":1}", "{\"payload.x\":\"1\"}"},
        {"{\"x\":\"1\"}", "{\"payload.x\":\"1\"}"},
        {"{\"x\":-9223372036854775808}", "{\"payload.x\":\"-9223372036854775808\"}"},
        {"{\"x\":true}", "{\"payload.x\":\"true\"}"},
        {"{\"x\":false}", "{\"payload.x\":\"false\"}"},
        {"{\"x\":\"\"}", "{\"payload.x\":\"\"}"},
        {"{\"x\":\"a\\n\\\"\"}", "{\"payload.x\":\"a\\u000a\\\"\"}"},
        {"{\"x\":1,\"x\":2}", "{\"payload.x\":\"2\"}"},
        {"{\"x\":null}", NULL},
        {"{\"x\":1.5}", NULL},
        {"{\"x\":1.0}", NULL},
        {"{\"x\":9223372036854775808}", NULL},
        {"{\"x\":{}}", NULL},
        {"{\"x\":[1]}", NULL},
        {"{}", NULL},
        {"[{\"x\":1}]", NULL},
        {"\"x\"", NULL},
        {NULL, NULL},
    };
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    d[0].sets = SETS({1, SOURCES(PAYLOAD("x"))});
    d[0].sets_count = 1;
    use(d, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct projection *p = send("up", "x=no", cases[i].payload);
        if (p->changes_count != (cases[i].json != NULL)) fail_msg("case %zu", i);
        assert_int_equal(p->missing_dimension, cases[i].json == NULL);
        if (cases[i].json) assert_target(&p->changes[0].targets[0], cases[i].json);
    }
}

static void a_path_goes_down_through_objects_only(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    d[0].sets = SETS({1, SOURCES(PATH("payload.a.b.c", 3, BYTES("a"), BYTES("b"), BYTES("c")))});
    d[0].sets_count = 1;
    use(d, 1);
    const struct projection *p = send("up", "", "{\"a\":{\"b\":1,\"b\":{\"c\":\"deep\"}}}");
    assert_target(&p->changes[0].targets[0], "{\"payload.a.b.c\":\"deep\"}");
    assert_int_equal(send("up", "", "{\"a\":[{\"b\":{\"c\":1}}]}")->changes_count, 0);
    assert_int_equal(send("up", "", "{\"a\":{\"b\":\"c\"}}")->changes_count, 0);
    assert_int_equal(send("up", "", "{\"a.b.c\":1}")->changes_count, 0);
}

/* A-38, S4-37: absent is 0, what is no amount is 0 and noticed. */
static void A_38_S4_37_amounts_come_from_the_payload(void **state)
{
    static const struct {
        const char *payload;
        int64_t amount;
        bool bad;
    } cases[] = {
        {"{\"size\":1234}", 1234, false},
        {"{\"size\":0}", 0, false},
        {"{\"size\":9223372036854775807}", INT64_MAX, false},
        {"{\"size\":\"1234\"}", 1234, false},
        {"{}", 0, false},
        {"{\"size\":null}", 0, false},
        {NULL, 0, false},
        {"{\"size\":-1}", 0, true},
        {"{\"size\":-7}", 0, true},
        {"{\"size\":-9223372036854775808}", 0, true},
        {"{\"size\":\"-1\"}", 0, true},
        {"{\"size\":1.5}", 0, true},
        {"{\"size\":1.0}", 0, true},
        {"{\"size\":9223372036854775808}", 0, true},
        {"{\"size\":\"9223372036854775808\"}", 0, true},
        {"{\"size\":\"\"}", 0, true},
        {"{\"size\":\"1e3\"}", 0, true},
        {"{\"size\":true}", 0, true},
        {"{\"size\":{}}", 0, true},
        {"{\"size\":[1]}", 0, true},
    };
    struct definition d[] = {by_key("a", RULES(UP(.amount_from = PAYLOAD("size"))), 1)};
    use(d, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct projection *p = send("up", "key=1", cases[i].payload);
        assert_int_equal(p->changes_count, 1);
        if (p->changes[0].amount != cases[i].amount) fail_msg("case %zu", i);
        if (p->bad_amount != cases[i].bad) fail_msg("case %zu", i);
    }
}

static void an_amount_may_be_a_dimension(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount_from = DIMENSION("n"))), 1)};
    use(d, 1);
    assert_int_equal(send("up", "key=1 n=12", NULL)->changes[0].amount, 12);
    assert_int_equal(send("up", "key=1", NULL)->changes[0].amount, 0);
    assert_int_equal(send("up", "key=1 n=x", NULL)->bad_amount, 1);
}

static void a_rule_applies_where_all_its_conditions_hold(void **state)
{
    struct condition where[] = {{PAYLOAD("kind"), BYTES("note")}, {DIMENSION("n"), BYTES("1")}};
    struct definition d[] = {
        by_key("a", RULES(UP(.amount = 1, .where = where, .where_count = 2)), 1)};
    use(d, 1);
    assert_int_equal(send("up", "n=1", "{\"kind\":\"note\"}")->changes_count, 1);
    assert_int_equal(send("up", "n=2", "{\"kind\":\"note\"}")->changes_count, 0);
    assert_int_equal(send("up", "n=1", "{\"kind\":\"notes\"}")->changes_count, 0);
    assert_int_equal(send("up", "n=1", NULL)->changes_count, 0);
    assert_int_equal(send("up", "", "{\"kind\":\"note\"}")->changes_count, 0);
    assert_int_equal(send("up", "n=2", "{\"kind\":\"note\"}")->missing_dimension, 0);
}

static void conditions_compare_string_forms_and_absent_equals_nothing(void **state)
{
    struct condition where[] = {{PAYLOAD("x"), BYTES("1")}};
    struct definition d[] = {
        by_key("a", RULES(UP(.amount = 1, .where = where, .where_count = 1)), 1)};
    use(d, 1);
    assert_int_equal(send("up", "", "{\"x\":1}")->changes_count, 1);
    assert_int_equal(send("up", "", "{\"x\":\"1\"}")->changes_count, 1);
    where[0].value = BYTES("true");
    assert_int_equal(send("up", "", "{\"x\":true}")->changes_count, 1);
    where[0].value = BYTES("");
    assert_int_equal(send("up", "", "{\"x\":\"\"}")->changes_count, 1);
    assert_int_equal(send("up", "", "{}")->changes_count, 0);
    where[0].value = BYTES("null");
    assert_int_equal(send("up", "", "{\"x\":null}")->changes_count, 0);
}

static void a_transition_safe_counter_knows_its_entity(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1), DOWN(.amount = 1)), 2)};
    d[0].entity = SOURCES(PAYLOAD("id"), DIMENSION("account"));
    d[0].entity_count = 2;
    use(d, 1);
    const struct change *change = send("up", "account=x key=1", "{\"id\":5}")->changes;
    assert_bytes(change->entity->key,
                 object_state_key(&arena, BYTES("t1"), BYTES("a"), GENERATION,
                                  BYTES("{\"account\":\"x\",\"payload.id\":\"5\"}")));
    assert_true(
        fingerprint_equal(change->entity->print, fingerprint_of(&secret, change->entity->key)));
    assert_int_equal(change->targets_count, 2);
}

static void without_its_entity_a_counter_is_skipped_whole(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1),
                             by_key("b", RULES(UP(.amount = 1)), 1)};
    d[0].entity = SOURCES(DIMENSION("account"));
    d[0].entity_count = 1;
    use(d, 2);
    const struct projection *p = send("up", "key=1", NULL);
    assert_int_equal(p->changes_count, 1);
    assert_ptr_equal(p->changes[0].definition, &d[1]);
    assert_int_equal(p->missing_entity, 1);
    assert_int_equal(p->missing_dimension, 0);
}

/* A decrement counts where the entity was switched on, so it needs no dimensions of its own. */
static void an_entity_alone_is_a_change(void **state)
{
    struct definition d[] = {by_key("a", RULES(DOWN(.amount = 1)), 1)};
    d[0].sets_count = 1;
    d[0].entity = SOURCES(DIMENSION("account"));
    d[0].entity_count = 1;
    use(d, 1);
    const struct projection *p = send("down", "account=x", NULL);
    assert_int_equal(p->changes_count, 1);
    assert_int_equal(p->changes[0].targets_count, 0);
    assert_non_null(p->changes[0].entity);
}

static void a_status_or_a_usage_counter_touches_the_tenant_s_row(void **state)
{
    struct status_rule statuses[] = {{BYTES("Provisioned"), BYTES("active")}};
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1), DOWN(.amount = 1)), 2)};
    d[0].group = USAGE_GROUP;
    d[0].sets_count = 1;
    rules_release(rules);
    rules = rules_new();
    rules->definitions = d, rules->definitions_count = 1;
    rules->statuses = statuses, rules->statuses_count = 1;
    rules_seal(rules);

    const struct projection *p = send("Provisioned", "", NULL);
    assert_bytes(p->row->status, BYTES("active"));
    assert_bytes(p->row->key, BYTES("ut1"));
    assert_true(fingerprint_equal(p->row->print, fingerprint_of(&secret, p->row->key)));
    assert_false(p->usage);

    p = send("up", "key=1", NULL);
    assert_true(p->usage);
    assert_bytes(p->row->key, BYTES("ut1"));
    assert_int_equal(p->row->status.size, 0);
    assert_null(send("up", "", NULL)->row); /* nothing changed */
}

static void a_rebuild_counts_one_counter_into_its_own_generation(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1),
                             by_key("b", RULES(DOWN(.amount = 1), UP(.amount = 2)), 2)};
    d[1].group = USAGE_GROUP;
    d[1].entity = SOURCES(DIMENSION("key"));
    d[1].entity_count = 1;
    use(d, 2);
    const struct projection *p = project_only("up", "key=1", NULL, &d[1]);
    struct bytes tenant, name, json;
    uint32_t generation;
    assert_int_equal(p->changes_count, 1);
    assert_int_equal(p->changes[0].amount, 2);
    assert_int_equal(p->changes[0].generation, GENERATION + 1);
    assert_true(rule_key_split(p->changes[0].targets[0].key, &tenant, &name, &generation, &json));
    assert_bytes(name, BYTES("b"));
    assert_int_equal(generation, GENERATION + 1);
    assert_bytes(p->changes[0].entity->key,
                 object_state_key(&arena, BYTES("t1"), BYTES("b"), GENERATION + 1,
                                  BYTES("{\"key\":\"1\"}")));
    assert_null(p->row); /* the tenant's row has seen this event before */
}

static void cells_have_room_for_what_the_mode_keeps(void **state)
{
    int32_t granularities[] = {0, 60, 3600};
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    d[0].mode = MODE_SERIES;
    d[0].granularities = granularities;
    d[0].granularities_count = 3;
    use(d, 1);
    const struct change *change = send("up", "key=1", NULL)->changes;
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < 3; i++)
            change->targets[t].cells[i] = 10 * t + i;
    assert_int_equal(change->targets[0].cells[2], 2);
    assert_int_equal(change->targets[1].cells[0], 10);
}

static void long_values_are_whole_in_the_key(void **state)
{
    static char dimensions[9000] = "key=";
    memset(dimensions + 4, '\n', sizeof dimensions - 5);
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    use(d, 1);
    const struct projection *p = send("up", dimensions, NULL);
    size_t json = sizeof "{\"key\":\"\"}" - 1 + 6 * (sizeof dimensions - 5);
    size_t prefix = rule_key_prefix(&arena, BYTES("t1"), BYTES("a"), 1).size;
    assert_int_equal(p->changes[0].targets[0].key.size, prefix + json);
    assert_true(p->weight > json);
}

/* The lower bounds that the journal relies on. */
static void the_weight_covers_the_event_its_targets_and_its_objects(void **state)
{
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1), DOWN(.amount = 1)), 2)};
    use(d, 1);
    size_t nothing = send("none", "key=1", NULL)->weight;
    size_t with_payload = send("none", "key=1", "{\"x\":[1,2,3]}")->weight;
    assert_true(nothing >= sizeof "t1E1none" - 1 + 64);
    assert_int_equal(with_payload - nothing, sizeof "{\"x\":[1,2,3]}" - 1);

    const struct projection *p = send("up", "key=1", NULL);
    size_t keys = p->changes[0].targets[0].key.size + p->changes[0].targets[1].key.size;
    assert_true(p->weight >= nothing - 2 + keys + 2 * (96 + 40));

    d[0].entity = SOURCES(DIMENSION("key"));
    d[0].entity_count = 1;
    size_t raw = p->weight;
    p = send("up", "key=1", NULL);
    assert_true(p->weight >= raw + keys + p->changes[0].entity->key.size + 64);
    p = send("down", "key=1", NULL);
    assert_true(p->weight >= ENTITY_KEYS_MAX + RULES_SETS_MAX * (size_t)(96 + 40));
    assert_false(p->too_large);
}

/* A decrement has to find room for what it was switched on under, so that has a bound. */
static void an_entity_whose_sets_are_too_long_to_remember_is_too_large(void **state)
{
    static char dimensions[9000] = "key=";
    memset(dimensions + 4, 'x', sizeof dimensions - 5);
    struct definition d[] = {by_key("a", RULES(UP(.amount = 1)), 1)};
    use(d, 1);
    assert_false(send("up", dimensions, NULL)->too_large);
    d[0].entity = SOURCES(DIMENSION("id"));
    d[0].entity_count = 1;
    char with_id[9100];
    snprintf(with_id, sizeof with_id, "id=1 %s", dimensions);
    assert_true(send("up", with_id, NULL)->too_large);
    assert_false(send("up", "id=1 key=short", NULL)->too_large);
}

static int setup(void **state)
{
    parser = json_parser_new(64u << 10);
    arena_init(&arena, 256);
    memset(&secret, 0x5a, sizeof secret);
    return 0;
}

static int teardown(void **state)
{
    json_parser_free(parser);
    arena_release(&arena);
    rules_release(rules);
    free(held);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_changes_every_set_of_every_counter_it_drives),
        cmocka_unit_test(a_dimension_named_like_a_part_of_the_payload_is_not_that_part),
        cmocka_unit_test(S0_16_a_type_without_a_rule_changes_nothing),
        cmocka_unit_test(S1_43_only_the_named_dimensions_form_the_key_in_their_order),
        cmocka_unit_test(A_08_S0_24_a_missing_dimension_skips_its_set_only),
        cmocka_unit_test(A_11_values_from_the_payload_count_by_their_string_form),
        cmocka_unit_test(a_path_goes_down_through_objects_only),
        cmocka_unit_test(A_38_S4_37_amounts_come_from_the_payload),
        cmocka_unit_test(an_amount_may_be_a_dimension),
        cmocka_unit_test(a_rule_applies_where_all_its_conditions_hold),
        cmocka_unit_test(conditions_compare_string_forms_and_absent_equals_nothing),
        cmocka_unit_test(a_transition_safe_counter_knows_its_entity),
        cmocka_unit_test(without_its_entity_a_counter_is_skipped_whole),
        cmocka_unit_test(an_entity_alone_is_a_change),
        cmocka_unit_test(a_status_or_a_usage_counter_touches_the_tenant_s_row),
        cmocka_unit_test(a_rebuild_counts_one_counter_into_its_own_generation),
        cmocka_unit_test(cells_have_room_for_what_the_mode_keeps),
        cmocka_unit_test(long_values_are_whole_in_the_key),
        cmocka_unit_test(the_weight_covers_the_event_its_targets_and_its_objects),
        cmocka_unit_test(an_entity_whose_sets_are_too_long_to_remember_is_too_large),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
