/* asks.h -- what a caller would ask for, as ops. Plain ones first; a test changes the fields that
 * its story is about:
 *
 *     struct op op = ask(&asks, OP_INCREMENT, "views", 5);
 *     op.duration = 60; */
#ifndef TALLY_TESTS_SUPPORT_ASKS_H
#define TALLY_TESTS_SUPPORT_ASKS_H

#include "base/arena.h"
#include "core/event.h"

struct asks {
    struct arena arena; /* of the keys; ops hold views of them */
    const struct hash_secret *secret;
    const char *tenant;
    bool ids_shared;     /* event ids are unique over all tenants */
    int64_t occurred_ms; /* of the next events */
};

/* `secret` is the store's and stays where it is. The tenant is "acme" until it is changed. */
void asks_init(struct asks *asks, const struct hash_secret *secret);
void asks_release(struct asks *asks);

/* Duration 0, bucket 0, no cap, no expiry, no key. */
struct op ask(struct asks *asks, enum op_kind kind, const char *name, int64_t amount);

/* The same under an idempotency key; `digest` stands for the rest of the request. */
struct op ask_keyed(struct asks *asks, struct op op, const char *key, uint64_t digest);
struct fingerprint ask_key(struct asks *asks, const char *key);

/* An event. `dimensions` is "key=value key=value", sorted; `payload` is JSON without white space,
 * or NULL. The rules that are in force when its batch is decided say what it does. */
struct op ask_event(struct asks *asks, const char *id, const char *type, const char *dimensions,
                    const char *payload);

/* Puts an object; with value NULL removes it. */
struct op ask_object(struct asks *asks, const char *key, const char *value);

/* The stored key of one of the tenant's counters. */
struct bytes ask_counter(struct asks *asks, const char *name);

#endif
