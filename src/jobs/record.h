/* record.h -- the lines of an export: one JSON object each, its `kind` first.
 *
 *   {"kind":"header","format":1,"sequence":"9","moment":"1763..","lanes":[{"sequence":"9",
 *    "moment":"1763.."}],"installation":"..","idScope":"tenant","ids":false}
 *                                                  first; with ids also "idKey"
 *   {"kind":"rules","text":"counters: ..."}        as they were in force
 *   {"kind":"definition","counter":"..","mode":"series","value":"<hex>"}
 *   {"kind":"cell","tenant":"..","counter":"..","dimensions":"{..}","durationSeconds":60,
 *    "bucket":"0","added":"5","subbed":"0","expiresAt":"..","exact":true,"windowStart":"..","updatedAt":".."}
 *   {"kind":"status","tenant":"..","status":"active","updatedAt":".."}
 *   {"kind":"state","tenant":"..","counter":"..","entity":"<hex>","value":"<hex>"}
 *   {"kind":"mark","tenant":"..","reconcile":"..","dimensions":"{..}"}
 *                                                  an entity that waits to be counted anew
 *   {"kind":"event","lane":0,"sequence":"7","arrivedAt":"..","tenant":"..","eventId":"..",
 *    "type":"..","occurredAt":"..","dimensions":"{..}","payload":"{..}"}
 *   {"kind":"duplicate",.. the same ..,"firstSequence":"7","firstSeenAt":".."}
 *   {"kind":"id","print":"<hex>","event":true,"id":"3","firstSeenAt":"..","check":"..",
 *    "outcome":"<hex>"}
 *   {"kind":"end","lines":"8","checksum":".."}     last: how many there are before it, and port_sum
 *                                                  of them; a file made by hand may leave that out
 *
 * Each lane is in the export as of a moment of its own, which the header says; its `sequence` is
 * how many changes there were in all of them, its `moment` the newest. A file of an older version
 * does not name the lanes: it has one. A counter that several lanes define stands there once.
 *
 * Events of a lane stand in the order of their sequences in it. `id` is the number that clients
 * know an event by; it is left out where it is the sequence, as it is but for events that the store
 * had imported itself. The id of an event that has a line has none of its own.
 *
 * A `durationSeconds` below 0 is a calendar's bucket in a zone (core/zones.h), and `bucket` then
 * counts local dates.
 *
 * Numbers that may be large are decimal strings; times are milliseconds since 1970. A cell with
 * `dimensions` is a rule counter's; they are the set's canonical JSON, as a text. An id is kept as
 * its fingerprint under `idKey`, for stores do not keep their texts for ever. */
#ifndef TALLY_JOBS_RECORD_H
#define TALLY_JOBS_RECORD_H

#include "base/arena.h"
#include "base/json.h"
#include "core/event.h"
#include "core/rules.h"
#include "core/sets.h"

enum port_kind {
    PORT_HEADER,
    PORT_RULES,
    PORT_DEFINITION,
    PORT_CELL,
    PORT_STATUS,
    PORT_STATE,
    PORT_MARK,
    PORT_ID,
    PORT_EVENT,
    PORT_DUPLICATE,
    PORT_END, /* the last one: what is a kind is no greater */
};

/* As of when a lane is in the export. */
struct port_lane {
    uint64_t sequence; /* its last change's */
    int64_t moment_ms;
};

/* Which members are set depends on the kind. */
struct port_record {
    enum port_kind kind;
    const struct port_lane *lanes; /* header: those of the store that the export is of */
    unsigned lanes_count;          /* at least 1 */
    uint64_t installation;
    bool ids_shared;
    bool events; /* header: events follow, and are one whole with their ids */
    bool ids;    /* header: ids follow, and `secret` is what they were made with */
    struct hash_secret secret;
    struct bytes tenant;
    struct bytes counter;    /* its name */
    struct bytes reconcile;  /* mark: the entry's name */
    struct bytes dimensions; /* for a rule counter's cell; data NULL: a direct counter's */
    int32_t duration;
    int64_t bucket;
    struct cell cell;
    enum counter_mode mode;
    struct bytes text;   /* rules, status */
    struct bytes entity; /* state */
    struct bytes value;  /* definition, state: bytes as stored */
    int64_t updated_ms;  /* status */
    struct fingerprint print;
    struct key_record key;     /* id; `sequence` is its event's number, 0: not known */
    struct stored_event event; /* event, duplicate; once read, `origin` is its number */
    unsigned lane;             /* event, duplicate: which lane of the exporting store had it */
    uint64_t lines;
    bool summed; /* end: `sum` is that of the lines before it */
    uint64_t sum;
};

/* A header's lanes had so many changes together, and this was the moment of the newest one. */
uint64_t port_changes(const struct port_record *header);
int64_t port_moment_ms(const struct port_record *header);
/* No event or id in the export has a higher number. */
uint64_t port_highest(const struct port_record *header);

/* The checksum of one line more, without its end; 0 before the first. */
uint64_t port_sum(uint64_t sum, struct bytes line);

/* Replaces what is in `line`. */
void port_record_write(struct buf *line, const struct port_record *record);

/* Texts are copied into `arena`. False: not a line of an export; `why_out` is the end of a sentence
 * ("has no tenant"). */
MUST_USE bool port_record_read(struct json_parser *parser, struct bytes line, struct arena *arena,
                               struct port_record *record_out, const char **why_out);

#endif
