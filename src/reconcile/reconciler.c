/* reconciler.c -- scans, and the work they give.
 *
 * Three limits, each on its own (A-16b): an entry is scanned every `scanEvery`, an entity is
 * counted no sooner than `minInterval` after the last time (scan.c, from the row), and not taken up
 * within its single-flight time or while its pass lasts (flights.c). */
#include "reconcile/reconciler.h"

#include <stdlib.h>
#include <time.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "core/event.h"
#include "reconcile/pass.h"
#include "reconcile/reconciler_internal.h"
#include "reconcile/scan.h"

#define SCAN_CHUNK (64u << 10)
#define MS INT64_C(1000000) /* in ns */
#define SECOND (1000 * MS)
#define SCAN_SHARE 10 /* a scan is followed by a rest of so many times its length */
#define LOG_LIST_MAX (64u << 10)
#define USELESS_NS (60 * SECOND) /* between two looks for rows that are of no more use */
#define USELESS_OPS 256u
#define RETRY_DOUBLINGS_MAX 8 /* doublings of a second: up to four minutes */
#define PAUSE_MS_MAX 1000

static int64_t now_ns(const struct reconciler *reconciler)
{
    return clock_mono_ns(reconciler->clock);
}

struct reconciler *reconciler_new(const struct reconciler_config *config)
{
    struct reconciler *reconciler = must_calloc(1, sizeof *reconciler);
    reconciler->config = *config;
    reconciler->clock = config->lanes->items[0].clock;
    reconciler->parser = json_parser_new(EVENT_SIZE_MAX);
    reconciler->last = &reconciler->first;
    reconciler->useless_at_ns = now_ns(reconciler) + USELESS_NS;
    flights_init(&reconciler->flights);
    pthread_mutex_init(&reconciler->lock, NULL);
    pthread_cond_init(&reconciler->changed, NULL);
    return reconciler;
}

static bool holds(const struct reconciler *reconciler, const struct entry *wanted)
{
    const struct entry *entry = reconciler->entries;
    while (entry && entry != wanted)
        entry = entry->next;
    return entry != NULL;
}

static void check_work(const struct reconciler *reconciler)
{
    struct pass_work *const *last = &reconciler->first;
    for (const struct pass_work *work = reconciler->first; work; work = work->next) {
        must(holds(reconciler, work->entry));
        must(work->entry->users > work->entry->running);
        must(flights_is_up(&reconciler->flights, work->entity.change.place.key));
        last = &work->next;
    }
    must(reconciler->last == last);
}

void reconciler_check(const struct reconciler *reconciler)
{
    for (const struct entry *entry = reconciler->entries; entry; entry = entry->next) {
        must(entry->running <= ENTRY_RUNNING);
        must(entry->running <= entry->users);
        must((entry->down_until_ns == 0) == (entry->downs == 0));
        must(entry->tenant_size <= sizeof entry->tenant);
    }
    if (SLOW_CHECKS) check_work(reconciler);
}

static void work_free(struct pass_work *work)
{
    entity_release(&work->entity);
    free(work);
}

void reconciler_free(struct reconciler *reconciler)
{
    while (reconciler->first) {
        struct pass_work *work = reconciler->first;
        reconciler->first = work->next;
        entry_give(work->entry);
        work_free(work);
    }
    entries_trim(reconciler, NULL);
    must(!reconciler->entries);
    flights_release(&reconciler->flights);
    json_parser_free(reconciler->parser);
    pthread_cond_destroy(&reconciler->changed);
    pthread_mutex_destroy(&reconciler->lock);
    free(reconciler);
}

/* -- What a scan found ------------------------------------------------------------------------- */

/* "[a, b]" in the form of S2-36; where there are several tenants, with theirs. */
struct name_list {
    struct buf text;
    unsigned count;
};

static void list_init(struct name_list *list)
{
    *list = (struct name_list){0};
    buf_init(&list->text, LOG_LIST_MAX);
}

static void list_add(struct name_list *list, const struct entity *entity)
{
    const struct reconcile *reconcile = entity->reconcile;
    if (list->count++) buf_add(&list->text, BYTES(", "));
    if (reconcile->all_tenants || reconcile->tenants_count > 1) {
        buf_add(&list->text, entity->query.tenant);
        buf_add_char(&list->text, ':');
    }
    entity_show(&list->text, entity);
}

