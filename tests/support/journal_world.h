/* journal_world.h -- a journal on a simulated disk, next to a plain list of what it was given.
 *
 * Every opening compares what is replayed with the list: all that was acknowledged, in order and
 * whole, then perhaps some of what was appended but not acknowledged, without a gap, and nothing
 * else. What was void by then never comes back, because every block ever appended has its own tag.
 */
#ifndef TALLY_TESTS_SUPPORT_JOURNAL_WORLD_H
#define TALLY_TESTS_SUPPORT_JOURNAL_WORLD_H

#include "store/embedded/journal/journal.h"
#include "support/io_sim.h"

#define WORLD_PAGE 4096u

struct world_block {
    uint64_t first_sequence;
    uint32_t count;
    int64_t time_ms;
    uint64_t tag; /* the body is made of it */
    size_t body_size;
};

struct world {
    struct io_sim *sim;
    struct journal_config config;
    struct journal *journal; /* NULL: closed */
    struct world_block *blocks;
    size_t count;
    size_t capacity;
    uint64_t acked; /* sequence */
    uint64_t tag_last;
    size_t at;          /* index of the next block to be replayed */
    size_t replayed;    /* blocks at the last opening */
    const char *broken; /* the first promise found broken; NULL: none */
    struct reason why;  /* the sentence of the last opening that failed */
};

void world_init(struct world *world, unsigned segment_pages, unsigned spare_count);
void world_release(struct world *world);

/* Opens, compares and takes what was replayed for acknowledged. Sets `broken`. */
enum err world_open(struct world *world, uint64_t applied);
/* Ends the process, or cuts the power as well. */
void world_kill(struct world *world);
void world_crash(struct world *world, uint64_t seed);

/* Appends a block of `count` sequences. `world->acked` follows journal_durable_sequence. */
enum err world_append(struct world *world, size_t body_size, uint32_t count);
enum err world_sync(struct world *world);
enum err world_restart(struct world *world); /* on success the list is cut at `acked` */
enum err world_write(struct world *world, size_t body_size); /* append and sync */

uint64_t world_last(const struct world *world); /* sequence in the list */
/* Compares journal_scan from there with the list. */
enum err world_scan(struct world *world, uint64_t from_sequence);

#endif
