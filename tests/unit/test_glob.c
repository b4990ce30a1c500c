/* test_glob.c -- patterns as Redis has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/resp/glob.h"

static bool match(const char *pattern, const char *text)
{
    return glob_match(bytes_str(pattern), bytes_str(text));
}

static void each_sign_means_what_it_does_in_redis(void **state)
{
    assert_true(match("", ""));
    assert_false(match("", "a"));
    assert_true(match("*", ""));
    assert_true(match("a*c", "abbc"));
    assert_false(match("a*c", "abbcd"));
    assert_true(match("*a*b*", "xxaxxbxx"));
    assert_true(match("a?c", "abc"));
    assert_false(match("a?c", "ac"));
    assert_true(match("[a-c]x", "bx"));
    assert_true(match("[c-a]x", "bx"));
    assert_false(match("[^a-c]x", "bx"));
    assert_true(match("[^a-c]x", "dx"));
    assert_true(match("[\\]]", "]"));
    assert_true(match("[ab", "a"));
    assert_true(match("\\*", "*"));
    assert_false(match("\\*", "a"));
    assert_true(match("a\\", "a\\"));
    assert_false(match("[]", "a"));
}

static void no_pattern_takes_for_ever(void **state)
{
    char pattern[256] = "", text[256];
    for (unsigned i = 0; i < 100; i++)
        strcat(pattern, "*a");
    strcat(pattern, "b");
    memset(text, 'a', sizeof text);
    assert_false(glob_match(bytes_str(pattern), bytes_of(text, sizeof text)));
}

static void the_beginning_is_known_up_to_the_first_sign(void **state)
{
    assert_int_equal(glob_prefix(BYTES("page:*")).size, 5);
    assert_int_equal(glob_prefix(BYTES("a\\*")).size, 1);
    assert_int_equal(glob_prefix(BYTES("[ab]")).size, 0);
    assert_int_equal(glob_prefix(BYTES("abc")).size, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sign_means_what_it_does_in_redis),
        cmocka_unit_test(no_pattern_takes_for_ever),
        cmocka_unit_test(the_beginning_is_known_up_to_the_first_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
