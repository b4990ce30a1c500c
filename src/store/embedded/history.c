/* history.c -- retained events: the archive for what is older, the journal for the rest.
 *
 * (1) `archived` is how far the journal was looked through for events: what it held up to there is
 *     in the archive, or was no event. Stretches without events make no file, so the archive itself
 *     may reach less far.
 * (2) The journal is let go of only up to `archived`, `applied` and what a snapshot has pinned, and
 *     not while a reader reads it.
 * (3) A reader sees every durable event once: it holds the journal, and takes from it only what
 *     comes after the `archived` it saw.
 * (4) History never runs ahead of the counters: the journal has a batch safe a little before
 *     readers are shown its values, and until then its events are not there either. */
#include "store/embedded/internal.h"

#include "base/crash.h"
#include "base/log.h"
#include "store/embedded/journal/block.h"

#ifdef TALLY_SMALL_WORLD
#define RUN_JOURNAL_BYTES (32u << 10) /* journal that makes a run worthwhile */
#define RUN_EVENT_BYTES (16u << 10)   /* events in one run */
#else
#define RUN_JOURNAL_BYTES (16u << 20)
#define RUN_EVENT_BYTES (32u << 20)
#endif
#define FIRST_RUN_MS (60 * 1000)               /* after the start */
#define RUN_LOOK_BYTES (8 * RUN_JOURNAL_BYTES) /* journal looked through in one step */

/* -- Reading ----------------------------------------------------------------------------------- */

struct tail {
    const struct event_query *query;
    store_event_fn *visit;
    void *context;
    uint64_t last; /* the last sequence that was dealt with */
    size_t looked; /* bytes */
    bool stopped;
};

static bool is_wanted(const struct event_query *query, const struct stored_event *event)
{
    if (event->sequence <= query->after || event->sequence > query->upto) return false;
    if (event->duplicate ? !query->duplicates : !query->events) return false;
    if (event->arrived_ms < query->arrived_from) return false;
    return query->tenant.size == 0 || bytes_equal(query->tenant, event->tenant);
}

static bool tail_event(void *context, const struct stored_event *event)
{
    struct tail *tail = context;
    if (!is_wanted(tail->query, event)) return true;
    tail->last = event->sequence;
    return tail->visit(tail->context, event);
}

/* ERR_BUSY ends the scan early: enough for one page. */
static enum err tail_block(void *context, const struct journal_block *block)
{
    struct tail *tail = context;
    if (block->first_sequence > tail->query->upto) return ERR_BUSY;
    bool stopped;
    enum err e = block_events(block, tail_event, tail, &stopped);
    if (e != ERR_OK) return e;
    tail->looked += block->body.size;
    tail->stopped = stopped;
    if (!stopped) tail->last = block->first_sequence + block->count - 1;
    if (!stopped && tail->looked >= tail->query->budget) tail->stopped = true;
    return tail->stopped ? ERR_BUSY : ERR_OK;
}

static enum err read_tail(struct embedded *embedded, const struct event_query *query,
                          uint64_t archived, store_event_fn *visit, void *context,
                          uint64_t *next_out)
{
    uint64_t after = query->after > archived ? query->after : archived;
    struct tail tail = {.query = query, .visit = visit, .context = context, .last = after};
    enum err e = journal_scan(embedded->journal, after + 1, tail_block, &tail);
    *next_out = tail.stopped ? tail.last : 0;
    return e == ERR_BUSY ? ERR_OK : e;
}

enum err embedded_events(struct view *view, const struct event_query *query, store_event_fn *visit,
                         void *context, uint64_t *next_out)
{
    struct embedded *embedded = embedded_of(view->store);
    struct event_query shown = *query;
    uint64_t durable = atomic_load(&embedded->durable_sequence);
    if (shown.upto > durable) shown.upto = durable;
    struct event_query old = shown;
    enum err e = ERR_OK;
    *next_out = 0;
    if (shown.after >= shown.upto) return ERR_OK;
    pthread_rwlock_rdlock(&embedded->retained);
    uint64_t archived = atomic_load(&embedded->archived);
    if (old.upto > archived)
        old.upto = archived; /* what is sealed meanwhile is read from the tail */
    if (shown.after < archive_last(embedded->archive) && shown.after < archived)
        e = archive_read(embedded->archive, &old, visit, context, next_out);
    if (e == ERR_OK && *next_out == 0 && shown.upto > archived)
        e = read_tail(embedded, &shown, archived, visit, context, next_out);
    pthread_rwlock_unlock(&embedded->retained);
    return embedded_read_ended(embedded, "the history of events", e);
}

enum err embedded_lookup(struct view *view, struct fingerprint print, struct key_record *record_out)
{
    struct embedded *embedded = embedded_of(view->store);
    struct arena arena;
    arena_init(&arena, 1024);
    enum err e = registry_find(embedded->registry, print, &arena, record_out);
    record_out->outcome = BYTES_NONE;
    arena_release(&arena);
    if (e != ERR_OK) return embedded_read_ended(embedded, "what an id led to", e);
    bool durable = record_out->sequence <= atomic_load(&embedded->durable_sequence);
    return durable ? ERR_OK : ERR_NOT_FOUND;
}

/* What is still in memory is written back first, so that one look at the files sees every id; the
 * lock keeps the thread that tends from moving ids meanwhile. */
