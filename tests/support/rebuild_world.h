/* rebuild_world.h -- a heart with rules and the one that rebuilds: what the tests of rebuilds and
 * of what they must not lose share. */
#ifndef TALLY_TESTS_SUPPORT_REBUILD_WORLD_H
#define TALLY_TESTS_SUPPORT_REBUILD_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "rules/enact.h"
#include "core/name.h"
#include "core/object.h"
#include "support/heart.h"
#include "support/rules_text.h"
#include "jobs/rebuild.h"
#include "tend/tend.h"

#define STEPS_MAX 50
#define COUNTER(name) \
    "- counterName: " name "\n  rules: [{on: up, op: increment, amount: payload.n}]\n"

static struct heart *heart;
static struct rebuilds *rebuilds;
static pthread_mutex_t enacting = PTHREAD_MUTEX_INITIALIZER;
static unsigned conflicts;
static bool weighed;              /* every bundle proposed so far says that its ops have weights */
static size_t batch_weight;       /* as those who rebuild know it */
static size_t heaviest;           /* of the bundles so far that replay several events */
static void (*before_swap)(void); /* what comes between the last replay and the swap; once */

static inline void answered(struct bundle *bundle)
{
    (void)bundle;
}

static inline void event(const char *id, const char *payload)
{
    struct op op = ask_event(&heart->asks, id, "up", "", payload);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    heart_wait_ms(heart, 1000);
}

static inline void events(const char *prefix, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s %u", prefix, i);
        event(id, "{\"n\":1}");
    }
}

static inline void weigh(const struct bundle *bundle)
{
    size_t weight = 0;
    unsigned replays = 0;
    for (uint32_t i = 0; i < bundle->count; i++) {
        weight += bundle->ops[i].weight;
        replays += bundle->ops[i].kind == OP_REPLAY;
    }
    if (replays > 1 && weight > heaviest) heaviest = weight;
}

static inline enum err propose(void *context, struct bundle *bundle)
{
    (void)context;
    bool weighs = false;
    if (bundle->prepare && before_swap) {
        void (*happens)(void) = before_swap;
        before_swap = NULL;
        happens();
    }
    for (uint32_t i = 0; i < bundle->count; i++)
        weighs |= bundle->ops[i].weight > 0;
    weighed &= bundle->weighty || !weighs;
    bundle->done = answered;
    bundle->unbounded = true;
    assert_int_equal(queue_push(heart->queue, bundle), ERR_OK);
    heart_run(heart);
    weigh(bundle);
    conflicts += bundle->err == ERR_CONFLICT;
    return bundle->err;
}

/* Also after the heart was closed and opened. */
static inline void rebuilds_start(void)
{
    heart->lane.caretaker = (struct caretaker){.store = heart->store,
                                               .rulebook = heart->rulebook,
                                               .clock = &heart->time->clock,
                                               .enacting = &enacting,
                                               .batch_ops = 4,
                                               .batch_weight = batch_weight,
                                               .propose = propose};
    rebuilds = rebuilds_new(&heart->lanes, NULL, NULL);
}

static inline int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = *state, .simulated_disk = true});
    batch_weight = 1 << 20;
    rebuilds_start();
    weighed = true;
    heaviest = 0;
    conflicts = 0;
    before_swap = NULL;
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    rebuilds_free(rebuilds);
    heart_free(heart);
    return 0;
}

static inline void enact(const char *text)
{
    struct enactment enactment;
    struct buf why;
    struct rules *rules = rules_of_text(text, 0);
    assert_int_equal(enact_plan(&enactment, heart->store, rules, bytes_str(text), &why), ERR_OK);
    assert_int_equal(propose(NULL, &enactment.bundle), ERR_OK);
    enact_release(&enactment);
    rules_release(rules);
}

static inline uint32_t generation(const char *name)
{
    struct rules *rules = rulebook_hold(heart->rulebook);
    uint32_t found = rules_find(rules, bytes_str(name))->generation;
    rules_release(rules);
    return found;
}

static inline int64_t net(const char *name)
{
    return heart_rule_net(heart, name, generation(name));
}

static inline enum err wish_for(struct rebuild_wish wish)
{
    struct reason why;
    struct buf id;
    buf_init(&id, 100);
    enum err e = rebuild_ask(rebuilds, &wish, &id, &why);
    buf_release(&id);
    return e;
}

static inline enum err ask_for(const char *name)
{
    return wish_for((struct rebuild_wish){.counter = bytes_str(name)});
}

static inline unsigned steps(void)
{
    unsigned count = 0;
    while (count < STEPS_MAX && rebuild_step(rebuilds) == DESK_AGAIN)
        count++;
    return count;
}

/* What is garbage for sure by now is removed. */
static inline void clean(void)
{
    const int64_t never_ms = INT64_C(1) << 40;
    struct tend *tend = tend_new(&(struct tend_config){
        .lanes = &heart->lanes, .sweep_ms = never_ms, .retention_ms = never_ms, .step_ops = 4});
    for (unsigned i = 0; i < STEPS_MAX; i++) {
        tend_round(tend);
        heart_run(heart);
    }
    tend_free(tend);
}

#define ON(store, name)                                      \
    {                                                        \
#name " (" store ")", name, setup, teardown, (store) \
    }
#define LAW(name) ON("memory", name), ON("embedded", name)

#endif
