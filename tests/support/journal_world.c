/* journal_world.c -- see journal_world.h. */
#include "support/journal_world.h"

#include <stdlib.h>
#include <string.h>

#define BODY_MAX (1u << 20)

static char body_buffer[BODY_MAX];

static uint64_t mixed(uint64_t value)
{
    value *= 0x9e3779b97f4a7c15u;
    return value ^ (value >> 29);
}

static struct bytes body_of(const struct world_block *block)
{
    must(block->body_size <= BODY_MAX);
    for (size_t i = 0; i < block->body_size; i += 8) {
        uint64_t word = mixed(block->tag + i);
        size_t left = block->body_size - i;
        memcpy(body_buffer + i, &word, left < 8 ? left : 8);
    }
    return bytes_of(body_buffer, block->body_size);
}

static uint64_t block_end(const struct world_block *block)
{
    return block->first_sequence + block->count - 1;
}

uint64_t world_last(const struct world *world)
{
    return world->count ? block_end(&world->blocks[world->count - 1]) : 0;
}

static void note_broken(struct world *world, const char *promise)
{
    if (!world->broken) world->broken = promise;
}

void world_init(struct world *world, unsigned segment_pages, unsigned spare_count)
{
    *world = (struct world){.sim = io_sim_new()};
    world->config = (struct journal_config){
        .dir = "journal",
        .io = io_sim_io(world->sim),
        .segment_size = (uint64_t)segment_pages * WORLD_PAGE,
        .first_size = (uint64_t)segment_pages * WORLD_PAGE,
        .spare_count = spare_count,
        .installation = 0x1122334455667788u,
    };
}

void world_release(struct world *world)
{
    journal_close(world->journal);
    io_sim_free(world->sim);
    free(world->blocks);
}

static enum err replay(void *context, const struct journal_block *block)
{
    struct world *world = context;
    if (world->at >= world->count) {
        note_broken(world, "a block came back that is void or was never appended");
        return ERR_OK;
    }
    const struct world_block *expected = &world->blocks[world->at++];
    if (block->first_sequence != expected->first_sequence || block->count != expected->count)
        note_broken(world, "blocks come back in order and without a gap");
    else if (block->time_ms != expected->time_ms || block->next_series != expected->tag)
        note_broken(world, "a block comes back with its own time and series");
    else if (!bytes_equal(block->body, body_of(expected)))
        note_broken(world, "a block comes back whole");
    world->replayed++;
    return ERR_OK;
}

static void seek(struct world *world, uint64_t after)
{
    world->at = 0;
    world->replayed = 0;
    while (world->at < world->count && block_end(&world->blocks[world->at]) <= after)
        world->at++;
}

enum err world_open(struct world *world, uint64_t applied)
{
    reason_clear(&world->why);
    seek(world, applied);
    enum err e = journal_open(&world->journal, &world->config, applied, replay, world, &world->why);
    if (e != ERR_OK) return e;
    world->count = world->at;
    if (world_last(world) < world->acked) note_broken(world, "what was acknowledged comes back");
    if (journal_last_sequence(world->journal) != world_last(world))
        note_broken(world, "the journal goes on after the last block replayed");
    if (journal_durable_sequence(world->journal) != world_last(world))
        note_broken(world, "what was replayed is durable");
    world->acked = world_last(world);
    return ERR_OK;
}

void world_kill(struct world *world)
{
    journal_close(world->journal);
    world->journal = NULL;
    io_sim_kill(world->sim);
}

void world_crash(struct world *world, uint64_t seed)
{
    journal_close(world->journal);
    world->journal = NULL;
    io_sim_crash(world->sim, seed);
}

enum err world_append(struct world *world, size_t body_size, uint32_t count)
{
    struct world_block made = {
        .first_sequence = world_last(world) + 1,
        .count = count,
        .time_ms = (int64_t)world->tag_last * 10,
        .tag = ++world->tag_last,
        .body_size = body_size,
    };
    struct journal_block block = {
        .first_sequence = made.first_sequence,
        .count = made.count,
        .time_ms = made.time_ms,
        .next_series = made.tag,
        .body = body_of(&made),
    };
    enum err e = journal_append(world->journal, &block);
    world->acked = journal_durable_sequence(world->journal);
    if (e != ERR_OK) return e;
    if (world->count == world->capacity) {
        world->capacity = world->capacity * 2 + 64;
        world->blocks = must_realloc(world->blocks, world->capacity * sizeof made);
    }
    world->blocks[world->count++] = made;
    return ERR_OK;
}

enum err world_sync(struct world *world)
{
    enum err e = journal_sync(world->journal);
    world->acked = journal_durable_sequence(world->journal);
    if (e == ERR_OK && world->acked != world_last(world))
        note_broken(world, "a sync covers all appended");
    return e;
}

enum err world_restart(struct world *world)
{
    enum err e = journal_restart(world->journal);
    if (e != ERR_OK) return e;
    while (world->count && world_last(world) > world->acked)
        world->count--;
    if (journal_last_sequence(world->journal) != world->acked)
        note_broken(world, "a restart goes on after the last durable block");
    return ERR_OK;
}

enum err world_write(struct world *world, size_t body_size)
{
    enum err e = world_append(world, body_size, 1);
    return e != ERR_OK ? e : world_sync(world);
}

enum err world_scan(struct world *world, uint64_t from_sequence)
{
    seek(world, from_sequence - 1);
    enum err e = journal_scan(world->journal, from_sequence, replay, world);
    uint64_t reached = world->at ? block_end(&world->blocks[world->at - 1]) : 0;
    if (e == ERR_OK && reached != world->acked)
        note_broken(world, "a scan reads all that is durable");
    return e;
}
