/* check.c -- the laws that the embedded store's parts keep together (internal.h), executed. */
#include "store/embedded/internal.h"

/* Batches behind each other, without a gap, up to where the writer stands. */
static void check_submitted(const struct embedded *embedded, const struct store_position *position)
{
    uint64_t next = 0;
    for (const struct write_set *writes = embedded->submitted_first; writes;
         writes = writes->next) {
        must(writes->stored != NULL);
        must(next == 0 || writes->first_sequence == next);
        must(writes->next || writes == embedded->submitted_last);
        next = writes->first_sequence + writes->count;
    }
    must(next == 0 || next == position->last_sequence + 1);
}

void embedded_check_turn(const struct embedded *embedded)
{
    const struct store_position *position = &embedded->store.writer.position;
    const struct store_position *durable = &embedded->durable;
    must(durable->last_sequence <= position->last_sequence);
    must(durable->next_series <= position->next_series);
    must((embedded->submitted_first == NULL) == (embedded->submitted_last == NULL));
    must(embedded->dead_count <= embedded->dead_capacity);
    if (embedded->withheld) must(!embedded->submitted_first);
    if (embedded->down) must(!embedded->submitted_first);
    if (embedded->down && !embedded->withheld) {
        must(durable->last_sequence == position->last_sequence);
        must(durable->next_series == position->next_series);
    }
    if (SLOW_CHECKS) check_submitted(embedded, position);
}

void embedded_check_tend(struct embedded *embedded)
{
    uint64_t applied = embedded->applied.last_sequence;
    uint64_t archived = atomic_load(&embedded->archived);
    uint64_t pinned = atomic_load(&embedded->pinned);
    uint64_t kept_from = journal_first_sequence(embedded->journal);
    uint64_t durable = atomic_load(&embedded->durable_sequence);
    must(applied == atomic_load(&embedded->applied_sequence));
    must(applied <= durable);
    must(archived <= durable);
    must(durable <= journal_durable_sequence(embedded->journal));
    must(kept_from <= applied + 1);
    must(kept_from <= archived + 1);
    must(pinned == UINT64_MAX || kept_from <= pinned + 1);
}

void embedded_check_idle(struct embedded *embedded)
{
    if (!SLOW_CHECKS) return;
    must(cache_pinned(cells_cache(embedded->cells)) == 0);
    must(cache_pinned(counters_cache(embedded->counters)) == 0);
    must(cache_pinned(tenants_cache(embedded->tenants)) == 0);
    must(cache_pinned(objects_cache(embedded->objects)) == 0);
}
