/* reads.c -- get, sumRange and series, of direct counters and of those kept by rules.
 *
 * A `get` that memory can answer is answered on the loop thread; everything that may touch the disk
 * goes to a reader. The same plans serve the many-reads call of query.c. */
#include "api/counters/reads.h"

#include "api/call.h"
#include "api/endpoints.h"
#include "api/counters/granularity.h"
#include "api/counters/present.h"
#include "commit/pace.h"
#include "core/bucket.h"
#include "core/name.h"
#include "core/timefmt.h"

#define SERIES_LIMIT_DEFAULT 10000
#define SERIES_LIMIT_MAX 100000

enum { DURATION, BUCKET, ZONE, TIMESTAMP, GET_FIELDS };
static const struct field get_fields[GET_FIELDS] = {
    [DURATION] = {FIELD_DURATION},
    [BUCKET] = {FIELD_BUCKET},
    [ZONE] = {FIELD_ZONE},
    [TIMESTAMP] = {BYTES("timestamp"), FIELD_TIME, .required = true},
};

/* For rule counters that have no buckets: the same names in the same places. */
static const struct field now_fields[GET_FIELDS] = {
    [DURATION] = {FIELD_DURATION},
    [BUCKET] = {FIELD_BUCKET},
    [ZONE] = {FIELD_ZONE},
    [TIMESTAMP] = {BYTES("timestamp"), FIELD_TIME, .required = false},
};

enum { START = ZONE + 1, END, SUM_FIELDS, FILL = SUM_FIELDS, LIMIT, SERIES_FIELDS };
static const struct field range_fields[SERIES_FIELDS] = {
    [DURATION] = {FIELD_DURATION},
    [BUCKET] = {FIELD_BUCKET},
    [ZONE] = {FIELD_ZONE},
    [START] = {BYTES("startTime"), FIELD_TIME, .required = true},
    [END] = {BYTES("endTime"), FIELD_TIME, .required = true},
    [FILL] = {BYTES("fill"), FIELD_CHOICE, .choices = (const char *const[]){"none", "zero", NULL}},
    [LIMIT] = {BYTES("limit"), FIELD_I64, .min = 1, .max = SERIES_LIMIT_MAX,
               .fallback = SERIES_LIMIT_DEFAULT},
};

static bool has_buckets(const struct read_plan *plan)
{
    return !plan->definition || plan->definition->mode == MODE_SERIES;
}

const struct field *read_fields_known(enum read_kind kind, unsigned *count_out)
{
    *count_out = kind == READ_GET ? GET_FIELDS : kind == READ_SUM ? SUM_FIELDS : SERIES_FIELDS;
    return kind == READ_GET ? get_fields : range_fields;
}

const struct field *read_fields(const struct read_plan *plan, unsigned *count_out)
{
    const struct field *fields = read_fields_known(plan->kind, count_out);
    return has_buckets(plan) ? fields : now_fields;
}

static enum err address_direct(struct read_plan *plan, struct call *call, struct bytes name,
                               const struct dims *dims)
{
    char key[COUNTER_KEY_SIZE_MAX];
    if (dims->count) return ERR_UNKNOWN_DIMENSIONS;
    plan->ref.counter = arena_copy(&call->exchange->arena, counter_key(key, call->tenant, name));
    plan->ref.print = fingerprint_of(&call->lane->store->secret, plan->ref.counter);
    plan->ref.now_ms = plan->moment.now_ms;
    return ERR_OK;
}

enum err read_plan_address(struct read_plan *plan, struct call *call, struct bytes name,
                           const struct dims *dims)
{
    struct arena *arena = &call->exchange->arena;
    const struct definition *definition = call_definition(call, name);
    plan->definition = definition;
    plan->arena = arena;
    plan->moment = clock_moment(call->lane->clock);
    if (!definition) return address_direct(plan, call, name, dims);
    if (!has_buckets(plan) && plan->kind != READ_GET) return ERR_NOT_A_SERIES;
    if (!dims_kept(dims, definition)) return ERR_UNKNOWN_DIMENSIONS;
    plan->ref =
        dims_ref(call->lane->store, arena, call->tenant, definition, dims_json(dims, arena));
    return ERR_OK;
}

