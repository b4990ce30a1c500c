/* windows.c -- every windowed counter of one dimension set, in one read.
 *
 * All of it is read in one moment and never through events: what it costs depends on how many
 * windowed counters the rules have (S0-33). Memory answers on the loop thread; trailing counts are
 * sums of a few buckets, for which a reader is asked. */
#include "api/counters/windows.h"

#include "api/call.h"
#include "api/endpoints.h"
#include "api/counters/present.h"
#include "core/bucket.h"
#include "core/timefmt.h"

#define EXACT_MAX (INT64_C(1) << 53) /* beyond, a JavaScript number is not exact */

struct window {
    const struct definition *definition;
    struct cell_ref ref;
    struct cell cell;
    __int128 trailing;
};

struct windows_plan {
    struct store *store;
    struct view *view;
    struct dims dims;
    struct bytes json;
    struct moment moment;
    enum read_how how;
    enum err err;
    bool trailing;
    unsigned count;
    struct window *windows;
};

/* From the bucket that the moment one window ago lies in, also into the future: what was counted
 * before time was set back lies there. */
static enum err read_trailing(const struct windows_plan *plan, struct view *moment,
                              struct window *window)
{
    const struct definition *definition = window->definition;
    int32_t duration = definition->trailing_seconds;
    struct cell_ref ref = window->ref;
    ref.duration = duration;
    struct range_sum sum;
    enum err e =
        view_sum(moment, &ref, bucket_start(plan->moment.now_ms - definition->window_ms, duration),
                 bucket_start(TIME_MS_MAX, duration), UINT32_MAX, &sum);
    if (e == ERR_OK) window->trailing = sum.added - sum.subbed;
    return e;
}

/* May be run again from its start. */
static void read_windows(void *context, struct view *moment)
{
    struct windows_plan *plan = context;
    plan->err = ERR_OK;
    for (unsigned i = 0; i < plan->count && plan->err == ERR_OK; i++) {
        struct window *window = &plan->windows[i];
        plan->err = present_read(moment, window->definition, &window->ref, 0, &plan->moment,
                                 plan->how, &window->cell);
        if (plan->err == ERR_OK && window->definition->trailing)
            plan->err = read_trailing(plan, moment, window);
    }
}

static void add_number(struct buf *body, const char *label, __int128 value)
{
    bool exact = value <= EXACT_MAX && value >= -EXACT_MAX;
    buf_addf(body, ",\"%s\":%s", label, exact ? "" : "\"");
    buf_add_i128(body, value);
    if (!exact) buf_add_char(body, '"');
}

static void add_time(struct buf *body, const char *label, bool present, int64_t time_ms)
{
    if (present)
        add_number(body, label, time_ms);
    else
        buf_addf(body, ",\"%s\":null", label);
}

/* The reply's own fields are not to be hidden by a dimension of that name. */
static bool is_own_field(struct bytes key)
{
    static const struct bytes own[] = {BYTES("counterType"),  BYTES("dimensions"),
                                       BYTES("currentValue"), BYTES("windowStart"),
                                       BYTES("windowEnd"),    BYTES("trailing")};
    for (unsigned i = 0; i < ARRAY_COUNT(own); i++)
        if (bytes_equal(own[i], key)) return true;
    return false;
}

/* Each dimension the counter knows as a field of its own, null when it was not given (S0-03). */
static void add_dimension(struct buf *body, struct bytes key, struct bytes value)
{
    if (is_own_field(key)) return;
    buf_add_char(body, ',');
    buf_add_json(body, key);
    buf_add_char(body, ':');
    if (value.data)
        buf_add_json(body, value);
    else
        buf_add(body, BYTES("null"));
}

static bool set_has(const struct dimension_set *set, struct bytes key)
{
    for (unsigned i = 0; i < set->count; i++)
        if (bytes_equal(set->sources[i].name, key)) return true;
    return false;
}

/* Adds the counter's `dimensions`, given or not, and those dimensions of a rollup that were
 * given. */
static void add_dimensions(struct buf *body, const struct dims *dims, const struct window *window)
{
    const struct dimension_set *set = &window->definition->sets[0];
    for (unsigned i = 0; i < set->count; i++)
        add_dimension(body, set->sources[i].name, dims_value(dims, set->sources[i].name));
    for (unsigned i = 0; i < dims->count; i++)
        if (!set_has(set, dims->items[i].key))
            add_dimension(body, dims->items[i].key, dims->items[i].value);
}

