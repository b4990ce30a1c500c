/* event.c -- events as canonical text, as a hash, and as stored bytes. */
#include "core/event.h"

#define NUMBER_TEXT_SIZE 24 /* holds any int64 */

/* Flags; other bits are no event of ours. */
#define STORED_DUPLICATE 1u
#define STORED_IMPORTED 2u

/* The first place in a sorted run whose key is not below `key`. */
static uint32_t dimension_place(const struct dimension *sorted, uint32_t count, struct bytes key)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_compare(sorted[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sorts by insertion; the place in the part that is sorted already is also where a repeated key is
 * found. */
uint32_t dimensions_sort(struct dimension *dimensions, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct dimension next = dimensions[i];
        uint32_t at = dimension_place(dimensions, kept, next.key);
        bool repeated = at < kept && bytes_equal(dimensions[at].key, next.key);
        if (!repeated) {
            memmove(&dimensions[at + 1], &dimensions[at], (kept - at) * sizeof next);
            kept++;
        }
        dimensions[at] = next;
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (dimensions[i].value.data) dimensions[left++] = dimensions[i];
    return left;
}

bool dimension_text(const struct json_value *value, struct arena *arena, struct bytes *text_out)
{
    struct buf text = {.capacity = NUMBER_TEXT_SIZE, .max = NUMBER_TEXT_SIZE};
    switch (value->type) {
    case JSON_STRING:
        *text_out = value->string;
        return true;
    case JSON_BOOL:
        *text_out = value->boolean ? BYTES("true") : BYTES("false");
        return true;
    case JSON_INT:
        text.data = arena_alloc(arena, NUMBER_TEXT_SIZE);
        buf_add_i64(&text, value->integer);
        *text_out = buf_bytes(&text);
        return true;
    default:
        return false;
    }
}

bool dimension_value(const struct json_value *value, struct arena *arena, struct bytes *value_out)
{
    *value_out = BYTES_NONE;
    if (value->type == JSON_NULL) return true;
    if (!dimension_text(value, arena, value_out)) return false;
    if (value->type == JSON_STRING) *value_out = arena_copy(arena, *value_out);
    return true;
}

/* What escaping adds to a byte. */
static const uint8_t escape_size[256] = {[0 ... 0x1f] = 5, ['"'] = 1, ['\\'] = 1};

/* Whether one of eight bytes is '"', '\' or below 0x20. The byte after one that is may be taken
 * for one by mistake; none is missed. */
static bool any_to_escape(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t quote = eight ^ ('"' * ones);
    uint64_t backslash = eight ^ ('\\' * ones);
    uint64_t found = (eight - 0x20 * ones) | (quote - ones) | (backslash - ones);
    return (found & ~eight & (0x80 * ones)) != 0;
}

/* How many bytes escaping adds: nearly always none, which shows after eight bytes at a time. */
static size_t escapes_size(struct bytes text)
{
    size_t size = 0;
    size_t at = 0;
    for (; text.size - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        if (!any_to_escape(get_u64(text.data + at))) continue;
        for (size_t i = at; i < at + sizeof(uint64_t); i++)
            size += escape_size[(unsigned char)text.data[i]];
    }
    for (; at < text.size; at++)
        size += escape_size[(unsigned char)text.data[at]];
    return size;
}

static char *escape_put(char *at, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (escape_size[byte] == 0) {
        *at++ = (char)byte;
        return at;
    }
    *at++ = '\\';
    if (byte >= 0x20) {
        *at++ = (char)byte;
        return at;
    }
    at = mempcpy(at, "u00", 3);
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

/* Writes the text with its quotes. */
static char *text_put(char *at, struct bytes text, bool escapes)
{
    *at++ = '"';
    if (!escapes && text.size) at = mempcpy(at, text.data, text.size);
    for (size_t i = 0; escapes && i < text.size; i++)
        at = escape_put(at, (unsigned char)text.data[i]);
    *at++ = '"';
    return at;
}

/* The size without what escapes add, which `escapes_out` says. */
static size_t plain_size(const struct dimension *dimensions, uint32_t count, size_t *escapes_out)
{
    size_t size = 2 + (count ? count - 1 : 0); /* braces and commas */
    *escapes_out = 0;
    for (uint32_t i = 0; i < count; i++) {
        size += dimensions[i].key.size + dimensions[i].value.size + 5;
        *escapes_out += escapes_size(dimensions[i].key) + escapes_size(dimensions[i].value);
    }
    return size;
}

size_t dimensions_size(const struct dimension *dimensions, uint32_t count)
{
    size_t escapes;
    size_t size = plain_size(dimensions, count, &escapes);
    return size + escapes;
}

void dimensions_write(struct buf *buf, const struct dimension *dimensions, uint32_t count)
{
    size_t escapes;
    size_t size = plain_size(dimensions, count, &escapes);
    char *start = buf_reserve(buf, size + escapes);
    if (!start) return;

    char *at = start;
    *at++ = '{';
    for (uint32_t i = 0; i < count; i++) {
        if (i) *at++ = ',';
        at = text_put(at, dimensions[i].key, escapes > 0);
        *at++ = ':';
        at = text_put(at, dimensions[i].value, escapes > 0);
    }
    *at++ = '}';
    must((size_t)(at - start) == size + escapes);
    buf->size += size + escapes;
}

/* Each part's size stands before its hash, so that nothing can move from one part to the next. The
 * result is kept on disk with the event's id: it never changes. */
uint32_t event_digest(const struct event *event)
{
    const uint64_t parts[] = {
        event->type.size,
        hash_checksum(event->type),
        event->dimensions_json.size,
        hash_checksum(event->dimensions_json),
        event->payload.size,
        hash_checksum(event->payload),
    };
    return (uint32_t)hash_checksum(bytes_of(parts, sizeof parts));
}

bool stored_event_fits(const struct stored_event *event)
{
    size_t id = event->id.size;
    size_t type = event->type.size;
    size_t dimensions = event->dimensions_json.size;
    return id >= 1 && id <= EVENT_ID_SIZE_MAX && type >= 1 && type <= EVENT_TYPE_SIZE_MAX &&
           dimensions >= BYTES("{}").size &&
           id + type + dimensions + event->payload.size <= EVENT_SIZE_MAX;
}

void stored_event_encode(struct buf *buf, const struct stored_event *event)
{
    unsigned flags =
        (event->duplicate ? STORED_DUPLICATE : 0) | (event->origin ? STORED_IMPORTED : 0);
    must(stored_event_fits(event));
    buf_add_char(buf, (char)flags);
    buf_add_sized(buf, event->id);
    buf_add_sized(buf, event->type);
    buf_add_signed(buf, event->occurred_ms);
    buf_add_sized(buf, event->dimensions_json);
    buf_add_sized(buf, event->payload);
    if (event->duplicate) {
        buf_add_varint(buf, event->first_sequence);
        buf_add_signed(buf, event->first_seen_ms);
    }
    if (!event->origin) return;
    buf_add_varint(buf, event->origin);
    buf_add_signed(buf, event->arrived_ms);
}

void stored_event_decode(struct reader *reader, struct stored_event *event_out)
{
    const unsigned char *from = reader->at;
    *event_out = (struct stored_event){0};
    uint8_t flags = read_u8(reader);
    event_out->duplicate = flags & STORED_DUPLICATE;
    event_out->id = read_sized(reader);
    event_out->type = read_sized(reader);
    event_out->occurred_ms = read_signed(reader);
    event_out->dimensions_json = read_sized(reader);
    event_out->payload = read_sized(reader);
    if (event_out->duplicate) {
        event_out->first_sequence = read_varint(reader);
        event_out->first_seen_ms = read_signed(reader);
    }
    if (flags & STORED_IMPORTED) {
        event_out->origin = read_varint(reader);
        event_out->arrived_ms = read_signed(reader);
        reader->failed |= event_out->origin == 0;
    }
    if (flags & ~(STORED_DUPLICATE | STORED_IMPORTED) || !stored_event_fits(event_out))
        reader->failed = true;
    if (!reader->failed) event_out->encoded = bytes_of(from, (size_t)(reader->at - from));
}

struct bytes stored_event_id(struct bytes encoded)
{
    struct reader reader = reader_of(encoded);
    read_u8(&reader);
    struct bytes id = read_sized(&reader);
    must(!reader.failed);
    return id;
}

/* Parses a copy with padding, for the parser reads a little past its text. */
static bool parse_padded(struct json_parser *parser, struct arena *arena, struct bytes text,
                         struct json_value *root_out)
{
    char *copy = arena_alloc(arena, text.size + JSON_PADDING);
    if (text.size) memcpy(copy, text.data, text.size);
    memset(copy + text.size, 0, JSON_PADDING);
    return json_parse(parser, bytes_of(copy, text.size), root_out);
}

/* The dimensions go into `arena`, because the parser's strings go with its next parse. */
static bool dimensions_of(const struct json_value *object, struct arena *arena, struct event *event)
{
    if (object->type != JSON_OBJECT) return false;
    uint32_t count = 0;
    struct json_iter iter;
    for (json_each(object, &iter); json_next(&iter);)
        count++;

    event->dimensions = arena_alloc(arena, count * sizeof *event->dimensions);
    uint32_t filled = 0;
    for (json_each(object, &iter); json_next(&iter); filled++) {
        if (iter.value.type != JSON_STRING) return false;
        event->dimensions[filled] =
            (struct dimension){arena_copy(arena, iter.key), arena_copy(arena, iter.value.string)};
    }
    event->dimensions_count = dimensions_sort(event->dimensions, filled);
    return true;
}

bool event_of_stored(const struct stored_event *stored, struct json_parser *parser,
                     struct arena *arena, struct event *event_out, struct json_value *payload_out)
{
    *event_out = (struct event){
        .id = stored->id,
        .type = stored->type,
        .occurred_ms = stored->occurred_ms,
        .dimensions_json = stored->dimensions_json,
        .payload = stored->payload,
        .arrived_ms = stored->arrived_ms,
    };
    event_out->digest = event_digest(event_out);

    struct json_value root;
    if (!parse_padded(parser, arena, stored->dimensions_json, &root)) return false;
    if (!dimensions_of(&root, arena, event_out)) return false;
    payload_out->type = JSON_ABSENT;
    return stored->payload.size == 0 || parse_padded(parser, arena, stored->payload, payload_out);
}
