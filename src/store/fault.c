/* fault.c -- counts calls down and fails the one that reaches zero. */
#include "store/fault.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/table.h"

struct fault {
    struct store store;
    struct store *inner;
    fault_break_fn *break_sync;
    void *context;
    pthread_mutex_t lock; /* for everything below */
    unsigned calls;       /* the kinds that count */
    uint64_t left;        /* calls until the one that fails; 0: none does */
    bool submitted;       /* since the last sync */
};

#define FAULT_OF(pointer) CONTAINER_OF(pointer, struct fault, store)

static bool fails_locked(struct fault *fault, enum fault_call call)
{
    return fault->left > 0 && (fault->calls & call) && --fault->left == 0;
}

static bool fails(struct fault *fault, enum fault_call call)
{
    pthread_mutex_lock(&fault->lock);
    bool now = fails_locked(fault, call);
    pthread_mutex_unlock(&fault->lock);
    return now;
}

/* The commit layer looks at `position` between begin and submit: the turn is its lock, and a failed
 * sync, which winds it back, takes the turn as well. So this is the place to copy it. */
static enum err fault_begin(struct writer *writer)
{
    struct fault *fault = FAULT_OF(writer->store);
    if (fails(fault, FAULT_BEGIN)) return ERR_STORAGE;
    enum err e = writer_begin(&fault->inner->writer);
    if (e == ERR_OK) writer->position = fault->inner->writer.position;
    return e;
}

static enum err fault_load(struct writer *writer, struct read_set *reads, struct arena *arena)
{
    struct fault *fault = FAULT_OF(writer->store);
    if (fails(fault, FAULT_LOAD)) return ERR_STORAGE;
    return writer_load(&fault->inner->writer, reads, arena);
}

static void fault_submit(struct writer *writer, struct write_set *writes)
{
    struct fault *fault = FAULT_OF(writer->store);
    writer_submit(&fault->inner->writer, writes);
    pthread_mutex_lock(&fault->lock);
    fault->submitted = true;
    pthread_mutex_unlock(&fault->lock);
}

static void fault_abandon(struct writer *writer, struct read_set *reads)
{
    struct fault *fault = FAULT_OF(writer->store);
    writer_abandon(&fault->inner->writer, reads);
}

static uint32_t fault_sync(struct writer *writer)
{
    struct fault *fault = FAULT_OF(writer->store);
    pthread_mutex_lock(&fault->lock);
    bool now = fault->submitted && fails_locked(fault, FAULT_SYNC);
    fault->submitted = false;
    pthread_mutex_unlock(&fault->lock);
    if (now) fault->break_sync(fault->context, fault->inner);
    return writer_sync(&fault->inner->writer);
}

static void fault_durable(void *context, void *batch, enum err e)
{
    struct fault *fault = context;
    fault->store.writer.durable(fault->store.writer.durable_context, batch, e);
}

static enum err fault_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                          enum read_how how, struct cell *cell_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_GET)) return ERR_STORAGE;
    return view_get(&fault->inner->view, ref, bucket, how, cell_out);
}

static enum err fault_range(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                            struct range_newer *newer, store_cell_fn *visit, void *context)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_RANGE)) return ERR_STORAGE;
    return view_range(&fault->inner->view, ref, from, to, newer, visit, context);
}

static enum err fault_series(struct view *view, const struct cell_ref *ref, uint64_t *series_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_RANGE)) return ERR_STORAGE;
    return view_series(&fault->inner->view, ref, series_out);
}

static enum err fault_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                          uint32_t cells_max, struct range_sum *sum_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_RANGE)) return ERR_STORAGE;
    return view_sum(&fault->inner->view, ref, from, to, cells_max, sum_out);
}

static enum err fault_list(struct view *view, struct bytes prefix, struct bytes after,
                           store_counter_fn *visit, void *context)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_LIST)) return ERR_STORAGE;
    return view_list(&fault->inner->view, prefix, after, visit, context);
}

static enum err fault_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                              const struct counter **counter_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_GET)) return ERR_STORAGE;
    return view_counter(&fault->inner->view, ref, arena, counter_out);
}

static enum err fault_object(struct view *view, struct bytes key, struct buf *value_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_OBJECT)) return ERR_STORAGE;
    return view_object(&fault->inner->view, key, value_out);
}

static enum err fault_objects(struct view *view, struct bytes prefix, struct bytes after,
                              store_object_fn *visit, void *context)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_OBJECT)) return ERR_STORAGE;
    return view_objects(&fault->inner->view, prefix, after, visit, context);
}

struct outer_read {
    struct view *outer;
    view_read_fn *read;
    void *context;
};

static void read_outer(void *context, struct view *moment)
{
    (void)moment;
    const struct outer_read *reading = context;
    reading->read(reading->context, reading->outer);
}

