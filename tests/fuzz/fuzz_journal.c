/* fuzz_journal.c -- no bytes on disk make the journal do anything but open or refuse.
 *
 * The first byte of the input says what the rest is:
 *   'b'  a block, for journal_block_decode
 *   's'  a segment file as it is
 *   'f'  a segment file whose checksums are put right first, so that what they guard is reached
 *   'd'  damage to a good journal: five bytes each, u32 place and what to turn there. The journal
 *        must then refuse, or replay some of the first blocks and nothing else.
 * A journal that opened must take a block and open again with it. */
#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"
#include "support/journal_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGES_MAX 16u

static void fuzz_block(struct bytes bytes)
{
    struct journal_block block;
    if (journal_block_decode(bytes, &block) != ERR_OK) return;
    must(block.count > 0);
    must(block.body.size <= bytes.size);
    must(block.body.data + block.body.size <= bytes.data + bytes.size);
}

static enum err accept(void *context, const struct journal_block *block)
{
    uint64_t *last = context;
    must(block->first_sequence == *last + 1 || *last == 0);
    must(hash_checksum(block->body) != 1); /* reads all of it */
    *last = block->first_sequence + block->count - 1;
    return ERR_OK;
}

static uint64_t journal_opens(const struct journal_config *config, struct journal **journal_out)
{
    struct reason why;
    uint64_t last = 0;
    enum err e = journal_open(journal_out, config, 0, accept, &last, &why);
    must((e == ERR_OK) == (*journal_out != NULL));
    must(e == ERR_OK || strlen(why.text) > 0);
    return last;
}

static void goes_on(const struct world *world)
{
    struct journal *journal;
    uint64_t last = journal_opens(&world->config, &journal);
    if (!journal) return;
    must(last == 0 || journal_last_sequence(journal) == last);
    uint64_t sequence = journal_last_sequence(journal) + 1;
    if (sequence == 0 || journal_last_time(journal) == INT64_MAX) goto out;
    struct journal_block block = {.first_sequence = sequence,
                                  .count = 1,
                                  .time_ms = journal_last_time(journal),
                                  .body = BYTES("more")};
    must(journal_append(journal, &block) == ERR_OK);
    must(journal_sync(journal) == ERR_OK);
    journal_close(journal);
    last = journal_opens(&world->config, &journal);
    must(journal != NULL);
    must(last == sequence);
out:
    journal_close(journal);
}

static void put_right(char *image, size_t size, uint64_t installation)
{
    put_u64(image + 16, installation);
    put_u64(image + 32, 1); /* the number in the name */
    put_u64(image + 64, hash_checksum(bytes_of(image, 64)));
    uint64_t previous = get_u64(image + 48);
    for (size_t at = WORLD_PAGE; at < size; at += WORLD_PAGE) {
        char *block = image + at;
        put_u64(block + 8, get_u64(image + 64));
        put_u64(block + 16, get_u64(image + 24));
        put_u64(block + 64, previous);
        uint32_t length = get_u32(block + 36);
        if (length <= size - at - 88)
            put_u64(block + 72, hash_checksum(bytes_of(block + 88, length)));
        put_u64(block + 80, hash_checksum(bytes_of(block, 80)));
        previous = get_u64(block + 80);
    }
}

static void fuzz_segment(struct bytes bytes, bool right)
{
    struct world world;
    world_init(&world, PAGES_MAX, 0);
    size_t pages = (bytes.size + WORLD_PAGE - 1) / WORLD_PAGE;
    if (pages == 0 || pages > PAGES_MAX) pages = PAGES_MAX;
    size_t size = pages * WORLD_PAGE;
    char *image = aligned_alloc(WORLD_PAGE, size);
    memset(image, 0, size);
    memcpy(image, bytes.data, bytes.size < size ? bytes.size : size);
    if (right) put_right(image, size, world.config.installation);

    struct io *io = world.config.io;
    int fd = io->ops->open(io, "journal-0000000000000001.seg", true, true);
    must(io->ops->write(io, fd, image, size, 0) == (int64_t)size);
    io->ops->close(io, fd);
    goes_on(&world);
    free(image);
    world_release(&world);
}

/* Three segments, so that damage to any of them has others to witness. */
static void fuzz_damage(struct bytes bytes)
{
    struct world world;
    world_init(&world, 8, 0);
    must(world_open(&world, 0) == ERR_OK);
    for (unsigned i = 0; i < 18; i++)
        must(world_append(&world, 50 * i, 1 + i % 3) == ERR_OK);
    must(world_sync(&world) == ERR_OK);
    world_kill(&world);
    world.acked = 0; /* damage may take the last segment's blocks; but in order */
    for (; bytes.size >= 5; bytes = bytes_of(bytes.data + 5, bytes.size - 5)) {
        uint32_t place = get_u32(bytes.data);
        const char *name = io_sim_name(world.sim, "journal-", place / 32768 % 3);
        io_sim_damage(world.sim, name, place % 32768, (unsigned char)bytes.data[4]);
    }
    enum err e = world_open(&world, 0);
    must(e == ERR_OK || e == ERR_CORRUPT);
    must(world.broken == NULL);
    world_release(&world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (data[0] == 'b') fuzz_block(rest);
    if (data[0] == 's') fuzz_segment(rest, false);
    if (data[0] == 'f') fuzz_segment(rest, true);
    if (data[0] == 'd') fuzz_damage(rest);
    return 0;
}
