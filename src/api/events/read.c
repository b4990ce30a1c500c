/* read.c -- the forms of an event meet in `struct parts`; from there on they are read
 * alike. */
#include "api/events/read.h"

#include <openssl/rand.h>

#include "api/call.h"
#include "api/events/headers.h"
#include "base/uuid.h"

#define DIMENSION_KEY_SIZE_MAX 255

/* Where the values of an event are in its JSON. Extension attributes lie among the others, so
 * walking them leaves out the names that have a meaning. */
struct parts {
    struct bytes id;
    struct json_value type;
    struct json_value time;
    struct json_value dimensions;
    bool attributes; /* a CloudEvent's: the dimensions are among its attributes, in JSON ... */
    const struct event_attributes *headers; /* ... or, unless NULL, in headers */
    struct json_value payload;
};

static bool is_absent(const struct json_value *value)
{
    return value->type == JSON_ABSENT || value->type == JSON_NULL;
}

/* -- Ids --------------------------------------------------------------------------------------- */

/* A random UUID, version 4. */
static struct bytes make_id(struct arena *arena)
{
    unsigned char random[UUID_SIZE];
    char *text = arena_zalloc(arena, UUID_TEXT_SIZE + 1);
    must(RAND_bytes(random, sizeof random) == 1);
    random[6] = (unsigned char)((random[6] & 0x0f) | 0x40);
    random[8] = (unsigned char)((random[8] & 0x3f) | 0x80);
    uuid_write(random, text);
    return bytes_of(text, UUID_TEXT_SIZE);
}

static enum err read_id(struct event_reader *reader, const struct json_value *value,
                        struct bytes *id_out, struct reason *why)
{
    if (is_absent(value) && reader->generate_ids) {
        *id_out = make_id(reader->arena);
        return ERR_OK;
    }
    if (is_absent(value)) return reason_err(why, ERR_EVENT_ID, "%s", err_sentence(ERR_EVENT_ID));
    if (value->type != JSON_STRING)
        return reason_err(why, ERR_INVALID, "eventId must be a string.");
    if (value->string.size < 1 || value->string.size > EVENT_ID_SIZE_MAX)
        return reason_err(why, ERR_EVENT_ID, "%s", err_sentence(ERR_EVENT_ID));
    *id_out = arena_copy(reader->arena, value->string);
    return ERR_OK;
}

/* `<source> <id>` */
static enum err join_id(struct arena *arena, const struct json_value *source,
                        const struct json_value *id, struct bytes *id_out, struct reason *why)
{
    if (is_absent(id)) return reason_err(why, ERR_EVENT_ID, "id is required.");
    if (id->type != JSON_STRING) return reason_err(why, ERR_INVALID, "id must be a string.");
    if (id->string.size == 0) return reason_err(why, ERR_EVENT_ID, "id must not be empty.");
    if (source->type != JSON_STRING || source->string.size == 0)
        return reason_err(why, ERR_INVALID, "source is required: a URI reference.");
    if (memchr(source->string.data, ' ', source->string.size))
        return reason_err(why, ERR_INVALID, "source must be a URI reference, which has no spaces.");
    size_t source_size = source->string.size;
    size_t size = source_size + 1 + id->string.size;
    if (size > EVENT_ID_SIZE_MAX)
        return reason_err(why, ERR_EVENT_ID, "source and id must have at most 254 bytes together.");
    char *text = arena_alloc(arena, size);
    memcpy(text, source->string.data, source_size);
    text[source_size] = ' ';
    memcpy(text + source_size + 1, id->string.data, id->string.size);
    *id_out = bytes_of(text, size);
    return ERR_OK;
}

/* -- The forms --------------------------------------------------------------------------------- */

static enum err read_plain(struct event_reader *reader, const struct json_value *object,
                           struct parts *parts, struct reason *why)
{
    enum { ID, TYPE, TIME, DIMENSIONS, PAYLOAD, COUNT };
    static const struct bytes names[COUNT] = {BYTES("eventId"), BYTES("type"), BYTES("occurredAt"),
                                              BYTES("dimensions"), BYTES("payload")};
    struct json_value values[COUNT];
    static const struct known known = {.names = names, .count = COUNT};
    if (json_pick(object, names, COUNT, values) && unknown_field(object, &known, why)) {
        enum err e = reader->call ? call_warn(reader->call, why) : ERR_UNKNOWN_FIELD;
        if (e != ERR_OK) return e;
    }
    parts->type = values[TYPE];
    parts->time = values[TIME];
    parts->dimensions = values[DIMENSIONS];
    parts->attributes = false;
    parts->headers = NULL;
    parts->payload = values[PAYLOAD];
    return read_id(reader, &values[ID], &parts->id, why);
}

