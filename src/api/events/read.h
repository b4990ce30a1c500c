/* read.h -- one event, as SPEC 6 writes it or as a CloudEvent, into a struct event.
 *
 * A CloudEvent (1.0, in JSON or with its attributes in headers) is the same thing in other words:
 * `source` and `id`, joined by a space, are the event id; a source is a URI reference and has no
 * space, so no two pairs meet, and a plain event could name the same id. `time` is when it
 * occurred, `data` the payload; `data.dimensions`, if that is an object, or else the extension
 * attributes are the dimensions.
 *
 * A plain event has no other fields than these; a CloudEvent has what attributes it likes.
 *
 * What is read is copied: nothing of an event points into the parser or the request. */
#ifndef TALLY_API_EVENTS_READ_H
#define TALLY_API_EVENTS_READ_H

#include "api/params.h"
#include "core/event.h"

enum event_form { EVENT_PLAIN, EVENT_CLOUD };

struct event_attributes; /* headers.h */

struct event_reader {
    enum event_form form;
    bool generate_ids;          /* a plain event without an id gets one */
    int64_t now_ms;             /* when an event occurred that does not say so */
    struct json_parser *parser; /* the one that parsed it */
    struct arena *arena;        /* holds what is read */
    struct buf scratch;         /* the reader's own */
    struct call *call;          /* whose reply may carry a warning of unknown fields; NULL: they are
                                   refused */
};

void event_reader_init(struct event_reader *reader, enum event_form form,
                       struct json_parser *parser, struct arena *arena, int64_t now_ms);
void event_reader_release(struct event_reader *reader);

/* Fills everything of an event up to and with `digest`; `payload_out` is good until the parser's
 * next parse. Otherwise `why` says what is wrong: ERR_EVENT_ID, ERR_EVENT_SIZE, ERR_UNKNOWN_FIELD,
 * or ERR_INVALID for everything else. */
MUST_USE enum err event_read(struct event_reader *reader, const struct json_value *object,
                             struct event *event_out, struct json_value *payload_out,
                             struct reason *why);

/* The same for a CloudEvent in binary mode: `attributes` were its headers, `data` its body as JSON,
 * or JSON_ABSENT. Nothing in the body is looked at but `dimensions`. */
MUST_USE enum err event_read_binary(struct event_reader *reader,
                                    const struct event_attributes *attributes,
                                    const struct json_value *data, struct event *event_out,
                                    struct json_value *payload_out, struct reason *why);

#endif
