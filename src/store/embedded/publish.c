/* publish.c -- the sync thread's side: durable, then visible, then answered.
 *
 * (1) Nothing is shown to readers before the journal has synced it.
 * (2) A failed append or sync fails everything submitted: staged values are dropped and numbers go
 *     back to the last durable ones, while no turn is under way.
 * (3) Where others must have a batch before it is shown (replicate.h), the thread waits for them.
 *     Whether it has failed to reach them is not whether it is durable: it stays, withheld. */
#include "store/embedded/internal.h"

#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"

#define SLOW_NS 100000000        /* a sync that takes so long is told in the log */
#define SLOW_PAUSE_NS 1000000000 /* at most so often */

static struct write_set *take_submitted(struct embedded *embedded)
{
    pthread_mutex_lock(&embedded->pipeline);
    struct write_set *list = embedded->submitted_first;
    embedded->submitted_first = embedded->submitted_last = NULL;
    pthread_mutex_unlock(&embedded->pipeline);
    return list;
}

/* When the parts of a sync were done, and what was done beside it when it began. */
struct sync_marks {
    int64_t began_ns;
    int64_t appended_ns;
    int64_t synced_ns;
    int64_t reached_ns; /* followers have it, where that is waited for */
    const char *beside;
};

static enum err make_durable(struct embedded *embedded, const struct write_set *list,
                             struct sync_marks *marks)
{
    bool any = false;
    for (const struct write_set *writes = list; writes; writes = writes->next) {
        if (writes->count == 0) continue;
        const struct journal_block block = embedded_block(writes, writes->stored);
        enum err e = journal_append(embedded->journal, &block);
        if (e != ERR_OK) return e;
        any = true;
    }
    marks->appended_ns = clock_mono_ns(embedded->config.clock);
    enum err e = any ? journal_sync(embedded->journal) : ERR_OK;
    marks->synced_ns = clock_mono_ns(embedded->config.clock);
    return e;
}

void embedded_bury(struct embedded *embedded, const uint64_t *series, size_t count)
{
    pthread_mutex_lock(&embedded->pipeline);
    while (embedded->dead_count + count > embedded->dead_capacity) {
        embedded->dead_capacity = embedded->dead_capacity ? embedded->dead_capacity * 2 : 16;
        embedded->dead =
            must_realloc(embedded->dead, embedded->dead_capacity * sizeof *embedded->dead);
    }
    if (count) memcpy(embedded->dead + embedded->dead_count, series, count * sizeof *series);
    embedded->dead_count += count;
    pthread_mutex_unlock(&embedded->pipeline);
}

/* Cells are shown before counters: a reader comes through the counter, so it never finds a new
 * series whose cells are not there yet. */
static void publish(struct embedded *embedded, struct write_set *writes)
{
    struct read_set *reads = writes->reads;
    const struct pending *pending = writes->stored;
    cells_publish(embedded->cells, reads->cells, reads->cells_count, writes->arena);
    crash_point("publish.between");
    counters_publish(embedded->counters, reads->counters, reads->counters_count, writes->arena);
    for (uint32_t i = 0; i < reads->tenants_count; i++)
        tenants_publish(embedded->tenants, &reads->tenants[i]);
    for (uint32_t i = 0; i < reads->objects_count; i++)
        objects_publish(embedded->objects, &reads->objects[i]);
    if (writes->dead_count) embedded_bury(embedded, writes->dead, writes->dead_count);
    if (writes->count == 0) return;
    must(writes->first_sequence == embedded->durable.last_sequence + 1);
    must(writes->next_series >= embedded->durable.next_series);
    struct store_position durable = {.last_sequence = writes->first_sequence + writes->count - 1,
                                     .next_series = writes->next_series,
                                     .time_ms = writes->time_ms,
                                     .hash = pending->hash};
    registry_publish(embedded->registry, durable.last_sequence);
    atomic_store(&embedded->sure_ms, writes->sure_ms);
    pthread_mutex_lock(&embedded->pipeline);
    embedded->durable = durable;
    pthread_mutex_unlock(&embedded->pipeline);
    atomic_store(&embedded->durable_sequence, durable.last_sequence);
}

