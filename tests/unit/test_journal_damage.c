/* test_journal_damage.c -- law (4) of the journal: what a disk did to durable blocks is refused
 * with file and place, never taken for a torn tail and cut. */
#include <errno.h>

#include "base/hash.h"
#include "support/journal_expect.h"

static void what_cannot_be_read_is_not_cut(void **state)
{
    (void)state;
    write_blocks(20);
    world_kill(&world);
    uint64_t refused = 0;
    for (enum err e = ERR_STORAGE; e == ERR_STORAGE; refused++) {
        io_sim_fail_read(world.sim, refused + 1, EIO);
        uint64_t calls = io_sim_calls(world.sim);
        e = world_open(&world, 0);
        if (e != ERR_OK) assert_int_equal(io_sim_calls(world.sim), calls); /* nothing was changed */
    }
    assert_true(refused > 6); /* three headers, three files of blocks, then none left to fail */
    assert_null(world.broken);
    assert_int_equal(world_last(&world), 20);
}

static void a_bad_block_that_a_later_one_says_was_durable_is_refused(void **state)
{
    (void)state;
    write_blocks(4);
    world_kill(&world);
    damage(0, 1, 90, 0x01);
    expect_refused(0, "journal-0000000000000001.seg");
    expect_refused(0, "offset 8192 ");
    damage(0, 1, 90, 0x01); /* nothing was cut: the same bit turned back makes it good again */
    expect_open(0, 4);
}

/* A block header can be checked alone, so a torn block still bears witness. */
static void a_torn_block_bears_witness_with_its_header(void **state)
{
    (void)state;
    write_blocks(3);
    world_kill(&world);
    damage(0, 1, 90, 0x01);
    damage(0, 2, 90, 0x01);
    expect_refused(0, "was durable");
}

static void a_bad_block_in_an_earlier_segment_is_refused(void **state)
{
    (void)state;
    append_blocks(8, SMALL); /* no later block of its segment knows that the 7th was synced */
    assert_int_equal(world_sync(&world), ERR_OK);
    world_kill(&world);
    damage(0, 6, 0, 0xff);
    expect_refused(0, "what follows in the journal says that 7 was durable");
}

static void a_missing_segment_is_refused(void **state)
{
    (void)state;
    write_blocks(21);
    world_kill(&world);
    struct io *io = io_sim_io(world.sim);
    assert_int_equal(io->ops->unlink(io, io_sim_name(world.sim, "journal-", 1)), 0);
    expect_refused(0, "is damaged");
}

static void a_block_that_the_state_holds_is_not_a_torn_tail(void **state)
{
    (void)state;
    write_blocks(3);
    world_kill(&world);
    damage(0, 2, 90, 0x01);
    expect_refused(3, "ends at offset 12288 with sequence 2, but the state already holds 3");
}

static void a_state_ahead_of_its_journal_is_refused(void **state)
{
    (void)state;
    write_blocks(3);
    world_kill(&world);
    expect_refused(4, "the state already holds 4");
    struct world empty;
    world_init(&empty, 8, 0);
    assert_int_equal(world_open(&empty, 1), ERR_CORRUPT);
    assert_non_null(strstr(empty.why.text, "the journal is empty"));
    world_release(&empty);
}

static void blocks_missing_after_applied_are_refused(void **state)
{
    (void)state;
    write_blocks(30);
    journal_trim(world.journal, 20);
    world_kill(&world);
    expect_refused(3, "the journal begins after sequence 14, but the state holds only 3");
    expect_open(20, 30);
}

static void another_installation_is_refused(void **state)
{
    (void)state;
    write_blocks(1);
    world_kill(&world);
    world.config.installation++;
    expect_refused(0, "belongs to another installation");
}

/* Every bit that means something, one at a time. The segment's header is durable before it gets its
 * name, so damage to it is never a torn write. */
