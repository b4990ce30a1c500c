/* propose.c -- see the header. */
#include "commit/propose.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/name.h"

#define OBJECT_WEIGHT 64u /* beyond key and value */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
};

static void answer(struct bundle *bundle)
{
    struct waiter *waiter = bundle->owner;
    pthread_mutex_lock(&waiter->lock);
    waiter->done = true;
    pthread_cond_signal(&waiter->answered);
    pthread_mutex_unlock(&waiter->lock);
}

enum err propose_all(const struct caretaker *with, struct op *ops, uint32_t count,
                     struct bytes turns)
{
    bool alone = count > with->batch_ops;
    struct bundle bundle = {.ops = ops,
                            .count = count,
                            .urgency = turns.size && !alone ? URGENCY_BATCHED : URGENCY_URGENT,
                            .tenant = turns,
                            .atomic = true,
                            .whole = true,
                            .weighty = true,
                            .alone = alone};
    return with->propose(with->context, &bundle);
}

enum err propose_and_wait(void *context, struct bundle *bundle)
{
    struct waiter *waiter = must_calloc(1, sizeof *waiter);
    pthread_mutex_init(&waiter->lock, NULL);
    pthread_cond_init(&waiter->answered, NULL);
    bundle->done = answer;
    bundle->owner = waiter;
    bundle->unbounded = true;
    enum err e = queue_push(context, bundle);
    must(e == ERR_OK);
    pthread_mutex_lock(&waiter->lock);
    while (!waiter->done)
        pthread_cond_wait(&waiter->answered, &waiter->lock);
    pthread_mutex_unlock(&waiter->lock);
    pthread_cond_destroy(&waiter->answered);
    pthread_mutex_destroy(&waiter->lock);
    free(waiter);
    return bundle->err;
}

struct op propose_object(struct arena *arena, const struct hash_secret *secret, struct bytes key,
                         struct bytes value)
{
    struct object_change *change = arena_zalloc(arena, sizeof *change);
    change->key = key;
    change->print = fingerprint_of(secret, key);
    change->value = value;
    return (struct op){
        .kind = OP_OBJECT, .object = change, .weight = key.size + value.size + OBJECT_WEIGHT};
}

struct op propose_object_if(struct arena *arena, const struct hash_secret *secret, struct bytes key,
                            struct bytes expected, struct bytes value)
{
    struct op op = propose_object(arena, secret, key, value);
    op.object->conditional = true;
    op.object->expected = expected;
    return op;
}

struct op propose_mark(struct bytes tenant, struct mark_change *change)
{
    return (struct op){
        .kind = OP_MARK, .tenant = tenant, .mark = change, .weight = mark_weight(change)};
}

struct op propose_delete(struct arena *arena, const struct hash_secret *secret, struct bytes key)
{
    struct bytes copy = arena_copy(arena, key);
    struct bytes rest = copy;
    return (struct op){.kind = OP_DELETE,
                       .counter = copy,
                       .tenant = bytes_split(&rest, '\0'),
                       .counter_print = fingerprint_of(secret, copy),
                       .weight = rule_key_weight(copy)};
}