void embedded_drop(struct embedded *embedded, struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->cells_count; i++)
        cells_drop(embedded->cells, &reads->cells[i]);
    for (uint32_t i = 0; i < reads->counters_count; i++)
        counters_drop(embedded->counters, &reads->counters[i]);
    for (uint32_t i = 0; i < reads->tenants_count; i++)
        tenants_drop(embedded->tenants, &reads->tenants[i]);
    for (uint32_t i = 0; i < reads->objects_count; i++)
        objects_drop(embedded->objects, &reads->objects[i]);
}

static uint32_t report(struct embedded *embedded, struct write_set *list, enum err e)
{
    uint32_t count = 0;
    for (struct write_set *writes = list, *next; writes; writes = next) {
        next = writes->next; /* the commit layer reuses `writes` from here on */
        struct pending *pending = writes->stored;
        pthread_mutex_lock(&embedded->pipeline);
        pending->next = embedded->free_pendings;
        embedded->free_pendings = pending;
        pthread_mutex_unlock(&embedded->pipeline);
        embedded->store.writer.durable(embedded->store.writer.durable_context, writes->batch, e);
        count++;
    }
    return count;
}

static void drop_list(struct embedded *embedded, const struct write_set *list)
{
    for (const struct write_set *writes = list; writes; writes = writes->next)
        embedded_drop(embedded, writes->reads);
}

/* With the turn held no batch is between load and submit, so every staged value belongs to a batch
 * in one of the two lists. */
static uint32_t fail(struct embedded *embedded, struct write_set *list)
{
    log_line(LOG_ERROR, "the journal could not be written; what was under way is unknown");
    atomic_fetch_add(&embedded->storage_errors, 1);
    pthread_mutex_lock(&embedded->turn);
    struct write_set *more = take_submitted(embedded);
    pthread_mutex_lock(&embedded->pipeline);
    embedded->down = true;
    embedded->store.writer.position = embedded->durable;
    pthread_mutex_unlock(&embedded->pipeline);
    drop_list(embedded, list);
    drop_list(embedded, more);
    registry_drop_staged(embedded->registry);
    must(embedded->durable.last_sequence == journal_durable_sequence(embedded->journal));
    embedded_check_turn(embedded);
    embedded_check_idle(embedded);
    /* The failure is told before the next turn, which must not go by what is now known to have
     * failed. */
    uint32_t count = report(embedded, list, ERR_STORAGE) + report(embedded, more, ERR_STORAGE);
    pthread_mutex_unlock(&embedded->turn);
    return count;
}

static void tell(struct embedded *embedded, const struct write_set *list)
{
    for (const struct write_set *writes = list; writes; writes = writes->next) {
        const struct pending *pending = writes->stored;
        const struct journal_block block = embedded_block(writes, pending);
        if (writes->count) embedded->told(embedded->told_context, &block, pending->hash);
    }
}

static uint32_t succeed(struct embedded *embedded, struct write_set *list)
{
    for (struct write_set *writes = list; writes; writes = writes->next) {
        pthread_rwlock_wrlock(&embedded->visible);
        atomic_fetch_add(&embedded->shown, 1);
        publish(embedded, writes);
        atomic_fetch_add(&embedded->shown, 1);
        pthread_rwlock_unlock(&embedded->visible);
    }
    return report(embedded, list, ERR_OK);
}

/* Cuts the list before the first batch that is not durable and returns the rest. Going on to a new
 * segment syncs the old one, so a failure may come after some of the batches were safe. */
static struct write_set *cut_at(struct write_set **list, uint64_t durable)
{
    while (*list && (*list)->first_sequence + (*list)->count <= durable + 1)
        list = &(*list)->next;
    struct write_set *rest = *list;
    *list = NULL;
    return rest;
}

