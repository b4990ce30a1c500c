/* pace.h -- who commits a request, and when it waits: every decision of this kind is made here.
 *
 * A caller says what it sees and does what it is told. The functions are pure: none of them waits,
 * locks or reads a clock, and only `struct pace_linger` remembers anything. They follow four laws:
 *
 * (1) Work is handed to another thread only where that gains more than its two wake-ups cost
 *     (decision 3).
 * (2) A turn waits for company no longer than one sync takes, and for a lone client not at all.
 * (3) What goes first leaves part of each batch to the others, so none of them waits for ever.
 * (4) What others wait behind ends within some milliseconds: a batch, a part of a read, a bundle of
 *     a caretaker.
 *
 * What is not here: time-outs of clients, which are settings; how often streams are told
 * (api/views/streams.c); what a store does behind the commits. */
#ifndef TALLY_COMMIT_PACE_H
#define TALLY_COMMIT_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/look.h"

/* -- How large a batch is ---------------------------------------------------------------------- */

/* A batch that has so many ops takes no more. It is walked several times: one of 5000 events (6 MB)
 * is fetched from memory each time, one of 1000 lies in a core's cache (decision 5). */
#define PACE_ENOUGH_OPS 1024u

/* The same where the store is another machine: each batch waits for it once or twice, and what it
 * does for an op costs ten times what deciding the op does. */
#define PACE_ENOUGH_REMOTE_OPS 4096u

/* Batches that are being decided, written or answered at the same time: as they are small, many of
 * them keep the disk busy. */
#define PACE_BATCHES_MAX 16u

/* A tenant gives so many ops before it is the next tenant's turn: sixteen tenants share a batch. */
#define PACE_TENANT_OPS 64u

/* A caretaker's bundle has at most so many ops, about one batch: what comes behind it waits no
 * longer than for other clients. */
#define PACE_CARE_OPS 1000u

/* A rebuild's last part holds up every commit while it is counted, some 100 ms, and may be so many
 * batches. */
#define PACE_SWAP_BATCHES 8u

/* How many urgent ops go into a batch that takes `batch_ops`: at most half while batched ones wait,
 * and all of it otherwise. A batch of one op is not halved but goes to the two in turns, which is
 * what `owes`, that batched ops got nothing last time, is for. */
uint32_t pace_urgent_ops(uint32_t batch_ops, bool batched_wait, bool owes);

/* -- Who decides and who syncs ----------------------------------------------------------------- */

/* Fewer ops than this are decided in less time than a hand-over takes: deciding them while another
 * thread syncs gains nothing, so they are synced by the thread that decided them, while more gather
 * in the queue. With 64 connections 27 us of CPU an increment become 15. */
#define PACE_SMALL_OPS 512u

/* `small_ops` is PACE_SMALL_OPS, or what a test takes for it; of 0 nothing is small. */
bool pace_is_small(uint32_t small_ops, uint32_t ops);

/* Whether a turn waits for the batches in flight before it takes its own: what comes meanwhile
 * joins it. */
bool pace_turn_waits(uint32_t small_ops, uint32_t waiting_ops, uint64_t in_flight);

/* Whether a turn syncs its batch of `ops` itself; `in_flight` counts that one too. */
bool pace_turn_syncs(uint32_t small_ops, uint32_t ops, uint64_t in_flight);

/* Whether a net thread commits what its clients wait for, given that it is little: it has nothing
 * better to do and costs no wake-up. Not behind other batches and not where a sync, of which the
 * last took `sync_ns`, would keep its other clients waiting. */
bool pace_may_help(uint64_t in_flight, int64_t sync_ns);

/* Whether a net thread leaves the `turn_ops` of its turn to the commit thread: a read that arrives
 * while it syncs would wait for the disk. `since_read_ns`: since it saw one. A change or two,
 * behind which perhaps no client waits, it commits all the same. */
bool pace_spares_reads(int64_t since_read_ns, uint32_t turn_ops);

/* Whether a net thread pushes what it has read for a lane before its turn ends: enough for the
 * commit thread to begin with while the net thread reads on. */
bool pace_pushes_early(uint32_t collected_ops);

/* -- Waiting for company ----------------------------------------------------------------------- */

/* Clients that were just answered tend to ask again at once. Waiting for them makes one batch of
 * what would have been two: half the syncs and half the wake-ups for the same work. The wait is
 * doubled where they came, up to what a sync takes, and halved where they did not. */
struct pace_linger {
    uint32_t expected_ops; /* that were unanswered when the last batch was; 0: none to wait for */
    int64_t sync_ns;       /* how long the last sync took */
    int64_t linger_ns;     /* how long it is worth waiting for them to come again */
};

/* A turn has synced its own batch. */
void pace_synced(struct pace_linger *linger, int64_t sync_ns, uint32_t expected_ops);
/* How long the next turn waits at most, for `expected_ops`; 0: it does not. */
int64_t pace_linger_ns(struct pace_linger *linger);
/* It has waited, and so many ops are there. */
void pace_lingered(struct pace_linger *linger, uint32_t waiting_ops);

/* -- Holding a lane --------------------------------------------------------------------------- */

/* A store that other processes write to may keep its lane for the turn that follows a sync, which
 * saves a turn its way to the database and back. It does so where that turn is near, and no longer
 * than about a commit takes: another node may be waiting for the lane. */
#define PACE_HOLD_NS 1000000

/* Whether another turn is near: ops wait for it, a turn has begun that waits for this sync or,
 * where the thread that syncs takes the next turn too, the last ones came soon (`gap_ns`) after
 * the answers to those before them. */
bool pace_turn_is_near(uint32_t waiting_ops, bool begun, bool syncs_itself, int64_t gap_ns);

/* -- Before going to sleep --------------------------------------------------------------------- */

/* A commit thread looks for a tenth of a millisecond for the next request of the one or two clients
 * it answered. While batches are larger others need the core more. */
extern const struct look_limits pace_commit_look;

/* A net thread with one or two exchanges under way looks for their answers for about as long as a
 * sync takes: a lone increment takes 0.26 ms instead of 0.44. With none under way it sleeps. To
 * look for a lone client's next request is slower, because the client is woken on the core that
 * looks (0.32 ms instead of 0.29). */
extern const struct look_limits pace_net_look;

/* A request that found no room is tried again when something was answered, or after so long. */
#define PACE_RETRY_MS 10

/* -- What others wait behind ------------------------------------------------------------------- */

/* A reader works at one read for so long, and one more part; then it is other tenants' turn. */
#define PACE_READ_TURN_NS 10000000

/* Such a part of a read looks at so many cells, some milliseconds of work. */
#ifdef TALLY_SMALL_WORLD
#define PACE_READ_PART_CELLS 3u
#else
#define PACE_READ_PART_CELLS 8192u
#endif

/* Values that are read for several requests at once, in one question to a store that is another
 * machine: it answers each in some microseconds, and one question in fifty. */
#ifdef TALLY_SMALL_WORLD
#define PACE_READ_TOGETHER 3u
#else
#define PACE_READ_TOGETHER 256u
#endif

/* Whether a net thread packs a reply itself. A packer's hand-over is worth it for more than what
 * takes 0.15 ms: the results of a large batch take milliseconds, in which no other client is
 * served. */
bool pace_packs_here(size_t reply_bytes);

/* How long the caretakers of a lane pause between two rounds. While one of them presses, they pause
 * just long enough for others to have the core. */
int64_t pace_care_pause_ns(bool presses);

#endif
