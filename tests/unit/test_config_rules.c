/* test_config_rules.c -- counters, statuses and event types of a config file: what is understood of
 * them, and that it can be printed. What is refused: test_config_refusals.c. */
#include "config_world.h"

#include "core/zones.h"

/* "a b": the keys of a set in their order. */
static void set_is(const struct source *sources, unsigned count, const char *expected)
{
    char keys[512] = "";
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += (size_t)snprintf(keys + size, sizeof keys - size, "%s%.*s", i ? " " : "",
                                 (int)sources[i].name.size, sources[i].name.data);
    assert_string_equal(keys, expected);
}

static void rule_is(const struct rule *rule, const char *on, enum op_kind op)
{
    is(rule->on, on);
    assert_int_equal(rule->op, op);
    assert_int_equal(rule->amount, 1);
    assert_int_equal(rule->where_count, 0);
}

static void connections_are_as_the_seed_says(void)
{
    assert_int_equal(config.rules->definitions_count, 2);
    const struct definition *active = counter(0), *total = counter(1);
    is(active->name, "active_connections");
    assert_int_equal(active->mode, MODE_PERSISTENT);
    assert_int_equal(active->sets_count, 1);
    set_is(active->sets[0].sources, active->sets[0].count, "masterAccountId");
    assert_false(active->sets[0].sources[0].payload);
    assert_true(active->floor_at_zero);
    assert_int_equal(active->rules_count, 2);
    rule_is(&active->rules[0], "account.connected", OP_INCREMENT);
    rule_is(&active->rules[1], "account.disconnected", OP_DECREMENT);
    is(total->name, "connects_total");
    assert_false(total->floor_at_zero);
    assert_int_equal(total->rules_count, 1);
    rule_is(&total->rules[0], "account.connected", OP_INCREMENT);
}

/* S1-39, S1-40: word for word. */
static void S1_40_the_seed_s_example_loads_unchanged(void **state)
{
    (void)state;
    loads("counters:\n"
          "  - counterName: active_connections\n"
          "    mode: persistent\n"
          "    dimensions: [masterAccountId]\n"
          "    floorAtZero: true\n"
          "    rules:\n"
          "      - on: account.connected\n"
          "        op: increment\n"
          "      - on: account.disconnected\n"
          "        op: decrement\n"
          "    idempotency:\n"
          "      requireEventId: true\n"
          "      scope: globalEventId\n"
          "\n"
          "  - counterName: connects_total\n"
          "    mode: persistent\n"
          "    dimensions: [masterAccountId]\n"
          "    floorAtZero: false\n"
          "    rules:\n"
          "      - on: account.connected\n"
          "        op: increment\n"
          "    idempotency:\n"
          "      requireEventId: true\n"
          "      scope: globalEventId\n");
    connections_are_as_the_seed_says();
    assert_string_equal(counter(0)->where, "x.yaml:2:18");
    assert_string_equal(counter(1)->where, "x.yaml:15:18");
}

static void the_example_of_connections_means_the_seed_s(void **state)
{
    (void)state;
    loads_file("etc/examples/connections.yaml");
    connections_are_as_the_seed_says();
}

/* S0-18, E0-01: 27 types, 7 of them counted. */
static void S0_18_the_example_of_a_pipeline_counts_seven_of_27_types(void **state)
{
    (void)state;
    loads_file("etc/examples/pipeline.yaml");
    const struct rules *rules = config.rules;
    assert_true(rules->types_closed && config.events_types);
    assert_int_equal(rules->types_count, 27);
    assert_int_equal(rules->definitions_count, 7);
    for (unsigned i = 0; i < 7; i++) {
        const struct definition *definition = counter(i);
        assert_int_equal(definition->mode, MODE_WINDOWED);
        assert_int_equal(definition->window_ms, 3600000);
        assert_true(definition->trailing);
        assert_int_equal(definition->trailing_seconds, 60);
        assert_int_equal(definition->sets_count, 2);
        set_is(definition->sets[0].sources, definition->sets[0].count, "organizationId");
        assert_int_equal(definition->sets[1].count, 0);
        assert_true(rules_type_known(rules, definition->rules[0].on));
    }
    is(counter(5)->name, "entities_resolved_1h");
    is(counter(5)->rules[0].on, "entity_resolution_completed");
}