/* A window has one value, whatever time is asked for. */
static enum err fill_get(struct read_plan *plan, int64_t time_ms, struct reason *why)
{
    bool windowed = plan->definition && plan->definition->mode == MODE_WINDOWED;
    if (!windowed) return params_bucket(time_ms, plan->ref.duration, "timestamp", &plan->from, why);
    plan->ref.duration = WINDOW_DURATION;
    plan->from = 0;
    return ERR_OK;
}

/* A range that begins with time itself begins with the first bucket that has a name. */
static enum err fill_range(struct read_plan *plan, int64_t start_ms, int64_t end_ms,
                           struct reason *why)
{
    if (start_ms > end_ms)
        return reason_err(why, ERR_INVALID, "startTime must not be after endTime.");
    if (!bucket_around(start_ms, plan->ref.duration, &plan->from)) return ERR_OLD_TZDATA;
    if (!bucket_has_name(plan->from, plan->ref.duration))
        plan->from += bucket_step(plan->ref.duration);
    return params_bucket(end_ms, plan->ref.duration, "endTime", &plan->to, why);
}

enum err read_plan_fill(struct read_plan *plan, const struct field_value *values,
                        struct reason *why)
{
    int32_t duration;
    const struct granularity_values given = {&values[DURATION], &values[BUCKET], &values[ZONE],
                                             .required = has_buckets(plan)};
    enum err e = granularity_read(&given, &duration, why);
    if (e != ERR_OK) return e;
    if (plan->definition && !granularities_allow(plan->definition, duration, why)) {
        plan->kept = granularities_of_rules(plan->definition);
        return ERR_GRANULARITY;
    }
    plan->ref.duration = duration;
    if (plan->kind == READ_GET) return fill_get(plan, values[TIMESTAMP].integer, why);
    e = fill_range(plan, values[START].integer, values[END].integer, why);
    if (e != ERR_OK || plan->kind != READ_SERIES) return e;
    plan->fill = values[FILL].integer == 1;
    plan->limit = values[LIMIT].integer;
    return ERR_OK;
}

/* An absent cell of a defined counter is zeros, of a direct one 404. */
static enum err look_up(struct read_plan *plan, struct view *view, enum read_how how)
{
    if (plan->definition)
        return present_read(view, plan->definition, &plan->ref, plan->from, &plan->moment, how,
                            &plan->cell);
    return view_get(view, &plan->ref, plan->from, how, &plan->cell);
}

unsigned read_values(const struct read_plan *plan)
{
    return plan->kind == READ_GET;
}

void read_look(struct read_plan *plan, struct view *moment)
{
    if (plan->kind == READ_GET) plan->seen = look_up(plan, moment, READ_ALL);
}

static void answer_get(const struct read_plan *plan, struct buf *body)
{
    const struct cell *cell = &plan->cell;
    reply_triple(body, (__int128)cell->added - cell->subbed, cell->added, cell->subbed);
}

/* Says why a direct counter has no such bucket, if it has buckets of other lengths: most often the
 * client means one of those. */
static enum err explain_absent(struct view *view, struct read_plan *plan, const char **why_out)
{
    struct reason why;
    struct granularities *kept = &plan->kept;
    enum err e = granularities_of_direct(view, &plan->ref, plan->arena, kept);
    if (e != ERR_OK) return e;
    unsigned others = kept->count - granularities_have(kept, plan->ref.duration);
    if (others == 0) return ERR_NOT_FOUND;
    granularities_say(kept, &why);
    *why_out = arena_copy(plan->arena, bytes_str(why.text)).data;
    return ERR_NOT_FOUND;
}

void read_show_kept(const struct read_plan *plan, enum err e, const char *why, struct buf *body)
{
    if (e == ERR_GRANULARITY || (e == ERR_NOT_FOUND && why)) granularities_add(body, &plan->kept);
}

/* -- Ranges, in parts --------------------------------------------------------------------------
 *
 * A part visits PACE_READ_PART_CELLS cells at most; then other tenants' reads may have their turn.
 * Each part shows what was durable when it was read, so the whole has every write that was
 * acknowledged before the request. A counter deleted between two parts would be half a range: its
 * number tells, and the range is read anew. */

