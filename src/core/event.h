/* event.h -- something that happened, as plain data.
 *
 * An event id takes effect at most once, for ever. Rules (core/rules.h) say which counters an event
 * changes; core/project.h works that out. An event travels as an op of kind OP_EVENT; its memory is
 * its maker's until the op's bundle is done. */
#ifndef TALLY_CORE_EVENT_H
#define TALLY_CORE_EVENT_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/json.h"
#include "core/op.h"

#define EVENT_ID_SIZE_MAX 255
#define EVENT_TYPE_SIZE_MAX 255
#define EVENT_DIMENSIONS_MAX 64
#define EVENT_SIZE_MAX (16u << 10) /* id, type, dimensions and payload together */

struct projection;

/* A dimension whose value is null is one that is not there. */
struct dimension {
    struct bytes key;
    struct bytes value; /* the string form: 1 and "1" are the same */
};

enum event_result { EVENT_APPLIED, EVENT_DUPLICATE };

struct event {
    struct bytes id;
    struct bytes type;
    int64_t occurred_ms;
    struct dimension *dimensions; /* sorted by key, each key once */
    uint32_t dimensions_count;
    struct bytes dimensions_json; /* canonical, see dimensions_write */
    struct bytes payload;         /* JSON without white space between its parts; size 0: none */
    uint32_t digest;              /* event_digest: what makes a repeat a true repeat */
    uint64_t origin;              /* an imported event's sequence in the store that it came to */
    int64_t arrived_ms;           /* for an event replayed from history, its batch time then */
    struct projection *projection;

    /* out, of an OP_EVENT that was decided ERR_OK */
    enum event_result result;
    uint64_t first_sequence; /* the event's own; for a duplicate, that of the first one */
    int64_t first_seen_ms;
    bool conflict;     /* a duplicate with another type, dimensions or payload */
    bool foreign;      /* a duplicate of another tenant's (ids unique over the installation) */
    uint32_t counters; /* cells changed */
};

/* The string form of a value: a string's own bytes, or made in `arena`. False: it has none.
 */
MUST_USE bool dimension_text(const struct json_value *value, struct arena *arena,
                             struct bytes *text_out);
/* The same, but all of it is in `arena`; a null has no data. */
MUST_USE bool dimension_value(const struct json_value *value, struct arena *arena,
                              struct bytes *value_out);

/* Sorts by key. The last value of a repeated key stands; if that is a null (a value without data),
 * the key goes. Returns how many are left. */
uint32_t dimensions_sort(struct dimension *dimensions, uint32_t count);

/* {"a":"1","b":"x"}: keys sorted, values as strings, no spaces. The bytes behind a dimensionKey and
 * in a counter's key, so their form never changes: '"' and '\' are escaped with '\', bytes below
 * 0x20 as \u00xx in lower case (never \n), everything else stands as it is. */
void dimensions_write(struct buf *buf, const struct dimension *dimensions, uint32_t count);
size_t dimensions_size(const struct dimension *dimensions, uint32_t count); /* what it adds */

/* The 32-bit hash of type, canonical dimensions and payload. */
uint32_t event_digest(const struct event *event);

/* An event as kept in the journal and in the archive, beside its tenant. `sequence` and
 * `arrived_ms` are known from where it lies; an imported one says itself when it arrived. A
 * duplicate is the audit of one dropped delivery. */
struct stored_event {
    uint64_t sequence; /* in this store */
    uint64_t origin;   /* an imported event's number; 0: it came here */
    int64_t arrived_ms;
    struct bytes tenant;
    struct bytes id;
    struct bytes type;
    int64_t occurred_ms;
    struct bytes dimensions_json;
    struct bytes payload;
    bool duplicate;
    uint64_t first_sequence; /* a duplicate's first event; 0: it was another tenant's */
    int64_t first_seen_ms;
    struct bytes encoded; /* the bytes that stored_event_decode read; size 0: it was not decoded */
};

/* What the store keeps of an event that was decided, as views of it. */
static inline struct stored_event event_to_store(const struct event *event)
{
    return (struct stored_event){.id = event->id,
                                 .type = event->type,
                                 .occurred_ms = event->occurred_ms,
                                 .dimensions_json = event->dimensions_json,
                                 .payload = event->payload,
                                 .origin = event->origin,
                                 .arrived_ms = event->arrived_ms,
                                 .duplicate = event->result == EVENT_DUPLICATE,
                                 .first_sequence = event->foreign ? 0 : event->first_sequence,
                                 .first_seen_ms = event->foreign ? 0 : event->first_seen_ms};
}

/* The number that clients know it by, its `id`: it keeps the one it was given first. */
static inline uint64_t stored_event_number(const struct stored_event *event)
{
    return event->origin ? event->origin : event->sequence;
}

/* Whether its parts are of sizes that an event's may be. */
bool stored_event_fits(const struct stored_event *event);

/* Everything but sequence, arrival and tenant. Decoding checks, sets reader->failed for bytes that
 * no encoder wrote, and borrows from the reader's bytes. */
void stored_event_encode(struct buf *buf, const struct stored_event *event);
void stored_event_decode(struct reader *reader, struct stored_event *event_out);

/* The id within bytes that stored_event_encode wrote. */
struct bytes stored_event_id(struct bytes encoded);

/* Back to an event that can be projected: dimensions are parsed, `payload_out` is the payload's
 * value (JSON_ABSENT if there is none) and good until the parser's next parse. False: what is
 * stored is no JSON any more. */
MUST_USE bool event_of_stored(const struct stored_event *stored, struct json_parser *parser,
                              struct arena *arena, struct event *event_out,
                              struct json_value *payload_out);

#endif
