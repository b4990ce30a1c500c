/* lanes.c -- the lanes one by one: how far each is, what waits in it, what it takes. */
#include <stdio.h>

#include "api/call.h"
#include "api/endpoints.h"
#include "base/json_write.h"
#include "core/number.h"
#include "core/timefmt.h"

#define MS INT64_C(1000000)
#define DIGEST_TEXT_SIZE 17

struct lanes_plan {
    int64_t first;
    int64_t limit;
};

static void add_time(struct buf *body, struct bytes key, int64_t time_ms)
{
    json_key(body, key);
    if (time_ms == TIME_NONE)
        buf_add(body, BYTES("null"));
    else
        time_format_json(body, time_ms);
}

static void add_clock(struct buf *body, const struct lane *lane)
{
    struct timekeeper_state state;
    timekeeper_state(lane->keeper, &state);
    add_time(body, JSON_KEY("time"), state.moment.now_ms);
    json_add_bool(body, JSON_KEY("clockSuspect"), state.suspect);
    json_add_bool(body, JSON_KEY("clockSettling"), state.settling);
}

static void add_queue(struct buf *body, const struct lane *lane)
{
    json_add_number(body, JSON_KEY("queueOps"), queue_depth(lane->queue));
    json_add_number(body, JSON_KEY("queueUrgentOps"), queue_urgent_depth(lane->queue));
    json_add_number(body, JSON_KEY("waitingMs"), commit_lag_ns(lane->commit) / MS);
}

static void add_rules(struct buf *body, const struct lane *lane)
{
    char digest[DIGEST_TEXT_SIZE];
    uint32_t generation = 0;
    struct rules *rules = rulebook_hold(lane->rulebook);
    for (unsigned i = 0; i < rules->definitions_count; i++)
        if (rules->definitions[i].generation > generation)
            generation = rules->definitions[i].generation;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)rules->digest);
    json_open(body, JSON_KEY("rules"), '{');
    json_add_word(body, JSON_KEY("digest"), bytes_str(digest));
    json_add_quoted(body, JSON_KEY("generation"), generation);
    add_time(body, JSON_KEY("since"), rules->enacted_ms);
    json_close(body, '}');
    rules_release(rules);
}

static void add_store(struct buf *body, const struct lane *lane, const struct store_stats *stats)
{
    json_add_quoted(body, JSON_KEY("ids"), stats->registry_ids);
    json_add_quoted(body, JSON_KEY("cachedCells"), stats->cache_cells);
    json_add_quoted(body, JSON_KEY("journalBytes"), stats->journal_bytes);
    json_add_quoted(body, JSON_KEY("stateBytes"), stats->state_bytes);
    json_add_quoted(body, JSON_KEY("archiveBytes"), stats->archive_bytes);
    if (lane->store->directory)
        json_add_text(body, JSON_KEY("directory"), bytes_str(lane->store->directory));
    else
        json_add_null(body, JSON_KEY("directory"));
    if (lane->store->server)
        json_add_text(body, JSON_KEY("database"), bytes_str(lane->store->server));
    else
        json_add_null(body, JSON_KEY("database"));
    if (!stats->copied) return;
    json_add_quoted(body, JSON_KEY("standbySequence"), stats->copy_sequence);
    json_add_number(body, JSON_KEY("standbyLagMs"), stats->copy_lag_ms);
}

static void add_lane(struct buf *body, const struct lane *lane)
{
    struct store_stats stats;
    struct lane_cpu cpu = lane_cpu(lane);
    store_stats(lane->store, &stats);
    json_open(body, JSON_ITEM, '{');
    json_add_number(body, JSON_KEY("lane"), lane->index);
    json_add_bool(body, JSON_KEY("writable"), stats.writable);
    json_add_quoted(body, JSON_KEY("sequence"), stats.durable_sequence);
    json_add_quoted(body, JSON_KEY("appliedSequence"), stats.applied_sequence);
    add_clock(body, lane);
    add_queue(body, lane);
    add_rules(body, lane);
    add_store(body, lane, &stats);
    json_add_quoted(body, JSON_KEY("commitCpuMs"), cpu.commit_ns / MS);
    json_add_quoted(body, JSON_KEY("syncCpuMs"), cpu.sync_ns / MS);
    json_close(body, '}');
}

static void run_lanes(struct call *call)
{
    const struct lanes_plan *plan = call->plan;
    const struct lanes *lanes = call->api->config.lanes;
    struct buf *body = &call->exchange->reply.body;
    char cursor[16];
    unsigned i = (unsigned)plan->first;
    call->exchange->reply.status = 200;
    buf_add(body, BYTES("{\"lanes\":["));
    for (; i < lanes->count && i < plan->first + plan->limit; i++)
        add_lane(body, &lanes->items[i]);
    snprintf(cursor, sizeof cursor, "%u", i);
    reply_page_end(body, i < lanes->count ? bytes_str(cursor) : BYTES_NONE);
}

/* The cursor is the number of the lane that the page begins with. */
static bool read_cursor(struct bytes cursor, int64_t *first_out)
{
    *first_out = 0;
    if (!cursor.data) return true;
    return number_parse(cursor, first_out) && *first_out >= 0 && *first_out < LANES_MAX;
}

enum request_verdict admin_lanes(struct call *call)
{
    static const struct field limit_field = {FIELD_PAGE_LIMIT};
    struct field_value limit;
    struct reason why;
    struct bytes cursor;
    struct arena *arena = &call->exchange->arena;
    struct lanes_plan *plan = arena_zalloc(arena, sizeof *plan);
    enum err e = fields_from_params(&call->params, &limit_field, 1, &limit, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, arena, &cursor, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    if (!read_cursor(cursor, &plan->first))
        return call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    plan->limit = limit.integer;
    call->plan = plan;
    return call_read(call, run_lanes);
}
