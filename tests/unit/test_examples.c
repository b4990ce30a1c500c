/* test_examples.c -- the examples in the headers compile, and do what they say. The one of
 * store/store.h has a test of its own. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/auth/auth.h"
#include "api/openapi/write.h"
#include "api/params.h"
#include "api/views/busy.h"
#include "base/gzip.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/table.h"
#include "cli/client.h"
#include "config/config.h"
#include "store/embedded/cache.h"
#include "store/embedded/order.h"
#include "store/fault.h"
#include "store/memory.h"
#include "store/postgres/link.h"
#include "wire/http.h"

#include "../build/examples/api/auth/auth.h.inc"
#include "../build/examples/api/openapi/write.h.inc"
#include "../build/examples/api/params.h.inc"
#include "../build/examples/api/views/busy.h.inc"
#include "../build/examples/base/gzip.h.inc"
#include "../build/examples/base/json_write.h.inc"
#include "../build/examples/base/log.h.inc"
#include "../build/examples/base/reason.h.inc"
#include "../build/examples/base/table.h.inc"
#include "../build/examples/cli/client.h.inc"
#include "../build/examples/clients/c/tally.h.inc"
#include "../build/examples/config/config.h.inc"
#include "../build/examples/store/embedded/cache.h.inc"
#include "../build/examples/store/embedded/order.h.inc"
#include "../build/examples/store/fault.h.inc"
#include "../build/examples/store/postgres/link.h.inc"
#include "../build/examples/store/postgres/values.h.inc"
#include "../build/examples/wire/accept.h.inc"
#include "../build/examples/wire/http.h.inc"

static struct buf text;
static struct arena arena;

static int setup(void **state)
{
    buf_init(&text, 1u << 20);
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    buf_release(&text);
    arena_release(&arena);
    return 0;
}

static void expect_text(const char *wanted)
{
    buf_add_char(&text, 0);
    assert_string_equal(text.data, wanted);
}

/* -- base -------------------------------------------------------------------------------------- */

static void a_node_is_found_by_hash_and_number(void **state)
{
    struct table table;
    struct numbered one = {{.hash = 7}, 1}, two = {{.hash = 7}, 2};
    table_init(&table);
    table_insert(&table, &one.node);
    table_insert(&table, &two.node);
    assert_ptr_equal(numbered_find(&table, 7, 2), &two);
    assert_null(numbered_find(&table, 7, 3));
    table_release(&table);
}

static void json_is_written_front_to_back(void **state)
{
    const int64_t counts[] = {1, -2};
    write_counts(&text, BYTES("a"), counts, 2);
    expect_text("{\"name\":\"a\",\"counts\":[\"1\",\"-2\"]}");
}

static void lines_over_the_limit_are_left_out(void **state)
{
    char said[4096];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_set_fd(ends[1]);
    log_opened("data", 9);
    for (int i = 0; i < 30; i++)
        log_dropped(1000);
    log_set_fd(STDERR_FILENO);
    close(ends[1]);
    ssize_t size = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    assert_true(size > 0);
    said[size] = 0;
    assert_non_null(strstr(said, "\"msg\":\"store opened\",\"dir\":\"data\",\"sequence\":9}"));
    unsigned lines = 0;
    for (ssize_t i = 0; i < size; i++)
        lines += said[i] == '\n';
    assert_int_equal(lines, 11);
}

static void a_reason_says_why(void **state)
{
    assert_true(limit_show(BYTES("12")));
    assert_false(limit_show(BYTES("a dozen")));
}

static void a_body_is_unpacked_to_the_size_it_gives(void **state)
{
    static char zeros[5000];
    struct unpacker unpacker = {0};
    struct buf packed;
    buf_init(&packed, 1u << 16);
    assert_true(pack(bytes_of(zeros, sizeof zeros), &packed));
    assert_true(unpack_into(&unpacker, buf_bytes(&packed), &text));
    assert_true(bytes_equal(buf_bytes(&text), bytes_of(zeros, sizeof zeros)));
    assert_false(unpack_into(&unpacker, BYTES("no gzip"), &text));
    unpacker_release(&unpacker);
    buf_release(&packed);
}

/* -- store ------------------------------------------------------------------------------------- */

static struct bytes key_of(const struct order_node *node)
{
    return node->priority == 1 ? BYTES("a") : BYTES("b");
}

static void nodes_come_in_the_order_of_their_keys(void **state)
{
    struct order order = {.key = key_of};
    struct order_node a = {.priority = 1}, b = {.priority = 2};
    order_add(&order, &b);
    order_add(&order, &a);
    assert_int_equal(order_count(&order, BYTES_NONE), 2);
    assert_int_equal(order_count(&order, BYTES("aa")), 1);
}

static size_t entry_size(const struct cache_entry *entry)
{
    return sizeof *entry;
}

static void entry_free(struct cache_entry *entry)
{
    free(entry);
}

static void entries_are_unpinned_shard_by_shard(void **state)
{
    struct cache cache;
    struct cache_entry *entries[8];
    cache_init(&cache, 1u << 20, entry_size, entry_free);
    for (uint64_t i = 0; i < ARRAY_COUNT(entries); i++) {
        entries[i] = must_calloc(1, sizeof *entries[i]);
        entries[i]->node.hash = i << 48;
        struct cache_shard *shard = cache_lock(&cache, entries[i]->node.hash);
        cache_insert(&cache, shard, entries[i]);
        cache_pin(entries[i]);
        cache_unlock(shard);
    }
    unpin_all(&cache, entries, ARRAY_COUNT(entries), &arena);
    for (size_t i = 0; i < ARRAY_COUNT(entries); i++)
        assert_int_equal(entries[i]->pins, 0);
    cache_release(&cache);
}

