/* garbage.c -- goes through all counters and all states of the lane, once for each generation that
 * is garbage.
 *
 * How far it got is kept in memory only: after a restart, or a proposal that was not decided, it
 * begins anew and finds less. */
#include "tend/garbage.h"

#include <stdlib.h>

#include "base/table.h"
#include "commit/propose.h"
#include "core/name.h"
#include "core/object.h"
#include "store/damage.h"

#define GRACE_MS 2000     /* no read waits longer for its thread */
#define LOOK_MAX 5000u    /* rows looked at in one step: some milliseconds */
#define KEY_SIZE_MAX 300u /* the key of an object that names a generation */

struct garbage {
    struct care care;
    struct arena arena; /* for one step */
    struct buf after;   /* the last key looked at */
    bool states;        /* counters are done, states are next */
    struct buf key;     /* the object that names the garbage; empty: none is known */
    atomic_bool lost;   /* the last proposal was not decided */

    /* One step. */
    struct bytes name; /* the counter whose it is, */
    uint32_t generation;
    uint32_t looked;
    struct bundle bundle;
};

static struct garbage *garbage_of(struct care *care)
{
    return CONTAINER_OF(care, struct garbage, care);
}

struct care *garbage_make(uint32_t budget)
{
    struct garbage *garbage = must_calloc(1, sizeof *garbage);
    arena_init(&garbage->arena, 64u << 10);
    buf_init(&garbage->after, SIZE_MAX / 2);
    buf_init(&garbage->key, KEY_SIZE_MAX);
    garbage->bundle.ops = must_calloc(budget, sizeof *garbage->bundle.ops);
    return &garbage->care;
}

void garbage_end(struct care *care)
{
    struct garbage *garbage = garbage_of(care);
    free(garbage->bundle.ops);
    buf_release(&garbage->after);
    buf_release(&garbage->key);
    arena_release(&garbage->arena);
    free(garbage);
}

static const struct hash_secret *secret_of(const struct garbage *garbage)
{
    return &garbage->care.lane->store->secret;
}

/* -- What is garbage --------------------------------------------------------------------------- */

/* Readers that began before the swap go by the old generation, which is left to them for a
 * while. */
static bool take_generation(void *context, struct bytes key, struct bytes value)
{
    struct garbage *garbage = context;
    struct bytes name;
    uint32_t generation;
    uint64_t since_ms;
    if (!object_garbage_split(key, &name, &generation) || key.size > KEY_SIZE_MAX ||
        !object_number_decode(value, &since_ms)) {
        damage_say("a generation that is garbage", key, 1);
        return true;
    }
    const struct moment moment = clock_moment(garbage->care.lane->clock);
    if (moment_age(&moment, (int64_t)since_ms) < GRACE_MS) return true;
    buf_add(&garbage->key, key);
    return false;
}

/* Each counter has a generation of its own number, but two stores may give out the same one, so the
 * name decides too. An object that an earlier version made has no name. */
static bool is_garbage(const struct garbage *garbage, struct bytes counter, uint32_t generation)
{
    return generation == garbage->generation &&
           (garbage->name.size == 0 || bytes_equal(garbage->name, counter));
}

static void begin_anew(struct garbage *garbage)
{
    buf_reset(&garbage->after);
    garbage->states = false;
}

/* Goes on where it was if it is still the same garbage. False: there is none. */
static bool choose(struct garbage *garbage)
{
    struct store *store = garbage->care.lane->store;
    struct bytes before = arena_copy(&garbage->arena, buf_bytes(&garbage->key));
    buf_reset(&garbage->key);
    enum err e = view_objects(&store->view, object_key(&garbage->arena, OBJECT_GARBAGE, BYTES_NONE),
                              BYTES_NONE, take_generation, garbage);
    if (!bytes_equal(buf_bytes(&garbage->key), before)) begin_anew(garbage);
    return e == ERR_OK && garbage->key.size > 0 &&
           object_garbage_split(buf_bytes(&garbage->key), &garbage->name, &garbage->generation);
}

