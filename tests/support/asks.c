/* asks.c -- see asks.h. */
#include "support/asks.h"

#include "core/name.h"

void asks_init(struct asks *asks, const struct hash_secret *secret)
{
    arena_init(&asks->arena, 4096);
    asks->secret = secret;
    asks->tenant = "acme";
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

struct op ask_keyed(struct asks *asks, struct op op, const char *key, uint64_t check)
{
    op.keyed = true;
    op.key = ask_key(asks, key);
    op.key_check = check;
    return op;
}