static void the_example_of_usage_has_a_row_limits_and_statuses(void **state)
{
    (void)state;
    static const char *const names[] = {"entry_count", "storage_bytes", "api_call_count",
                                        "request_bytes", "api_requests_per_minute"};
    loads_file("etc/examples/usage.yaml");
    assert_int_equal(config.rules->definitions_count, ARRAY_COUNT(names));
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        is(counter(i)->name, names[i]);
        is(counter(i)->group, "usage");
        assert_int_equal(counter(i)->sets[0].count, 0);
    }
    set_is(counter(0)->entity, counter(0)->entity_count, "entryId");
    assert_int_equal(counter(0)->limit, 10000);
    assert_true(counter(1)->floor_at_zero);
    assert_int_equal(counter(1)->rules[0].amount, 0);
    is(counter(1)->rules[0].amount_from.name, "payload.content_size");
    assert_int_equal(counter(2)->limit, LIMIT_NONE);
    assert_int_equal(counter(4)->window_ms, 60000);
    is(rules_status(config.rules, BYTES("Provisioned")), "active");
    is(rules_status(config.rules, BYTES("Decommissioned")), "decommissioned");
    assert_int_equal(rules_status(config.rules, BYTES("Created")).size, 0);
}

static void the_example_of_everything_has_every_feature(void **state)
{
    (void)state;
    loads_file("etc/examples/everything.yaml");
    const struct definition *orders = counter(0), *revenue = counter(1), *inside = counter(3);
    assert_int_equal(orders->mode, MODE_SERIES);
    assert_int_equal(orders->granularities_count, 4);
    assert_int_equal(orders->granularities[3], 86400);
    assert_int_equal(orders->keep_ms, INT64_C(90) * 86400000);
    assert_int_equal(orders->sets_count, 4);
    set_is(orders->sets[0].sources, orders->sets[0].count, "channel country");
    set_is(orders->sets[2].sources, orders->sets[2].count, "payload.customer.kind");
    const struct source *kind = &orders->sets[2].sources[0];
    assert_true(kind->payload && kind->parts_count == 2);
    is(kind->parts[0], "customer");
    is(kind->parts[1], "kind");
    assert_int_equal(revenue->rules[1].where_count, 2);
    is(revenue->rules[1].where[0].source.name, "payload.test");
    is(revenue->rules[1].where[0].value, "false");
    is(revenue->rules[1].where[1].value, "web");
    assert_int_equal(counter(2)->rules[1].amount, 5);
    set_is(inside->entity, inside->entity_count, "visitorId");
    assert_int_equal(counter(4)->trailing_seconds, 5);
    assert_false(counter(5)->rules[0].amount_from.payload);
    is(counter(5)->rules[0].amount_from.name, "pieces");
}

static void without_rules_there_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "counters:\nstatuses:\nevents:\n", "events: {types: ~}",
                                        "counters: []\nstatuses: {}\n"};
    for (unsigned i = 0; i < ARRAY_COUNT(texts); i++) {
        loads(texts[i]);
        assert_int_equal(config.rules->definitions_count, 0);
        assert_int_equal(config.rules->statuses_count, 0);
        assert_false(config.rules->types_closed || config.events_types);
        assert_true(rules_type_known(config.rules, BYTES("anything")));
    }
}

static void events_have_their_settings(void **state)
{
    (void)state;
    loads("");
    assert_false(config.events_generate_ids);
    assert_int_equal(config.events_id_scope, CONFIG_IDS_TENANT);
    assert_int_equal(config.events_retention, INT64_C(730) * 86400000);
    assert_int_equal(config.events_registry_ttl, 0);
    loads("events: { generateIds: true, idScope: installation, retention: 1s, registryTtl: 90d }");
    assert_true(config.events_generate_ids);
    assert_int_equal(config.events_id_scope, CONFIG_IDS_INSTALLATION);
    assert_int_equal(config.events_retention, 1000);
    assert_int_equal(config.events_registry_ttl, INT64_C(90) * 86400000);
    refuses("events: { idScope: Tenant }",
            "x.yaml:1:20: events.idScope must be one of tenant, installation");
    refuses("events: { retention: 0 }", "x.yaml:1:22: events.retention must be from 1s to 36500d");
}

