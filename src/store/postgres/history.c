/* history.c -- the retained events and dropped duplicates. */
#include "store/postgres/internal.h"

#include "core/event.h"

#define PAGE_EVENTS 256
#define EVENT_BYTES 128 /* what a row is beside its texts */

static bool row_event(const PGresult *result, int row, struct stored_event *event_out)
{
    int64_t sequence, first, origin;
    *event_out = (struct stored_event){.tenant = result_bytes(result, row, 2),
                                       .id = result_bytes(result, row, 3),
                                       .type = result_bytes(result, row, 4),
                                       .dimensions_json = result_bytes(result, row, 6),
                                       .payload = result_bytes(result, row, 7)};
    if (!result_i64(result, row, 0, &sequence) ||
        !result_i64(result, row, 1, &event_out->arrived_ms) ||
        !result_i64(result, row, 5, &event_out->occurred_ms) ||
        !result_bool(result, row, 8, &event_out->duplicate) ||
        !result_i64(result, row, 9, &first) ||
        !result_i64(result, row, 10, &event_out->first_seen_ms) ||
        !result_i64(result, row, 11, &origin))
        return false;
    event_out->origin = (uint64_t)origin;
    event_out->sequence = (uint64_t)sequence;
    event_out->first_sequence = (uint64_t)first;
    return true;
}

/* Sequences are 63 bits, and a caller who wants all of them says UINT64_MAX. */
static int64_t as_sequence(uint64_t sequence)
{
    return sequence > INT64_MAX ? INT64_MAX : (int64_t)sequence;
}

struct walking {
    struct inquiry inquiry;
    const struct event_query *query;
    uint64_t after;
    size_t seen; /* bytes */
    bool over;
    bool stopped;
    store_event_fn *visit;
    void *context;
};

static enum err ask_page(struct walking *walking, PGresult **result_out)
{
    const struct event_query *query = walking->query;
    struct sql_values *values = &walking->inquiry.values;
    int64_t horizon_ms = atomic_load(&walking->inquiry.lane->horizon_ms);
    values_begin(values, walking->inquiry.lane);
    values_i64(values, as_sequence(walking->after));
    values_i64(values, as_sequence(query->upto));
    values_i64(values, query->arrived_from > horizon_ms ? query->arrived_from : horizon_ms);
    bool few = query->tenant.size > 0 && !query->events && query->duplicates;
    if (!few) {
        values_bool(values, query->events);
        values_bool(values, query->duplicates);
    }
    values_i64(values, PAGE_EVENTS);
    if (query->tenant.size == 0) return inquiry_ask(&walking->inquiry, SQL_EVENTS, result_out);
    values_text(values, query->tenant);
    return inquiry_ask(&walking->inquiry, few ? SQL_DUPLICATES_OF : SQL_EVENTS_OF, result_out);
}

static enum err visit_page(struct walking *walking, const PGresult *result)
{
    int rows = PQntuples(result);
    walking->over = rows < PAGE_EVENTS;
    for (int row = 0; row < rows; row++) {
        struct stored_event event;
        if (!row_event(result, row, &event)) return inquiry_corrupt(&walking->inquiry, "an event");
        walking->after = event.sequence;
        walking->seen += EVENT_BYTES + event.id.size + event.payload.size +
                         event.dimensions_json.size + event.type.size;
        walking->stopped =
            !walking->visit(walking->context, &event) || walking->seen >= walking->query->budget;
        if (walking->stopped) return ERR_OK;
    }
    return ERR_OK;
}

enum err postgres_events(struct view *view, const struct event_query *query, store_event_fn *visit,
                         void *context, uint64_t *next_out)
{
    struct walking walking = {
        .query = query, .after = query->after, .visit = visit, .context = context};
    enum err e = ERR_OK;
    *next_out = 0;
    inquiry_begin(&walking.inquiry, view);
    while (e == ERR_OK && !walking.over && !walking.stopped) {
        PGresult *result;
        e = ask_page(&walking, &result);
        if (e == ERR_OK) e = visit_page(&walking, result);
        PQclear(result);
    }
    inquiry_end(&walking.inquiry);
    if (e == ERR_OK && walking.stopped) *next_out = walking.after;
    return e;
}
