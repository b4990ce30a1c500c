/* rulebook.c -- two references under a lock.
 *
 * (1) Both are always there. They differ only while a batch that changes the rules is decided and
 *     not yet settled, and there is one such batch at a time: it has the pipeline for itself.
 * (2) `empty` is what the rules in force say. */
#include "rules/rulebook.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct rulebook {
    pthread_mutex_t lock;
    struct rules *current; /* durable */
    struct rules *next;    /* decided, maybe not durable; often the same */
    atomic_bool empty;     /* `current` has no counters */
};

/* By the thread that has the lock. */
static void rulebook_check(const struct rulebook *rulebook)
{
    must(rulebook->current && rulebook->next);
    must(atomic_load(&rulebook->empty) == (rulebook->current->definitions_count == 0));
}

struct rulebook *rulebook_new(void)
{
    struct rulebook *rulebook = must_calloc(1, sizeof *rulebook);
    pthread_mutex_init(&rulebook->lock, NULL);
    rulebook->current = rules_new();
    rules_seal(rulebook->current);
    rulebook->next = rules_hold(rulebook->current);
    atomic_init(&rulebook->empty, true);
    return rulebook;
}

void rulebook_free(struct rulebook *rulebook)
{
    rules_release(rulebook->current);
    rules_release(rulebook->next);
    pthread_mutex_destroy(&rulebook->lock);
    free(rulebook);
}

struct rules *rulebook_hold(struct rulebook *rulebook)
{
    pthread_mutex_lock(&rulebook->lock);
    struct rules *rules = rules_hold(rulebook->current);
    pthread_mutex_unlock(&rulebook->lock);
    return rules;
}

bool rulebook_is_empty(const struct rulebook *rulebook)
{
    return atomic_load_explicit(&rulebook->empty, memory_order_relaxed);
}

struct rules *rulebook_next(struct rulebook *rulebook)
{
    pthread_mutex_lock(&rulebook->lock);
    rulebook_check(rulebook);
    struct rules *rules = rules_hold(rulebook->next);
    pthread_mutex_unlock(&rulebook->lock);
    return rules;
}

void rulebook_decided(struct rulebook *rulebook, struct rules *rules)
{
    pthread_mutex_lock(&rulebook->lock);
    struct rules *old = rulebook->next;
    rulebook_check(rulebook);
    must(rulebook->next == rulebook->current); /* (1) */
    rulebook->next = rules_hold(rules);
    pthread_mutex_unlock(&rulebook->lock);
    rules_release(old);
}

void rulebook_settled(struct rulebook *rulebook, bool durable)
{
    pthread_mutex_lock(&rulebook->lock);
    struct rules *old = durable ? rulebook->current : rulebook->next;
    rulebook_check(rulebook);
    if (durable)
        rulebook->current = rules_hold(rulebook->next);
    else
        rulebook->next = rules_hold(rulebook->current);
    atomic_store(&rulebook->empty, rulebook->current->definitions_count == 0);
    rulebook_check(rulebook);
    pthread_mutex_unlock(&rulebook->lock);
    rules_release(old);
}

void rulebook_adopt(struct rulebook *rulebook, struct rules *rules)
{
    rulebook_decided(rulebook, rules);
    rulebook_settled(rulebook, true);
}
