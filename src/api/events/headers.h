/* headers.h -- the attributes of a CloudEvent in binary mode, which are header lines.
 *
 * `ce-id: 17` is the attribute `id` with the value `17`. Values come out of their quotes and are
 * percent-decoded once (CloudEvents 1.0.2, HTTP binding, 3.1.3). Names are lower case from here on,
 * since HTTP's have no case. */
#ifndef TALLY_API_EVENTS_HEADERS_H
#define TALLY_API_EVENTS_HEADERS_H

#include "api/params.h"
#include "core/event.h"

#define EVENT_ATTRIBUTES_MAX (EVENT_DIMENSIONS_MAX + 16)

struct event_attribute {
    struct bytes name;
    struct bytes value;
};

struct event_attributes {
    unsigned count;
    struct event_attribute items[EVENT_ATTRIBUTES_MAX]; /* in the order of the lines */
};

/* Reads request.fields; everything in `attributes_out` lives in `arena`. ERR_INVALID: a name is not
 * of a-z and 0-9 or is there twice, a value is not well encoded or no UTF-8, or there are too
 * many. */
MUST_USE enum err event_attributes_read(struct bytes fields, struct arena *arena,
                                        struct event_attributes *attributes_out,
                                        struct reason *why);

/* BYTES_NONE if there is none of that name; an empty one has data. */
struct bytes event_attributes_get(const struct event_attributes *attributes, struct bytes name);

#endif
