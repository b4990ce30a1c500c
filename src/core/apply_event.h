/* apply_event.h -- deciding events: shared by the steps of core/apply.h only. */
#ifndef TALLY_CORE_APPLY_EVENT_H
#define TALLY_CORE_APPLY_EVENT_H

#include "core/apply.h"
#include "core/project.h"

/* The time that an event's windows go by: batch time, for a replayed event that of its own
 * batch. */
int64_t event_time(const struct apply *apply, const struct op *op);

/* The duration and bucket of the `index`-th cell a definition keeps for each dimension set. */
int32_t event_cell(const struct definition *definition, unsigned index, const struct event *event,
                   int64_t now_ms, int64_t *bucket_out);

/* Whether the event's id was remembered when the batch was loaded, or has been since. */
bool event_id_known(const struct apply *apply, const struct op *op);

/* Projects an event again that was projected by rules that are not in force for this batch. */
void event_project_again(struct apply *apply, struct op *op);

/* Finds out under which dimension sets the entity of a transition-safe counter's decrement was
 * switched on (entity->former): before this batch, or by a change of it, if nothing is refused
 * until then. To be called in order for the changes of every event that may be applied; `repeat`:
 * the event will be a duplicate unless an earlier event is refused. */
void change_recall(struct apply *apply, struct bytes tenant, struct change *change, bool repeat);

/* Decides one OP_EVENT or OP_REPLAY; adds its cause. */
void decide_event(struct apply *apply, struct op *op);
enum err decide_replay(struct apply *apply, struct op *op, bool *changed_out);

#endif
