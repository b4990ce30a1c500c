/* garbage.c -- goes through all counters and all states once for each generation that is garbage.
 *
 * Where it is, is only in memory: after a restart it begins anew and finds less. */
#include "tend/garbage.h"

#include <stdlib.h>

#include "core/name.h"
#include "core/object.h"
#include "store/damage.h"

#define GENERATION_END (1 + sizeof(uint32_t)) /* in a key */
#define GRACE_MS 2000                         /* no read waits longer for its thread */
#define LOOK_MAX 20000u                       /* rows looked at in one step */

struct garbage {
    struct caretaker config;
    struct arena arena; /* of one step */
    struct buf after;   /* the last key looked at */
    bool states;        /* counters are done, states are next */
    struct buf key;     /* of the object that says what is garbage; empty: none known */
    bool waiting;       /* there is some that is too young */

    /* One step. */
    struct op *ops;
    uint32_t count;
    uint32_t looked;
};

struct garbage *garbage_new(const struct caretaker *config)
{
    struct garbage *garbage = must_calloc(1, sizeof *garbage);
    garbage->config = *config;
    arena_init(&garbage->arena, 64u << 10);
    buf_init(&garbage->after, SIZE_MAX / 2);
    buf_init(&garbage->key, GENERATION_END + NAME_SIZE_MAX);
    return garbage;
}

void garbage_free(struct garbage *garbage)
{
    buf_release(&garbage->after);
    buf_release(&garbage->key);
    arena_release(&garbage->arena);
    free(garbage);
}

struct bytes garbage_key(struct arena *arena, struct bytes counter, uint32_t generation)
{
    char name[sizeof generation + NAME_SIZE_MAX];
    must(counter.size <= NAME_SIZE_MAX);
    put_ordered_u32(name, generation);
    if (counter.size) memcpy(name + sizeof generation, counter.data, counter.size);
    return object_key(arena, OBJECT_GARBAGE, bytes_of(name, sizeof generation + counter.size));
}

/* Readers that began before the swap go by the old generation: it is left to them for a while. */
static bool take_generation(void *context, struct bytes key, struct bytes value)
{
    struct garbage *garbage = context;
    uint64_t since_ms;
    if (key.size < GENERATION_END || !object_number_decode(value, &since_ms)) {
        damage_say("a generation that is garbage", key, 1);
        return true;
    }
    const struct moment moment = clock_moment(garbage->config.clock);
    if (moment_age(&moment, (int64_t)since_ms) < GRACE_MS) {
        garbage->waiting = true;
        return true;
    }
    buf_add(&garbage->key, key);
    return false;
}

/* Generations are counted, one for each counter, but what two nodes give out at once need not be:
 * the name decides too. A store of before this has objects without one. */
static bool is_garbage(const struct garbage *garbage, struct bytes counter, uint32_t generation)
{
    struct bytes key = buf_bytes(&garbage->key);
    struct bytes name = bytes_of(key.data + GENERATION_END, key.size - GENERATION_END);
    return generation == get_ordered_u32(key.data + 1) &&
           (name.size == 0 || bytes_equal(name, counter));
}

/* Goes on from where it was if it is still the same garbage. */
static enum err choose(struct garbage *garbage)
{
    struct store *store = garbage->config.store;
    struct bytes before = arena_copy(&garbage->arena, buf_bytes(&garbage->key));
    buf_reset(&garbage->key);
    garbage->waiting = false;
    enum err e = view_objects(&store->view, object_key(&garbage->arena, OBJECT_GARBAGE, BYTES_NONE),
                              BYTES_NONE, take_generation, garbage);
    if (!bytes_equal(buf_bytes(&garbage->key), before)) {
        buf_reset(&garbage->after);
        garbage->states = false;
    }
    return e;
}

static bool went_past(struct garbage *garbage, struct bytes key)
{
    buf_reset(&garbage->after);
    buf_add(&garbage->after, key);
    garbage->looked++;
    return garbage->count < garbage->config.batch_ops && garbage->looked < LOOK_MAX;
}

static bool look_at_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct garbage *garbage = context;
    struct bytes tenant, name, dimensions;
    uint32_t generation;
    (void)counter;
    if (rule_key_split(key, &tenant, &name, &generation, &dimensions) &&
        is_garbage(garbage, name, generation))
        garbage->ops[garbage->count++] =
            propose_delete(&garbage->arena, &garbage->config.store->secret, key);
    return went_past(garbage, key);
}

static bool look_at_state(void *context, struct bytes key, struct bytes value)
{
    struct garbage *garbage = context;
    struct bytes counter;
    uint32_t generation;
    (void)value;
    if (object_state_split(key, &counter, &generation) && is_garbage(garbage, counter, generation))
        garbage->ops[garbage->count++] =
            propose_object(&garbage->arena, &garbage->config.store->secret,
                           arena_copy(&garbage->arena, key), BYTES_NONE);
    return went_past(garbage, key);
}

static enum err look(struct garbage *garbage)
{
    struct store *store = garbage->config.store;
    struct bytes after = arena_copy(&garbage->arena, buf_bytes(&garbage->after));
    garbage->ops = arena_alloc(&garbage->arena, garbage->config.batch_ops * sizeof *garbage->ops);
    garbage->count = garbage->looked = 0;
    if (!garbage->states)
        return view_list(&store->view, BYTES_NONE, after, look_at_counter, garbage);
    return view_objects(&store->view, object_key(&garbage->arena, OBJECT_STATE, BYTES_NONE), after,
                        look_at_state, garbage);
}

static enum err propose_all(struct garbage *garbage)
{
    struct bundle bundle = {.ops = garbage->ops,
                            .count = garbage->count,
                            .urgency = URGENCY_BATCHED,
                            .tenant = BYTES(" garbage"),
                            .weighty = true};
    return garbage->config.propose(garbage->config.context, &bundle);
}

/* Nothing is left of it: forgets that it ever was. */
static enum err finish(struct garbage *garbage)
{
    garbage->ops[0] =
        propose_object(&garbage->arena, &garbage->config.store->secret,
                       arena_copy(&garbage->arena, buf_bytes(&garbage->key)), BYTES_NONE);
    garbage->count = 1;
    return propose_all(garbage);
}

static enum err step(struct garbage *garbage, bool *more_out)
{
    enum err e = choose(garbage);
    *more_out = e == ERR_OK && garbage->key.size > 0;
    if (e == ERR_OK && !*more_out && garbage->waiting) return ERR_BUSY;
    if (!*more_out) return e;
    e = look(garbage);
    if (e != ERR_OK) return e;
    if (garbage->count > 0) return propose_all(garbage);
    if (garbage->looked > 0) return ERR_OK;
    if (garbage->states) return finish(garbage);
    garbage->states = true;
    buf_reset(&garbage->after);
    return ERR_OK;
}

enum err garbage_step(struct garbage *garbage, bool *more_out)
{
    arena_reset(&garbage->arena);
    enum err e = step(garbage, more_out);
    if (e != ERR_OK) {
        buf_reset(&garbage->key); /* begins anew: what was looked at may not have been removed */
        *more_out = false;
    }
    return e;
}
