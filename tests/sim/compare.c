/* compare.c -- what readers see must be what the model shows: durable, whole, nothing else. */
#include "sim.h"

#include <stdlib.h>

#include "core/name.h"
#include "core/object.h"

/* A read may fail while RocksDB is out of order, never else. False: it did. */
static bool readable(struct sim *sim, enum err e, const char *what)
{
    if (e == ERR_OK) return true;
    if (e == ERR_STORAGE && sim->state_faulty) return false;
    sim_fail(sim, "%s failed: %s", what, err_code(e));
}

struct place {
    char key[COUNTER_KEY_SIZE_MAX];
    struct cell_ref ref;
};

static void place_make(struct sim *sim, struct place *place, unsigned tenant, unsigned name,
                       int32_t duration)
{
    place->ref.counter =
        counter_key(place->key, bytes_str(plan_tenant(sim, tenant)), bytes_str(plan_name(name)));
    place->ref.print = fingerprint_of(&sim->probe.store.secret, place->ref.counter);
    place->ref.duration = duration;
    place->ref.now_ms = 0;
}

static void check_cell(struct sim *sim, const char *where, const struct model_cell *expected,
                       const struct cell *cell)
{
    if (cell->exists && cell->added == expected->added && cell->subbed == expected->subbed &&
        cell->expires_ms == expected->expires_ms && cell->start_ms == expected->start_ms &&
        cell->updated_ms == expected->updated_ms && cell->exact == expected->exact)
        return;
    sim_fail(sim,
             "%s of tenant %u, name %u, duration %d, bucket %lld shows added %lld, subbed %lld, "
             "expires %lld, start %lld, updated %lld, exact %d; expected %lld, %lld, %lld, %lld, "
             "%lld, %d",
             where, expected->tenant, expected->name, expected->duration,
             (long long)expected->bucket, (long long)cell->added, (long long)cell->subbed,
             (long long)cell->expires_ms, (long long)cell->start_ms, (long long)cell->updated_ms,
             cell->exact, (long long)expected->added, (long long)expected->subbed,
             (long long)expected->expires_ms, (long long)expected->start_ms,
             (long long)expected->updated_ms, expected->exact);
}

/* To the millisecond, for who says what time it is; who does not sees what is kept. */
static void compare_end(struct sim *sim, struct place place, int64_t bucket,
                        const struct model_cell *expected)
{
    struct store *store = &sim->probe.store;
    struct cell cell;
    for (int early = 0; early < 2; early++) {
        place.ref.now_ms = expected->expires_ms - early;
        if (place.ref.now_ms == 0) continue;
        enum err e = view_get(&store->view, &place.ref, bucket, READ_ALL, &cell);
        if (!early && e == ERR_NOT_FOUND) continue;
        if (readable(sim, e, "get") && !early)
            sim_fail(sim, "get shows a cell whose exact expiry has come");
    }
}

static void compare_get(struct sim *sim, unsigned tenant, unsigned name, int32_t duration,
                        int64_t bucket, enum read_how how)
{
    struct place place;
    struct cell cell = {0};
    struct store *store = &sim->probe.store;
    const struct model_cell *expected =
        model_find(&sim->chain.shown, tenant, name, 0, duration, bucket);
    place_make(sim, &place, tenant, name, duration);
    enum err e = view_get(&store->view, &place.ref, bucket, how, &cell);
    if (e == ERR_BUSY && how == READ_MEMORY) return;
    if (e == ERR_NOT_FOUND) {
        if (expected)
            sim_fail(sim, "get does not find tenant %u, name %u, duration %d, bucket %lld", tenant,
                     name, duration, (long long)bucket);
        return;
    }
    if (!readable(sim, e, "get")) return;
    if (!expected)
        sim_fail(sim, "get finds tenant %u, name %u, duration %d, bucket %lld, which is not there",
                 tenant, name, duration, (long long)bucket);
    check_cell(sim, "get", expected, &cell);
    if (expected->exact) compare_end(sim, place, bucket, expected);
}

