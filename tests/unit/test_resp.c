/* test_resp.c -- framing, reading and writing Redis's protocol (SPEC 14).
 *
 * Every case is framed whole and cut at every position: the verdict must not depend on how the bytes
 * arrived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/resp.h"

static const struct resp_limits limits = {
    .bytes_max = 4096, .arguments_max = 100, .commands_max = 10};

/* From exactly sized memory, so that the address sanitizer sees one byte too far. */
static enum fault frame_upto(struct resp_frames *frames, struct bytes text, size_t size)
{
    char *copy = must_alloc(size);
    memcpy(copy, text.data, size);
    enum fault fault = resp_frame(frames, bytes_of(copy, size), &limits);
    free(copy);
    return fault;
}

static void expect_frames(struct bytes text, enum fault fault, unsigned commands, size_t whole)
{
    struct resp_frames all = {0};
    assert_int_equal(frame_upto(&all, text, text.size), fault);
    assert_int_equal(all.commands, commands);
    assert_int_equal(all.whole, whole);
    for (size_t cut = 0; cut <= text.size; cut++) {
        struct resp_frames frames = {0};
        enum fault first = frame_upto(&frames, text, cut);
        assert_true(first == FAULT_NONE || first == fault);
        assert_int_equal(frame_upto(&frames, text, text.size), fault);
        assert_int_equal(frames.commands, commands);
        assert_int_equal(frames.whole, whole);
    }
}

#define PING "*1\r\n$4\r\nPING\r\n"

static void whole_commands_are_found_wherever_they_are_cut(void **state)
{
    expect_frames(BYTES(PING), FAULT_NONE, 1, 14);
    expect_frames(BYTES(PING PING "*2\r\n$3\r\nGET\r\n$0\r\n\r\n"), FAULT_NONE, 3, 28 + 19);
    expect_frames(BYTES(PING "*2\r\n$3\r\nGET\r\n$5\r\nab"), FAULT_NONE, 1, 14);
    expect_frames(BYTES("PING\r\nGET a\n"), FAULT_NONE, 2, 12);
    expect_frames(BYTES("\r\n  \r\n*0\r\n*-1\r\n" PING), FAULT_NONE, 1, 6 + 4 + 5 + 14);
    expect_frames(BYTES("*1\r\n$6\r\na\r\nb\r\n\r\n"), FAULT_NONE, 1, 16);
}

static void what_is_malformed_is_a_fault_behind_what_is_whole(void **state)
{
    expect_frames(BYTES(PING "*x\r\n"), FAULT_RESP_ARRAY, 1, 14);
    expect_frames(BYTES("*101\r\n"), FAULT_RESP_ARRAY, 0, 0);
    expect_frames(BYTES("*1\r1"), FAULT_RESP_ARRAY, 0, 0);
    expect_frames(BYTES("*1234567890123456789\r\n"), FAULT_RESP_ARRAY, 0, 0);
    expect_frames(BYTES("*1\r\n+PING\r\n"), FAULT_RESP_EXPECTED, 0, 0);
    expect_frames(BYTES("*1\r\n$-4\r\n"), FAULT_RESP_STRING, 0, 0);
    expect_frames(BYTES("*1\r\n$\r\n"), FAULT_RESP_STRING, 0, 0);
    expect_frames(BYTES("*1\r\n$5000\r\n"), FAULT_RESP_STRING, 0, 0);
    expect_frames(BYTES("*1\r\n$4\r\nPINGING"), FAULT_RESP_STRING, 0, 0);
    expect_frames(BYTES("PING\r\nGET \"a\r\n"), FAULT_RESP_QUOTES, 1, 6);
    expect_frames(BYTES("GET 'a'b\r\n"), FAULT_RESP_QUOTES, 0, 0);
}

static void a_command_as_a_whole_is_bounded(void **state)
{
    char text[8192];
    struct resp_frames frames = {0};
    struct buf buf = {.data = text, .capacity = sizeof text, .max = sizeof text};
    buf_add(&buf, BYTES("*100\r\n"));
    for (unsigned i = 0; i < 99; i++) {
        buf_add(&buf, BYTES("$50\r\n"));
        memset(buf_reserve(&buf, 52), 'x', 50);
        buf.size += 50;
        buf_add(&buf, BYTES("\r\n"));
    }
    assert_int_equal(resp_frame(&frames, buf_bytes(&buf), &limits), FAULT_RESP_STRING);
}