static void a_later_list_of_types_replaces_the_file_s(void **state)
{
    (void)state;
    const char *const environment[] = {"TALLY_EVENTS_TYPES=[c]", NULL};
    struct config_source source = {.text = BYTES("events: { types: [a, b] }"),
                                   .environment = environment};
    assert_int_equal(load(&source), ERR_OK);
    assert_int_equal(config.rules->types_count, 1);
    assert_true(rules_type_known(config.rules, BYTES("c")));
    assert_false(rules_type_known(config.rules, BYTES("a")));
    loads("events: { types: [] }");
    assert_true(config.rules->types_closed);
    assert_false(rules_type_known(config.rules, BYTES("a")));
    const char *set = "counters=[]";
    assert_int_equal(load(&(struct config_source){.sets = &set, .sets_count = 1}), ERR_INVALID);
    assert_string_equal(report.text.data, "--set: counters can only be given in a config file\n");
}

static void a_definition_gets_its_defaults(void **state)
{
    (void)state;
    loads(GOOD "group:\n  window: ~\n  dimensions: null\n");
    const struct definition *definition = counter(0);
    assert_int_equal(definition->mode, MODE_PERSISTENT);
    assert_int_equal(definition->sets_count, 1);
    assert_int_equal(definition->sets[0].count, 0);
    assert_false(definition->floor_at_zero || definition->trailing || definition->frozen);
    assert_int_equal(definition->entity_count, 0);
    assert_int_equal(definition->group.size, 0);
    assert_int_equal(definition->limit, LIMIT_NONE);
    assert_int_equal(definition->keep_ms, 0);
    assert_int_equal(definition->generation, 0);
    assert_ptr_equal(rules_find(config.rules, BYTES("c")), definition);
}

static void the_order_of_keys_means_nothing(void **state)
{
    (void)state;
    loads("counters:\n- {keep: 1s, granularities: [60, 0, 5], rules: [{op: decrement, on: e}], "
          "mode: series, dimensions: [b, payload.x, a], counterName: c}\n");
    assert_int_equal(counter(0)->granularities[0], 0);
    assert_int_equal(counter(0)->granularities[1], 5);
    assert_int_equal(counter(0)->granularities[2], 60);
    assert_int_equal(counter(0)->keep_ms, 1000);
    set_is(counter(0)->sets[0].sources, 3, "a b payload.x");
}

static void SPEC_15_a_granularity_may_be_a_calendars(void **state)
{
    (void)state;
    int32_t month, day;
    loads("counters:\n- {counterName: c, mode: series, rules: [{on: e, op: increment}],\n"
          "   granularities: [60, {bucket: month, zone: Europe/Berlin}, {bucket: day}]}\n");
    assert_true(
        zones_granularity(zones_in_force(), CALENDAR_MONTH, BYTES("Europe/Berlin"), &month));
    assert_true(zones_granularity(zones_in_force(), CALENDAR_DAY, BYTES("UTC"), &day));
    assert_int_equal(counter(0)->granularities_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        int32_t granularity = counter(0)->granularities[i];
        assert_true(granularity == month || granularity == day || granularity == 60);
    }
}

static void trailing_counts_are_a_sixtieth_fine_or_a_minute(void **state)
{
    (void)state;
    static const struct {
        const char *window;
        int seconds;
    } cases[] = {{"1s", 1},   {"1500ms", 1}, {"60s", 1}, {"119s", 1}, {"2m", 2},
                 {"30m", 30}, {"59m", 59},   {"1h", 60}, {"61m", 60}, {"366d", 60}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, GOOD "mode: windowed\n  trailing: true\n  window: %s\n",
                 cases[i].window);
        loads(text);
        assert_int_equal(counter(0)->trailing_seconds, cases[i].seconds);
    }
}