struct walk {
    struct sim *sim;
    unsigned tenant;
    unsigned name;
    int32_t duration;
    int64_t last;
    unsigned seen;
    unsigned stop_after; /* 0: never */
};

static bool walk_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct walk *walk = context;
    if (walk->seen && bucket <= walk->last) sim_fail(walk->sim, "a range is not in order");
    walk->last = bucket;
    walk->seen++;
    const struct model_cell *expected =
        model_find(&walk->sim->chain.shown, walk->tenant, walk->name, 0, walk->duration, bucket);
    if (!expected)
        sim_fail(walk->sim, "a range has bucket %lld of tenant %u, name %u, duration %d too much",
                 (long long)bucket, walk->tenant, walk->name, walk->duration);
    check_cell(walk->sim, "a range", expected, cell);
    return walk->seen != walk->stop_after;
}

static unsigned cells_between(const struct model *model, const struct walk *walk, int64_t from,
                              int64_t to)
{
    unsigned count = 0;
    for (unsigned i = 0; i < model->cells_count; i++) {
        const struct model_cell *cell = &model->cells[i];
        count += cell->tenant == walk->tenant && cell->name == walk->name &&
                 cell->duration == walk->duration && cell->bucket >= from && cell->bucket <= to;
    }
    return count;
}

static void compare_sum(struct sim *sim, const struct walk *walk, int64_t from, int64_t to)
{
    struct place place;
    struct range_sum sum;
    struct store *store = &sim->probe.store;
    const struct model *shown = &sim->chain.shown;
    place_make(sim, &place, walk->tenant, walk->name, walk->duration);
    if (dice_chance(sim->dice, 50)) place.ref.now_ms = sim->fleet->wall_ms;
    enum err e = view_sum(&store->view, &place.ref, from, to, UINT32_MAX, &sum);
    if (!readable(sim, e, "sum")) return;
    for (unsigned i = 0; i < shown->cells_count; i++) {
        const struct model_cell *cell = &shown->cells[i];
        if (cell->tenant != walk->tenant || cell->name != walk->name ||
            cell->duration != walk->duration || cell->bucket < from || cell->bucket > to)
            continue;
        if (place.ref.now_ms && model_over(cell, place.ref.now_ms)) continue;
        sum.added -= cell->added;
        sum.subbed -= cell->subbed;
    }
    if (sum.added != 0 || sum.subbed != 0)
        sim_fail(sim, "a sum of tenant %u, name %u, duration %d is off by %lld and %lld",
                 walk->tenant, walk->name, walk->duration, (long long)sum.added,
                 (long long)sum.subbed);
}

static void compare_range(struct sim *sim, struct walk walk, int64_t from, int64_t to)
{
    struct place place;
    struct store *store = &sim->probe.store;
    walk.sim = sim;
    place_make(sim, &place, walk.tenant, walk.name, walk.duration);
    enum err e = view_range(&store->view, &place.ref, from, to, NULL, walk_cell, &walk);
    if (!readable(sim, e, "range")) return;
    unsigned expected = cells_between(&sim->chain.shown, &walk, from, to);
    if (walk.stop_after && expected > walk.stop_after) expected = walk.stop_after;
    if (walk.seen != expected)
        sim_fail(sim, "a range of tenant %u, name %u, duration %d has %u buckets, expected %u",
                 walk.tenant, walk.name, walk.duration, walk.seen, expected);
    compare_sum(sim, &walk, from, to);
}

struct listing {
    struct sim *sim;
    unsigned tenant;
    char last[COUNTER_KEY_SIZE_MAX];
    size_t last_size;
    bool listed[MODEL_NAMES];
};

/* Until when a list shows a granularity: as long as a cell of it is to be seen, and not a moment
 * longer where there is one. */
