/* test_duration.c -- the small texts of the config: durations, sizes, addresses, scopes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/listen.h"
#include "base/scope.h"
#include "base/size.h"

static void durations_are_a_number_and_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"0", 0},
        {"0s", 0},
        {"500ms", 500},
        {"2s", 2000},
        {"75s", 75000},
        {"1m", 60000},
        {"1h", 3600000},
        {"30d", 2592000000},
        {"007s", 7000},
        {"9223372036854775807ms", INT64_MAX},
        {"106751991167d", INT64_C(106751991167) * 86400000},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(good); i++) {
        int64_t ms = -1;
        assert_true(duration_parse(bytes_str(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "5",
        "00",
        "s",
        "ms",
        "-1s",
        "+1s",
        "1.5s",
        "1 s",
        " 1s",
        "1s ",
        "1S",
        "1M",
        "1w",
        "1y",
        "1us",
        "1h5m",
        "1hh",
        "0x1s",
        "9223372036854775808ms",
        "1\n",
        "１s",
        "106751991168d",
        "99999999999999999999s",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        int64_t ms = -1;
        if (duration_parse(bytes_str(bad[i]), &ms)) fail_msg("took \"%s\"", bad[i]);
    }
    int64_t ms;
    assert_false(duration_parse(bytes_of("1s\0", 3), &ms));
    assert_false(duration_parse(BYTES_NONE, &ms));
}

static void durations_print_as_they_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"0", "1ms", "1500ms", "75s", "1m", "90m", "1h", "30d"};
    for (unsigned i = 0; i < ARRAY_COUNT(texts); i++) {
        int64_t ms;
        char text[DURATION_TEXT_SIZE];
        assert_true(duration_parse(bytes_str(texts[i]), &ms));
        duration_format(ms, text);
        assert_string_equal(text, texts[i]);
    }
    char text[DURATION_TEXT_SIZE];
    duration_format(60000, text);
    assert_string_equal(text, "1m");
    duration_format(INT64_MAX, text);
    assert_string_equal(text, "9223372036854775807ms");
}

static void sizes_have_binary_and_decimal_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t size;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"12B", 12},
        {"64KiB", 65536},
        {"16MiB", 16777216},
        {"512MB", 512000000},
        {"1kB", 1000},
        {"1KB", 1000},
        {"1GiB", 1073741824},
        {"2GB", 2000000000},
        {"1TiB", INT64_C(1099511627776)},
        {"1TB", INT64_C(1000000000000)},
        {"9223372036854775807", INT64_MAX},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(good); i++) {
        int64_t size = -1;
        assert_true(size_parse(bytes_str(good[i].text), &size));
        assert_int_equal(size, good[i].size);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "MiB",
        "-1",         "1.5MiB",
        "1 MiB",      "16mib",
        "16M",        "16Mb",
        "1PiB",       "1e6",
        "0x10",       " 1",
        "1 ",         "9223372036854775808",
        "+1",         "1_000",
        "8388608TiB", "18446744073709551617",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        int64_t size = -1;
        if (size_parse(bytes_str(bad[i]), &size)) fail_msg("took \"%s\"", bad[i]);
    }
}

static void sizes_print_in_the_largest_exact_unit(void **state)
{
    (void)state;
    static const struct {
        int64_t size;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {1000, "1000"},
        {1024, "1KiB"},
        {1536, "1536"},
        {65536, "64KiB"},
        {512 << 20, "512MiB"},
        {1 << 30, "1GiB"},
        {INT64_C(3) << 40, "3TiB"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[SIZE_TEXT_SIZE];
        int64_t back;
        size_format(cases[i].size, text);
        assert_string_equal(text, cases[i].text);
        assert_true(size_parse(bytes_str(text), &back));
        assert_int_equal(back, cases[i].size);
    }
}

static void addresses_are_numeric_and_know_if_they_are_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *address;
        unsigned port;
        bool loopback;
    } good[] = {
        {"127.0.0.1:8787", "127.0.0.1", 8787, true},
        {"127.9.9.9:1", "127.9.9.9", 1, true},
        {"localhost:80", "127.0.0.1", 80, true},
        {"0.0.0.0:0", "0.0.0.0", 0, false},
        {"10.0.0.7:65535", "10.0.0.7", 65535, false},
        {"128.0.0.1:80", "128.0.0.1", 80, false},
        {"[::1]:8787", "::1", 8787, true},
        {"[::]:8787", "::", 8787, false},
        {"[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1, false},
        {"[fe80::1]:1", "fe80::1", 1, false},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(good); i++) {
        struct listen listen;
        assert_true(listen_parse(bytes_str(good[i].text), &listen));
        assert_string_equal(listen.address, good[i].address);
        assert_int_equal(listen.port, good[i].port);
        assert_int_equal(listen.loopback, good[i].loopback);
    }
}

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ":",
        ":8787",
        "8787",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1:80x",
        "127.1:80",
        "example.com:80",
        "::1:8787",
        "[127.0.0.1]:80",
        "[::1]",
        "[]:80",
        "[::1:80",
        "256.0.0.1:80",
        "127.0.0.1 :80",
        "127.0.0.1:000080",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:1111:2222:3333:80",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        struct listen listen;
        if (listen_parse(bytes_str(bad[i]), &listen)) fail_msg("took \"%s\"", bad[i]);
    }
}

static void scopes_are_words(void **state)
{
    (void)state;
    struct bytes unknown;
    assert_int_equal(scope_parse(BYTES("read"), NULL), SCOPE_READ);
    assert_int_equal(scope_parse(BYTES("write"), NULL), SCOPE_WRITE);
    assert_int_equal(scope_parse(BYTES("admin"), NULL), SCOPE_ADMIN | SCOPE_READ | SCOPE_WRITE);
    assert_int_equal(scope_parse(BYTES("read write"), &unknown), SCOPE_DEFAULT);
    assert_null(unknown.data);
    assert_int_equal(scope_parse(BYTES("  write   read "), &unknown), SCOPE_DEFAULT);
    assert_null(unknown.data);
    assert_int_equal(scope_parse(BYTES(""), &unknown), 0);
    assert_int_equal(scope_parse(BYTES("Read readx,write"), &unknown), 0);
    assert_true(bytes_equal(unknown, BYTES("Read")));
}

static void scopes_have_a_text_that_reads_back(void **state)
{
    (void)state;
    static const unsigned all[] = {0,
                                   SCOPE_READ,
                                   SCOPE_WRITE,
                                   SCOPE_DEFAULT,
                                   SCOPE_ADMIN | SCOPE_DEFAULT,
                                   SCOPE_REPLICA,
                                   SCOPE_REPLICA | SCOPE_READ,
                                   SCOPE_REPLICA | SCOPE_WRITE,
                                   SCOPE_REPLICA | SCOPE_DEFAULT,
                                   SCOPE_REPLICA | SCOPE_ADMIN | SCOPE_DEFAULT};
    for (unsigned i = 0; i < ARRAY_COUNT(all); i++)
        assert_int_equal(scope_parse(bytes_str(scope_text(all[i])), NULL), all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_a_number_and_a_unit),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(durations_print_as_they_are_read),
        cmocka_unit_test(sizes_have_binary_and_decimal_units),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(sizes_print_in_the_largest_exact_unit),
        cmocka_unit_test(addresses_are_numeric_and_know_if_they_are_loopback),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(scopes_are_words),
        cmocka_unit_test(scopes_have_a_text_that_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