/* A list that does not fit a line is left out; the number of its entities is not. */
static void list_log(struct name_list *list, const char *verb, struct bytes name, const char *what)
{
    struct buf msg;
    if (list->count > 0) {
        buf_init(&msg, 2 * LOG_LIST_MAX);
        struct bytes text = list->text.failed ? BYTES("...") : buf_bytes(&list->text);
        buf_addf(&msg, "[Scan] %s %u %.*s(s)%s: [", verb, list->count, (int)name.size, name.data,
                 what);
        buf_add(&msg, text);
        buf_add(&msg, BYTES("]"));
        buf_add_char(&msg, '\0');
        log_line(LOG_INFO, msg.data);
        buf_release(&msg);
    }
    buf_release(&list->text);
}

/* -- Taking up --------------------------------------------------------------------------------- */

static void work_push(struct reconciler *reconciler, struct pass_work *work)
{
    *reconciler->last = work;
    reconciler->last = &work->next;
    pthread_cond_broadcast(&reconciler->changed); /* the ones that wait are not all workers */
}

static bool take_up(struct reconciler *reconciler, struct entry *entry, struct pass_work *work)
{
    int64_t flight_ns =
        reconcile_flight_ms(work->entity.reconcile, entity_size(&work->entity)) * MS;
    pthread_mutex_lock(&reconciler->lock);
    bool taken = flights_take(&reconciler->flights, work->entity.change.place.key,
                              now_ns(reconciler), flight_ns);
    if (taken) {
        work->entry = entry;
        entry->users++;
        work_push(reconciler, work);
    }
    reconciler_check(reconciler);
    pthread_mutex_unlock(&reconciler->lock);
    return taken;
}

static enum err propose_marks(const struct caretaker *with, struct mark_change *changes,
                              const struct bytes *tenants, unsigned count)
{
    struct op *ops = must_calloc(count, sizeof *ops);
    for (unsigned i = 0; i < count; i++)
        ops[i] = propose_mark(tenants[i], &changes[i]);
    struct bundle bundle = {.ops = ops, .count = count, .urgency = URGENCY_URGENT, .weighty = true};
    enum err e = with->propose(with->context, &bundle);
    free(ops);
    return e;
}

/* Proposes that a row from before a reload go, which is not about an entity as the entry has it
 * now. */
static void forget_row(const struct scan_row *row, struct entity *entity)
{
    entity->change.version = row->mark.version;
    entity->change.step = MARK_FORGET;
    entity->change.adjustments_count = 0;
    if (propose_marks(entity->with, &entity->change, &entity->query.tenant, 1) == ERR_OK)
        log_line(LOG_WARN, "reconcile: forgot a mark that is not about an entity",
                 LOG_KV("reconcile", entity->reconcile->name), LOG_KV("mark", row->entity_json));
}

/* The entry as the rules of the row's lane have it, for each lane takes rules over by itself. NULL:
 * that lane has another entry just now. */
static const struct reconcile *entry_in(const struct rules *rules, const struct entry *entry)
{
    const struct reconcile *reconcile = reconcile_find(rules, entry->name);
    return reconcile && reconcile_digest(reconcile) == entry->digest ? reconcile : NULL;
}

/* Makes work of the row's entity; NULL: the entity is left for now, or for good. */
static struct pass_work *work_make(struct reconciler *reconciler, const struct entry *entry,
                                   const struct scan_row *row)
{
    struct rules *rules = rulebook_hold(row->lane->rulebook);
    const struct reconcile *reconcile = entry_in(rules, entry);
    if (!reconcile) {
        rules_release(rules);
        return NULL;
    }
    struct pass_work *work = must_calloc(1, sizeof *work);
    struct entity *entity = &work->entity;
    if (entity_init(entity, &row->lane->caretaker, rules, reconcile, row->tenant, row->entity_json,
                    reconciler->parser))
        return work;
    forget_row(row, entity);
    work_free(work);
    return NULL;
}