enum { SPECVERSION, ID, SOURCE, TYPE, TIME, DATA, DATA_BASE64, CLOUD_READ };
static const struct bytes cloud_names[] = {
    [SPECVERSION] = BYTES("specversion"),
    [ID] = BYTES("id"),
    [SOURCE] = BYTES("source"),
    [TYPE] = BYTES("type"),
    [TIME] = BYTES("time"),
    [DATA] = BYTES("data"),
    [DATA_BASE64] = BYTES("data_base64"),
    /* These mean something too, but not to us. */
    [CLOUD_READ] = BYTES("subject"),
    BYTES("datacontenttype"),
    BYTES("dataschema"),
};

static bool is_attribute(struct bytes key)
{
    for (size_t i = 0; i < ARRAY_COUNT(cloud_names); i++)
        if (bytes_equal(key, cloud_names[i])) return false;
    return true;
}

/* What both modes of a CloudEvent have in common. */
static enum err read_cloud_values(struct event_reader *reader, const struct json_value *values,
                                  struct parts *parts, struct reason *why)
{
    static const struct bytes dimensions = BYTES("dimensions");
    *parts = (struct parts){.type = values[TYPE], .time = values[TIME], .payload = values[DATA]};
    const struct json_value *version = &values[SPECVERSION];
    if (version->type != JSON_STRING || !bytes_equal(version->string, BYTES("1.0")))
        return reason_err(why, ERR_INVALID, "specversion must be \"1.0\".");
    if (!is_absent(&values[DATA_BASE64]))
        return reason_err(why, ERR_INVALID, "data_base64 is not understood: send JSON as data.");
    json_pick(&values[DATA], &dimensions, 1, &parts->dimensions);
    parts->attributes = parts->dimensions.type != JSON_OBJECT;
    return join_id(reader->arena, &values[SOURCE], &values[ID], &parts->id, why);
}

static enum err read_cloud(struct event_reader *reader, const struct json_value *object,
                           struct parts *parts, struct reason *why)
{
    struct json_value values[CLOUD_READ];
    json_pick(object, cloud_names, CLOUD_READ, values);
    enum err e = read_cloud_values(reader, values, parts, why);
    if (parts->attributes) parts->dimensions = *object;
    return e;
}

static struct json_value text_value(struct bytes text)
{
    return (struct json_value){.type = text.data ? JSON_STRING : JSON_ABSENT, .string = text};
}

static enum err read_binary(struct event_reader *reader, const struct event_attributes *attributes,
                            const struct json_value *data, struct parts *parts, struct reason *why)
{
    struct json_value values[CLOUD_READ];
    for (unsigned i = 0; i < CLOUD_READ; i++)
        values[i] = text_value(event_attributes_get(attributes, cloud_names[i]));
    values[DATA] = *data;
    enum err e = read_cloud_values(reader, values, parts, why);
    if (parts->attributes) parts->headers = attributes;
    return e;
}

/* -- What they share --------------------------------------------------------------------------- */

static enum err add_dimension(struct arena *arena, struct bytes key, const struct json_value *value,
                              struct event *event, size_t *bytes_left, struct reason *why)
{
    struct dimension *dimension = &event->dimensions[event->dimensions_count];
    if (event->dimensions_count == EVENT_DIMENSIONS_MAX)
        return reason_err(why, ERR_INVALID, "dimensions must have at most 64 keys.");
    if (key.size < 1 || key.size > DIMENSION_KEY_SIZE_MAX)
        return reason_err(why, ERR_INVALID, "A dimension's key must have 1 to 255 bytes.");
    size_t size = key.size;
    if (value->type == JSON_STRING) size += value->string.size;
    if (size > *bytes_left)
        return reason_err(why, ERR_EVENT_SIZE, "%s", err_sentence(ERR_EVENT_SIZE));
    *bytes_left -= size;
    dimension->key = arena_copy(arena, key);
    if (!dimension_value(value, arena, &dimension->value))
        return reason_err(why, ERR_INVALID,
                          "A dimension must be a string, an integer, a boolean or null.");
    event->dimensions_count++;
    return ERR_OK;
}