static void check_until(struct sim *sim, unsigned tenant, unsigned name, uint32_t generation,
                        const struct series *series)
{
    int64_t last_ms = 1;
    bool lasts = false;
    for (unsigned i = 0; i < sim->chain.shown.cells_count; i++) {
        const struct model_cell *cell = &sim->chain.shown.cells[i];
        if (cell->tenant != tenant || cell->name != name || cell->generation != generation ||
            cell->duration != series->duration)
            continue;
        lasts |= !cell->exact;
        if (cell->exact && cell->expires_ms > last_ms) last_ms = cell->expires_ms;
    }
    bool good = lasts ? series->until_ms == 0 : series->until_ms == last_ms;
    if (!lasts && series->duration > 0) good |= series->until_ms == 0 || series->until_ms > last_ms;
    if (!good)
        sim_fail(sim, "tenant %u, name %u, duration %d is listed until %lld, expected %lld", tenant,
                 name, series->duration, (long long)series->until_ms,
                 lasts ? 0 : (long long)last_ms);
}

static void check_series(struct sim *sim, unsigned tenant, unsigned name, uint32_t generation,
                         const struct counter *counter)
{
    unsigned cells = 0;
    for (uint32_t i = 0; i < counter->count; i++) {
        const struct series *series = &counter->series[i];
        unsigned expected =
            model_cells(&sim->chain.shown, tenant, name, generation, series->duration);
        if (i && series->duration <= counter->series[i - 1].duration)
            sim_fail(sim, "granularities are not in order");
        if (series->cells != expected || expected == 0)
            sim_fail(sim, "tenant %u, name %u, duration %d has %lld cells, expected %u", tenant,
                     name, series->duration, (long long)series->cells, expected);
        cells += expected;
        check_until(sim, tenant, name, generation, series);
    }
    unsigned all = 0;
    for (unsigned i = 0; i < sim->chain.shown.cells_count; i++) {
        const struct model_cell *cell = &sim->chain.shown.cells[i];
        all += cell->tenant == tenant && cell->name == name && cell->generation == generation;
    }
    if (cells != all) sim_fail(sim, "tenant %u, name %u lacks a granularity", tenant, name);
}

static bool list_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct listing *listing = context;
    unsigned tenant, name;
    if (bytes_compare(key, bytes_of(listing->last, listing->last_size)) <= 0)
        sim_fail(listing->sim, "a listing is not in order");
    memcpy(listing->last, key.data, key.size);
    listing->last_size = key.size;
    if (!plan_find(listing->sim, key, &tenant, &name) || tenant != listing->tenant)
        sim_fail(listing->sim, "a listing of tenant %u has somebody else's counter",
                 listing->tenant);
    check_series(listing->sim, tenant, name, 0, counter);
    listing->listed[name] = true;
    return true;
}

static bool name_exists(const struct model *model, unsigned tenant, unsigned name)
{
    for (unsigned i = 0; i < model->cells_count; i++)
        if (model->cells[i].tenant == tenant && model->cells[i].name == name) return true;
    return false;
}

/* All of a tenant's counters whose name starts with `prefix` and that come after counter `after`
 * (MODEL_NAMES: from the first on). */
static void compare_list(struct sim *sim, unsigned tenant, const char *prefix, unsigned after)
{
    char start[COUNTER_KEY_SIZE_MAX], from[COUNTER_KEY_SIZE_MAX];
    struct store *store = &sim->probe.store;
    struct listing listing = {.sim = sim, .tenant = tenant};
    struct bytes owner = bytes_str(plan_tenant(sim, tenant));
    struct bytes after_key = BYTES_NONE;
    if (after < MODEL_NAMES) after_key = counter_key(from, owner, bytes_str(plan_name(after)));
    enum err e = view_list(&store->view, counter_key_prefix(start, owner, bytes_str(prefix)),
                           after_key, list_counter, &listing);
    if (!readable(sim, e, "list")) return;
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        bool expected = name_exists(&sim->chain.shown, tenant, name) &&
                        strncmp(plan_name(name), prefix, strlen(prefix)) == 0 &&
                        (after >= MODEL_NAMES || strcmp(plan_name(name), plan_name(after)) > 0);
        if (listing.listed[name] != expected)
            sim_fail(sim, "counter %s of tenant %u is %s", plan_name(name), tenant,
                     expected ? "not listed" : "listed and should not be");
    }
}