/* The last block of the list; NULL: it has none. */
static const struct write_set *last_block(const struct write_set *list)
{
    const struct write_set *last = NULL;
    for (; list; list = list->next)
        if (list->count > 0) last = list;
    return last;
}

static bool is_reached(struct embedded *embedded, const struct write_set *list)
{
    const struct write_set *last = last_block(list);
    if (!embedded->reached || !last) return true;
    return embedded->reached(embedded->reached_context, last->first_sequence + last->count - 1,
                             true);
}

/* The blocks of `list` are in the journal and stay there; those of `lost`, and what was decided
 * meanwhile, are not. The writer stands behind the former, and goes on when they are shown. */
static uint32_t withhold(struct embedded *embedded, struct write_set *list, struct write_set *lost,
                         bool failed)
{
    log_line(LOG_ERROR, "too few followers have what was written last; writes wait for them");
    pthread_mutex_lock(&embedded->turn);
    struct write_set *more = take_submitted(embedded);
    const struct write_set *last = last_block(list);
    const struct pending *pending = last->stored;
    pthread_mutex_lock(&embedded->pipeline);
    embedded->withheld = true;
    embedded->down = failed;
    embedded->store.writer.position =
        (struct store_position){.last_sequence = last->first_sequence + last->count - 1,
                                .next_series = last->next_series,
                                .time_ms = last->time_ms,
                                .hash = pending->hash};
    pthread_mutex_unlock(&embedded->pipeline);
    drop_list(embedded, list);
    drop_list(embedded, lost);
    drop_list(embedded, more);
    registry_drop_staged(embedded->registry);
    embedded_check_turn(embedded);
    embedded_check_idle(embedded);
    uint32_t count = report(embedded, list, ERR_STORAGE) + report(embedded, lost, ERR_STORAGE) +
                     report(embedded, more, ERR_STORAGE);
    pthread_mutex_unlock(&embedded->turn);
    return count;
}

static uint64_t ms_between(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) / 1000000 : 0;
}

/* A commit that waited long says for which part, and what was done beside it: whether a stall is
 * the disk's or ours is to be seen from such lines. */
static void say_if_slow(struct embedded *embedded, const struct sync_marks *marks)
{
    int64_t now_ns = clock_mono_ns(embedded->config.clock);
    if (now_ns - marks->began_ns < SLOW_NS) return;
    if (embedded->slow_said_ns && now_ns - embedded->slow_said_ns < SLOW_PAUSE_NS) return;
    embedded->slow_said_ns = now_ns;
    const char *after = atomic_load_explicit(&embedded->beside, memory_order_relaxed);
    log_line(LOG_INFO, "a commit waited",
             LOG_KV("appendMs", ms_between(marks->began_ns, marks->appended_ns)),
             LOG_KV("syncMs", ms_between(marks->appended_ns, marks->synced_ns)),
             LOG_KV("followersMs", ms_between(marks->synced_ns, marks->reached_ns)),
             LOG_KV("showMs", ms_between(marks->reached_ns, now_ns)),
             LOG_KV("besideFirst", marks->beside), LOG_KV("besideLast", after));
}

uint32_t embedded_sync(struct writer *writer)
{
    struct embedded *embedded = embedded_of(writer->store);
    struct write_set *list = take_submitted(embedded);
    struct write_set *lost = NULL;
    if (!list) return 0;
    struct sync_marks marks = {
        .began_ns = clock_mono_ns(embedded->config.clock),
        .beside = atomic_load_explicit(&embedded->beside, memory_order_relaxed),
    };
    bool failed = make_durable(embedded, list, &marks) != ERR_OK;
    if (failed) lost = cut_at(&list, journal_durable_sequence(embedded->journal));
    if (embedded->told) tell(embedded, list);
    if (!is_reached(embedded, list)) return withhold(embedded, list, lost, failed);
    marks.reached_ns = clock_mono_ns(embedded->config.clock);
    uint32_t count = succeed(embedded, list);
    if (failed) return count + fail(embedded, lost);
    say_if_slow(embedded, &marks);
    return count;
}