static void keys_may_be_any_text(void **state)
{
    (void)state;
    loads(GOOD
          "dimensions: ['a b', \"\\u00e4\\n\", payload, payload.a.b, '1', \"~\", Payload.x]\n");
    set_is(counter(0)->sets[0].sources, 7, "1 Payload.x a b payload payload.a.b ~ \xc3\xa4\n");
    assert_false(counter(0)->sets[0].sources[1].payload);
    assert_false(counter(0)->sets[0].sources[3].payload);
    assert_true(counter(0)->sets[0].sources[4].payload);
    loads(RULE "{on: e, op: increment, where: {a: 1, b: true, c: '', payload.d: \"~\"}}\n");
    is(counter(0)->rules[0].where[0].value, "1");
    is(counter(0)->rules[0].where[2].value, "");
    is(counter(0)->rules[0].where[3].value, "~");
}

static void add_counters(struct buf *text, unsigned count, const char *rest)
{
    for (unsigned i = 0; i < count; i++)
        buf_addf(text, "- {counterName: c%u, %s}\n", i, rest);
}

static void there_may_be_a_thousand_counters(void **state)
{
    (void)state;
    for (unsigned count = 1000; count <= 1001; count++) {
        struct buf text;
        buf_init(&text, 1u << 20);
        buf_addf(&text, "counters:\n");
        add_counters(&text, count, "rules: [{on: e, op: increment}]");
        buf_add_char(&text, 0);
        if (count == 1000)
            loads(text.data);
        else
            refuses(text.data, "x.yaml:2:1: counters may hold at most 1000 entries");
        buf_release(&text);
    }
}

static void aliases_mean_what_they_stand_for_and_lead_nowhere(void **state)
{
    (void)state;
    loads("counters:\n"
          "- {counterName: a, dimensions: &d [x], rules: &r [{on: e, op: increment}]}\n"
          "- {counterName: b, dimensions: *d, rules: *r}\n");
    set_is(counter(1)->sets[0].sources, 1, "x");
    rule_is(&counter(1)->rules[0], "e", OP_INCREMENT);
    static const char *const circles[] = {
        "counters: &c [*c]\n",
        "counters: [&c {counterName: *c, rules: *c, dimensions: *c, rollups: *c}]\n",
        GOOD "rollups: &r [[], *r]\n",
        RULE "&r {on: *r, op: *r, where: *r, amount: *r}\n",
        RULE "{on: e, op: increment, where: &w {a: *w}}\n",
        GOOD "transition: &t {entity: *t}\n",
        "statuses: &s {a: *s}\n",
        "events: &e {types: &t [*t, *e]}\n",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(circles); i++)
        assert_int_equal(load_text(circles[i]), ERR_INVALID);
    refuses("counters:\n- &c {counterName: a, rules: [{on: e, op: increment}]}\n- *c\n",
            "x.yaml:2:20: counter a is defined twice; the first is at x.yaml:2:20");
}

/* A small file of aliases that would take gigabytes ends with a sentence instead. */
static void aliases_cannot_take_all_memory(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 20);
    buf_addf(&text, "counters:\n- counterName: first\n  rules: &r\n  - &a\n    on: e\n"
                    "    op: increment\n    where:\n");
    for (unsigned i = 0; i < 16; i++)
        buf_addf(&text, "      k%u: %01000u\n", i, i);
    for (unsigned i = 0; i < 255; i++)
        buf_addf(&text, "  - *a\n");
    add_counters(&text, 999, "rules: *r");
    buf_add_char(&text, 0);
    assert_int_equal(load_text(text.data), ERR_INVALID);
    assert_int_equal(report.count, 1);
    assert_non_null(strstr(report.text.data, "take more than 16 MiB"));
    buf_release(&text);
}

static void a_key_hidden_behind_NUL_harms_nothing(void **state)
{
    (void)state;
    loads("\"counters\": [{counterName: a, rules: [{on: e, op: increment}]},\n"
          "  {counterName: b, rules: [{on: e, op: increment}]}]\n"
          "\"counters\\0\": [{counterName: d, rules: [{on: e, op: increment}]}]\n");
    assert_int_equal(config.rules->definitions_count, 1);
}

