/* asks.c -- see asks.h. */
#include "support/asks.h"

#include "core/name.h"

void asks_init(struct asks *asks, const struct hash_secret *secret)
{
    arena_init(&asks->arena, 4096);
    asks->secret = secret;
    asks->tenant = "acme";
    asks->ids_shared = false;
    asks->occurred_ms = 0;
}

void asks_release(struct asks *asks)
{
    arena_release(&asks->arena);
}

struct bytes ask_counter(struct asks *asks, const char *name)
{
    char key[COUNTER_KEY_SIZE_MAX];
    return arena_copy(&asks->arena, counter_key(key, bytes_str(asks->tenant), bytes_str(name)));
}

struct op ask(struct asks *asks, enum op_kind kind, const char *name, int64_t amount)
{
    struct op op = {.kind = kind, .amount = amount, .max = MAX_NONE, .expires_ms = TIME_NONE};
    op.counter = ask_counter(asks, name);
    op.tenant = bytes_of(op.counter.data, strlen(asks->tenant));
    op.counter_print = fingerprint_of(asks->secret, op.counter);
    return op;
}

struct fingerprint ask_key(struct asks *asks, const char *key)
{
    struct buf buf;
    buf_init(&buf, 1024);
    buf_addf(&buf, "key %s %s", asks->tenant, key);
    struct fingerprint print = fingerprint_of(asks->secret, buf_bytes(&buf));
    buf_release(&buf);
    return print;
}

static struct bytes keep(struct asks *asks, const char *text)
{
    return arena_copy(&asks->arena, bytes_str(text));
}

static void read_dimensions(struct asks *asks, struct event *event, const char *text)
{
    event->dimensions = arena_alloc(&asks->arena, EVENT_DIMENSIONS_MAX * sizeof *event->dimensions);
    for (struct bytes rest = keep(asks, text); rest.size;) {
        struct bytes value = bytes_split(&rest, ' ');
        struct bytes key = bytes_split(&value, '=');
        event->dimensions[event->dimensions_count++] = (struct dimension){key, value};
    }
    struct buf json;
    buf_init(&json, EVENT_SIZE_MAX);
    dimensions_write(&json, event->dimensions, event->dimensions_count);
    event->dimensions_json = arena_copy(&asks->arena, buf_bytes(&json));
    buf_release(&json);
}

static struct fingerprint ask_id(struct asks *asks, const char *id)
{
    struct buf buf;
    buf_init(&buf, 1024);
    buf_addf(&buf, "id %s %s", asks->ids_shared ? "" : asks->tenant, id);
    struct fingerprint print = fingerprint_of(asks->secret, buf_bytes(&buf));
    buf_release(&buf);
    return print;
}

struct op ask_event(struct asks *asks, const char *id, const char *type, const char *dimensions,
                    const char *payload)
{
    struct event *event = arena_zalloc(&asks->arena, sizeof *event);
    event->id = keep(asks, id);
    event->type = keep(asks, type);
    event->occurred_ms = asks->occurred_ms;
    if (payload) event->payload = keep(asks, payload);
    read_dimensions(asks, event, dimensions);
    event->digest = event_digest(event);
    return (struct op){.kind = OP_EVENT,
                       .tenant = keep(asks, asks->tenant),
                       .key = ask_id(asks, id),
                       .event = event,
                       .max = MAX_NONE,
                       .expires_ms = TIME_NONE};
}

struct op ask_object(struct asks *asks, const char *key, const char *value)
{
    struct object_change *change = arena_zalloc(&asks->arena, sizeof *change);
    change->key = keep(asks, key);
    change->print = fingerprint_of(asks->secret, change->key);
    if (value) change->value = keep(asks, value);
    return (struct op){.kind = OP_OBJECT,
                       .tenant = keep(asks, asks->tenant),
                       .object = change,
                       .max = MAX_NONE,
                       .expires_ms = TIME_NONE};
}

struct op ask_keyed(struct asks *asks, struct op op, const char *key, uint64_t digest)
{
    op.keyed = true;
    op.key = ask_key(asks, key);
    op.key_digest = digest;
    return op;
}
