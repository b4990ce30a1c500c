/* events.h -- what a request with events keeps between reading and answering it. */
#ifndef TALLY_API_EVENTS_EVENTS_H
#define TALLY_API_EVENTS_EVENTS_H

#include "base/reason.h"
#include "core/project.h"

struct call;

/* An event on its way. The commit thread may put another projection in place of ours, made by newer
 * rules in its batch's memory, which is gone once the bundle is done. */
struct sent_event {
    struct event event;
    struct projection *projection; /* ours, held by call->rules */
};

static inline const struct sent_event *sent_event_of(const struct op *op)
{
    return (const struct sent_event *)op->event;
}
_Static_assert(offsetof(struct sent_event, event) == 0, "sent_event_of is a cast");

/* The fingerprint of an event id of the caller's tenant, in a namespace of its own. */
struct fingerprint event_print(const struct call *call, struct bytes id);

/* Makes one plain event, written as JSON, an op. What `why` says if it is none: see event_read.
 * `call` has its tenant and lane and holds the rules afterwards, which live as long as the op. */
MUST_USE enum err events_make(struct call *call, struct bytes json, struct op *op,
                              struct reason *why);

/* Replies to a decided bundle: of one event, of many; call->plan is their batch_plan. */
void events_finish_one(struct call *call);
void events_finish_many(struct call *call);

/* Counts a decided event in the metrics and logs what it did. */
void events_count(const struct op *op, int64_t now_ms);

#endif