static void a_long_file_name_is_cut_in_front(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'd', sizeof name);
    snprintf(name + 180, sizeof name - 180, "/x.yaml");
    struct config_source source = {
        .file = name,
        .text = BYTES("counters: [{counterName: a, rules: [{on: e, op: increment}]}]")};
    assert_int_equal(load(&source), ERR_OK);
    size_t size = strlen(counter(0)->where);
    assert_int_equal(size, sizeof counter(0)->where - 1);
    assert_string_equal(counter(0)->where + size - 14, "dd/x.yaml:1:26");
}

static void same_when_read_again(void)
{
    struct buf first, second;
    buf_init(&first, CONFIG_TEXT_SIZE_MAX);
    buf_init(&second, CONFIG_TEXT_SIZE_MAX);
    config_write(&config, &first);
    buf_add_char(&first, 0);
    loads(first.data);
    config_write(&config, &second);
    buf_add_char(&second, 0);
    assert_string_equal(first.data, second.data);
    buf_release(&first);
    buf_release(&second);
}

#define C60 "\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01" /* ten bytes that take sixty */

static void what_is_printed_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const files[] = {"etc/examples/connections.yaml",
                                        "etc/examples/pipeline.yaml", "etc/examples/usage.yaml",
                                        "etc/examples/everything.yaml"};
    for (unsigned i = 0; i < ARRAY_COUNT(files); i++) {
        loads_file(files[i]);
        same_when_read_again();
    }
    loads(
        "events: { types: [\"a\\\"b\", 'null', \"\\x7f\\N\\L\\P\\uFEFF\\uFFFE\\n\\t\", '[', \xc3\xa4, "
        "\"\\U0001F600\"] }\n"
        "statuses: { 'a: b': s, \"" C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60
            C60 C60 C60 "\": t, '~': '~' }\n"
        "counters:\n- counterName: '~'\n  group: '1'\n  limit: 0\n"
        "  rules:\n  - {on: \"\\e\", op: decrement, amount: 7, where: {'#': '', \"" C60 C60 C60 C60
            C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 C60 "\": x, z: '*'}}\n");
    same_when_read_again();
    assert_int_equal(config.rules->types_count, 6);
    is(config.rules->types[2], "\x7f\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbe\n\t");
    is(config.rules->types[5], "\xf0\x9f\x98\x80");
    assert_int_equal(config.rules->statuses[1].on.size, 190);
    assert_int_equal(counter(0)->rules[0].where[1].source.name.size, 190);
    is(counter(0)->rules[0].where[2].value, "*");
    assert_int_equal(counter(0)->limit, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_40_the_seed_s_example_loads_unchanged),
        cmocka_unit_test(the_example_of_connections_means_the_seed_s),
        cmocka_unit_test(S0_18_the_example_of_a_pipeline_counts_seven_of_27_types),
        cmocka_unit_test(the_example_of_usage_has_a_row_limits_and_statuses),
        cmocka_unit_test(the_example_of_everything_has_every_feature),
        cmocka_unit_test(without_rules_there_are_none),
        cmocka_unit_test(events_have_their_settings),
        cmocka_unit_test(a_later_list_of_types_replaces_the_file_s),
        cmocka_unit_test(a_definition_gets_its_defaults),
        cmocka_unit_test(the_order_of_keys_means_nothing),
        cmocka_unit_test(SPEC_15_a_granularity_may_be_a_calendars),
        cmocka_unit_test(trailing_counts_are_a_sixtieth_fine_or_a_minute),
        cmocka_unit_test(keys_may_be_any_text),
        cmocka_unit_test(there_may_be_a_thousand_counters),
        cmocka_unit_test(aliases_mean_what_they_stand_for_and_lead_nowhere),
        cmocka_unit_test(aliases_cannot_take_all_memory),
        cmocka_unit_test(a_key_hidden_behind_NUL_harms_nothing),
        cmocka_unit_test(a_long_file_name_is_cut_in_front),
        cmocka_unit_test(what_is_printed_reads_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