/* The reads inside go through the fault store again: they are to fail, too. */
static void fault_instant(struct view *view, view_read_fn *read, void *context)
{
    struct fault *fault = FAULT_OF(view->store);
    struct outer_read reading = {.outer = view, .read = read, .context = context};
    view_instant(&fault->inner->view, read_outer, &reading);
}

static enum err fault_events(struct view *view, const struct event_query *query,
                             store_event_fn *visit, void *context, uint64_t *next_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_EVENTS)) return ERR_STORAGE;
    return view_events(&fault->inner->view, query, visit, context, next_out);
}

static uint64_t fault_sequence(struct view *view)
{
    return view_sequence(&FAULT_OF(view->store)->inner->view);
}

static enum err fault_newest(struct view *view, uint64_t *sequence_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_EVENTS)) return ERR_STORAGE;
    return view_newest(&fault->inner->view, sequence_out);
}

static enum err fault_lookup(struct view *view, struct fingerprint print,
                             struct key_record *record_out)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_EVENTS)) return ERR_STORAGE;
    return view_lookup(&fault->inner->view, print, record_out);
}

static enum err fault_ids(struct view *view, store_id_fn *visit, void *context)
{
    struct fault *fault = FAULT_OF(view->store);
    if (fails(fault, FAULT_EVENTS)) return ERR_STORAGE;
    return view_ids(&fault->inner->view, visit, context);
}

static void fault_forget(struct store *store, int64_t before_ms)
{
    struct fault *fault = FAULT_OF(store);
    store_forget(fault->inner, before_ms);
}

static enum err fault_snapshot(struct store *store, const char *dir,
                               struct store_position *position_out, struct reason *why_out)
{
    struct fault *fault = FAULT_OF(store);
    return store_snapshot(fault->inner, dir, position_out, why_out);
}

static enum err fault_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context)
{
    struct fault *fault = FAULT_OF(store);
    if (fails(fault, FAULT_DUE)) return ERR_STORAGE;
    return store_due(fault->inner, now_ms, visit, context);
}

static bool fault_tend(struct store *store)
{
    struct fault *fault = FAULT_OF(store);
    return store_tend(fault->inner);
}

static bool fault_leads(struct store *store)
{
    struct fault *fault = FAULT_OF(store);
    return store_leads(fault->inner);
}

static void fault_stats(struct store *store, struct store_stats *stats_out)
{
    struct fault *fault = FAULT_OF(store);
    store_stats(fault->inner, stats_out);
}

static void fault_close(struct store *store)
{
    struct fault *fault = FAULT_OF(store);
    store_close(fault->inner);
    pthread_mutex_destroy(&fault->lock);
    free(fault);
}

static const struct writer_ops fault_writer_ops = {
    .begin = fault_begin,
    .load = fault_load,
    .submit = fault_submit,
    .abandon = fault_abandon,
    .sync = fault_sync,
};

static const struct view_ops fault_view_ops = {
    .get = fault_get,
    .range = fault_range,
    .sum = fault_sum,
    .counter = fault_counter,
    .series = fault_series,
    .list = fault_list,
    .object = fault_object,
    .objects = fault_objects,
    .instant = fault_instant,
    .events = fault_events,
    .lookup = fault_lookup,
    .ids = fault_ids,
    .sequence = fault_sequence,
    .newest = fault_newest,
};

static const struct store_ops fault_ops = {
    .name = "fault",
    .forget = fault_forget,
    .snapshot = fault_snapshot,
    .due = fault_due,
    .tend = fault_tend,
    .leads = fault_leads,
    .stats = fault_stats,
    .close = fault_close,
};

struct store *fault_new(struct store *inner, fault_break_fn *break_sync, void *context)
{
    struct fault *fault = must_calloc(1, sizeof *fault);
    store_init(&fault->store, &fault_ops, &fault_writer_ops, &fault_view_ops);
    fault->store.writer.position = inner->writer.position;
    fault->store.secret = inner->secret;
    fault->store.installation = inner->installation;
    fault->store.remote = inner->remote;
    fault->inner = inner;
    fault->break_sync = break_sync;
    fault->context = context;
    pthread_mutex_init(&fault->lock, NULL);
    inner->writer.durable = fault_durable;
    inner->writer.durable_context = fault;
    return &fault->store;
}

void fault_fail(struct store *store, unsigned calls, uint64_t nth)
{
    struct fault *fault = FAULT_OF(store);
    must(store->ops == &fault_ops);
    must(fault->break_sync || !(calls & FAULT_SYNC));
    pthread_mutex_lock(&fault->lock);
    fault->calls = calls;
    fault->left = nth;
    pthread_mutex_unlock(&fault->lock);
}

bool fault_heal(struct store *store)
{
    struct fault *fault = FAULT_OF(store);
    must(store->ops == &fault_ops);
    pthread_mutex_lock(&fault->lock);
    bool waiting = fault->left > 0;
    fault->left = 0;
    pthread_mutex_unlock(&fault->lock);
    return waiting;
}