/* ---- what rules keep ---- */

struct rule_listing {
    struct sim *sim;
    unsigned tenant;
    unsigned cells; /* counted */
};

static bool list_rule_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct rule_listing *listing = context;
    struct sim *sim = listing->sim;
    unsigned tenant, name;
    uint32_t generation;
    if (!plan_find_rule(sim, key, &tenant, &name, &generation) || tenant != listing->tenant)
        sim_fail(sim, "tenant %u has a rule counter that never was", listing->tenant);
    check_series(sim, tenant, name, generation, counter);
    for (uint32_t i = 0; i < counter->count; i++)
        listing->cells += (unsigned)counter->series[i].cells;
    return true;
}

static void compare_rule_cell(struct sim *sim, const struct model_cell *expected,
                              struct arena *arena)
{
    struct store *store = &sim->probe.store;
    unsigned counter = (expected->name - MODEL_RULE) / RULESET_CODES;
    const char *json = ruleset_json((expected->name - MODEL_RULE) % RULESET_CODES);
    struct cell cell = {0};
    struct bytes key =
        rule_key(arena, bytes_str(plan_tenant(sim, expected->tenant)),
                 bytes_str(ruleset_counter_name(counter)), expected->generation, bytes_str(json));
    struct cell_ref ref = {key, fingerprint_of(&store->secret, key), expected->duration, 0};
    enum err e = view_get(&store->view, &ref, expected->bucket, READ_ALL, &cell);
    if (e == ERR_NOT_FOUND)
        sim_fail(sim, "get does not find counter %s%s of tenant %u, duration %d, bucket %lld",
                 ruleset_counter_name(counter), json, expected->tenant, expected->duration,
                 (long long)expected->bucket);
    if (readable(sim, e, "get")) check_cell(sim, "a rule counter", expected, &cell);
}

static void compare_rule_cells(struct sim *sim, unsigned tenant)
{
    struct store *store = &sim->probe.store;
    struct rule_listing listing = {.sim = sim, .tenant = tenant};
    struct arena arena;
    char prefix[NAME_SIZE_MAX + 3];
    int size = snprintf(prefix, sizeof prefix, "%s%cr", plan_tenant(sim, tenant), 0);
    enum err e = view_list(&store->view, bytes_of(prefix, (size_t)size), BYTES_NONE,
                           list_rule_counter, &listing);
    if (!readable(sim, e, "list")) return;
    unsigned expected = 0;
    arena_init(&arena, 4096);
    for (unsigned i = 0; i < sim->chain.shown.cells_count; i++) {
        const struct model_cell *cell = &sim->chain.shown.cells[i];
        if (cell->tenant != tenant || cell->name < MODEL_RULE) continue;
        expected++;
        compare_rule_cell(sim, cell, &arena);
    }
    arena_release(&arena);
    if (listing.cells != expected)
        sim_fail(sim, "tenant %u's rule counters have %u cells, expected %u", tenant, listing.cells,
                 expected);
}

