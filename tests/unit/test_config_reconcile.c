/* test_config_reconcile.c -- `reconcile:` of a config: what is understood, what is refused, and
 * that connection strings stay secret. */
#include "config_world.h"

#include "core/reconcile.h"

#define COUNTERS                                                                 \
    "counters:\n"                                                                \
    "- {counterName: opinions, dimensions: [conv], rules: []}\n"                 \
    "- {counterName: votes, dimensions: [user], rollups: [[conv]], rules: []}\n" \
    "- {counterName: recent, mode: windowed, window: 1h, dimensions: [conv], rules: []}\n"

#define DSN "postgresql://u:s3cret@db/app"
#define HEAD(tenants, counters)                    \
    COUNTERS "reconcile:\n"                        \
             "- name: convs\n"                     \
             "  tenants: " tenants "\n"            \
             "  entity: [conv]\n"                  \
             "  source: {postgres: \"" DSN "\"}\n" \
             "  counters: " counters "\n"

static const struct reconcile *entry(void)
{
    assert_int_equal(config.rules->reconciles_count, 1);
    return &config.rules->reconciles[0];
}

/* S2-12, S2-13, S2-15, S2-16. */
static void the_seeds_times_are_the_defaults(void **state)
{
    loads(HEAD("[app]", "{opinions: 'SELECT 1', votes: 'SELECT $1'}"));
    const struct reconcile *reconcile = entry();
    is(reconcile->name, "convs");
    assert_int_equal(reconcile->scan_every_ms, 2000);
    assert_int_equal(reconcile->scan_limit, 20);
    assert_int_equal(reconcile->min_interval_ms, 20000);
    assert_int_equal(reconcile->size_by, -1);
    assert_true(reconcile_has_tenant(reconcile, BYTES("app")));
    assert_false(reconcile_has_tenant(reconcile, BYTES("other")));
    assert_ptr_equal(reconcile_of(counter(1), BYTES("app")), reconcile);
    assert_null(reconcile_of(counter(2), BYTES("app")));
}

/* S2-17: 999, 1000, 999999, 1000000. */
static void the_tiers_have_exact_boundaries(void **state)
{
    loads(HEAD("[app]", "{votes: 'SELECT $1'}") "  sizeBy: votes\n");
    const struct reconcile *reconcile = entry();
    assert_int_equal(reconcile->size_by, 0);
    assert_int_equal(reconcile_flight_ms(reconcile, 0), 2000);
    assert_int_equal(reconcile_flight_ms(reconcile, 999), 2000);
    assert_int_equal(reconcile_flight_ms(reconcile, 1000), 8000);
    assert_int_equal(reconcile_flight_ms(reconcile, 999999), 8000);
    assert_int_equal(reconcile_flight_ms(reconcile, 1000000), 28000);
    assert_int_equal(reconcile_flight_ms(reconcile, INT64_MAX), 28000);
}

static void what_is_printed_reads_back_and_shows_no_secret(void **state)
{
    struct buf first, second;
    buf_init(&first, CONFIG_TEXT_SIZE_MAX);
    buf_init(&second, CONFIG_TEXT_SIZE_MAX);
    loads(HEAD(
        "all",
        "{votes: 'SELECT $1, $2'}") "  singleFlight: [{below: 7, every: 1s}, {every: 3s}]\n  driftAlert: 50\n");
    config_write(&config, &first);
    buf_add_char(&first, 0);
    assert_null(strstr(first.data, "s3cret"));
    assert_non_null(strstr(first.data, "postgres: \"(set)\""));
    assert_non_null(strstr(first.data, "singleFlight: [{ below: 7, every: 1s }, { every: 3s }]"));
    char *shown = strstr(first.data, "\"(set)\"");
    memcpy(shown, "'host='", 7); /* as long, and a connection string */
    loads(first.data);
    config_write(&config, &second);
    buf_add_char(&second, 0);
    assert_non_null(strstr(second.data, "postgres: \"(set)\""));
    buf_release(&first);
    buf_release(&second);
}

static void a_connection_string_may_come_from_the_environment(void **state)
{
    static const char text[] = COUNTERS
        "reconcile: [{name: r, tenants: [app], entity: [conv], counters: {votes: SELECT 1},\n"
        "  source: {postgres: \"env:THE_DSN\"}}]\n";
    const char *const environment[] = {"OTHER=1", "THE_DSN=" DSN, NULL};
    assert_int_equal(load(&(struct config_source){
                         .file = "x.yaml", .text = bytes_str(text), .environment = environment}),
                     ERR_OK);
    is(entry()->dsn, DSN);
    is(entry()->dsn_shown, "env:THE_DSN");
    refuses(text, "x.yaml:6:22: source.postgres: the environment variable THE_DSN is not set");
}