static enum err add_json_dimensions(struct arena *arena, const struct parts *parts,
                                    struct event *event, struct reason *why)
{
    struct json_iter iter;
    size_t bytes_left = EVENT_SIZE_MAX;
    if (!is_absent(&parts->dimensions) && parts->dimensions.type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "dimensions must be an object.");
    for (json_each(&parts->dimensions, &iter); json_next(&iter);) {
        if (parts->attributes && !is_attribute(iter.key)) continue;
        enum err e = add_dimension(arena, iter.key, &iter.value, event, &bytes_left, why);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

static enum err add_header_dimensions(struct arena *arena,
                                      const struct event_attributes *attributes,
                                      struct event *event, struct reason *why)
{
    size_t bytes_left = EVENT_SIZE_MAX;
    for (unsigned i = 0; i < attributes->count; i++) {
        const struct event_attribute *attribute = &attributes->items[i];
        if (!is_attribute(attribute->name)) continue;
        struct json_value value = text_value(attribute->value);
        enum err e = add_dimension(arena, attribute->name, &value, event, &bytes_left, why);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

static enum err read_dimensions(struct event_reader *reader, const struct parts *parts,
                                struct event *event, struct reason *why)
{
    struct dimension room[EVENT_DIMENSIONS_MAX];
    event->dimensions = room;
    event->dimensions_count = 0;
    enum err e = parts->headers ? add_header_dimensions(reader->arena, parts->headers, event, why)
                                : add_json_dimensions(reader->arena, parts, event, why);
    if (e != ERR_OK) return e;
    event->dimensions_count = dimensions_sort(event->dimensions, event->dimensions_count);
    size_t size = event->dimensions_count * sizeof *room;
    struct dimension *kept = arena_alloc(reader->arena, size);
    memcpy(kept, event->dimensions, size);
    event->dimensions = kept;
    return ERR_OK;
}

static bool write_dimensions(struct event_reader *reader, struct event *event)
{
    buf_reset(&reader->scratch);
    dimensions_write(&reader->scratch, event->dimensions, event->dimensions_count);
    if (reader->scratch.failed) return false;
    event->dimensions_json = arena_copy(reader->arena, buf_bytes(&reader->scratch));
    return true;
}

/* False: the event is too large. */
static bool write_texts(struct event_reader *reader, struct event *event,
                        const struct json_value *payload)
{
    if (!write_dimensions(reader, event)) return false;
    event->payload = is_absent(payload) ? BYTES_NONE : json_source(reader->parser, payload);
    size_t rest = event->id.size + event->type.size + event->dimensions_json.size;
    if (rest + event->payload.size > EVENT_SIZE_MAX) return false;
    if (event->payload.size) event->payload = arena_copy(reader->arena, event->payload);
    return true;
}

static enum err read_parts(struct event_reader *reader, const struct parts *parts,
                           struct event *event, struct reason *why)
{
    static const struct field type_field = {BYTES("type"), FIELD_TEXT, .required = true, .min = 1,
                                            .max = EVENT_TYPE_SIZE_MAX};
    const struct field time_field = {reader->form == EVENT_CLOUD ? BYTES("time")
                                                                 : BYTES("occurredAt"),
                                     FIELD_TIME, .fallback = reader->now_ms};
    struct field_value type;
    struct field_value occurred;
    enum err e = field_from_json(&parts->type, &type_field, &type, why);
    if (e == ERR_OK) e = field_from_json(&parts->time, &time_field, &occurred, why);
    if (e == ERR_OK) e = read_dimensions(reader, parts, event, why);
    if (e != ERR_OK) return e;
    event->id = parts->id;
    event->type = arena_copy(reader->arena, type.text);
    event->occurred_ms = occurred.integer;
    if (!write_texts(reader, event, &parts->payload))
        return reason_err(why, ERR_EVENT_SIZE, "%s", err_sentence(ERR_EVENT_SIZE));
    event->digest = event_digest(event);
    return ERR_OK;
}

static enum err read_event(struct event_reader *reader, const struct parts *parts,
                           struct event *event, struct json_value *payload_out, struct reason *why)
{
    enum err e = read_parts(reader, parts, event, why);
    if (e != ERR_OK) return e;
    *payload_out = parts->payload;
    if (payload_out->type == JSON_NULL) payload_out->type = JSON_ABSENT;
    return ERR_OK;
}

enum err event_read(struct event_reader *reader, const struct json_value *object,
                    struct event *event_out, struct json_value *payload_out, struct reason *why)
{
    struct parts parts;
    if (object->type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "An event must be a JSON object.");
    enum err e = reader->form == EVENT_CLOUD ? read_cloud(reader, object, &parts, why)
                                             : read_plain(reader, object, &parts, why);
    return e == ERR_OK ? read_event(reader, &parts, event_out, payload_out, why) : e;
}

enum err event_read_binary(struct event_reader *reader, const struct event_attributes *attributes,
                           const struct json_value *data, struct event *event_out,
                           struct json_value *payload_out, struct reason *why)
{
    struct parts parts;
    enum err e = read_binary(reader, attributes, data, &parts, why);
    return e == ERR_OK ? read_event(reader, &parts, event_out, payload_out, why) : e;
}

void event_reader_init(struct event_reader *reader, enum event_form form,
                       struct json_parser *parser, struct arena *arena, int64_t now_ms)
{
    *reader =
        (struct event_reader){.form = form, .parser = parser, .arena = arena, .now_ms = now_ms};
    buf_init(&reader->scratch, EVENT_SIZE_MAX);
}

void event_reader_release(struct event_reader *reader)
{
    buf_release(&reader->scratch);
}
