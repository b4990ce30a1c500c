/* only.c -- `TALLY_TEST=name build/release/tests/test_x` runs the tests of that name alone; * and ?
 * stand for anything.
 *
 * Before main, so that no test program has to ask for it. Weak, because fuzzers are linked without
 * cmocka. */
#include <stdlib.h>

extern void cmocka_set_test_filter(const char *pattern) __attribute__((weak));

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("TALLY_TEST");
    if (name && cmocka_set_test_filter) cmocka_set_test_filter(name);
}