/* -- Looking for it ---------------------------------------------------------------------------- */

static void add_op(struct garbage *garbage, struct op op)
{
    must(garbage->bundle.count < garbage->care.budget);
    garbage->bundle.ops[garbage->bundle.count++] = op;
}

static bool went_past(struct garbage *garbage, struct bytes key)
{
    buf_reset(&garbage->after);
    buf_add(&garbage->after, key);
    garbage->looked++;
    return garbage->bundle.count < garbage->care.budget && garbage->looked < LOOK_MAX;
}

static bool look_at_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct garbage *garbage = context;
    struct bytes tenant, name, dimensions;
    uint32_t generation;
    (void)counter;
    if (rule_key_split(key, &tenant, &name, &generation, &dimensions) &&
        is_garbage(garbage, name, generation))
        add_op(garbage, propose_delete(&garbage->arena, secret_of(garbage), key));
    return went_past(garbage, key);
}

static bool look_at_state(void *context, struct bytes key, struct bytes value)
{
    struct garbage *garbage = context;
    struct bytes counter;
    uint32_t generation;
    (void)value;
    if (object_state_split(key, &counter, &generation) && is_garbage(garbage, counter, generation))
        add_op(garbage, propose_object(&garbage->arena, secret_of(garbage),
                                       arena_copy(&garbage->arena, key), BYTES_NONE));
    return went_past(garbage, key);
}

static enum err look(struct garbage *garbage)
{
    struct view *view = &garbage->care.lane->store->view;
    struct bytes after = arena_copy(&garbage->arena, buf_bytes(&garbage->after));
    garbage->looked = 0;
    if (!garbage->states) return view_list(view, BYTES_NONE, after, look_at_counter, garbage);
    return view_objects(view, object_key(&garbage->arena, OBJECT_STATE, BYTES_NONE), after,
                        look_at_state, garbage);
}

/* -- Removing it ------------------------------------------------------------------------------- */

static void garbage_done(struct bundle *bundle)
{
    struct garbage *garbage = garbage_of(bundle->owner);
    if (bundle->err != ERR_OK) garbage->lost = true;
    care_answered(&garbage->care);
}

/* The bundle takes turns with the tenants; no tenant can have this name. It may be as large as a
 * batch and is never refused: what was looked for would have to be looked for again. */
static enum care_next propose(struct garbage *garbage)
{
    struct bundle *bundle = &garbage->bundle;
    bundle->urgency = URGENCY_BATCHED;
    bundle->tenant = BYTES(" garbage");
    bundle->weighty = true;
    bundle->unbounded = true;
    bundle->done = garbage_done;
    enum err e = care_propose(&garbage->care, bundle);
    must(e == ERR_OK);
    return CARE_PRESSES;
}

/* Nothing is left of the generation: removes the object that names it. */
static enum care_next finish(struct garbage *garbage)
{
    add_op(garbage,
           propose_object(&garbage->arena, secret_of(garbage),
                          arena_copy(&garbage->arena, buf_bytes(&garbage->key)), BYTES_NONE));
    return propose(garbage);
}

static enum care_next go_on(struct garbage *garbage)
{
    if (look(garbage) != ERR_OK) return CARE_RESTS;
    if (garbage->bundle.count > 0) return propose(garbage);
    if (garbage->looked > 0) return CARE_PRESSES;
    if (garbage->states) return finish(garbage);
    garbage->states = true;
    buf_reset(&garbage->after);
    return CARE_PRESSES;
}

enum care_next garbage_step(struct care *care)
{
    struct garbage *garbage = garbage_of(care);
    arena_reset(&garbage->arena);
    garbage->bundle = (struct bundle){.ops = garbage->bundle.ops};
    if (garbage->lost) begin_anew(garbage);
    garbage->lost = false;
    return choose(garbage) ? go_on(garbage) : CARE_RESTS;
}
