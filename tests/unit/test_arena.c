/* test_arena.c -- aligned, kept until the reset, and bounded after it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

static void what_is_given_out_does_not_overlap_and_is_aligned(void **state)
{
    struct arena arena;
    unsigned char *pieces[300];
    arena_init(&arena, 256);
    for (unsigned i = 0; i < 300; i++) {
        pieces[i] = arena_alloc(&arena, i);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), i);
    }
    for (unsigned i = 0; i < 300; i++)
        for (unsigned k = 0; k < i; k++)
            assert_int_equal(pieces[i][k], i & 0xff);
    arena_release(&arena);
    assert_int_equal(arena.total, 0);
}

static void a_steady_state_allocates_nothing(void **state)
{
    struct arena arena;
    arena_init(&arena, 1024);
    void *first = arena_alloc(&arena, 100);
    for (unsigned round = 0; round < 3; round++) {
        arena_reset(&arena);
        assert_ptr_equal(arena_alloc(&arena, 100), first);
        assert_int_equal(arena.total, 1024);
    }
    arena_release(&arena);
}

static void going_back_to_a_mark_gives_up_what_came_after_it_and_nothing_else(void **state)
{
    struct arena arena;
    arena_init(&arena, 1024);
    char *before = arena_alloc(&arena, 100);
    memset(before, 1, 100);
    struct arena_mark mark = arena_mark(&arena);
    char *first = arena_alloc(&arena, 100);
    for (unsigned i = 0; i < 20; i++)
        memset(arena_alloc(&arena, 500), 2, 500);
    arena_back(&arena, mark);
    assert_int_equal(arena.total, 1024);
    assert_ptr_equal(arena_alloc(&arena, 100), first);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(before[i], 1);
    arena_release(&arena);
}

static void after_a_reset_one_ordinary_chunk_is_kept(void **state)
{
    struct arena arena;
    arena_init(&arena, 1024);
    for (unsigned i = 0; i < 20; i++)
        memset(arena_alloc(&arena, 500), 1, 500);
    assert_true(arena.total >= 10 * 1024);
    arena_reset(&arena);
    assert_int_equal(arena.total, 1024);
    memset(arena_alloc(&arena, 1024), 2, 1024); /* all of it is there */
    assert_int_equal(arena.total, 1024);
    arena_release(&arena);
}

/* One huge request must not make its connection or batch large for ever. */
static void a_chunk_of_unusual_size_is_given_up(void **state)
{
    struct arena arena;
    arena_init(&arena, 1024);
    memset(arena_alloc(&arena, 1u << 20), 1, 1u << 20);
    assert_int_equal(arena.total, 1u << 20);
    arena_reset(&arena);
    assert_int_equal(arena.total, 0);
    memset(arena_alloc(&arena, 10), 1, 10);
    assert_int_equal(arena.total, 1024);
    arena_release(&arena);
}

static void zeroed_memory_is_zero_also_where_it_was_used_before(void **state)
{
    struct arena arena;
    arena_init(&arena, 256);
    memset(arena_alloc(&arena, 200), 0xff, 200);
    arena_reset(&arena);
    unsigned char *zeroed = arena_zalloc(&arena, 200);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(zeroed[i], 0);
    arena_release(&arena);
}

static void a_copy_is_apart_and_ends_with_a_nul(void **state)
{
    struct arena arena;
    char text[] = "hello";
    arena_init(&arena, 64);
    struct bytes copy = arena_copy(&arena, bytes_of(text, 5));
    text[0] = 'j';
    assert_int_equal(copy.size, 5);
    assert_string_equal(copy.data, "hello");
    copy = arena_copy(&arena, BYTES_NONE);
    assert_int_equal(copy.size, 0);
    assert_string_equal(copy.data, "");
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_out_does_not_overlap_and_is_aligned),
        cmocka_unit_test(a_steady_state_allocates_nothing),
        cmocka_unit_test(going_back_to_a_mark_gives_up_what_came_after_it_and_nothing_else),
        cmocka_unit_test(after_a_reset_one_ordinary_chunk_is_kept),
        cmocka_unit_test(a_chunk_of_unusual_size_is_given_up),
        cmocka_unit_test(zeroed_memory_is_zero_also_where_it_was_used_before),
        cmocka_unit_test(a_copy_is_apart_and_ends_with_a_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