static void compare_row(struct sim *sim, unsigned tenant)
{
    struct store *store = &sim->probe.store;
    const struct model_row *expected = &sim->chain.shown.rows[tenant];
    char key[NAME_SIZE_MAX + 2];
    struct usage_row row = {.status = BYTES_NONE};
    struct buf value;
    int size = snprintf(key, sizeof key, "u%s", plan_tenant(sim, tenant));
    buf_init(&value, 1000);
    enum err e = view_object(&store->view, bytes_of(key, (size_t)size), &value);
    bool there = e == ERR_OK;
    if (e != ERR_NOT_FOUND && !readable(sim, e, "object")) there = expected->status > 0;
    if (there != (expected->status > 0))
        sim_fail(sim, "tenant %u %s a row", tenant, there ? "has" : "lacks");
    if (e == ERR_OK && (!usage_row_decode(buf_bytes(&value), &row) ||
                        !bytes_equal(row.status, bytes_str(ruleset_status(expected->status))) ||
                        row.updated_ms != expected->updated_ms))
        sim_fail(sim, "tenant %u's row is %.*s since %lld, expected %s since %lld", tenant,
                 (int)row.status.size, row.status.data, (long long)row.updated_ms,
                 ruleset_status(expected->status), (long long)expected->updated_ms);
    buf_release(&value);
}

static bool count_object(void *context, struct bytes key, struct bytes value)
{
    (void)key, (void)value;
    ++*(unsigned *)context;
    return true;
}

/* How many entities are switched on; which ones, their counters tell sooner or later. */
static void compare_entities(struct sim *sim)
{
    struct store *store = &sim->probe.store;
    unsigned found = 0, expected = sim->chain.shown.entities_count;
    enum err e = view_objects(&store->view, BYTES("s"), BYTES_NONE, count_object, &found);
    if (readable(sim, e, "objects") && found != expected)
        sim_fail(sim, "%u entities are switched on, expected %u", found, expected);
}

static void compare_events(struct sim *sim)
{
    if (!sim->plan.events) return;
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++) {
        compare_rule_cells(sim, tenant);
        compare_row(sim, tenant);
    }
    compare_entities(sim);
    reconcile_compare(sim);
    events_compare_all(sim);
}

void compare_all(struct sim *sim)
{
    const struct plan *plan = &sim->plan;
    for (unsigned tenant = 0; tenant < plan->tenants; tenant++) {
        compare_list(sim, tenant, "", MODEL_NAMES);
        for (unsigned name = 0; name < plan->names; name++)
            for (unsigned d = 0; d < plan->durations_count; d++)
                compare_range(
                    sim,
                    (struct walk){.tenant = tenant, .name = name, .duration = plan->durations[d]},
                    INT64_MIN, INT64_MAX);
    }
    for (unsigned i = 0; i < sim->chain.shown.cells_count; i++) {
        const struct model_cell *cell = &sim->chain.shown.cells[i];
        if (cell->name < MODEL_RULE)
            compare_get(sim, cell->tenant, cell->name, cell->duration, cell->bucket, READ_ALL);
    }
    compare_events(sim);
}

void compare_some(struct sim *sim)
{
    static const char *const prefixes[] = {"", "x", "xy", "x.", "Z", "y"};
    const struct plan *plan = &sim->plan;
    struct dice *dice = sim->dice;
    unsigned tenant = dice_below(dice, plan->tenants);
    unsigned name = dice_below(dice, plan->names);
    int32_t duration = plan->durations[dice_below(dice, plan->durations_count)];
    int64_t one = model_bucket(plan->times_ms[dice_below(dice, plan->times_count)], duration);
    int64_t other = model_bucket(plan->times_ms[dice_below(dice, plan->times_count)], duration);
    switch (dice_below(dice, plan->events ? 7 : 4)) {
    case 6:
        reconcile_compare(sim);
        break;
    case 5:
        compare_rule_cells(sim, tenant);
        break;
    case 4:
        events_compare_some(sim);
        break;
    case 0:
        compare_get(sim, tenant, name, duration, one, READ_MEMORY);
        break;
    case 1:
        compare_get(sim, tenant, name, duration, one, READ_ALL);
        break;
    case 2:
        compare_range(sim,
                      (struct walk){.tenant = tenant,
                                    .name = name,
                                    .duration = duration,
                                    .stop_after = dice_below(dice, 4)},
                      one < other ? one : other, one < other ? other : one);
        break;
    default:
        compare_list(sim, tenant, DICE_PICK(dice, prefixes), dice_below(dice, MODEL_NAMES + 1));
    }
}
