/* cells.c -- the dimension sets of a rule counter: a page in the order of their canonical JSON, or
 * the first by net (top-N).
 *
 * Rows are looked through a chunk at a time: a visitor of the store makes no call of the store, so
 * it notes keys, and their cells are read afterwards. Only rows of sets that the counter keeps
 * now, of its generation, and with a cell of the asked kind are shown. A cursor holds what the
 * order goes by, so it stays good across restarts, changes and rebuilds. */
#include <stdlib.h>

#include "api/call.h"
#include "api/counters/dims.h"
#include "api/endpoints.h"
#include "api/counters/granularities.h"
#include "api/counters/granularity.h"
#include "api/counters/present.h"
#include "api/counters/top.h"
#include "core/bucket.h"
#include "core/name.h"
#include "core/timefmt.h"

#define CHUNK_ROWS 1024u
#define PAGE_ROWS_MAX (100 * CHUNK_ROWS) /* looked through for one page; then it is short */
#define SORT_ROWS_MAX 1000000u           /* looked through for one top-N; then it is refused */

#define CURSOR_KEY 'k'
#define CURSOR_NET 'n'

enum { LIMIT, SORT, ORDER, DURATION, BUCKET, ZONE, TIMESTAMP, FIELDS };
static const struct field cells_fields[FIELDS] = {
    [LIMIT] = {FIELD_PAGE_LIMIT},
    [SORT] = {BYTES("sort"), FIELD_CHOICE, .choices = (const char *const[]){"key", "net", NULL}},
    [ORDER] = {BYTES("order"), FIELD_CHOICE, .choices = (const char *const[]){"desc", "asc", NULL}},
    [DURATION] = {FIELD_DURATION},
    [BUCKET] = {FIELD_BUCKET},
    [ZONE] = {FIELD_ZONE},
    [TIMESTAMP] = {BYTES("timestamp"), FIELD_TIME, .required = false},
};

/* Rows looked through at once: a part of the work. */
struct row_chunk {
    struct arena arena;
    struct bytes keys[CHUNK_ROWS];
    struct cell cells[CHUNK_ROWS]; /* what each key has, */
    enum err err;                  /* if they could be read */
    unsigned count;
    unsigned scanned;
    unsigned scanned_max; /* the chunk is full */
    struct bytes last;    /* scanned */
};

/* A page being written. */
struct page {
    int64_t count;
    struct buf last; /* dimensions of the last row shown or looked at: where the next page begins */
    bool more;
};

struct cells_plan {
    const struct definition *definition;
    struct bytes tenant;
    struct bytes shapes[RULES_SETS_MAX]; /* the kept sets' */
    struct dims filter;
    struct bytes prefix; /* the keys' */
    int32_t duration;
    int64_t bucket;
    int64_t limit;
    struct moment moment;
    bool sorted;
    bool descending;
    struct top_row after; /* json.data NULL: from the start */
    /* What is kept between parts; made with the first one. */
    struct row_chunk *chunk;
    struct page page;
    struct top top;
    unsigned scanned;
};

static struct bytes key_json(const struct cells_plan *plan, struct bytes key)
{
    return bytes_of(key.data + plan->prefix.size, key.size - plan->prefix.size);
}

static bool is_kept(const struct cells_plan *plan, struct bytes json)
{
    for (unsigned i = 0; i < plan->definition->sets_count; i++)
        if (dims_same_keys(json, plan->shapes[i])) return true;
    return false;
}

static bool note_row(void *context, struct bytes key, const struct counter *counter)
{
    const struct cells_plan *plan = context;
    struct row_chunk *chunk = plan->chunk;
    (void)counter;
    struct bytes json = key_json(plan, key);
    bool wanted = is_kept(plan, json) && dims_match(json, &plan->filter);
    chunk->scanned++;
    if (wanted || chunk->scanned == chunk->scanned_max)
        chunk->last = arena_copy(&chunk->arena, key);
    if (wanted) chunk->keys[chunk->count++] = chunk->last;
    return chunk->scanned < chunk->scanned_max;
}

