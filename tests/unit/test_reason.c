/* test_reason.c -- a reason is said, said further, and cut off at its end. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/reason.h"

static void what_is_said_last_stands(void **state)
{
    struct reason why;
    reason_say(&why, "%d is too many.", 3);
    reason_say(&why, "No.");
    assert_string_equal(why.text, "No.");
    reason_add(&why, " %s.", "Never");
    assert_string_equal(why.text, "No. Never.");
    assert_int_equal(reason_err(&why, ERR_INVALID, "Not %s.", "this"), ERR_INVALID);
    assert_string_equal(why.text, "Not this.");
}

static void without_a_word_there_is_no_text(void **state)
{
    struct reason why;
    reason_clear(&why);
    assert_false(reason_given(&why));
    assert_null(reason_text(&why));
    reason_say(&why, "x");
    assert_true(reason_given(&why));
    assert_ptr_equal(reason_text(&why), why.text);
}

static void what_does_not_fit_is_cut_off(void **state)
{
    struct reason why;
    char text[sizeof why.text + 10];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    reason_say(&why, "%s", text);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
    reason_add(&why, "more");
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_last_stands),
        cmocka_unit_test(without_a_word_there_is_no_text),
        cmocka_unit_test(what_does_not_fit_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
