/* test_position.c -- the positions that clients carry about (SPEC 13), well formed and not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/position.h"

static bool parses(const char *text, bool here, uint64_t sequence)
{
    struct position position;
    return position_parse(bytes_str(text), &position) && position.here == here &&
           position.sequence == sequence;
}

static void positions_of_this_history_and_of_others_are_told_apart(void **state)
{
    (void)state;
    assert_true(parses("0-0", true, 0));
    assert_true(parses("0-17", true, 17));
    assert_true(parses("0-18446744073709551615", true, UINT64_MAX));
    assert_true(parses("1.00ff00ff00ff00ff-17", false, 17));
    assert_true(parses("0.a-1", false, 1));
    assert_true(parses("18446744073709551615.ffffffffffffffffffffffffffffffff-1", false, 1));
}

static void what_no_server_says_is_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "-",
        "0",
        "17",
        "0-",
        "-1",
        "0--1",
        "0-+1",
        "0-1 ",
        " 0-1",
        "0-1.5",
        "0-1e3",
        "0-0x1",
        "00-1",
        "1-1",
        "1.-1",
        ".a-1",
        "1.A-1",
        "1.g-1",
        "1.a-",
        "1.a-1-1",
        "a.1-1",
        "1.a.b-1",
        "0-18446744073709551616",
        "0-99999999999999999999999999",
        "1.fffffffffffffffffffffffffffffffff-1",
        "18446744073709551616.a-1",
    };
    struct position position;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (position_parse(bytes_str(texts[i]), &position)) fail_msg("took \"%s\"", texts[i]);
    assert_false(position_parse(BYTES_NONE, &position));
    assert_false(position_parse(bytes_of("0-1\0", 4), &position));
}

static void what_a_reply_says_is_read_back(void **state)
{
    (void)state;
    static const uint64_t sequences[] = {0, 1, 42, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(sequences); i++) {
        struct reply reply = {0};
        struct position position;
        buf_init(&reply.headers, 1000);
        reply_sequence(&reply, sequences[i]);
        struct bytes line = buf_bytes(&reply.headers);
        struct bytes name = BYTES("Tally-Sequence: ");
        assert_true(bytes_starts(line, name));
        struct bytes text = bytes_of(line.data + name.size, line.size - name.size - 2);
        assert_true(position_parse(text, &position));
        assert_true(position.here && position.sequence == sequences[i]);
        buf_release(&reply.headers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_of_this_history_and_of_others_are_told_apart),
        cmocka_unit_test(what_no_server_says_is_malformed),
        cmocka_unit_test(what_a_reply_says_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
