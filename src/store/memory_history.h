/* memory_history.h -- events and dropped duplicates of the memory store, in order of arrival. */
#ifndef TALLY_STORE_MEMORY_HISTORY_H
#define TALLY_STORE_MEMORY_HISTORY_H

#include "store/store.h"

/* All zero is an empty one. */
struct history {
    struct past_event *events;
    size_t count;
    size_t capacity;
};

void history_release(struct history *history);

/* Adds the events among a batch's causes. */
void history_take(struct history *history, const struct write_set *writes);
void history_forget(struct history *history, int64_t before_ms);

/* When the oldest one arrived; 0: there is none. */
int64_t history_oldest(const struct history *history);

/* What view.h says of `view_events`. */
void history_read(const struct history *history, const struct event_query *query,
                  store_event_fn *visit, void *context, uint64_t *next_out);

#endif