static void take_up_all(struct reconciler *reconciler, struct entry *entry, const struct scan *scan)
{
    struct name_list found, enqueued, skipped;
    list_init(&found);
    list_init(&enqueued);
    list_init(&skipped);
    for (unsigned i = 0; i < scan->count; i++) {
        struct pass_work *work = work_make(reconciler, entry, &scan->rows[i]);
        if (!work) continue;
        const struct entity *entity = &work->entity;
        list_add(&found, entity);
        /* The entity is listed first: once it is taken up, it is a worker's. */
        struct name_list *list = &enqueued;
        size_t size = list->text.size;
        list_add(list, entity);
        if (take_up(reconciler, entry, work)) continue;
        list->text.size = size;
        list->count--;
        list_add(&skipped, entity);
        work_free(work);
    }
    struct bytes name = scan->reconcile->name;
    list_log(&found, "Found", name, " needing math updates");
    list_log(&enqueued, "Successfully enqueued", name, "");
    list_log(&skipped, "Skipped", name, " due to existing singleton jobs");
}

/* -- Scanning ---------------------------------------------------------------------------------- */

/* Logs them once, not with every scan, until there are more of them or fewer. */
static void log_unreadable(const struct entry *entry, const struct scan *scan)
{
    if (scan->unreadable == 0 || scan->unreadable == entry->unreadable) return;
    log_line(LOG_ERROR, "reconcile: marks that cannot be read are passed over",
             LOG_KV("reconcile", scan->reconcile->name), LOG_KV("marks", scan->unreadable),
             LOG_KV("first", scan->unreadable_key));
}

/* Remembers which tenant had the last turn, and what the metrics show. */
static void remember_scan(struct reconciler *reconciler, struct entry *entry,
                          const struct scan *scan, int64_t began_ns)
{
    int64_t ended_ns = now_ns(reconciler);
    int64_t pause_ns = scan->reconcile->scan_every_ms * MS;
    int64_t share_ns = (ended_ns - began_ns) * SCAN_SHARE;
    pthread_mutex_lock(&reconciler->lock);
    log_unreadable(entry, scan);
    entry->unreadable = scan->unreadable;
    entry->scan_at_ns = began_ns + (pause_ns > share_ns ? pause_ns : share_ns);
    entry->pending = scan->pending;
    entry->oldest_ms = scan->oldest_ms;
    if (scan->count) {
        struct bytes tenant = scan->rows[scan->count - 1].tenant;
        memcpy(entry->tenant, tenant.data, tenant.size);
        entry->tenant_size = tenant.size;
    }
    pthread_mutex_unlock(&reconciler->lock);
}

/* A lane that cannot be read does not hold up the others. */
static void scan_lanes(const struct lanes *lanes, struct scan *scan)
{
    scan_begin(scan);
    for (unsigned i = 0; i < lanes->count; i++) {
        if (!store_leads(lanes->items[i].store)) continue;
        enum err e = scan_lane(scan, &lanes->items[i]);
        if (e != ERR_OK)
            log_line(LOG_ERROR, "reconcile: the marks could not be read",
                     LOG_KV("reconcile", scan->reconcile->name), LOG_KV("lane", i),
                     LOG_KV("code", err_code(e)));
    }
    scan_choose(scan);
}

static void scan_entry(struct reconciler *reconciler, struct entry *entry,
                       const struct reconcile *reconcile, bool ready)
{
    struct arena arena;
    int64_t began_ns = now_ns(reconciler);
    arena_init(&arena, SCAN_CHUNK);
    struct scan scan = {.arena = &arena,
                        .reconcile = reconcile,
                        .after_tenant = bytes_of(entry->tenant, entry->tenant_size)};
    scan_lanes(reconciler->config.lanes, &scan);
    crash_point("reconcile.scanned");
    if (!ready) scan.count = 0; /* the source is down: the scan only looked, for the metrics */
    remember_scan(reconciler, entry, &scan, began_ns);
    if (ready) take_up_all(reconciler, entry, &scan);
    arena_release(&arena);
}

static void scan_if_due(struct reconciler *reconciler, const struct reconcile *reconcile)
{
    int64_t now = now_ns(reconciler);
    pthread_mutex_lock(&reconciler->lock);
    struct entry *entry = entry_hold(reconciler, reconcile);
    bool due = now >= entry->scan_at_ns;
    bool ready = now >= entry->down_until_ns;
    pthread_mutex_unlock(&reconciler->lock);
    if (due) scan_entry(reconciler, entry, reconcile, ready);
    pthread_mutex_lock(&reconciler->lock);
    entry_give(entry);
    pthread_mutex_unlock(&reconciler->lock);
}

