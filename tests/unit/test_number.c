/* test_number.c -- decimal text to int64, exactly or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/number.h"

/* S3-04, A-18 */
static void A_18_decimal_strings_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"5", 5},
        {"-5", -5},
        {"007", 7},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775806", INT64_MAX - 1},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"00000000000000000000000000000000000000001", 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t value = 99;
        if (!number_parse(bytes_str(cases[i].text), &value)) fail_msg("refused %s", cases[i].text);
        if (value != cases[i].value) fail_msg("%s gave %lld", cases[i].text, (long long)value);
    }
}

static void A_18_everything_else_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "-",
        "--1",
        "+5",
        " 5",
        "5 ",
        "5\n",
        "1.5",
        "1e3",
        "1E3",
        "0x10",
        "1_0",
        "1,0",
        "five",
        "5a",
        "a5",
        "- 5",
        "5:",
        "5/",
        "-+5",
        "\u0665",
        "NaN",
        "null",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "18446744073709551617",
        "99999999999999999999999999",
        "-99999999999999999999999999",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        int64_t value;
        if (number_parse(bytes_str(texts[i]), &value)) fail_msg("accepted \"%s\"", texts[i]);
    }
    int64_t value;
    assert_false(number_parse(BYTES("5\0"), &value));
    assert_false(number_parse(BYTES_NONE, &value));
}

static void what_was_printed_is_read_back(void **state)
{
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t want = (int64_t)seed >> (i % 64), got;
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)want);
        assert_true(number_parse(bytes_str(text), &got));
        assert_true(got == want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A_18_decimal_strings_are_read_exactly),
        cmocka_unit_test(A_18_everything_else_is_refused),
        cmocka_unit_test(what_was_printed_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