/* May be run again from its start. A page needs no more cells than it shows, and one to say that it
 * is not the last. */
static void read_cells(void *context, struct view *view)
{
    const struct cells_plan *plan = context;
    struct row_chunk *chunk = plan->chunk;
    int64_t left = plan->sorted ? INT64_MAX : plan->limit - plan->page.count + 1;
    chunk->err = ERR_OK;
    for (unsigned i = 0; i < chunk->count && chunk->err == ERR_OK && left > 0; i++) {
        struct bytes key = chunk->keys[i];
        struct cell_ref ref = {key, fingerprint_of(&view->store->secret, key), plan->duration, 0};
        chunk->err = present_read(view, plan->definition, &ref, plan->bucket, &plan->moment,
                                  READ_ALL, &chunk->cells[i]);
        if (chunk->err == ERR_OK && chunk->cells[i].exists) left--;
    }
}

/* Most pages are whole with as many rows as they show, and one more. */
static unsigned chunk_rows(const struct cells_plan *plan)
{
    bool first = !plan->sorted && plan->scanned == 0;
    return first && plan->limit < CHUNK_ROWS ? (unsigned)plan->limit + 1 : CHUNK_ROWS;
}

/* The next rows after `after`, which may be a key of the chunk itself, with their cells. */
static enum err read_chunk(struct view *view, struct cells_plan *plan, struct bytes after)
{
    struct row_chunk *chunk = plan->chunk;
    char *copy = must_calloc(1, after.size + 1);
    if (after.size) memcpy(copy, after.data, after.size);
    arena_reset(&chunk->arena);
    chunk->count = 0;
    chunk->scanned = 0;
    chunk->scanned_max = chunk_rows(plan);
    enum err e = view_list(view, plan->prefix, bytes_of(copy, after.size), note_row, plan);
    plan->scanned += chunk->scanned;
    free(copy);
    if (e != ERR_OK || chunk->count == 0) return e;
    view_together(view, read_cells, plan);
    return chunk->err;
}

static struct top_row chunk_row(const struct cells_plan *plan, unsigned index)
{
    const struct cell *cell = &plan->chunk->cells[index];
    return (struct top_row){.cell = *cell,
                            .net = cell->added - cell->subbed,
                            .json = key_json(plan, plan->chunk->keys[index])};
}

static void add_row(struct buf *body, const struct top_row *row)
{
    buf_add(body, BYTES("{\"dimensions\":"));
    buf_add(body, row->json);
    buf_add(body, BYTES(",\"dimensionKey\":\""));
    dims_add_key(body, row->json);
    buf_add(body, BYTES("\","));
    reply_triple(body, row->net, row->cell.added, row->cell.subbed);
    buf_add(body, BYTES(",\"updatedAt\":"));
    time_format_json(body, row->cell.updated_ms);
    buf_add_char(body, '}');
}

static void add_next(struct buf *body, char kind, const struct top_row *row)
{
    struct buf raw;
    buf_init(&raw, 1 + sizeof row->net + row->json.size);
    buf_add_char(&raw, kind);
    if (kind == CURSOR_NET) {
        char net[sizeof row->net];
        put_ordered_i64(net, row->net);
        buf_add(&raw, bytes_of(net, sizeof net));
    }
    buf_add(&raw, row->json);
    buf_add_char(body, '"');
    cursor_encode(body, buf_bytes(&raw));
    buf_add_char(body, '"');
    buf_release(&raw);
}

static void page_last(struct page *page, struct bytes json)
{
    buf_reset(&page->last);
    buf_add(&page->last, json);
}

static void page_chunk(struct call *call, struct cells_plan *plan)
{
    struct page *page = &plan->page;
    struct buf *body = &call->exchange->reply.body;
    for (unsigned i = 0; i < plan->chunk->count; i++) {
        struct top_row row = chunk_row(plan, i);
        if (!row.cell.exists) continue;
        page->more = page->count == plan->limit;
        if (page->more) return;
        if (page->count++) buf_add_char(body, ',');
        add_row(body, &row);
        page_last(page, row.json);
    }
}

