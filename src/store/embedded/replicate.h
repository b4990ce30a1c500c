/* replicate.h -- how one embedded store's history becomes another's (SPEC 13).
 *
 * A primary's blocks are shipped once they are durable there. A follower installs them: appended to
 * its own journal, synced, shown. That is recovery that does not end: nothing is decided, and a
 * block is in the store whole or not at all.
 *
 * (1) A store that follows has no turns: store_leads is false, and nothing but embedded_install
 *     changes it.
 * (2) What is installed continues the history: its sequence is the next one, and the running hash
 *     before it is the store's.
 * (3) A store that ships keeps its journal after the place that embedded_keep named, but never more
 *     of it than that allows: a follower that has fallen behind further takes a snapshot. */
#ifndef TALLY_STORE_EMBEDDED_REPLICATE_H
#define TALLY_STORE_EMBEDDED_REPLICATE_H

#include "store/embedded/journal/journal.h"
#include "store/store.h"

/* Told of each block once it is durable here, in order, by the thread that syncs; `hash` is the
 * running one after it. The block's body is valid during the call. */
typedef void embedded_durable_fn(void *context, const struct journal_block *block, uint64_t hash);

/* Any thread, before the first batch or block; NULL: nobody is told, which costs nothing. */
void embedded_tell(struct store *store, embedded_durable_fn *durable, void *context);

/* Whether what is durable here may be shown up to this sequence: others must have it, too. `wait`:
 * waits for that, until it is known or there is no use in waiting any longer. */
typedef bool embedded_reached_fn(void *context, uint64_t sequence, bool wait);
/* Told within a turn that what was withheld has brought new rules. */
typedef void embedded_released_fn(void *context);

/* Before the first batch. From now on a batch that is durable is shown, and reported, only once
 * `reached` says so. One for which it says no is reported as ERR_STORAGE and *withheld*: its block
 * stays in the journal, nothing of it is shown, and no turn begins (ERR_FEW_FOLLOWERS), until
 * `reached` says so after all. Then its after-images are installed, as a follower's are. */
void embedded_withhold(struct store *store, embedded_reached_fn *reached,
                       embedded_released_fn *released, void *context);

/* Says that another store is the one that decides; before the first turn. */
void embedded_set_following(struct store *store);

/* Any thread. Where the readers' history ends. */
struct store_position embedded_position(struct store *store);

/* Any thread. Visits the durable blocks after the place (sequence, hash), from the disk, until
 * `visit` returns something else than ERR_OK. ERR_NOT_FOUND: the journal no longer begins there;
 * ERR_POSITION: the history here does not contain that place, or nothing comes after it;
 * ERR_CORRUPT, ERR_STORAGE; and what `visit` returned, but for ERR_BUSY. */
typedef enum err embedded_block_fn(void *context, const struct journal_block *block);
MUST_USE enum err embedded_blocks(struct store *store, uint64_t after, uint64_t hash,
                                  embedded_block_fn *visit, void *context);

/* Any thread. Keeps the journal after this sequence, as long as all its files together take no more
 * than `bytes_max`. UINT64_MAX: nothing is kept for followers. */
void embedded_keep(struct store *store, uint64_t after, uint64_t bytes_max);

/* What an installed block brought that others go by. */
struct embedded_news {
    bool rules; /* rules have changed */
};

/* Makes blocks, in order and one after the other without a gap, part of the store; `sure_ms`: how
 * much of the primary's time is sure. Only where embedded_set_following was called; one thread.
 * ERR_POSITION: they do not continue the history; ERR_CORRUPT: a body is none; ERR_BODY_SIZE: one
 * does not fit a segment of the journal here; nothing was changed then. ERR_STORAGE: the disk
 * failed; how many are in the store embedded_position tells, and the store recovers by itself, as
 * from a failed batch. */
MUST_USE enum err embedded_install(struct store *store, const struct journal_block *blocks,
                                   unsigned count, int64_t sure_ms, struct embedded_news *news);

#endif
