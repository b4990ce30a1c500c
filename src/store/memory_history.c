/* memory_history.c -- an array of copies. */
#include "store/memory_history.h"

#include <stdlib.h>

#include "base/must.h"

struct past_event {
    uint64_t sequence;
    int64_t arrived_ms;
    char *tenant;
    size_t tenant_size;
    struct buf bytes; /* stored_event_encode's */
};

static void past_release(struct past_event *past)
{
    free(past->tenant);
    buf_release(&past->bytes);
}

void history_release(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        past_release(&history->events[i]);
    free(history->events);
    *history = (struct history){0};
}

static void take_event(struct history *history, const struct op *op, int64_t arrived_ms)
{
    if (history->count == history->capacity) {
        history->capacity = history->capacity * 2 + 16;
        history->events =
            must_realloc(history->events, history->capacity * sizeof *history->events);
    }
    const struct event *event = op->event;
    struct past_event *past = &history->events[history->count++];
    *past = (struct past_event){.sequence = op->sequence,
                                .arrived_ms = event->origin ? event->arrived_ms : arrived_ms,
                                .tenant = must_alloc(op->tenant.size),
                                .tenant_size = op->tenant.size};
    memcpy(past->tenant, op->tenant.data, op->tenant.size);
    buf_init(&past->bytes, SIZE_MAX / 2);
    const struct stored_event stored = event_to_store(event);
    stored_event_encode(&past->bytes, &stored);
}

void history_take(struct history *history, const struct write_set *writes)
{
    for (uint32_t i = 0; i < writes->count; i++)
        if (writes->causes[i]->kind == OP_EVENT || writes->causes[i]->kind == OP_IMPORT_EVENT)
            take_event(history, writes->causes[i], writes->time_ms);
}

void history_forget(struct history *history, int64_t before_ms)
{
    size_t gone = 0;
    while (gone < history->count && history->events[gone].arrived_ms < before_ms)
        past_release(&history->events[gone++]);
    history->count -= gone;
    if (gone && history->count)
        memmove(history->events, history->events + gone, history->count * sizeof *history->events);
}

int64_t history_oldest(const struct history *history)
{
    return history->count ? history->events[0].arrived_ms : 0;
}

static bool is_wanted(const struct event_query *query, const struct past_event *past,
                      const struct stored_event *event)
{
    if (event->duplicate ? !query->duplicates : !query->events) return false;
    if (past->arrived_ms < query->arrived_from) return false;
    struct bytes tenant = bytes_of(past->tenant, past->tenant_size);
    return query->tenant.size == 0 || bytes_equal(query->tenant, tenant);
}

void history_read(const struct history *history, const struct event_query *query,
                  store_event_fn *visit, void *context, uint64_t *next_out)
{
    *next_out = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct past_event *past = &history->events[i];
        if (past->sequence <= query->after || past->sequence > query->upto) continue;
        struct stored_event event = {0};
        struct reader reader = reader_of(buf_bytes(&past->bytes));
        stored_event_decode(&reader, &event);
        must(!reader.failed);
        if (!is_wanted(query, past, &event)) continue;
        event.sequence = past->sequence;
        event.arrived_ms = past->arrived_ms;
        event.tenant = bytes_of(past->tenant, past->tenant_size);
        if (visit(context, &event)) continue;
        *next_out = past->sequence;
        return;
    }
}
