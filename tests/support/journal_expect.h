/* journal_expect.h -- the words that the journal's unit tests share: one world, made anew for each
 * test, with segments of 8 pages (a header and seven small blocks). */
#ifndef TALLY_TESTS_SUPPORT_JOURNAL_EXPECT_H
#define TALLY_TESTS_SUPPORT_JOURNAL_EXPECT_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support/journal_world.h"

#define SMALL 100u           /* a body that takes one page with its header */
#define BIG (3 * WORLD_PAGE) /* one that takes four */

static struct world world;

static inline int setup(void **state)
{
    (void)state;
    world_init(&world, 8, 0);
    assert_int_equal(world_open(&world, 0), ERR_OK);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    world_release(&world);
    return 0;
}

static inline void expect_reopen(uint64_t applied)
{
    enum err e = world_open(&world, applied);
    if (e != ERR_OK) fail_msg("%s", world.why.text);
    if (world.broken) fail_msg("%s", world.broken);
}

static inline void expect_open(uint64_t applied, uint64_t last)
{
    expect_reopen(applied);
    assert_int_equal(world_last(&world), last);
}

static inline void expect_refused(uint64_t applied, const char *part_of_sentence)
{
    assert_int_equal(world_open(&world, applied), ERR_CORRUPT);
    assert_null(world.journal);
    if (!strstr(world.why.text, part_of_sentence)) fail_msg("said: %s", world.why.text);
}

static inline void write_blocks(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(world_write(&world, SMALL), ERR_OK);
}

static inline void append_blocks(unsigned count, size_t body_size)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(world_append(&world, body_size, 1), ERR_OK);
}

/* The nth page after the header of the nth live segment; small blocks take one each. */
static inline void damage(unsigned segment, unsigned page, unsigned byte, unsigned char mask)
{
    const char *name = io_sim_name(world.sim, "journal-", segment);
    assert_non_null(name);
    io_sim_damage(world.sim, name, (page + 1) * (uint64_t)WORLD_PAGE + byte, mask);
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
