/* test_accept.c -- when a client would rather have gzip. RFC 9110, 12.4.2 and 12.5.3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/accept.h"

static bool asks(const char *value)
{
    struct accept accept = {0};
    accept_read(&accept, bytes_str(value));
    return accept_gzip(&accept);
}

static void gzip_is_asked_for_by_name_or_star(void **state)
{
    (void)state;
    static const char *const yes[] = {"gzip",
                                      "GZip",
                                      "x-gzip",
                                      "deflate, gzip",
                                      "gzip;q=0.001",
                                      "gzip ; q=1",
                                      "gzip;Q=0.5",
                                      "gzip; q=1.000",
                                      "*",
                                      "*;q=0.1",
                                      "br, *",
                                      "identity;q=0.5, gzip;q=0.5",
                                      "identity, gzip",
                                      "gzip;q=0.5, *;q=0.5",
                                      ",gzip,,",
                                      "identity;q=0, *"};
    for (unsigned i = 0; i < ARRAY_COUNT(yes); i++)
        if (!asks(yes[i])) fail_msg("not for %s", yes[i]);
}

static void nothing_else_asks_for_gzip(void **state)
{
    (void)state;
    static const char *const no[] = {"",
                                     " ",
                                     ",",
                                     "identity",
                                     "br",
                                     "gzip;q=0",
                                     "gzip;q=0.000",
                                     "gzip;q=",
                                     "gzip;q=2",
                                     "gzip;q=1.001",
                                     "gzip;q=-1",
                                     "gzip;q=0.5x",
                                     "gzip;q=.5",
                                     "gzip;q=0.0001",
                                     "gzip;level=1",
                                     "gzipped",
                                     "*;q=0",
                                     "gz",
                                     "gzip;q=0, *",
                                     "identity, gzip;q=0.9",
                                     "gzip;q=0.5, *",
                                     "gzip;",
                                     "q=1"};
    for (unsigned i = 0; i < ARRAY_COUNT(no); i++)
        if (asks(no[i])) fail_msg("for %s", no[i]);
}

static void several_lines_are_one_list(void **state)
{
    (void)state;
    struct accept accept = {0};
    accept_read(&accept, BYTES("br"));
    accept_read(&accept, BYTES("gzip;q=0.5"));
    assert_true(accept_gzip(&accept));
    accept_read(&accept, BYTES("identity"));
    assert_false(accept_gzip(&accept));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_is_asked_for_by_name_or_star),
        cmocka_unit_test(nothing_else_asks_for_gzip),
        cmocka_unit_test(several_lines_are_one_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
