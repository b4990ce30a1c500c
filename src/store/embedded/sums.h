/* sums.h -- sums of sums, so that a long range is added up from some hundred rows.
 *
 * SUMS_FAN neighbouring buckets make a node of level 1, SUMS_FAN of those one of level 2; a node's
 * row holds the sum of its cells. A year of minutes is then 128 nodes and a few rows at its ends
 * instead of 525,600 cells.
 *
 * Not every series has nodes: keeping them costs write-back a lookup for each cell it writes. A
 * range sum that walked many cells asks for them (sums_ask); the tend thread builds them a step at
 * a time beside its other work and then sets the series' mark. From then on the series is *summed*:
 *
 *     In every snapshot of the state that has the mark, each node is the sum of its stored cells in
 *     the same snapshot, and a node without a row is the sum 0.
 *
 * How that is kept, and why a crash cannot break it, is told in sums.c; how ranges are covered with
 * nodes in sums_read.c. */
#ifndef TALLY_STORE_EMBEDDED_SUMS_H
#define TALLY_STORE_EMBEDDED_SUMS_H

#include "store/embedded/cells.h"
#include "store/embedded/state/state.h"
#include "store/store.h"

#define SUMS_LEVELS 2u
#define SUMS_CHUNK 256u /* cells noted at most before sums_write */
#ifdef TALLY_SMALL_WORLD
#define SUMS_SHIFT 1u
#define SUMS_WALK_MIN 0u
#else
#define SUMS_SHIFT 6u
#define SUMS_WALK_MIN 4096u /* cells walked by a sum, above which nodes are worth having */
#endif
#define SUMS_FAN (1 << SUMS_SHIFT)

/* The bucket's index, counted from the epoch: toward minus infinity, as buckets are. */
static inline int64_t sums_index(int64_t bucket, int32_t duration)
{
    return bucket / duration - (bucket % duration < 0);
}

struct sums;
struct sums *sums_new(void);
void sums_free(struct sums *sums);

/* Any thread may call: a sum over this series walked many cells. It is forgotten if many others
 * asked. */
void sums_ask(struct sums *sums, uint64_t series);

/* Everything below until the readers' part is for the tend thread, the only one that writes the
 * state. After an error the batch must not be written and the state has to be reopened. */

/* To be called after the state was opened, or reopened: loads which series are summed. */
MUST_USE enum err sums_load(struct sums *sums, struct state *state);

/* Notes each cell while write-back fills a batch. Then, before the batch is written, sums_write
 * puts into it what the notes change in the nodes. */
void sums_note(struct sums *sums, uint64_t series, int64_t bucket, const struct cell *cell);
MUST_USE enum err sums_write(struct sums *sums, struct state *state, struct state_batch *batch);

/* Puts the end of a dead series' nodes and mark into the batch that deletes its cells. */
MUST_USE enum err sums_bury(struct sums *sums, struct state *state, struct state_batch *batch,
                            uint64_t series);

/* One step of building what was asked for; writes `batch`. `*more_out`: there is another one. */
MUST_USE enum err sums_build(struct sums *sums, struct state *state, struct state_batch *batch,
                             bool *more_out);

/* Readers. Adds the stored cells with from <= bucket <= to; `*summed_out` false: the series is not
 * summed in this view and nothing was added. */
MUST_USE enum err sums_read(struct state_view *view, const struct series *series, int64_t from,
                            int64_t to, struct range_sum *sum, bool *summed_out);
/* Adds the cells of `newer`, in order of time, and takes away what the view has in their places. */
MUST_USE enum err sums_renew(struct state_view *view, const struct series *series,
                             const struct bucket_cell *newer, size_t count, struct range_sum *sum);

#endif
