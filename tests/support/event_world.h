/* event_world.h -- a decider with rules: events go in one by one or as a batch, and what they left
 * is looked at. */
#ifndef TALLY_TESTS_SUPPORT_EVENT_WORLD_H
#define TALLY_TESTS_SUPPORT_EVENT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/name.h"
#include "core/object.h"
#include "core/project.h"
#include "support/decider.h"
#include "support/rules_text.h"

#define GENERATION 3
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define MOST "9223372036854775807"

static struct decider decider;

static inline int setup(void **state)
{
    decider_init(&decider);
    decider.limits.id_keep_ms = 0;
    return 0;
}

static inline int teardown(void **state)
{
    decider_release(&decider);
    rules_release(decider.rules);
    return 0;
}

/* ---- rules, events and what they leave ---- */

static inline void use(const char *counters)
{
    rules_release(decider.rules);
    decider.rules = rules_of_text(counters, GENERATION);
}

static inline struct op event(const char *id, const char *type, const char *dimensions)
{
    return ask_event(&decider.asks, id, type, dimensions, NULL);
}

/* A batch of its own. Every event is sent once: events hold what came of them. */
static inline const struct event *send(struct op op)
{
    struct op done = decider_do(&decider, op);
    assert_int_equal(done.err, ERR_OK);
    return done.event;
}

static inline const struct event *sent(const char *id, const char *type, const char *dimensions)
{
    return send(event(id, type, dimensions));
}

static inline enum err refused(struct op op)
{
    return decider_do(&decider, op).err;
}

static inline bool find(const char *counter, const char *dimensions, int32_t duration,
                        int64_t bucket, struct cell *cell_out)
{
    struct bytes key = rule_key(&decider.asks.arena, bytes_str(decider.asks.tenant),
                                bytes_str(counter), GENERATION, bytes_str(dimensions));
    struct cell_ref ref = {key, fingerprint_of(decider.asks.secret, key), duration, 0};
    enum err e = view_get(&decider.store->view, &ref, bucket, READ_ALL, cell_out);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

#define ABSENT INT64_MIN

static inline int64_t net_at(const char *counter, const char *dimensions, int32_t duration,
                             int64_t bucket)
{
    struct cell cell;
    return find(counter, dimensions, duration, bucket, &cell) ? cell_triple(&cell).net : ABSENT;
}

static inline int64_t net(const char *counter, const char *dimensions)
{
    return net_at(counter, dimensions, 0, 0);
}

static inline struct bytes object(char kind, const char *name)
{
    struct buf value;
    buf_init(&value, 4096);
    struct bytes key = object_key(&decider.asks.arena, kind, bytes_str(name));
    enum err e = view_object(&decider.store->view, key, &value);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    struct bytes copy = arena_copy(&decider.asks.arena, buf_bytes(&value));
    buf_release(&value);
    return copy;
}

static unsigned kept, dropped;

static inline bool count_kept(void *context, const struct stored_event *stored)
{
    (void)context;
    *(stored->duplicate ? &dropped : &kept) += 1;
    return true;
}

static inline void expect_history(unsigned events, unsigned duplicates)
{
    const struct event_query query = {
        .upto = UINT64_MAX, .arrived_from = INT64_MIN, .events = true, .duplicates = true};
    uint64_t next;
    kept = dropped = 0;
    assert_int_equal(view_events(&decider.store->view, &query, count_kept, NULL, &next), ERR_OK);
    assert_int_equal(kept, events);
    assert_int_equal(dropped, duplicates);
}

#define CONNECTIONS(more)                     \
    "counters:\n"                             \
    "- counterName: connections\n"            \
    "  dimensions: [account]\n"               \
    "  rollups: [[]]\n" more "  rules:\n"     \
    "  - {on: connected, op: increment}\n"    \
    "  - {on: disconnected, op: decrement}\n" \
    "- counterName: all\n"                    \
    "  rules: [{on: connected, op: increment, amount: payload.size}]\n"

#define EVENT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