static void add_window(struct buf *body, const struct windows_plan *plan,
                       const struct window *window)
{
    const struct cell *cell = &window->cell;
    buf_add(body, BYTES("{\"counterType\":"));
    buf_add_json(body, window->definition->name);
    add_dimensions(body, &plan->dims, window);
    buf_add(body, BYTES(",\"dimensions\":"));
    buf_add(body, plan->json);
    add_number(body, "currentValue", (__int128)cell->added - cell->subbed);
    add_time(body, "windowStart", cell->exists, cell->start_ms);
    add_time(body, "windowEnd", cell->exists, window_end(cell));
    if (window->definition->trailing) add_number(body, "trailing", window->trailing);
    buf_add_char(body, '}');
}

static void add_windows(const struct windows_plan *plan, struct buf *body)
{
    buf_add_char(body, '[');
    for (unsigned i = 0; i < plan->count; i++) {
        if (i) buf_add_char(body, ',');
        add_window(body, plan, &plan->windows[i]);
    }
    buf_add_char(body, ']');
}

static void answer_windows(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"windows\":"));
    add_windows(call->plan, &reply->body);
    buf_add_char(&reply->body, '}');
}

static void read_all(struct windows_plan *plan)
{
    plan->how = READ_ALL;
    view_instant(plan->view, read_windows, plan);
}

static void run_windows(struct call *call)
{
    struct windows_plan *plan = call->plan;
    if (!call->task.looked) read_all(plan);
    if (plan->err == ERR_OK)
        answer_windows(call);
    else
        exchange_error(call->exchange, plan->err, NULL);
}

static void look_windows(struct call *call, struct view *moment)
{
    struct windows_plan *plan = call->plan;
    plan->how = READ_ALL;
    read_windows(plan, moment);
}

/* Chooses the counters that keep the set. False: there are windowed counters, and none keeps it. */
static bool choose_windows(struct windows_plan *plan, const struct rules *rules,
                           struct bytes tenant, struct arena *arena)
{
    bool any = false;
    plan->windows = arena_zalloc(arena, (rules->definitions_count + 1) * sizeof *plan->windows);
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        if (definition->mode != MODE_WINDOWED || definition->frozen) continue;
        any = true;
        if (!dims_kept(&plan->dims, definition)) continue;
        struct window *window = &plan->windows[plan->count++];
        window->definition = definition;
        window->ref = dims_ref(plan->store, arena, tenant, definition, plan->json);
        window->ref.duration = WINDOW_DURATION;
        plan->trailing |= definition->trailing;
    }
    return plan->count || !any;
}

enum request_verdict windows_get(struct call *call)
{
    struct arena *arena = &call->exchange->arena;
    struct windows_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->store = call->lane->store;
    plan->view = &call->view;
    plan->moment = clock_moment(call->lane->clock);
    plan->dims = dims_from_params(&call->params, arena);
    plan->json = dims_json(&plan->dims, arena);
    plan->how = READ_MEMORY;
    call->plan = plan;
    if (!choose_windows(plan, call_rules(call), call->tenant, arena))
        return call_refuse(call, ERR_UNKNOWN_DIMENSIONS, NULL);
    if (plan->trailing) return call_look(call, 2 * plan->count, look_windows, run_windows);
    view_instant(plan->view, read_windows, plan);
    if (plan->err == ERR_BUSY) return call_look(call, plan->count, look_windows, run_windows);
    if (plan->err != ERR_OK) return call_refuse(call, plan->err, NULL);
    answer_windows(call);
    return REQUEST_ANSWERED;
}

enum err windows_add(struct store *store, const struct rules *rules, struct bytes tenant,
                     const struct dims *dims, const struct moment *moment, struct arena *arena,
                     struct buf *body)
{
    struct windows_plan plan = {
        .store = store, .view = &store->view, .dims = *dims, .moment = *moment};
    plan.json = dims_json(dims, arena);
    choose_windows(&plan, rules, tenant, arena);
    read_all(&plan);
    if (plan.err == ERR_OK) add_windows(&plan, body);
    return plan.err;
}