static struct bytes page_after(struct call *call, const struct cells_plan *plan)
{
    if (plan->scanned) return plan->chunk->last;
    if (!plan->after.json.data) return BYTES_NONE;
    return rule_key(&call->exchange->arena, plan->tenant, plan->definition->name,
                    plan->definition->generation, plan->after.json);
}

static void end_page(struct buf *body, const struct page *page)
{
    buf_add(body, BYTES("],\"next\":"));
    must(!page->more || page->last.data); /* there is a row to go on after */
    if (page->more)
        add_next(body, CURSOR_KEY, &(struct top_row){.json = buf_bytes(&page->last)});
    else
        buf_add(body, BYTES("null"));
}

static enum err answer_page(struct call *call, struct cells_plan *plan)
{
    struct page *page = &plan->page;
    enum err e = read_chunk(&call->view, plan, page_after(call, plan));
    if (e == ERR_OK) page_chunk(call, plan);
    call->more = e == ERR_OK && !page->more && plan->chunk->scanned == plan->chunk->scanned_max;
    if (call->more && plan->scanned >= PAGE_ROWS_MAX) {
        call->more = false;
        page->more = true;
        page_last(page, key_json(plan, plan->chunk->last));
    }
    if (e == ERR_OK && !call->more) end_page(&call->exchange->reply.body, page);
    return e;
}

static void offer_chunk(struct cells_plan *plan)
{
    for (unsigned i = 0; i < plan->chunk->count; i++) {
        struct top_row row = chunk_row(plan, i);
        if (!row.cell.exists) continue;
        if (plan->after.json.data && !top_before(&plan->top, &plan->after, &row)) continue;
        top_offer(&plan->top, &row);
    }
}

static void end_top(struct buf *body, struct top *top)
{
    top_sort(top);
    for (size_t i = 0; i < top->count; i++) {
        if (i) buf_add_char(body, ',');
        add_row(body, &top->rows[i]);
    }
    buf_add(body, BYTES("],\"next\":"));
    if (top->offered > top->count)
        add_next(body, CURSOR_NET, &top->rows[top->count - 1]);
    else
        buf_add(body, BYTES("null"));
}

static enum err answer_top(struct call *call, struct cells_plan *plan)
{
    struct bytes after = plan->scanned ? plan->chunk->last : BYTES_NONE;
    enum err e = read_chunk(&call->view, plan, after);
    if (e != ERR_OK) return e;
    offer_chunk(plan);
    call->more = plan->chunk->scanned == plan->chunk->scanned_max;
    if (call->more && plan->scanned > SORT_ROWS_MAX) {
        call->more = false;
        return ERR_INVALID;
    }
    if (!call->more) end_top(&call->exchange->reply.body, &plan->top);
    return ERR_OK;
}

static void begin_cells(struct call *call, struct cells_plan *plan)
{
    plan->chunk = must_calloc(1, sizeof *plan->chunk);
    arena_init(&plan->chunk->arena, 64u << 10);
    buf_init(&plan->page.last, 8 * EVENT_SIZE_MAX);
    top_init(&plan->top, (size_t)plan->limit, plan->descending);
    call->exchange->reply.status = 200;
    buf_add(&call->exchange->reply.body, BYTES("{\"cells\":["));
}

static void end_cells(struct call *call)
{
    struct cells_plan *plan = call->plan;
    if (!plan->chunk) return;
    top_release(&plan->top);
    buf_release(&plan->page.last);
    arena_release(&plan->chunk->arena);
    free(plan->chunk);
}

/* One chunk of rows. */
static void run_cells(struct call *call)
{
    struct cells_plan *plan = call->plan;
    if (!plan->chunk) begin_cells(call, plan);
    enum err e = plan->sorted ? answer_top(call, plan) : answer_page(call, plan);
    call->cells += plan->chunk->count;
    if (call->more) return;
    buf_add_char(&call->exchange->reply.body, '}');
    if (e != ERR_OK)
        exchange_error(call->exchange, e,
                       e == ERR_INVALID ? "The counter has too many rows to be sorted." : NULL);
}