/* Only proposes: the commit thread looks at each row's version again. True: there may be more. */
static bool drop_useless_of(const struct lane *lane)
{
    struct arena arena;
    unsigned count;
    const struct caretaker *with = &lane->caretaker;
    uint32_t most = with->batch_ops < USELESS_OPS ? with->batch_ops : USELESS_OPS;
    arena_init(&arena, SCAN_CHUNK);
    struct mark_change *changes = arena_alloc(&arena, most * sizeof *changes);
    struct bytes *tenants = arena_alloc(&arena, most * sizeof *tenants);
    struct rules *rules = rulebook_hold(lane->rulebook);
    enum err e = scan_useless(lane, rules, &arena, changes, tenants, most, &count);
    if (e == ERR_OK && count) e = propose_marks(with, changes, tenants, count);
    rules_release(rules);
    arena_release(&arena);
    return e == ERR_OK && count == most;
}

static void drop_useless(struct reconciler *reconciler)
{
    const struct lanes *lanes = reconciler->config.lanes;
    int64_t now = now_ns(reconciler);
    bool more = false;
    if (now < reconciler->useless_at_ns) return;
    for (unsigned i = 0; i < lanes->count; i++)
        if (store_leads(lanes->items[i].store)) more |= drop_useless_of(&lanes->items[i]);
    reconciler->useless_at_ns = now + (more ? 0 : USELESS_NS);
}

void reconciler_scan(struct reconciler *reconciler)
{
    struct rules *rules = rulebook_hold(reconciler->config.lanes->items[0].rulebook);
    for (unsigned i = 0; i < rules->reconciles_count; i++)
        scan_if_due(reconciler, &rules->reconciles[i]);
    drop_useless(reconciler);
    pthread_mutex_lock(&reconciler->lock);
    entries_trim(reconciler, rules);
    flights_trim(&reconciler->flights, now_ns(reconciler));
    pthread_mutex_unlock(&reconciler->lock);
    rules_release(rules);
}

/* -- Working ----------------------------------------------------------------------------------- */

/* The oldest work whose entry has room for another pass. The lock is held. */
static struct pass_work *work_take(struct reconciler *reconciler)
{
    reconciler_check(reconciler);
    for (struct pass_work **at = &reconciler->first; *at; at = &(*at)->next) {
        struct pass_work *work = *at;
        if (work->entry->running == ENTRY_RUNNING) continue;
        *at = work->next;
        if (reconciler->last == &work->next) reconciler->last = at;
        work->entry->running++;
        return work;
    }
    return NULL;
}

/* Holds one entity back, because what the source said about it concerns no other. */
static void hold_back(struct pass_work *work)
{
    uint32_t failures = work->entity.mark.failures;
    unsigned doublings = failures < RETRY_DOUBLINGS_MAX ? failures : RETRY_DOUBLINGS_MAX;
    enum err e = entity_fail(&work->entity, INT64_C(1000) << doublings);
    if (e != ERR_OK && e != ERR_NOT_FOUND && e != ERR_STORAGE)
        log_line(LOG_ERROR, "reconcile: a failure could not be noted", LOG_KV("code", err_code(e)));
}

/* True for trouble that is not the entity's: it is tried again with the next scan. */
static bool is_passing(enum err e)
{
    return e == ERR_OK || e == ERR_STORAGE || e == ERR_CONFLICT || e == ERR_BUSY ||
           e == ERR_SOURCE_DOWN;
}

/* The entity rests from when the pass began, which is before the time in its row: so the row alone
 * says when it is due, as long as the wall clock goes on like the monotonic one. */
static void work_end(struct reconciler *reconciler, struct pass_work *work, int64_t began_ns,
                     enum err e)
{
    int64_t now = now_ns(reconciler);
    int64_t rest_ns = e == ERR_OK ? work->entity.reconcile->min_interval_ms * MS : 0;
    pthread_mutex_lock(&reconciler->lock);
    if (e == ERR_SOURCE_DOWN) entry_down(work->entry, now);
    if (e == ERR_OK) entry_up(work->entry);
    flights_land(&reconciler->flights, work->entity.change.place.key, began_ns, rest_ns);
    work->entry->running--;
    entry_give(work->entry);
    reconciler_check(reconciler);
    pthread_cond_broadcast(&reconciler->changed);
    pthread_mutex_unlock(&reconciler->lock);
    work_free(work);
}

