/* record.c -- writes the lines of an export. */
#include "jobs/record.h"

#include <inttypes.h>

#include "base/codec.h"
#include "jobs/record_internal.h"

const char *const port_kind_names[] = {
    [PORT_HEADER] = "header",
    [PORT_RULES] = "rules",
    [PORT_DEFINITION] = "definition",
    [PORT_MARK] = "mark",
    [PORT_CELL] = "cell",
    [PORT_STATUS] = "status",
    [PORT_STATE] = "state",
    [PORT_ID] = "id",
    [PORT_END] = "end",
    [PORT_EVENT] = "event",
    [PORT_DUPLICATE] = "duplicate",
};

const struct bytes port_names[NAMES] = {
    [KIND] = BYTES("kind"),
    [FORMAT_NUMBER] = BYTES("format"),
    [SEQUENCE] = BYTES("sequence"),
    [MOMENT] = BYTES("moment"),
    [INSTALLATION] = BYTES("installation"),
    [ID_SCOPE] = BYTES("idScope"),
    [LANES] = BYTES("lanes"),
    [IDS] = BYTES("ids"),
    [EVENTS] = BYTES("events"),
    [ID_KEY] = BYTES("idKey"),
    [TEXT] = BYTES("text"),
    [TENANT] = BYTES("tenant"),
    [COUNTER] = BYTES("counter"),
    [MODE] = BYTES("mode"),
    [VALUE] = BYTES("value"),
    [DIMENSIONS] = BYTES("dimensions"),
    [DURATION] = BYTES("durationSeconds"),
    [BUCKET] = BYTES("bucket"),
    [ADDED] = BYTES("added"),
    [SUBBED] = BYTES("subbed"),
    [EXPIRES_AT] = BYTES("expiresAt"),
    [EXACT] = BYTES("exact"),
    [WINDOW_START] = BYTES("windowStart"),
    [UPDATED_AT] = BYTES("updatedAt"),
    [STATUS] = BYTES("status"),
    [RECONCILE] = BYTES("reconcile"),
    [ENTITY] = BYTES("entity"),
    [PRINT] = BYTES("print"),
    [EVENT] = BYTES("event"),
    [FIRST_SEEN_AT] = BYTES("firstSeenAt"),
    [DIGEST] = BYTES("check"),
    [OUTCOME] = BYTES("outcome"),
    [LANE] = BYTES("lane"),
    [NUMBER] = BYTES("id"),
    [ARRIVED_AT] = BYTES("arrivedAt"),
    [EVENT_ID] = BYTES("eventId"),
    [TYPE] = BYTES("type"),
    [OCCURRED_AT] = BYTES("occurredAt"),
    [PAYLOAD] = BYTES("payload"),
    [FIRST_SEQUENCE] = BYTES("firstSequence"),
    [LINES] = BYTES("lines"),
    [CHECKSUM] = BYTES("checksum"),
};

uint64_t port_sum(uint64_t sum, struct bytes line)
{
    const uint64_t both[] = {sum, hash_checksum(line)};
    return hash_checksum(bytes_of((const char *)both, sizeof both));
}

uint64_t port_changes(const struct port_record *header)
{
    uint64_t changes = 0;
    for (unsigned i = 0; i < header->lanes_count; i++)
        changes += header->lanes[i].sequence;
    return changes;
}

int64_t port_moment_ms(const struct port_record *header)
{
    int64_t newest_ms = INT64_MIN;
    for (unsigned i = 0; i < header->lanes_count; i++)
        if (header->lanes[i].moment_ms > newest_ms) newest_ms = header->lanes[i].moment_ms;
    return newest_ms;
}

