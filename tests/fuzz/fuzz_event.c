/* fuzz_event.c -- arbitrary bytes as an event, plain, as a CloudEvent, and as header lines and body
 * of one in binary mode: what was understood keeps its promises, and comes out of what is stored of
 * it as the same event again. */
#include <stdlib.h>

#include "api/events/headers.h"
#include "api/events/read.h"
#include "core/timefmt.h"
#include "wire/http.h"

static void check_dimensions(const struct event *event)
{
    must(event->dimensions_count <= EVENT_DIMENSIONS_MAX);
    for (uint32_t i = 0; i < event->dimensions_count; i++) {
        must(event->dimensions[i].key.size >= 1 && event->dimensions[i].key.size <= 255);
        must(event->dimensions[i].value.data != NULL);
        if (i) must(bytes_compare(event->dimensions[i - 1].key, event->dimensions[i].key) < 0);
    }
}

static void check_event(const struct event *event)
{
    must(event->id.size >= 1 && event->id.size <= EVENT_ID_SIZE_MAX);
    must(event->type.size >= 1 && event->type.size <= EVENT_TYPE_SIZE_MAX);
    must(event->occurred_ms >= TIME_MS_MIN && event->occurred_ms <= TIME_MS_MAX);
    must(event->id.size + event->type.size + event->dimensions_json.size + event->payload.size <=
         EVENT_SIZE_MAX);
    check_dimensions(event);
}

/* As the journal keeps it, and as a rebuild reads it. */
static void check_stored(const struct event *event, struct arena *arena)
{
    static struct json_parser *parser;
    if (!parser) parser = json_parser_new(1 << 20);
    struct stored_event stored = {.id = event->id,
                                  .type = event->type,
                                  .occurred_ms = event->occurred_ms,
                                  .dimensions_json = event->dimensions_json,
                                  .payload = event->payload};
    struct stored_event read = {0};
    struct buf buf;
    buf_init(&buf, 4 * EVENT_SIZE_MAX);
    stored_event_encode(&buf, &stored);
    must(!buf.failed);
    struct reader reader = reader_of(buf_bytes(&buf));
    stored_event_decode(&reader, &read);
    must(!reader.failed && reader_left(&reader) == 0);

    struct event again;
    struct json_value payload;
    must(event_of_stored(&read, parser, arena, &again, &payload));
    must(bytes_equal(again.id, event->id) && bytes_equal(again.type, event->type));
    must(again.occurred_ms == event->occurred_ms);
    must(again.dimensions_count == event->dimensions_count);
    must(bytes_equal(again.dimensions_json, event->dimensions_json));
    must(bytes_equal(json_source(parser, &payload), event->payload));
    must(event_digest(&again) == event->digest);
    buf_release(&buf);
}

static void check_outcome(enum err e, const struct event *event, const struct reason *why,
                          struct arena *arena)
{
    if (e == ERR_OK) {
        check_event(event);
        check_stored(event, arena);
    } else {
        must(e == ERR_INVALID || e == ERR_EVENT_ID || e == ERR_EVENT_SIZE ||
             e == ERR_UNKNOWN_FIELD);
        must(why->text[0] && strnlen(why->text, sizeof why->text) < sizeof why->text);
    }
}

static void check_form(enum event_form form, struct json_parser *parser, struct bytes text)
{
    struct json_value root;
    struct arena arena;
    struct event_reader reader;
    struct event event = {0};
    struct json_value payload;
    struct reason why = {""};
    if (!json_parse(parser, text, &root)) return;
    arena_init(&arena, 4096);
    event_reader_init(&reader, form, parser, &arena, 0);
    enum err e = event_read(&reader, &root, &event, &payload, &why);
    check_outcome(e, &event, &why, &arena);
    event_reader_release(&reader);
    arena_release(&arena);
}

static void check_attributes(const struct event_attributes *attributes)
{
    must(attributes->count <= EVENT_ATTRIBUTES_MAX);
    for (unsigned i = 0; i < attributes->count; i++) {
        struct bytes name = attributes->items[i].name;
        must(name.size > 0 && bytes_is_utf8(attributes->items[i].value));
        for (size_t at = 0; at < name.size; at++)
            must((name.data[at] >= 'a' && name.data[at] <= 'z') ||
                 (name.data[at] >= '0' && name.data[at] <= '9'));
        must(bytes_equal(event_attributes_get(attributes, name), attributes->items[i].value));
    }
}

static void check_binary(struct json_parser *parser, struct arena *arena, struct bytes fields,
                         struct bytes body)
{
    struct event_attributes attributes;
    struct event_reader reader;
    struct event event = {0};
    struct json_value data = {.type = JSON_ABSENT}, payload;
    struct reason why = {""};
    enum err e = event_attributes_read(fields, arena, &attributes, &why);
    if (e == ERR_OK) check_attributes(&attributes);
    if (body.size && !json_parse(parser, body, &data)) return;
    event_reader_init(&reader, EVENT_CLOUD, parser, arena, 0);
    if (e == ERR_OK) e = event_read_binary(&reader, &attributes, &data, &event, &payload, &why);
    check_outcome(e, &event, &why, arena);
    event_reader_release(&reader);
}

/* The bytes are what follows the first two lines of a request. */
static void check_request(struct json_parser *parser, struct bytes text)
{
    static const struct bytes begin = BYTES("POST / HTTP/1.1\r\nHost: a\r\n");
    struct http_head head = {0};
    struct arena arena;
    size_t size = begin.size + text.size;
    char *copy = must_alloc(size + JSON_PADDING);
    memcpy(copy, begin.data, begin.size);
    memcpy(copy + begin.size, text.data, text.size + JSON_PADDING);
    arena_init(&arena, 4096);
    if (http_head_read(&head, copy, size) == HTTP_DONE) {
        struct request request;
        http_head_request(&head, copy, &request);
        check_binary(parser, &arena, request.fields, bytes_of(copy + head.size, size - head.size));
    }
    arena_release(&arena);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_parser *parser;
    if (!parser) parser = json_parser_new(1 << 20);
    char *copy = must_alloc(size + JSON_PADDING); /* so that a read past the padding is seen */
    memset(copy + size, 'x', JSON_PADDING);
    if (size) memcpy(copy, data, size);
    check_form(EVENT_PLAIN, parser, bytes_of(copy, size));
    check_form(EVENT_CLOUD, parser, bytes_of(copy, size));
    check_request(parser, bytes_of(copy, size));
    free(copy);
    return 0;
}