static void work_do(struct reconciler *reconciler, struct pass_work *work, bool down)
{
    int64_t began_ns = now_ns(reconciler);
    enum err e = down ? ERR_BUSY : pass_run(&work->entity, work->entry->truth);
    if (!is_passing(e)) hold_back(work);
    work_end(reconciler, work, began_ns, e);
}

/* True for work of an entry whose source went down meanwhile: it is dropped, and its marks are
 * kept. */
static bool is_down(const struct reconciler *reconciler, const struct pass_work *work)
{
    return reconciler->stopped || now_ns(reconciler) < work->entry->down_until_ns;
}

bool reconciler_pass(struct reconciler *reconciler)
{
    pthread_mutex_lock(&reconciler->lock);
    struct pass_work *work = work_take(reconciler);
    bool down = work && is_down(reconciler, work);
    pthread_mutex_unlock(&reconciler->lock);
    if (work) work_do(reconciler, work, down);
    return work != NULL;
}

/* -- Threads ----------------------------------------------------------------------------------- */

void reconciler_work(struct reconciler *reconciler)
{
    pthread_mutex_lock(&reconciler->lock);
    while (!reconciler->stopped) {
        struct pass_work *work = work_take(reconciler);
        if (!work) {
            pthread_cond_wait(&reconciler->changed, &reconciler->lock);
            continue;
        }
        bool down = is_down(reconciler, work);
        pthread_mutex_unlock(&reconciler->lock);
        work_do(reconciler, work, down);
        pthread_mutex_lock(&reconciler->lock);
    }
    pthread_mutex_unlock(&reconciler->lock);
}

/* The time until the next scan is due, but no longer than lets a reload be noticed soon. The lock
 * is held. */
static int64_t pause_ns(const struct reconciler *reconciler)
{
    int64_t now = now_ns(reconciler);
    int64_t pause = PAUSE_MS_MAX * MS;
    for (const struct entry *entry = reconciler->entries; entry; entry = entry->next)
        if (entry->scan_at_ns - now < pause) pause = entry->scan_at_ns - now;
    return pause < MS ? MS : pause;
}

/* True: told to stop. Work that comes meanwhile wakes this thread for nothing, so it looks at the
 * time. */
static bool pause_scans(struct reconciler *reconciler)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&reconciler->lock);
    int64_t ns = until.tv_nsec + pause_ns(reconciler);
    until.tv_sec += ns / SECOND;
    until.tv_nsec = ns % SECOND;
    int result = 0;
    while (!reconciler->stopped && result == 0)
        result = pthread_cond_clockwait(&reconciler->changed, &reconciler->lock, CLOCK_MONOTONIC,
                                        &until);
    bool stopped = reconciler->stopped;
    pthread_mutex_unlock(&reconciler->lock);
    return stopped;
}

void reconciler_run(struct reconciler *reconciler)
{
    do
        reconciler_scan(reconciler);
    while (!pause_scans(reconciler));
}

void reconciler_stop(struct reconciler *reconciler)
{
    pthread_mutex_lock(&reconciler->lock);
    reconciler->stopped = true;
    for (struct entry *entry = reconciler->entries; entry; entry = entry->next)
        entry->truth->ops->cancel(entry->truth);
    pthread_cond_broadcast(&reconciler->changed);
    pthread_mutex_unlock(&reconciler->lock);
}

void reconciler_gauges(struct reconciler *reconciler)
{
    uint64_t pending = 0;
    int64_t oldest_ms = INT64_MAX, now_ms = clock_now_ms(reconciler->clock);
    pthread_mutex_lock(&reconciler->lock);
    for (const struct entry *entry = reconciler->entries; entry; entry = entry->next) {
        pending += entry->pending;
        if (entry->oldest_ms < oldest_ms) oldest_ms = entry->oldest_ms;
    }
    pthread_mutex_unlock(&reconciler->lock);
    metric_set(METRIC_RECONCILE_QUEUE, (double)pending);
    metric_set(METRIC_RECONCILE_OLDEST,
               oldest_ms < now_ms ? (double)(now_ms - oldest_ms) / 1000 : 0);
}