static void counters_that_cannot_be_put_right_are_refused_with_line_and_column(void **state)
{
    refuses(HEAD("[app]", "{nosuch: 'SELECT 1'}"),
            "x.yaml:10:14: reconcile: counter nosuch is not one of the counters");
    refuses(
        HEAD("[app]", "{recent: 'SELECT 1'}"),
        "x.yaml:10:14: reconcile: counter recent is not persistent: only a total of all time can "
        "be put right");
    refuses(COUNTERS "reconcile: [{name: r, tenants: [a], entity: [user], source: {events: true},\n"
                     "  counters: [opinions]}]\n",
            "x.yaml:6:14: reconcile: counter opinions keeps no set of dimensions equal to entity");
    refuses(
        HEAD(
            "[app, b]",
            "{votes: 'SELECT 1'}") "- {name: r, tenants: all, entity: [conv], source: {events: true},\n"
                                   "   counters: [votes]}\n",
        "x.yaml:12:15: reconcile: counter votes is reconciled for the same tenant by another "
        "entry");
}

static void entries_are_read_strictly(void **state)
{
    refuses(HEAD("[app]", "{votes: 'SELECT 1'}") "  scanevery: 2s\n",
            "x.yaml:11:3: unknown key scanevery: an entry of reconcile may hold name, tenants, "
            "entity, source, counters, scanEvery, scanLimit, minInterval, singleFlight, sizeBy, "
            "driftAlert and statementTimeout");
    refuses(HEAD("app", "{votes: 'SELECT 1'}"),
            "x.yaml:7:12: tenants must be a list of tenant ids, or all");
    refuses(HEAD("[app]", "{votes: 'SELECT $2'}"),
            "x.yaml:10:21: the query uses $2, but there are only 1 parameters");
    refuses(HEAD("all", "{votes: 'SELECT $1'}"),
            "x.yaml:10:21: with tenants: all the query must use $2, the tenant's id, or tenants "
            "would be counted together");
    refuses(HEAD("[app]", "[votes]"),
            "x.yaml:10:13: counters must be a mapping of counter names to queries, not a list\n"
            "x.yaml:10:13: counters must name at least one counter");
    refuses(
        HEAD("[app]",
             "{votes: 'SELECT 1'}") "  singleFlight: [{every: 1s}, {below: 5, every: 1s}]\n",
        "x.yaml:11:18: singleFlight is a list of { below: size, every: duration }, the last one "
        "only { every: duration }\n"
        "x.yaml:11:31: singleFlight is a list of { below: size, every: duration }, the last one "
        "only { every: duration }");
    refuses(HEAD("[app]", "{votes: 'SELECT 1'}") "  scanLimit: 0\n",
            "x.yaml:11:14: scanLimit must be at least 1");
    refuses(HEAD("[app]", "{votes: 'SELECT 1'}") "  sizeBy: opinions\n",
            "x.yaml:11:11: sizeBy must be one of its counters, not \"opinions\"");
    refuses("reconcile: [{name: r}]\n", "x.yaml:1:13: an entry of reconcile needs tenants");
}

static void a_wrong_connection_string_is_not_repeated(void **state)
{
    refuses(COUNTERS "reconcile: [{name: r, tenants: [a], entity: [conv], counters: {votes: S},\n"
                     "  source: {postgres: \"password=s3cret hots=x\"}}]\n",
            "x.yaml:6:22: source.postgres is not a connection string: "
            "postgresql://user@host/database, or host=... dbname=...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_seeds_times_are_the_defaults, teardown),
        cmocka_unit_test_teardown(the_tiers_have_exact_boundaries, teardown),
        cmocka_unit_test_teardown(what_is_printed_reads_back_and_shows_no_secret, teardown),
        cmocka_unit_test_teardown(a_connection_string_may_come_from_the_environment, teardown),
        cmocka_unit_test_teardown(
            counters_that_cannot_be_put_right_are_refused_with_line_and_column, teardown),
        cmocka_unit_test_teardown(entries_are_read_strictly, teardown),
        cmocka_unit_test_teardown(a_wrong_connection_string_is_not_repeated, teardown),
    };
    return cmocka_run_group_tests_name("config_reconcile", tests, NULL, NULL);
}