static enum err walk_begin(struct call *call, struct read_plan *plan)
{
    struct read_walk *walk = &plan->walk;
    size_t start = walk->begun ? walk->start : call->exchange->reply.body.size;
    struct arena_mark before = walk->begun ? walk->before : arena_mark(plan->arena);
    call->exchange->reply.body.size = start;
    arena_back(plan->arena, before);
    call->cells++; /* a range without any costs something, too */
    *walk = (struct read_walk){.begun = true,
                               .from = plan->from,
                               .start = start,
                               .next = plan->from,
                               .newer = {.arena = plan->arena},
                               .before = before};
    return view_series(&call->view, &plan->ref, &walk->series);
}

/* After the last part. `*again_out`: the counter was deleted meanwhile, and the range begins
 * anew. */
static enum err walk_end(struct call *call, struct read_plan *plan, bool *again_out)
{
    uint64_t series;
    enum err e = view_series(&call->view, &plan->ref, &series);
    *again_out = e == ERR_OK && series != plan->walk.series;
    if (*again_out) return walk_begin(call, plan);
    arena_back(plan->arena, plan->walk.before);
    return e;
}

struct part {
    struct call *call;
    struct read_plan *plan;
    uint32_t cells;
    bool full; /* a part's worth was visited: the rest is another part */
    bool over; /* the series is longer than its limit */
};

static bool part_cell(struct part *part, int64_t bucket)
{
    part->full = part->cells == PACE_READ_PART_CELLS;
    if (part->full) return false;
    part->cells++;
    part->plan->walk.from = bucket + 1;
    return true;
}

static bool add_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct part *part = context;
    if (!part_cell(part, bucket)) return false;
    part->plan->walk.sum.added += cell->added;
    part->plan->walk.sum.subbed += cell->subbed;
    return true;
}

static enum err read_part(struct part *part, store_cell_fn *visit)
{
    struct read_plan *plan = part->plan;
    bool again = false;
    enum err e = view_range(&part->call->view, &plan->ref, plan->walk.from, plan->to,
                            &plan->walk.newer, visit, part);
    part->call->cells += part->cells;
    if (e == ERR_OK && !part->full && !part->over) e = walk_end(part->call, plan, &again);
    part->call->more = e == ERR_OK && (part->full || again);
    return e;
}

/* A sum is made at once where the store has few cells to visit, or sums of them. */
static enum err answer_sum(struct call *call, struct read_plan *plan)
{
    struct buf *body = &call->exchange->reply.body;
    struct range_sum *sum = &plan->walk.sum;
    enum err e;
    if (!plan->walk.begun) {
        e = view_sum(&call->view, &plan->ref, plan->from, plan->to, PACE_READ_PART_CELLS, sum);
        call->cells++;
        if (e == ERR_TOO_MANY_CELLS) { /* they are visited again, and count then */
            e = walk_begin(call, plan);
            call->more = e == ERR_OK;
            return e;
        }
    } else {
        struct part part = {.call = call, .plan = plan};
        e = read_part(&part, add_cell);
    }
    if (e == ERR_OK && !call->more)
        reply_triple(body, sum->added - sum->subbed, sum->added, sum->subbed);
    return e;
}

static void write_bucket(struct part *part, int64_t bucket, const struct cell *cell)
{
    struct buf *body = &part->call->exchange->reply.body;
    if (part->plan->walk.count++) buf_add_char(body, ',');
    buf_add_char(body, '{');
    granularity_write_bucket(body, bucket, part->plan->ref.duration);
    reply_triple(body, (__int128)cell->added - cell->subbed, cell->added, cell->subbed);
    buf_add_char(body, '}');
}

static const struct cell zero_cell;

static void fill_before(struct part *part, int64_t bucket)
{
    struct read_walk *walk = &part->plan->walk;
    int64_t step = bucket_step(part->plan->ref.duration);
    if (!part->plan->fill) return;
    for (; walk->next < bucket; walk->next += step) {
        write_bucket(part, walk->next, &zero_cell);
        part->call->cells++;
    }
    walk->next = bucket + step;
}

static bool write_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct part *part = context;
    part->over = part->plan->walk.count >= part->plan->limit;
    if (part->over || !part_cell(part, bucket)) return false;
    fill_before(part, bucket);
    write_bucket(part, bucket, cell);
    return true;
}