enum err embedded_ids(struct view *view, store_id_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(view->store);
    bool more;
    pthread_mutex_lock(&embedded->tending);
    enum err e = embedded->state_failed || !checkpoint_has_room(embedded)
                     ? ERR_STORAGE
                     : registry_write_back(embedded->registry, true, &more);
    if (e == ERR_OK) e = registry_walk(embedded->registry, visit, context);
    pthread_mutex_unlock(&embedded->tending);
    return embedded_read_ended(embedded, "the ids", e);
}

/* -- Archiving --------------------------------------------------------------------------------- */

struct run {
    struct embedded *embedded;
    uint64_t shown; /* what comes after is not the readers' yet (law 4), nor a snapshot's */
    uint64_t last;
    size_t events_bytes;
    size_t looked;
    bool any;
    bool full;
};

static bool run_event(void *context, const struct stored_event *event)
{
    struct run *run = context;
    run->events_bytes = archive_add(run->embedded->archive, event);
    run->any = true;
    return true;
}

static enum err run_block(void *context, const struct journal_block *block)
{
    struct run *run = context;
    bool stopped;
    if (block->first_sequence > run->shown) return ERR_BUSY;
    enum err e = block_events(block, run_event, run, &stopped);
    if (e != ERR_OK) return e;
    run->last = block->first_sequence + block->count - 1;
    run->looked += block->body.size;
    run->full = run->events_bytes >= RUN_EVENT_BYTES || run->looked >= RUN_LOOK_BYTES;
    return run->full ? ERR_BUSY : ERR_OK;
}

/* The journal of a store with small segments is meant to stay small. */
static uint64_t run_journal_bytes(const struct embedded *embedded)
{
    uint64_t segment = embedded->config.segment_bytes;
    return segment < RUN_JOURNAL_BYTES ? segment : RUN_JOURNAL_BYTES;
}

static bool run_is_due(struct embedded *embedded)
{
    struct journal_stats journal;
    if (atomic_load(&embedded->durable_sequence) == atomic_load(&embedded->archived)) return false;
    journal_stats(embedded->journal, &journal);
    if (journal.appended_bytes - embedded->archived_bytes >= run_journal_bytes(embedded))
        return true;
    int64_t age_ns = clock_mono_ns(embedded->config.clock) - embedded->archived_ns;
    return age_ns >= embedded->config.archive_ms * 1000000;
}

static void run_failed(struct embedded *embedded)
{
    archive_abandon(embedded->archive);
    atomic_fetch_add(&embedded->storage_errors, 1);
    embedded->archived_ns = clock_mono_ns(embedded->config.clock);
    log_line(LOG_ERROR, "events could not be archived; they stay in the journal");
}

bool history_archive(struct embedded *embedded)
{
    if (!run_is_due(embedded)) return false;
    struct journal_stats journal;
    journal_stats(embedded->journal, &journal);
    struct run run = {.embedded = embedded,
                      .shown = atomic_load(&embedded->durable_sequence),
                      .last = atomic_load(&embedded->archived)};
    enum err e = journal_scan(embedded->journal, run.last + 1, run_block, &run);
    crash_point("archive.before_seal");
    if ((e == ERR_OK || e == ERR_BUSY) && run.any) e = archive_seal(embedded->archive, run.last);
    if (e != ERR_OK && e != ERR_BUSY) {
        run_failed(embedded);
        return false;
    }
    crash_point("archive.after_seal");
    atomic_store(&embedded->archived, run.last);
    if (!run.full) {
        embedded->archived_bytes = journal.appended_bytes;
        embedded->archived_ns = clock_mono_ns(embedded->config.clock);
    }
    history_trim(embedded);
    return run.full;
}

/* What followers still need; as much as there may be of it. */
static uint64_t followed(struct embedded *embedded)
{
    struct journal_stats journal;
    journal_stats(embedded->journal, &journal);
    return journal.bytes <= atomic_load(&embedded->followed_bytes)
               ? atomic_load(&embedded->followed)
               : UINT64_MAX;
}

void history_trim(struct embedded *embedded)
{
    uint64_t needed = followed(embedded);
    uint64_t archived = atomic_load(&embedded->archived);
    uint64_t applied = embedded->applied.last_sequence;
    uint64_t pinned = atomic_load(&embedded->pinned);
    uint64_t upto = applied < archived ? applied : archived;
    if (needed < upto) upto = needed;
    embedded_beside(embedded, "trim");
    pthread_rwlock_wrlock(&embedded->retained);
    journal_trim(embedded->journal, pinned < upto ? pinned : upto);
    pthread_rwlock_unlock(&embedded->retained);
}

/* The archive goes on behind what the journal no longer has: that was looked through before it
 * went. */
void history_open(struct embedded *embedded)
{
    uint64_t archived = archive_last(embedded->archive);
    uint64_t first = journal_first_sequence(embedded->journal);
    if (first > archived + 1) archived = first - 1;
    atomic_store(&embedded->archived, archived);
    /* The first run is due soon, or a server that is restarted often would never come to it. */
    int64_t wait_ms =
        embedded->config.archive_ms < FIRST_RUN_MS ? embedded->config.archive_ms : FIRST_RUN_MS;
    embedded->archived_ns =
        clock_mono_ns(embedded->config.clock) - (embedded->config.archive_ms - wait_ms) * 1000000;
}

void embedded_forget(struct store *store, int64_t before_ms)
{
    struct embedded *embedded = embedded_of(store);
    pthread_mutex_lock(&embedded->tending);
    archive_drop(embedded->archive, before_ms);
    pthread_mutex_unlock(&embedded->tending);
}