static void so_many_commands_are_framed_at_a_time(void **state)
{
    char text[20 * sizeof PING] = "";
    struct resp_frames frames = {0};
    for (unsigned i = 0; i < 12; i++)
        strcat(text, PING);
    assert_int_equal(resp_frame(&frames, bytes_str(text), &limits), FAULT_NONE);
    assert_int_equal(frames.commands, 10);
    assert_int_equal(frames.whole, 140);
}

static void what_an_argument_needs_is_known_once_its_length_is(void **state)
{
    struct resp_frames frames = {0};
    assert_int_equal(frame_upto(&frames, BYTES("*1\r\n$1000\r\nab"), 13), FAULT_NONE);
    assert_int_equal(frames.need, 4 + 7 + 1000 + 2);
}

/* ---- reading ---- */

struct reading {
    struct arena arena;
    struct resp_reader reader;
    struct resp_command command;
};

static void expect_command(struct reading *reading, const char *const *words)
{
    assert_true(resp_next(&reading->reader, &reading->arena, &reading->command));
    uint32_t count = 0;
    for (; words[count]; count++) {
        assert_true(count < reading->command.count);
        struct bytes item = reading->command.items[count];
        assert_int_equal(item.size, strlen(words[count]));
        assert_memory_equal(item.data, words[count], item.size);
    }
    assert_int_equal(reading->command.count, count);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void commands_are_read_one_by_one(void **state)
{
    struct reading reading = {
        .reader.rest = BYTES("\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*0\r\n"
                             "incr  b\r\n \n"
                             "*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n"
                             "$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$0\r\n\r\n")};
    arena_init(&reading.arena, 512);
    expect_command(&reading, WORDS("GET", "a"));
    expect_command(&reading, WORDS("incr", "b"));
    expect_command(&reading, WORDS("0", "1", "2", "3", "4", "5", "6", "7", "8", ""));
    assert_false(resp_next(&reading.reader, &reading.arena, &reading.command));
    arena_release(&reading.arena);
}

static void words_of_a_line_may_be_quoted(void **state)
{
    struct reading reading = {.reader.rest = BYTES("ECHO \"a b\\x41\\n\\\"\\q\" 'it\\'s' \"\"\n"
                                                   "a\"b c\"\n")};
    arena_init(&reading.arena, 512);
    expect_command(&reading, WORDS("ECHO", "a bA\n\"q", "it's", ""));
    expect_command(&reading, WORDS("ab c"));
    arena_release(&reading.arena);
}

/* ---- writing ---- */

static void values_are_written_in_both_versions(void **state)
{
    struct buf buf;
    buf_init(&buf, 1024);
    resp_add_simple(&buf, BYTES("OK"));
    resp_add_error(&buf, BYTES("ERR a\r\nb"));
    resp_add_integer(&buf, INT64_MIN);
    resp_add_bulk(&buf, BYTES("a\r\n"));
    resp_add_bulk_integer(&buf, INT64_MAX);
    resp_add_bulk_integer(&buf, 0);
    resp_add_bulk_integer(&buf, 999999999);
    resp_add_bulk_integer(&buf, 1000000000);
    resp_add_bulk_integer(&buf, INT64_MIN);
    resp_add_array(&buf, 2);
    resp_add_null(&buf, RESP_2);
    resp_add_null(&buf, RESP_3);
    resp_add_map(&buf, RESP_2, 2);
    resp_add_map(&buf, RESP_3, 2);
    resp_add_set(&buf, RESP_2, 0);
    resp_add_set(&buf, RESP_3, 0);
    buf_add_char(&buf, '\0');
    assert_string_equal(buf.data, "+OK\r\n-ERR a  b\r\n:-9223372036854775808\r\n$3\r\na\r\n\r\n"
                                  "$19\r\n9223372036854775807\r\n$1\r\n0\r\n$9\r\n999999999\r\n"
                                  "$10\r\n1000000000\r\n$20\r\n-9223372036854775808\r\n"
                                  "*2\r\n$-1\r\n_\r\n*4\r\n%2\r\n"
                                  "*0\r\n~0\r\n");
    buf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_commands_are_found_wherever_they_are_cut),
        cmocka_unit_test(what_is_malformed_is_a_fault_behind_what_is_whole),
        cmocka_unit_test(a_command_as_a_whole_is_bounded),
        cmocka_unit_test(so_many_commands_are_framed_at_a_time),
        cmocka_unit_test(what_an_argument_needs_is_known_once_its_length_is),
        cmocka_unit_test(commands_are_read_one_by_one),
        cmocka_unit_test(words_of_a_line_may_be_quoted),
        cmocka_unit_test(values_are_written_in_both_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