static void no_bit_of_a_segment_header_may_turn(void **state)
{
    (void)state;
    write_blocks(2);
    world_kill(&world);
    const char *name = io_sim_name(world.sim, "journal-", 0);
    for (unsigned bit = 0; bit < 72 * 8; bit++) {
        io_sim_damage(world.sim, name, bit / 8, (unsigned char)(1u << bit % 8));
        expect_refused(0, "has a damaged header");
        io_sim_damage(world.sim, name, bit / 8, (unsigned char)(1u << bit % 8));
    }
    expect_open(0, 2);
}

static void no_bit_of_a_block_may_turn(void **state)
{
    (void)state;
    write_blocks(1);
    uint64_t size;
    const char *name = io_sim_name(world.sim, "journal-", 0);
    const unsigned char *content = io_sim_content(world.sim, name, &size);
    char page[WORLD_PAGE];
    memcpy(page, content + WORLD_PAGE, sizeof page);
    struct journal_block block;
    assert_int_equal(journal_block_decode(bytes_of(page, sizeof page), &block), ERR_OK);
    for (unsigned bit = 0; bit < (88 + SMALL) * 8; bit++) {
        page[bit / 8] = (char)(page[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(journal_block_decode(bytes_of(page, sizeof page), &block), ERR_CORRUPT);
        page[bit / 8] = (char)(page[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t left = 0; left < 88 + SMALL; left++)
        assert_int_equal(journal_block_decode(bytes_of(page, left), &block), ERR_CORRUPT);
}

static void overwrite_u64(const char *name, unsigned offset, uint64_t value)
{
    uint64_t size;
    const unsigned char *content = io_sim_content(world.sim, name, &size);
    for (unsigned i = 0; i < 8; i++) {
        unsigned char turn = (unsigned char)(content[offset + i] ^ (value >> (8 * i)));
        io_sim_damage(world.sim, name, offset + i, turn);
    }
}

/* Headers that are whole but cannot be ours: written by a later version, or after other blocks. */
static void a_header_from_elsewhere_is_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned offset;
        const char *says;
    } fields[] = {{8, "format this version does not know"},
                  {32, "has the header of another segment"},
                  {48, "do not lead to the one that the next segment names"}};
    write_blocks(2);
    world_kill(&world);
    expect_open(0, 2);
    world_kill(&world);
    const char *name = io_sim_name(world.sim, "journal-", 1);
    uint64_t size;
    const unsigned char *page = io_sim_content(world.sim, name, &size);
    for (unsigned i = 0; i < ARRAY_COUNT(fields); i++) {
        io_sim_damage(world.sim, name, fields[i].offset, 1);
        overwrite_u64(name, 64, hash_checksum(bytes_of(page, 64)));
        expect_refused(0, fields[i].says);
        io_sim_damage(world.sim, name, fields[i].offset, 1);
    }
}

static enum err refuse(void *context, const struct journal_block *block)
{
    (void)context;
    return block->first_sequence == 2 ? ERR_INTERNAL : ERR_OK;
}

static void what_replay_refuses_is_not_opened(void **state)
{
    (void)state;
    write_blocks(3);
    world_kill(&world);
    struct journal *journal;
    struct reason why;
    enum err e = journal_open(&journal, &world.config, 0, refuse, NULL, &why);
    assert_int_equal(e, ERR_INTERNAL);
    assert_non_null(strstr(why.text, "offset 8192 was refused"));
    expect_open(0, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(what_cannot_be_read_is_not_cut),
        LAW(a_bad_block_that_a_later_one_says_was_durable_is_refused),
        LAW(a_torn_block_bears_witness_with_its_header),
        LAW(a_bad_block_in_an_earlier_segment_is_refused),
        LAW(a_missing_segment_is_refused),
        LAW(a_block_that_the_state_holds_is_not_a_torn_tail),
        LAW(a_state_ahead_of_its_journal_is_refused),
        LAW(blocks_missing_after_applied_are_refused),
        LAW(another_installation_is_refused),
        LAW(no_bit_of_a_segment_header_may_turn),
        LAW(no_bit_of_a_block_may_turn),
        LAW(a_header_from_elsewhere_is_refused),
        LAW(what_replay_refuses_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