static void the_third_read_fails_once(void **state)
{
    struct store *inner;
    struct cell cell;
    const struct cell_ref ref = {.counter = BYTES("t\0dviews\0")};
    assert_int_equal(memory_open(&inner), ERR_OK);
    struct store *store = fail_third_read(inner);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(view_get(&store->view, &ref, 0, READ_ALL, &cell),
                         i == 3 ? ERR_STORAGE : ERR_NOT_FOUND);
    store_close(store);
}

static void a_statement_carries_rows(void **state)
{
    const struct fingerprint prints[3] = {{1, 2}};
    struct sql_values values;
    (void)lock_lane; /* it needs a database: tests/unit/test_store_contract.c has one */
    values_init(&values);
    values_of_cells(&values, 1, prints, 3);
    assert_int_equal(values.count, 3);
    assert_int_equal(values.rows, 3);
    values_release(&values);
}

/* -- wire and api ------------------------------------------------------------------------------ */

static void a_head_is_read_as_it_comes(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http_head head;
    char data[256];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], request, sizeof request - 1), sizeof request - 1);
    assert_int_equal(read_head(ends[0], &head, data, sizeof data), HTTP_DONE);
    close(ends[0]);
    close(ends[1]);
    assert_true(wants_gzip(BYTES("gzip, br;q=0.5")));
    assert_false(wants_gzip(BYTES("br")));
}

static void a_query_is_read_by_its_table(void **state)
{
    struct params params;
    struct reason why;
    int64_t amount = 0;
    assert_int_equal(params_parse(BYTES("durationSeconds=60&amount=7"), &arena, &params, &why),
                     ERR_OK);
    assert_int_equal(amount_read(&params, &amount, &why), ERR_OK);
    assert_int_equal(amount, 7);
    assert_int_equal(params_parse(BYTES("amount=7"), &arena, &params, &why), ERR_OK);
    assert_int_equal(amount_read(&params, &amount, &why), ERR_INVALID);
}

static void a_request_without_a_token_is_401(void **state)
{
    const char *const sets[] = {"auth.jwtSecret=0123456789abcdef0123456789abcdef"};
    const struct config_source source = {.sets = sets, .sets_count = 1};
    struct config_report report;
    struct config config;
    struct auth *auth;
    char error[256];
    assert_true(config_is_good(&source));
    config_report_init(&report);
    assert_int_equal(config_load(&config, &source, &report), ERR_OK);
    assert_int_equal(auth_new(&auth, &config, error, sizeof error), ERR_OK);
    struct auth_cache *cache = auth_cache_new();
    assert_int_equal(judge_write(auth, cache, BYTES_NONE, BYTES("t"), 0), 401);
    auth_cache_free(cache);
    auth_free(auth);
    config_release(&config);
    config_report_release(&report);
}

static void the_description_is_json(void **state)
{
    struct doc doc = {.out = &text, .flat = 1};
    doc_open(&doc, NULL, '{');
    write_info(&doc);
    doc_close(&doc, '}');
    buf_add_char(&text, 0);
    assert_non_null(strstr(text.data, "\"title\": \"tally\""));
}

static void the_busiest_name_is_shown(void **state)
{
    busy_show(BYTES("visits"), 1000000000, &text);
    buf_add_char(&text, 0);
    assert_non_null(strstr(text.data, "visits"));
}

/* -- Clients ----------------------------------------------------------------------------------- */

static void a_command_refuses_an_option_that_it_does_not_have(void **state)
{
    char name[] = "backup", option[] = "--nothing";
    char *arguments[] = {name, option, NULL};
    assert_int_equal(backup_command(2, arguments), EXIT_USAGE);
}

static void a_call_that_cannot_be_sent_is_invalid(void **state)
{
    struct tally_error error;
    const struct tally_options options = {.url = "http://127.0.0.1:9", .tenant = "t"};
    const struct tally_change change = {.name = ""};
    struct tally *tally = tally_new(&options, &error);
    assert_non_null(tally);
    assert_int_equal(count_all(tally, &change, 1, &error), TALLY_INVALID);
    tally_free(tally);
    assert_int_equal(count_a_visit(""), TALLY_INVALID);
}

#define EXAMPLE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXAMPLE_TEST(a_node_is_found_by_hash_and_number),
        EXAMPLE_TEST(json_is_written_front_to_back),
        EXAMPLE_TEST(lines_over_the_limit_are_left_out),
        EXAMPLE_TEST(a_reason_says_why),
        EXAMPLE_TEST(a_body_is_unpacked_to_the_size_it_gives),
        EXAMPLE_TEST(nodes_come_in_the_order_of_their_keys),
        EXAMPLE_TEST(entries_are_unpinned_shard_by_shard),
        EXAMPLE_TEST(the_third_read_fails_once),
        EXAMPLE_TEST(a_statement_carries_rows),
        EXAMPLE_TEST(a_head_is_read_as_it_comes),
        EXAMPLE_TEST(a_query_is_read_by_its_table),
        EXAMPLE_TEST(a_request_without_a_token_is_401),
        EXAMPLE_TEST(the_description_is_json),
        EXAMPLE_TEST(the_busiest_name_is_shown),
        EXAMPLE_TEST(a_command_refuses_an_option_that_it_does_not_have),
        EXAMPLE_TEST(a_call_that_cannot_be_sent_is_invalid),
    };
    return cmocka_run_group_tests_name("examples", tests, NULL, NULL);
}
