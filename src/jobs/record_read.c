/* record_read.c -- reads the lines of an export. Everything is checked: an export is input like any
 * other. */
#include <stdlib.h>

#include "base/codec.h"
#include "commit/lanes.h"
#include "core/name.h"
#include "core/number.h"
#include "core/object.h"
#include "core/outcome.h"
#include "core/timefmt.h"
#include "jobs/record_internal.h"

struct reading {
    struct arena *arena;
    struct json_value values[NAMES];
    const char *why; /* NULL: good so far */
};

static void wrong(struct reading *reading, const char *why)
{
    if (!reading->why) reading->why = why;
}

static struct bytes take_text(struct reading *reading, enum name name)
{
    const struct json_value *value = &reading->values[name];
    if (value->type == JSON_STRING) return arena_copy(reading->arena, value->string);
    wrong(reading, "lacks a text that it must have");
    return BYTES_NONE;
}

static struct bytes take_name(struct reading *reading, enum name name)
{
    struct bytes text = take_text(reading, name);
    if (!reading->why && !name_valid(text)) wrong(reading, "has a name that is none");
    return text;
}

static struct bytes take_counter(struct reading *reading)
{
    struct bytes text = take_text(reading, COUNTER);
    if (!reading->why && !counter_name_valid(text)) wrong(reading, "has a name that is none");
    return text;
}

static int64_t take_signed(struct reading *reading, enum name name)
{
    int64_t value = 0;
    const struct json_value *json = &reading->values[name];
    if (json->type == JSON_INT) return json->integer;
    if (json->type != JSON_STRING || !number_parse(json->string, &value))
        wrong(reading, "lacks a number that it must have");
    return value;
}

static int64_t take_time(struct reading *reading, enum name name)
{
    return reading->values[name].type == JSON_ABSENT ? TIME_NONE : take_signed(reading, name);
}

static uint64_t take_unsigned(struct reading *reading, enum name name)
{
    char text[24] = "";
    char *end = text;
    const struct json_value *json = &reading->values[name];
    bool fits = json->type == JSON_STRING && json->string.size > 0 && json->string.size < 21;
    if (fits) memcpy(text, json->string.data, json->string.size);
    bool digits = fits && text[0] >= '0' && text[0] <= '9';
    uint64_t value = digits ? strtoull(text, &end, 10) : 0;
    if (!digits || *end) wrong(reading, "lacks a number that it must have");
    return value;
}

/* 0 where there is none. */
static uint64_t take_sequence(struct reading *reading, enum name name)
{
    return reading->values[name].type == JSON_ABSENT ? 0 : take_unsigned(reading, name);
}

