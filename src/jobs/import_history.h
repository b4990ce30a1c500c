/* import_history.h -- events of another store become history of a lane.
 *
 * (1) An event keeps the number that clients know it by, and when it arrived. In the lane it has a
 *     sequence of its own, after all that was there: so history comes before the lane's first own
 *     event, or not at all, for the order of events is that of their arrival.
 * (2) The numbers of the lane's own events are above all that it imports. A lane begins where its
 *     directory was prepared to begin (prepare.h); one that is not that far takes no events.
 * (3) An object of the lane, put with each of its commits, says which sequence of each lane of
 *     the other store is the last that was taken. So no event or duplicate is ever taken twice,
 *     whichever export it stands in.
 * (4) What a store exported is its own history already. It takes only the ids of such events, for
 *     it may have been set back to an earlier state in the meantime. */
#ifndef TALLY_JOBS_IMPORT_HISTORY_H
#define TALLY_JOBS_IMPORT_HISTORY_H

#include "jobs/import.h"

/* Reads how much of the export's history the lane has, into `arena`, and whether the lane can take
 * more. ERR_CONFLICT with a sentence: laws (1) and (2); ERR_BUSY: the store is in trouble;
 * ERR_CORRUPT. */
MUST_USE enum err import_history_open(const struct importer *importer, struct import_lane *lane,
                                      struct arena *arena, struct reason *why_out);

/* Whether the export goes on where the lane's part of its history ends. */
bool import_history_has_more(const struct importer *importer, const struct import_lane *lane);

/* Whether the lane is to take this line, an event's or duplicate's of one of its tenants. */
bool import_history_wants(const struct import_lane *lane, const struct port_record *record);

/* The op that keeps the event or its id, in `arena`. */
struct op import_history_op(const struct import_lane *lane, struct arena *arena,
                            const struct port_record *record);

/* Notes which sequences a commit under way takes: none yet, one more, all that the export has;
 * makes the op that says so; and notes that the commit is durable. */
void import_history_begin(const struct import_lane *lane);
void import_history_take(const struct import_lane *lane, const struct port_record *record);
void import_history_take_all(const struct importer *importer, const struct import_lane *lane);
struct op import_history_mark(const struct import_lane *lane, struct arena *arena);
void import_history_taken(struct import_lane *lane);

#endif
