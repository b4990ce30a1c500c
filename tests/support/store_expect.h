/* store_expect.h -- the words that the tests of every store share: a heart for each kind of store,
 * made anew for each test, and what readers find as text.
 *
 * The embedded store stands on a simulated disk, so that a crash is a power cut. Commit and queue
 * do the driving: commit_turn is load, decide and submit; commit_sync_now is sync. */
#ifndef TALLY_TESTS_SUPPORT_STORE_EXPECT_H
#define TALLY_TESTS_SUPPORT_STORE_EXPECT_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/name.h"
#include "store/memory.h"
#include "support/heart.h"

static inline int setup(void **state)
{
    *state = heart_new((struct heart_config){.store = *state, .simulated_disk = true});
    return 0;
}

static inline int teardown(void **state)
{
    struct heart *heart = *state;
    const char *broken = heart_broken(heart);
    if (broken) print_error("at the end: %s\n", broken);
    heart_free(heart);
    return broken ? -1 : 0;
}

static inline bool is_memory(struct heart *heart)
{
    return strstr(heart->config.store, "memory") != NULL;
}

static inline void expect_whole(struct heart *heart)
{
    const char *broken = heart_broken(heart);
    if (broken) fail_msg("%s", broken);
}

static inline struct op increment(struct heart *heart, const char *name, int64_t amount)
{
    return ask(&heart->asks, OP_INCREMENT, name, amount);
}

static inline struct op increment_at(struct heart *heart, const char *name, int32_t duration,
                                     int64_t bucket, int64_t amount)
{
    struct op op = increment(heart, name, amount);
    op.duration = duration;
    op.bucket = bucket;
    return op;
}

/* Decided and submitted, not synced. */
static inline struct sent *submit(struct heart *heart, struct op op)
{
    struct sent *sent = heart_send(heart, (struct bundle){0}, &op, 1);
    assert_int_equal(sent->pushed, ERR_OK);
    assert_true(commit_turn(heart->commit));
    assert_int_equal(sent->answered, 0);
    return sent;
}

static inline struct op done_ok(struct heart *heart, struct op op)
{
    struct op done = heart_do(heart, op);
    assert_int_equal(done.err, ERR_OK);
    return done;
}

static inline void break_next_sync(struct heart *heart)
{
    heart_break_sync(heart);
}

/* ---- what readers find, as text ---- */

static char found[1000];

static inline bool found_cell(void *context, int64_t bucket, const struct cell *cell)
{
    unsigned *left = context;
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%lld:%lld ", (long long)bucket,
             (long long)cell_triple(cell).net);
    return --*left > 0;
}

static inline const char *range(struct heart *heart, const char *name, int32_t duration,
                                int64_t from, int64_t to, unsigned most)
{
    struct cell_ref ref = heart_ref(heart, name, duration);
    found[0] = 0;
    assert_int_equal(view_range(&heart->store->view, &ref, from, to, NULL, found_cell, &most),
                     ERR_OK);
    return found;
}

static inline void found_name(struct bytes key)
{
    struct bytes tenant;
    struct bytes name;
    char kind;
    assert_true(counter_key_split(key, &tenant, &kind, &name));
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%.*s", (int)name.size, name.data);
}

static inline bool found_counter(void *context, struct bytes key, const struct counter *counter)
{
    unsigned *left = context;
    found_name(key);
    for (uint32_t i = 0; i < counter->count; i++) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "/%d", counter->series[i].duration);
    }
    strcat(found, " ");
    return --*left > 0;
}

static inline const char *list(struct heart *heart, const char *prefix, const char *after,
                               unsigned most)
{
    char start[COUNTER_KEY_SIZE_MAX];
    struct bytes from = counter_key_prefix(start, bytes_str(heart->asks.tenant), bytes_str(prefix));
    struct bytes past = after ? ask_counter(&heart->asks, after) : BYTES_NONE;
    found[0] = 0;
    assert_int_equal(view_list(&heart->store->view, from, past, found_counter, &most), ERR_OK);
    return found;
}

static inline bool found_due(void *context, struct bytes counter, int32_t duration, int64_t bucket)
{
    unsigned *left = context;
    assert_true(*left > 0); /* it was told to stop */
    found_name(counter);
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "/%d@%lld ", duration, (long long)bucket);
    return --*left > 0;
}

static inline const char *due(struct heart *heart, int64_t now_ms, unsigned most)
{
    found[0] = 0;
    assert_int_equal(store_due(heart->store, now_ms, found_due, &most), ERR_OK);
    return found;
}

#define EVERY UINT32_MAX

/* A test for each kind of store. */
#define ON(store, name)                                              \
    {                                                                \
#name " (" store ")", name, setup, teardown, (void *)(store) \
    }
#define LAW(name)                                                                             \
    ON("memory", name), ON("embedded", name), ON("postgres", name), ON("fault memory", name), \
        ON("fault embedded", name)

#endif