uint64_t port_highest(const struct port_record *header)
{
    uint64_t highest = 0;
    for (unsigned i = 0; i < header->lanes_count; i++)
        if (header->lanes[i].sequence > highest) highest = header->lanes[i].sequence;
    return highest;
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void add_name(struct buf *line, enum name name)
{
    buf_addf(line, ",\"%.*s\":", (int)port_names[name].size, port_names[name].data);
}

static void add_text(struct buf *line, enum name name, struct bytes text)
{
    add_name(line, name);
    buf_add_json(line, text);
}

static void add_signed(struct buf *line, enum name name, int64_t value)
{
    add_name(line, name);
    buf_addf(line, "\"%" PRId64 "\"", value);
}

static void add_unsigned(struct buf *line, enum name name, uint64_t value)
{
    add_name(line, name);
    buf_addf(line, "\"%" PRIu64 "\"", value);
}

static void add_bool(struct buf *line, enum name name, bool value)
{
    add_name(line, name);
    buf_add(line, value ? BYTES("true") : BYTES("false"));
}

static void add_hex(struct buf *line, enum name name, struct bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    add_name(line, name);
    buf_add_char(line, '"');
    for (size_t i = 0; i < bytes.size; i++) {
        buf_add_char(line, digits[(unsigned char)bytes.data[i] >> 4]);
        buf_add_char(line, digits[(unsigned char)bytes.data[i] & 15]);
    }
    buf_add_char(line, '"');
}

static void write_lanes(struct buf *line, const struct port_record *record)
{
    add_name(line, LANES);
    for (unsigned i = 0; i < record->lanes_count; i++)
        buf_addf(line, "%s{\"sequence\":\"%" PRIu64 "\",\"moment\":\"%" PRId64 "\"}", i ? "," : "[",
                 record->lanes[i].sequence, record->lanes[i].moment_ms);
    buf_add_char(line, ']');
}

static void write_header(struct buf *line, const struct port_record *record)
{
    add_name(line, FORMAT_NUMBER);
    buf_add_i64(line, PORT_FORMAT);
    add_unsigned(line, SEQUENCE, port_changes(record));
    add_signed(line, MOMENT, port_moment_ms(record));
    write_lanes(line, record);
    add_unsigned(line, INSTALLATION, record->installation);
    add_text(line, ID_SCOPE, record->ids_shared ? BYTES("installation") : BYTES("tenant"));
    add_bool(line, IDS, record->ids);
    if (record->events) add_bool(line, EVENTS, true);
    if (record->ids)
        add_hex(line, ID_KEY, bytes_of(record->secret.bytes, sizeof record->secret.bytes));
}

static void write_cell(struct buf *line, const struct port_record *record)
{
    const struct cell *cell = &record->cell;
    add_text(line, TENANT, record->tenant);
    add_text(line, COUNTER, record->counter);
    if (record->dimensions.data) add_text(line, DIMENSIONS, record->dimensions);
    add_name(line, DURATION);
    buf_add_i64(line, record->duration);
    add_signed(line, BUCKET, record->bucket);
    add_signed(line, ADDED, cell->added);
    add_signed(line, SUBBED, cell->subbed);
    if (cell->expires_ms != TIME_NONE) add_signed(line, EXPIRES_AT, cell->expires_ms);
    if (cell->exact) add_bool(line, EXACT, true);
    if (cell->start_ms != TIME_NONE) add_signed(line, WINDOW_START, cell->start_ms);
    add_signed(line, UPDATED_AT, cell->updated_ms);
}

static void write_id(struct buf *line, const struct port_record *record)
{
    char print[16];
    put_u64(print, record->print.low);
    put_u64(print + 8, record->print.high);
    add_hex(line, PRINT, bytes_of(print, sizeof print));
    add_bool(line, EVENT, record->key.event);
    if (record->key.sequence) add_unsigned(line, NUMBER, record->key.sequence);
    add_signed(line, FIRST_SEEN_AT, record->key.first_seen_ms);
    add_unsigned(line, DIGEST, record->key.digest);
    add_hex(line, OUTCOME, record->key.outcome);
}

static void write_event(struct buf *line, const struct port_record *record)
{
    const struct stored_event *event = &record->event;
    add_name(line, LANE);
    buf_add_u64(line, record->lane);
    add_unsigned(line, SEQUENCE, event->sequence);
    if (stored_event_number(event) != event->sequence)
        add_unsigned(line, NUMBER, stored_event_number(event));
    add_signed(line, ARRIVED_AT, event->arrived_ms);
    add_text(line, TENANT, event->tenant);
    add_text(line, EVENT_ID, event->id);
    add_text(line, TYPE, event->type);
    add_signed(line, OCCURRED_AT, event->occurred_ms);
    add_text(line, DIMENSIONS, event->dimensions_json);
    if (event->payload.size) add_text(line, PAYLOAD, event->payload);
    if (!event->duplicate) return;
    add_unsigned(line, FIRST_SEQUENCE, event->first_sequence);
    add_signed(line, FIRST_SEEN_AT, event->first_seen_ms);
}

void port_record_write(struct buf *line, const struct port_record *record)
{
    buf_reset(line);
    buf_addf(line, "{\"kind\":\"%s\"", port_kind_names[record->kind]);
    switch (record->kind) {
    case PORT_HEADER:
        write_header(line, record);
        break;
    case PORT_RULES:
        add_text(line, TEXT, record->text);
        break;
    case PORT_DEFINITION:
        add_text(line, COUNTER, record->counter);
        add_text(line, MODE, bytes_str(counter_mode_names[record->mode]));
        add_hex(line, VALUE, record->value);
        break;
    case PORT_CELL:
        write_cell(line, record);
        break;
    case PORT_STATUS:
        add_text(line, TENANT, record->tenant);
        add_text(line, STATUS, record->text);
        add_signed(line, UPDATED_AT, record->updated_ms);
        break;
    case PORT_STATE:
        add_text(line, TENANT, record->tenant);
        add_text(line, COUNTER, record->counter);
        add_hex(line, ENTITY, record->entity);
        add_hex(line, VALUE, record->value);
        break;
    case PORT_MARK:
        add_text(line, TENANT, record->tenant);
        add_text(line, RECONCILE, record->reconcile);
        add_text(line, DIMENSIONS, record->dimensions);
        break;
    case PORT_ID:
        write_id(line, record);
        break;
    case PORT_EVENT:
    case PORT_DUPLICATE:
        write_event(line, record);
        break;
    case PORT_END:
        add_unsigned(line, LINES, record->lines);
        if (record->summed) add_unsigned(line, CHECKSUM, record->sum);
        break;
    }
    buf_add_char(line, '}');
}