static bool take_bool(struct reading *reading, enum name name)
{
    if (reading->values[name].type == JSON_BOOL) return reading->values[name].boolean;
    wrong(reading, "lacks a true or false");
    return false;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static struct bytes take_hex(struct reading *reading, enum name name)
{
    struct bytes text = take_text(reading, name);
    char *out = arena_alloc(reading->arena, text.size / 2 + 1);
    if (text.size % 2) wrong(reading, "has an odd number of hex digits");
    for (size_t i = 0; i + 1 < text.size; i += 2) {
        int high = hex_digit(text.data[i]);
        int low = hex_digit(text.data[i + 1]);
        if (high < 0 || low < 0) {
            wrong(reading, "has something else than hex digits");
            return BYTES_NONE;
        }
        out[i / 2] = (char)(high << 4 | low);
    }
    return bytes_of(out, text.size / 2);
}

/* Reads one of the header's lanes or, in a file of an older version, the header itself. */
static void read_lane(struct reading *reading, struct port_lane *lane)
{
    lane->sequence = take_unsigned(reading, SEQUENCE);
    lane->moment_ms = take_signed(reading, MOMENT);
}

static void read_lanes(struct reading *reading, struct port_record *record)
{
    struct json_value all = reading->values[LANES];
    struct port_lane *lanes = arena_alloc(reading->arena, LANES_MAX * sizeof *lanes);
    struct json_iter each;
    record->lanes = lanes;
    record->lanes_count = 1;
    read_lane(reading, lanes);
    if (all.type == JSON_ABSENT) return;
    struct reading one = {.arena = reading->arena};
    unsigned count = 0;
    for (json_each(&all, &each); json_next(&each) && !one.why; count++) {
        if (count == LANES_MAX) wrong(&one, "has more lanes than there can be");
        if (count == LANES_MAX) break;
        json_pick(&each.value, port_names, NAMES, one.values);
        read_lane(&one, &lanes[count]);
    }
    if (count == 0) wrong(&one, "has lanes that are none");
    if (one.why) wrong(reading, one.why);
    if (count) record->lanes_count = count;
}

static void read_header(struct reading *reading, struct port_record *record)
{
    if (take_signed(reading, FORMAT_NUMBER) != PORT_FORMAT)
        wrong(reading, "has a format that this version does not know");
    read_lanes(reading, record);
    record->installation = take_unsigned(reading, INSTALLATION);
    record->ids_shared = bytes_equal(take_text(reading, ID_SCOPE), BYTES("installation"));
    record->ids = take_bool(reading, IDS);
    if (reading->values[EVENTS].type != JSON_ABSENT) record->events = take_bool(reading, EVENTS);
    if (!record->ids || reading->why) return;
    struct bytes key = take_hex(reading, ID_KEY);
    if (key.size != sizeof record->secret.bytes) wrong(reading, "has an idKey of another size");
    if (!reading->why) memcpy(record->secret.bytes, key.data, key.size);
}

static void read_cell(struct reading *reading, struct port_record *record)
{
    struct cell *cell = &record->cell;
    record->tenant = take_name(reading, TENANT);
    record->counter = take_counter(reading);
    if (reading->values[DIMENSIONS].type != JSON_ABSENT)
        record->dimensions = take_text(reading, DIMENSIONS);
    int64_t duration = take_signed(reading, DURATION);
    record->bucket = take_signed(reading, BUCKET);
    *cell = (struct cell){.exists = true,
                          .added = take_signed(reading, ADDED),
                          .subbed = take_signed(reading, SUBBED),
                          .expires_ms = take_time(reading, EXPIRES_AT),
                          .start_ms = take_time(reading, WINDOW_START),
                          .updated_ms = take_signed(reading, UPDATED_AT)};
    if (reading->values[EXACT].type != JSON_ABSENT) cell->exact = take_bool(reading, EXACT);
    if (cell->exact && (cell->expires_ms == TIME_NONE || cell->start_ms != TIME_NONE))
        wrong(reading, "has an exact expiry that it cannot have");
    if (duration < INT32_MIN || duration > INT32_MAX) wrong(reading, "has a duration that is none");
    if (cell->added < 0 || cell->subbed < 0) wrong(reading, "has a negative part");
    if (!record->dimensions.data && cell->subbed > cell->added) wrong(reading, "is below zero");
    record->duration = (int32_t)duration;
}

static void read_definition(struct reading *reading, struct port_record *record)
{
    struct bytes mode = take_text(reading, MODE);
    record->counter = take_counter(reading);
    record->value = take_hex(reading, VALUE);
    for (unsigned i = 0; i <= MODE_SERIES; i++) {
        record->mode = (enum counter_mode)i;
        if (bytes_equal(mode, bytes_str(counter_mode_names[i]))) return;
    }
    wrong(reading, "has a mode that nobody knows");
}

static void read_id(struct reading *reading, struct port_record *record)
{
    struct bytes print = take_hex(reading, PRINT);
    if (print.size != 16) wrong(reading, "has a fingerprint of another size");
    if (reading->why) return;
    record->print = (struct fingerprint){get_u64(print.data), get_u64(print.data + 8)};
    record->key = (struct key_record){.exists = true,
                                      .event = take_bool(reading, EVENT),
                                      .sequence = take_sequence(reading, NUMBER),
                                      .first_seen_ms = take_signed(reading, FIRST_SEEN_AT),
                                      .digest = take_unsigned(reading, DIGEST),
                                      .outcome = take_hex(reading, OUTCOME)};
    if (record->key.event && record->key.digest > UINT32_MAX)
        wrong(reading, "has a check that is too wide");
    if (!record->key.event && !outcome_is_any(record->key.outcome))
        wrong(reading, "has an outcome that no key can have");
}

/* A time that a client may read one day. */
static int64_t take_moment(struct reading *reading, enum name name)
{
    int64_t ms = take_signed(reading, name);
    if (ms < TIME_MS_MIN || ms > TIME_MS_MAX) wrong(reading, "has a time outside of the calendar");
    return ms;
}

static void read_event(struct reading *reading, struct port_record *record)
{
    struct stored_event *event = &record->event;
    int64_t lane = take_signed(reading, LANE);
    if (lane < 0 || lane >= LANES_MAX) wrong(reading, "is of a lane that cannot be");
    record->lane = (unsigned)lane;
    record->tenant = event->tenant = take_name(reading, TENANT);
    event->sequence = take_unsigned(reading, SEQUENCE);
    event->origin = take_sequence(reading, NUMBER);
    if (event->origin == 0) event->origin = event->sequence;
    event->arrived_ms = take_moment(reading, ARRIVED_AT);
    event->id = take_text(reading, EVENT_ID);
    event->type = take_text(reading, TYPE);
    event->occurred_ms = take_moment(reading, OCCURRED_AT);
    event->dimensions_json = record->dimensions = take_text(reading, DIMENSIONS);
    if (reading->values[PAYLOAD].type != JSON_ABSENT) event->payload = take_text(reading, PAYLOAD);
    event->duplicate = record->kind == PORT_DUPLICATE;
    if (event->duplicate) {
        event->first_sequence = take_unsigned(reading, FIRST_SEQUENCE);
        event->first_seen_ms = take_moment(reading, FIRST_SEEN_AT);
    }
    if (event->origin == 0) wrong(reading, "has no sequence");
    if (!stored_event_fits(event)) wrong(reading, "is larger or smaller than an event can be");
}

static void read_state(struct reading *reading, struct port_record *record)
{
    struct bytes sets[RULES_SETS_MAX];
    unsigned count;
    record->tenant = take_name(reading, TENANT);
    record->counter = take_counter(reading);
    record->entity = take_hex(reading, ENTITY);
    record->value = take_hex(reading, VALUE);
    if (!object_state_decode(record->value, sets, &count))
        wrong(reading, "has a state that no entity can have");
}

static void read_kind(struct reading *reading, struct port_record *record)
{
    switch (record->kind) {
    case PORT_HEADER:
        read_header(reading, record);
        break;
    case PORT_RULES:
        record->text = take_text(reading, TEXT);
        break;
    case PORT_DEFINITION:
        read_definition(reading, record);
        break;
    case PORT_CELL:
        read_cell(reading, record);
        break;
    case PORT_STATUS:
        record->tenant = take_name(reading, TENANT);
        record->text = take_text(reading, STATUS);
        record->updated_ms = take_signed(reading, UPDATED_AT);
        break;
    case PORT_STATE:
        read_state(reading, record);
        break;
    case PORT_MARK:
        record->tenant = take_name(reading, TENANT);
        record->reconcile = take_name(reading, RECONCILE);
        record->dimensions = take_text(reading, DIMENSIONS);
        break;
    case PORT_ID:
        read_id(reading, record);
        break;
    case PORT_EVENT:
    case PORT_DUPLICATE:
        read_event(reading, record);
        break;
    case PORT_END:
        record->lines = take_unsigned(reading, LINES);
        record->summed = reading->values[CHECKSUM].type != JSON_ABSENT;
        if (record->summed) record->sum = take_unsigned(reading, CHECKSUM);
        break;
    }
}

/* Parses a copy with padding, for the parser reads a little past its text. */
static bool parse_padded(struct json_parser *parser, struct arena *arena, struct bytes text,
                         struct json_value *root_out)
{
    char *copy = arena_zalloc(arena, text.size + JSON_PADDING);
    if (text.size) memcpy(copy, text.data, text.size);
    return json_parse(parser, bytes_of(copy, text.size), root_out);
}

/* True for dimensions as dimensions_write makes them: they become part of a key, and leave in
 * replies as they are. It uses the parser, so the line's own values are gone. */
static bool dimensions_are_canonical(struct json_parser *parser, struct arena *arena,
                                     struct bytes dimensions, uint32_t count_max)
{
    struct dimension pairs[EVENT_DIMENSIONS_MAX];
    struct json_value root;
    struct json_iter each;
    uint32_t count = 0;
    must(count_max <= EVENT_DIMENSIONS_MAX);
    if (!parse_padded(parser, arena, dimensions, &root)) return false;
    for (json_each(&root, &each); json_next(&each); count++) {
        if (count == count_max || each.value.type != JSON_STRING) return false;
        pairs[count] = (struct dimension){each.key, each.value.string};
        if (count && bytes_compare(pairs[count - 1].key, each.key) >= 0) return false;
    }
    size_t size = dimensions_size(pairs, count);
    struct buf again = {.data = arena_alloc(arena, size), .capacity = size, .max = size};
    dimensions_write(&again, pairs, count);
    return bytes_equal(buf_bytes(&again), dimensions);
}

/* True for a payload without white space: an event's digest is of these bytes. */
static bool payload_is_minified(struct json_parser *parser, struct arena *arena,
                                struct bytes payload)
{
    struct json_value root;
    return payload.size == 0 || (parse_padded(parser, arena, payload, &root) &&
                                 bytes_equal(json_source(parser, &root), payload));
}

static void check_texts(struct reading *reading, struct json_parser *parser,
                        const struct port_record *record)
{
    struct bytes dimensions = record->dimensions;
    uint32_t count_max = record->event.id.size ? EVENT_DIMENSIONS_MAX : RULES_DIMENSIONS_MAX;
    if (dimensions.data && !dimensions_are_canonical(parser, reading->arena, dimensions, count_max))
        wrong(reading, "has dimensions in another form than tally's");
    if (!payload_is_minified(parser, reading->arena, record->event.payload))
        wrong(reading, "has a payload in another form than tally's");
}

static bool find_kind(const struct json_value *value, enum port_kind *kind_out)
{
    for (unsigned i = 0; i <= PORT_END && value->type == JSON_STRING; i++) {
        *kind_out = (enum port_kind)i;
        if (bytes_equal(value->string, bytes_str(port_kind_names[i]))) return true;
    }
    return false;
}

bool port_record_read(struct json_parser *parser, struct bytes line, struct arena *arena,
                      struct port_record *record_out, const char **why_out)
{
    struct reading reading = {.arena = arena};
    struct json_value root;
    *record_out = (struct port_record){0};
    if (!json_parse(parser, line, &root) || root.type != JSON_OBJECT) {
        *why_out = "is not one JSON object";
        return false;
    }
    json_pick(&root, port_names, NAMES, reading.values);
    if (find_kind(&reading.values[KIND], &record_out->kind))
        read_kind(&reading, record_out);
    else
        wrong(&reading, "is of no kind that this version knows");
    if (!reading.why) check_texts(&reading, parser, record_out);
    *why_out = reading.why;
    return reading.why == NULL;
}