static enum err answer_series(struct call *call, struct read_plan *plan, const char **why_out)
{
    struct part part = {.call = call, .plan = plan};
    struct buf *body = &call->exchange->reply.body;
    static const char too_long[] = "The range has more buckets than limit.";
    *why_out = too_long;
    if (plan->fill && bucket_count(plan->from, plan->to, plan->ref.duration) > plan->limit)
        return ERR_INVALID;
    enum err e = plan->walk.begun ? ERR_OK : walk_begin(call, plan);
    if (body->size == plan->walk.start) buf_add(body, BYTES("\"buckets\":["));
    if (e == ERR_OK) e = read_part(&part, write_cell);
    if (e == ERR_OK && part.over) return ERR_INVALID;
    *why_out = NULL;
    if (e != ERR_OK || call->more) return e;
    if (plan->ref.duration) fill_before(&part, plan->to + bucket_step(plan->ref.duration));
    if (plan->fill && plan->walk.count == 0) /* duration 0: its one bucket */
        write_bucket(&part, plan->from, &zero_cell);
    buf_add(body, BYTES("]"));
    return e;
}

enum err read_answer(struct call *call, struct read_plan *plan, const char **why_out)
{
    enum err e;
    *why_out = NULL;
    call->more = false;
    switch (plan->kind) {
    case READ_GET:
        call->cells++;
        /* Memory is not asked anew: changes sent behind this read may be there by now. */
        e = plan->absent        ? ERR_NOT_FOUND
            : call->task.looked ? plan->seen
                                : look_up(plan, &call->view, READ_ALL);
        if (e == ERR_OK) answer_get(plan, &call->exchange->reply.body);
        return e == ERR_NOT_FOUND ? explain_absent(&call->view, plan, why_out) : e;
    case READ_SUM:
        return answer_sum(call, plan);
    case READ_SERIES:
        return answer_series(call, plan, why_out);
    }
    unreachable_state(plan->kind);
}

static void run_plan(struct call *call)
{
    struct read_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    const char *why;
    reply->status = 200;
    if (!plan->walk.begun) buf_add_char(&reply->body, '{');
    enum err e = read_answer(call, plan, &why);
    if (call->more) return;
    buf_add_char(&reply->body, '}');
    if (e == ERR_OK) return;
    exchange_error(call->exchange, e, why);
    read_show_kept(call->plan, e, why, &reply->body);
}

/* False after refusing. */
static bool read_plan(struct call *call, enum read_kind kind, enum request_verdict *verdict_out)
{
    struct field_value values[FIELDS_MAX];
    struct reason why;
    struct arena *arena = &call->exchange->arena;
    reason_clear(&why);
    if (!call_name(call, verdict_out)) return false;
    struct dims dims = dims_from_params(&call->params, arena);
    struct read_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->kind = kind;
    call->plan = plan;
    enum err e = read_plan_address(plan, call, call->name, &dims);
    if (e == ERR_OK) {
        unsigned count;
        const struct field *fields = read_fields(plan, &count);
        e = fields_from_params(&call->params, fields, count, values, &why);
    }
    if (e == ERR_OK) e = read_plan_fill(plan, values, &why);
    if (e == ERR_OK) return true;
    *verdict_out = call_refuse(call, e, reason_text(&why));
    read_show_kept(plan, e, why.text, &call->exchange->reply.body);
    return false;
}

static void look_plan(struct call *call, struct view *moment)
{
    read_look(call->plan, moment);
}

enum request_verdict read_get(struct call *call)
{
    enum request_verdict verdict;
    struct reply *reply = &call->exchange->reply;
    if (!read_plan(call, READ_GET, &verdict)) return verdict;
    struct read_plan *plan = call->plan;
    enum err e = look_up(plan, &call->view, READ_MEMORY);
    plan->absent = e == ERR_NOT_FOUND;
    if (plan->absent) return call_read(call, run_plan);
    if (e == ERR_BUSY) return call_look(call, read_values(plan), look_plan, run_plan);
    if (e != ERR_OK) return call_refuse(call, e, NULL);
    buf_add_char(&reply->body, '{');
    answer_get(plan, &reply->body);
    buf_add_char(&reply->body, '}');
    reply->status = 200;
    return REQUEST_ANSWERED;
}

enum request_verdict read_sum(struct call *call)
{
    enum request_verdict verdict;
    if (!read_plan(call, READ_SUM, &verdict)) return verdict;
    return call_read(call, run_plan);
}

enum request_verdict read_series(struct call *call)
{
    enum request_verdict verdict;
    if (!read_plan(call, READ_SERIES, &verdict)) return verdict;
    return call_read(call, run_plan);
}
