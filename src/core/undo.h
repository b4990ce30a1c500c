/* undo.h -- changing entries of a batch's read set, with a way back.
 *
 * Between part_begin and part_end everything that is changed through these functions is put back
 * if the part failed: an atomic bundle, or one event. Shared by the steps of core/apply.h only. */
#ifndef TALLY_CORE_UNDO_H
#define TALLY_CORE_UNDO_H

#include "core/apply.h"

/* The state of the numbers when an all-or-nothing part began. */
struct part_mark {
    uint64_t sequence;
    uint64_t next_series;
    uint32_t causes_count;
    uint32_t dead_count;
};

struct part_mark part_begin(struct apply *apply);
void part_end(struct apply *apply, const struct part_mark *mark, bool keep);

/* Each returns the entry, which is about to be changed. */
struct read_counter *change_counter(struct apply *apply, uint32_t index);
struct read_cell *change_cell(struct apply *apply, uint32_t index);
struct read_tenant *change_tenant(struct apply *apply, uint32_t index);
struct read_key *change_key(struct apply *apply, uint32_t index);
struct read_object *change_object(struct apply *apply, uint32_t index);

/* -- What several kinds of ops do with them ---------------------------------------------------- */

/* Gives the op the next sequence number and makes it a cause of the batch. */
void add_cause(struct apply *apply, struct op *op);

/* The cell as it is kept, absent if its series is not (or no longer) the counter's. */
struct cell cell_kept(const struct apply *apply, uint32_t cell_index);

/* The cell as it stands: one whose exact expiry has come is absent, though it is kept until it is
 * swept or begins anew. */
struct cell cell_now(const struct apply *apply, uint32_t cell_index);

/* Makes `after` the cell's value, counting a new cell in its series and its tenant. `kept` is what
 * cell_kept says. Refused if there is no room for a new one. */
MUST_USE enum err cell_put(struct apply *apply, uint32_t cell_index, const struct cell *kept,
                           struct cell after);

/* The counter's series of that duration, which it has, in a copy that this part may change. */
struct series *own_series(struct apply *apply, uint32_t counter_index, int32_t duration);

/* Notes that stored bytes do not decode, for the commit layer to say. Returns ERR_CORRUPT. */
enum err damage_note(struct apply *apply, const char *what, struct bytes key);

/* Remembers a key or an id from now on. */
void key_remember(struct apply *apply, uint32_t index, const struct key_record *record);

#endif