/* False: not a cursor of this listing in this order. */
static bool read_cursor(struct cells_plan *plan, struct bytes cursor)
{
    size_t head = plan->sorted ? 1 + sizeof plan->after.net : 1;
    if (!cursor.data) return true;
    if (cursor.size <= head || cursor.size > 8 * EVENT_SIZE_MAX) return false;
    if (cursor.data[0] != (plan->sorted ? CURSOR_NET : CURSOR_KEY)) return false;
    if (plan->sorted) plan->after.net = get_ordered_i64(cursor.data + 1);
    plan->after.json = bytes_of(cursor.data + head, cursor.size - head);
    return true;
}

/* Which cell of each row is shown. */
static enum err read_bucket(struct cells_plan *plan, const struct field_value *values,
                            struct reason *why)
{
    const struct definition *definition = plan->definition;
    int32_t duration;
    const struct granularity_values given = {&values[DURATION], &values[BUCKET], &values[ZONE],
                                             .required = false};
    enum err e = granularity_read(&given, &duration, why);
    if (e != ERR_OK) return e;
    plan->duration = present_duration(definition);
    if (!values[DURATION].present && !values[BUCKET].present &&
        !present_kept(definition, plan->duration))
        return reason_err(why, ERR_INVALID,
                          "durationSeconds is required: the counter has no granularity 0.");
    if (!granularities_allow(definition, duration, why)) return ERR_GRANULARITY;
    if (definition->mode == MODE_WINDOWED) return ERR_OK;
    plan->duration = duration;
    int64_t time_ms = values[TIMESTAMP].present ? values[TIMESTAMP].integer : plan->moment.now_ms;
    return params_bucket(time_ms, plan->duration, "timestamp", &plan->bucket, why);
}

static struct cells_plan *new_plan(struct call *call, const struct definition *definition)
{
    struct arena *arena = &call->exchange->arena;
    struct cells_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->definition = definition;
    plan->tenant = call->tenant;
    plan->moment = clock_moment(call->lane->clock);
    plan->prefix = rule_key_prefix(arena, call->tenant, definition->name, definition->generation);
    for (unsigned i = 0; i < definition->sets_count; i++)
        plan->shapes[i] = dims_shape(&definition->sets[i], arena);
    return plan;
}

static enum request_verdict refuse_bucket(struct call *call, const struct definition *definition,
                                          enum err e, const struct reason *why)
{
    struct granularities kept = granularities_of_rules(definition);
    enum request_verdict verdict = call_refuse(call, e, why->text);
    if (e == ERR_GRANULARITY) granularities_add(&call->exchange->reply.body, &kept);
    return verdict;
}

/* A counter that no rules define has no dimension sets to list: 404. */
enum request_verdict cells_page(struct call *call)
{
    enum request_verdict verdict;
    struct field_value values[FIELDS];
    struct reason why;
    struct bytes cursor;
    struct arena *arena = &call->exchange->arena;
    if (!call_name(call, &verdict)) return verdict;
    enum err e = fields_from_params(&call->params, cells_fields, FIELDS, values, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, arena, &cursor, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    const struct definition *definition = call_definition(call, call->name);
    if (!definition) return call_refuse(call, ERR_NOT_FOUND, NULL);

    struct cells_plan *plan = new_plan(call, definition);
    plan->filter = dims_from_params(&call->params, arena);
    plan->limit = values[LIMIT].integer;
    plan->sorted = values[SORT].integer == 1;
    plan->descending = values[ORDER].integer == 0;
    if (!read_cursor(plan, cursor))
        return call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    e = read_bucket(plan, values, &why);
    if (e != ERR_OK) return refuse_bucket(call, definition, e, &why);
    call->plan = plan;
    call->read_done = end_cells;
    return call_read(call, run_cells);
}
