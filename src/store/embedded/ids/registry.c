/* registry.c -- records on their way from staged to remembered for ever.
 *
 *   staged --publish--> active set --seal--> sealed set --write back--> written --flushed--> state
 *      \--drop--> gone
 *
 * A record is looked for in that order, so the newest one of an id is found. What is staged is
 * apart from what is published: dropping it needs no undoing. Sets leave memory strictly in the
 * order they were sealed, and are written again in that order when the state forgot one, so an
 * older record never comes to lie over a newer one.
 *
 * `lock` is held for a few table accesses only. `write_lock` makes the tend thread's calls take
 * turns; it is held through sorting, writing and saving, which no other thread waits for. What
 * `lock` guards of a sealed set does not change any more, so it is read without. */
#include "store/embedded/ids/registry.h"

#include <stdlib.h>

#include "base/log.h"
#include "store/embedded/ids/id_walk.h"
#include "store/embedded/state/registry_record.h"
#include "store/embedded/ids/registry_internal.h"

#ifdef TALLY_SMALL_WORLD
#define REGISTRY_PUBLISH_STEP 4u
#define REGISTRY_OUTCOMES_MAX 4096u
#define REGISTRY_EXPIRED_SLACK 256u
#else
#define REGISTRY_PUBLISH_STEP 256u        /* records moved per holding of the lock */
#define REGISTRY_OUTCOMES_MAX (64u << 20) /* bytes of outcomes that seal a set */
#define REGISTRY_EXPIRED_SLACK (1u << 20)
#endif
#define REGISTRY_VALUE_MAX (1u << 30)
#define REGISTRY_PREFETCH 8u
#define REGISTRY_GROUP 32u /* ids looked for together: their lines fit the nearest cache */

/* ---- sets ---- */

static struct set *set_new(size_t expected)
{
    struct set *set = must_calloc(1, sizeof *set);
    recent_init(&set->records, expected);
    return set;
}

static void set_free(struct set *set)
{
    recent_release(&set->records);
    free(set);
}

static void set_free_all(struct set *set)
{
    while (set) {
        struct set *older = set->older;
        set_free(set);
        set = older;
    }
}

static struct set *registry_take_spare(struct registry *registry)
{
    struct set *set = registry->spare;
    if (!set) return set_new(registry->seal_count);
    registry->spare = set->older;
    registry->spare_count--;
    set->older = NULL;
    return set;
}

/* `lock` is held. */
static void registry_seal(struct registry *registry)
{
    struct set *set = registry->active;
    set->at = SET_SEALED;
    set->run = 0;
    set->newer = NULL;
    set->older = registry->newest;
    if (set->older)
        set->older->newer = set;
    else
        registry->oldest = set;
    registry->newest = set;
    registry->active = registry_take_spare(registry);
}

static void registry_seal_if_full(struct registry *registry)
{
    const struct recent *records = &registry->active->records;
    if (recent_size(records) >= registry->seal_count ||
        records->outcomes_size >= REGISTRY_OUTCOMES_MAX)
        registry_seal(registry);
}

/* The oldest set is no longer needed: the state has it and the filters know it. */
static void registry_drop_oldest(struct registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    struct set *set = registry->oldest;
    registry->oldest = set->newer;
    if (set->newer)
        set->newer->older = NULL;
    else
        registry->newest = NULL;
    pthread_mutex_unlock(&registry->lock);

    recent_reset(&set->records); /* clears megabytes: not under the lock */
    pthread_mutex_lock(&registry->lock);
    bool keep = registry->spare_count < REGISTRY_SPARES_MAX;
    if (keep) {
        set->older = registry->spare;
        registry->spare = set;
        registry->spare_count++;
    }
    pthread_mutex_unlock(&registry->lock);
    if (!keep) set_free(set);
}

/* ---- opening ---- */

struct registry_scan {
    struct registry *registry;
    bool all;
    uint64_t after; /* else only records with a later sequence */
};

/* A record that cannot be read is taken for a late one: a filter may always know too much. */
static bool registry_scan_id(void *context, struct bytes key, struct bytes value)
{
    struct registry_scan *scan = context;
    struct fingerprint print;
    struct key_record record;
    if (record_key_get(key, &print) != ERR_OK) return true; /* no lookup can ask for it */
    if (!scan->all && record_decode(value, &record) == ERR_OK && record.sequence <= scan->after)
        return true;
    filter_chain_add(&scan->registry->chain, ID_SPAN_NONE, print);
    return true;
}

static void registry_scan_run(void *context, struct id_span span, const struct id_entry *entry)
{
    struct registry *registry = context;
    filter_chain_add(&registry->chain, span, entry->print);
}

static enum err registry_scan(struct registry *registry, bool all, uint64_t after)
{
    struct registry_scan scan = {registry, all, after};
    enum err e = id_runs_scan(registry->runs, all ? 0 : after, registry_scan_run, registry);
    if (e != ERR_OK) return e;
    return state_scan(registry->state, STATE_IDS, BYTES_NONE, BYTES_NONE, registry_scan_id, &scan);
}

static enum err registry_rebuild_filters(struct registry *registry)
{
    enum err e = filter_chain_forget(&registry->files);
    if (e != ERR_OK) return e;
    filter_chain_release(&registry->chain);
    filter_chain_init(&registry->chain);
    return registry_scan(registry, true, 0);
}

/* Keys expire out of the state but not out of a filter; at a start they can be let go. */
static bool registry_filters_outgrown(struct registry *registry)
{
    uint64_t kept = state_key_count(registry->state, STATE_IDS) + id_runs_count(registry->runs);
    return registry->chain.ids / 2 > kept + REGISTRY_EXPIRED_SLACK;
}

/* The newest runs leave no gap when they are missing. A filter names a set only once its run is
 * durable, so it would be a loss: ids that it knows would not be found, and count again. */
static bool registry_lacks_runs(struct registry *registry)
{
    uint64_t known = filter_chain_last(&registry->chain), last = id_runs_last(registry->runs);
    if (known <= last) return false;
    log_line(LOG_ERROR, "the newest event ids are missing", LOG_KV("first", last + 1),
             LOG_KV("last", known));
    return true;
}

static enum err registry_load_filters(struct registry *registry, uint64_t applied)
{
    uint64_t complete_to = 0;
    enum err e = filter_chain_load(&registry->chain, &registry->files, &complete_to);
    if (e == ERR_OK && registry_lacks_runs(registry)) return ERR_STORAGE;
    if (e != ERR_OK || registry_filters_outgrown(registry))
        e = registry_rebuild_filters(registry);
    else if (complete_to < applied)
        e = registry_scan(registry, false, complete_to);
    else
        return ERR_OK;
    if (e != ERR_OK) return e;
    /* It is saved so that the next start need not do it again; this start goes well without. */
    enum err ignored = filter_chain_save(&registry->chain, &registry->files, applied);
    (void)ignored;
    return ERR_OK;
}

enum err registry_open(struct registry **registry_out, const struct registry_config *config)
{
    must(config->seal_count > 0);
    struct registry *registry = must_calloc(1, sizeof *registry);
    size_t dir_size = strlen(config->dir) + 1;
    registry->dir = must_alloc(dir_size);
    memcpy(registry->dir, config->dir, dir_size);
    registry->state = config->state;
    registry->seal_count = config->seal_count;
    registry->files =
        (struct filter_files){config->io, registry->dir, state_identity(config->state)};
    pthread_mutex_init(&registry->lock, NULL);
    pthread_mutex_init(&registry->write_lock, NULL);
    recent_init(&registry->staged, 0);
    registry->active = set_new(config->seal_count);
    filter_chain_init(&registry->chain);

    struct id_files files = {config->io, registry->dir, registry->files.identity};
    enum err e = id_runs_open(&registry->runs, &files);
    if (e == ERR_OK) e = registry_load_filters(registry, config->applied);
    if (e != ERR_OK) {
        registry_free(registry);
        registry = NULL;
    }
    *registry_out = registry;
    return e;
}

void registry_free(struct registry *registry)
{
    if (!registry) return;
    set_free_all(registry->newest);
    set_free_all(registry->spare);
    set_free(registry->active);
    recent_release(&registry->staged);
    filter_chain_release(&registry->chain);
    id_runs_free(registry->runs);
    pthread_mutex_destroy(&registry->write_lock);
    pthread_mutex_destroy(&registry->lock);
    free(registry->dir);
    free(registry);
}

/* ---- finding, staging, publishing ---- */

static bool recent_copy(const struct recent *recent, struct fingerprint print, struct arena *arena,
                        struct key_record *record_out)
{
    const struct recent_entry *entry = recent_find(recent, print);
    if (!entry) return false;
    recent_record(recent, entry, record_out);
    record_out->outcome = arena_copy(arena, record_out->outcome);
    return true;
}

/* Prefetches every line that looking for `print` will touch. */
static void registry_prefetch_find(const struct registry *registry, struct fingerprint print)
{
    recent_prefetch(&registry->staged, print);
    recent_prefetch(&registry->active->records, print);
    for (struct set *set = registry->newest; set; set = set->older)
        recent_prefetch(&set->records, print);
}

/* `lock` is held. */
static bool registry_find_recent(struct registry *registry, struct fingerprint print,
                                 struct arena *arena, struct key_record *record_out)
{
    bool found = recent_copy(&registry->staged, print, arena, record_out) ||
                 recent_copy(&registry->active->records, print, arena, record_out);
    for (struct set *set = registry->newest; set && !found; set = set->older)
        found = recent_copy(&set->records, print, arena, record_out);
    return found;
}

/* Looks, for each filter that knows the id, the newest first, only among that filter's sets: a
 * mistake of one costs a page or two and not a page of every run. */
static enum err registry_find_run(struct registry *registry, uint64_t filters,
                                  struct fingerprint print, struct key_record *record_out)
{
    struct id_entry entry;
    enum err e = ERR_NOT_FOUND;
    while (filters && e == ERR_NOT_FOUND) {
        uint32_t newest = 63 - (uint32_t)__builtin_clzll(filters);
        e = id_runs_find(registry->runs, filter_chain_span(&registry->chain, newest), print,
                         &entry);
        filters ^= 1ull << newest;
    }
    if (e != ERR_OK) return e;
    *record_out = (struct key_record){.sequence = entry.sequence,
                                      .first_seen_ms = entry.first_seen_ms,
                                      .digest = entry.digest,
                                      .event = true,
                                      .exists = true};
    return ERR_OK;
}

static enum err registry_find_stored(struct registry *registry, uint64_t filters,
                                     struct fingerprint print, struct arena *arena,
                                     struct key_record *record_out)
{
    char key[RECORD_KEY_SIZE];
    struct buf value;
    enum err e = registry_find_run(registry, filters, print, record_out);
    if (e != ERR_NOT_FOUND) return e;
    record_key_put(key, print);
    buf_init(&value, REGISTRY_VALUE_MAX);
    e = state_get(registry->state, STATE_IDS, bytes_of(key, sizeof key), &value);
    if (e == ERR_OK && record_decode(buf_bytes(&value), record_out) != ERR_OK) e = ERR_STORAGE;
    if (e == ERR_OK) record_out->outcome = arena_copy(arena, record_out->outcome);
    buf_release(&value);
    return e;
}

static enum err registry_find_old(struct registry *registry, struct fingerprint print,
                                  struct arena *arena, struct key_record *record_out)
{
    uint64_t filters = filter_chain_ask(&registry->chain, print);
    if (filters == 0) return ERR_NOT_FOUND;
    enum err e = registry_find_stored(registry, filters, print, arena, record_out);
    atomic_fetch_add_explicit(&registry->lookups, 1, memory_order_relaxed);
    if (e == ERR_NOT_FOUND)
        atomic_fetch_add_explicit(&registry->lookups_empty, 1, memory_order_relaxed);
    return e;
}

/* All cache misses of a group are under way at once. What is not in memory is, by (3), in the
 * filters by the time they are asked, if it ever was. */
static enum err registry_find_group(struct registry *registry, struct read_key *keys, size_t count,
                                    struct arena *arena)
{
    for (size_t i = 0; i < count; i++)
        filter_chain_prefetch(&registry->chain, keys[i].print);
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < count; i++)
        registry_prefetch_find(registry, keys[i].print);
    for (size_t i = 0; i < count; i++) {
        keys[i].value = (struct key_record){0};
        registry_find_recent(registry, keys[i].print, arena, &keys[i].value);
    }
    pthread_mutex_unlock(&registry->lock);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].value.exists) continue;
        enum err e = registry_find_old(registry, keys[i].print, arena, &keys[i].value);
        if (e == ERR_NOT_FOUND) keys[i].value = (struct key_record){0};
        if (e != ERR_OK && e != ERR_NOT_FOUND) return e;
    }
    return ERR_OK;
}

enum err registry_find_many(struct registry *registry, struct read_key *keys, size_t count,
                            struct arena *arena)
{
    enum err e = ERR_OK;
    for (size_t at = 0; at < count && e == ERR_OK; at += REGISTRY_GROUP) {
        size_t left = count - at;
        e = registry_find_group(registry, keys + at, left < REGISTRY_GROUP ? left : REGISTRY_GROUP,
                                arena);
    }
    return e;
}

enum err registry_find(struct registry *registry, struct fingerprint print, struct arena *arena,
                       struct key_record *record_out)
{
    struct read_key key = {.print = print};
    enum err e = registry_find_many(registry, &key, 1, arena);
    *record_out = key.value;
    return e == ERR_OK && !key.value.exists ? ERR_NOT_FOUND : e;
}

void registry_stage(struct registry *registry, const struct read_key *keys, size_t count)
{
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < count; i++) {
        if (count - i > REGISTRY_PREFETCH)
            recent_prefetch(&registry->staged, keys[i + REGISTRY_PREFETCH].print);
        if (keys[i].changed) recent_add(&registry->staged, keys[i].print, &keys[i].value);
    }
    pthread_mutex_unlock(&registry->lock);
}

/* Prefetches what publishing will touch: it meets the large table with ids in random order. */
static void registry_prefetch(const struct registry *registry)
{
    const struct recent *staged = &registry->staged;
    if (recent_size(staged) <= REGISTRY_PREFETCH) return;
    recent_prefetch(&registry->active->records,
                    staged->entries[staged->first + REGISTRY_PREFETCH].print);
}

/* `lock` is held. False when nothing up to `durable` is left. */
static bool registry_publish_one(struct registry *registry, uint64_t durable)
{
    const struct recent_entry *entry = recent_oldest(&registry->staged);
    if (!entry || entry->sequence > durable) return false;
    struct key_record record;
    registry_prefetch(registry);
    recent_record(&registry->staged, entry, &record);
    recent_put(&registry->active->records, entry->print, &record);
    recent_remove_oldest(&registry->staged);
    registry_seal_if_full(registry);
    return true;
}

void registry_publish(struct registry *registry, uint64_t durable)
{
    bool more = true;
    while (more) {
        pthread_mutex_lock(&registry->lock);
        for (unsigned i = 0; i < REGISTRY_PUBLISH_STEP && more; i++)
            more = registry_publish_one(registry, durable);
        if (SLOW_CHECKS) registry_check(registry);
        must(more || !recent_oldest(&registry->staged) ||
             recent_oldest(&registry->staged)->sequence > durable);
        pthread_mutex_unlock(&registry->lock);
    }
}

void registry_drop_staged(struct registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    recent_reset(&registry->staged);
    pthread_mutex_unlock(&registry->lock);
}

void registry_replay(struct registry *registry, struct fingerprint print,
                     const struct key_record *record)
{
    pthread_mutex_lock(&registry->lock);
    recent_put(&registry->active->records, print, record);
    registry_seal_if_full(registry);
    pthread_mutex_unlock(&registry->lock);
}

/* ---- writing back; `write_lock` is held ---- */

static void registry_add_to_filters(struct registry *registry, const struct set *set)
{
    const struct recent *records = &set->records;
    struct id_span span = set->run ? (struct id_span){set->run, set->run} : ID_SPAN_NONE;
    for (size_t i = records->first; i < records->count; i++) {
        if (i + REGISTRY_PREFETCH < records->count)
            filter_chain_prefetch(&registry->chain, records->entries[i + REGISTRY_PREFETCH].print);
        filter_chain_add(&registry->chain, span, records->entries[i].print);
    }
}

static enum state_fate set_fate(struct registry *registry, const struct set *set)
{
    if (set->at == SET_INGESTED) return STATE_FLUSHED;
    return set->at == SET_WRITTEN ? state_fate(registry->state, set->mark) : STATE_PENDING;
}

static struct set *registry_oldest(struct registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    struct set *set = registry->oldest;
    pthread_mutex_unlock(&registry->lock);
    return set;
}

static struct set *registry_newer(struct registry *registry, const struct set *set)
{
    pthread_mutex_lock(&registry->lock);
    struct set *newer = set->newer;
    pthread_mutex_unlock(&registry->lock);
    return newer;
}

/* Lets go of what is durable. If the state forgot a set, that one and all later ones are written
 * again, the later ones too because they may replace what it holds. */
static void registry_settle(struct registry *registry)
{
    struct set *set;
    while ((set = registry_oldest(registry)) && set_fate(registry, set) == STATE_FLUSHED) {
        registry_add_to_filters(registry, set);
        registry_drop_oldest(registry);
    }
    if (!set || set_fate(registry, set) != STATE_LOST) return;
    for (; set; set = registry_newer(registry, set))
        set->at = SET_SEALED;
}

static struct set *registry_oldest_sealed(struct registry *registry)
{
    struct set *set = registry_oldest(registry);
    while (set && set->at != SET_SEALED)
        set = registry_newer(registry, set);
    return set;
}

/* The last set to be written by this call; with `all` it is the one that has what is published now,
 * no matter what comes while it is written. NULL: none. */
static struct set *registry_write_until(struct registry *registry, bool all)
{
    if (!all) return registry_oldest_sealed(registry);
    pthread_mutex_lock(&registry->lock);
    if (recent_size(&registry->active->records)) registry_seal(registry);
    struct set *set = registry->newest;
    pthread_mutex_unlock(&registry->lock);
    return set && set->at == SET_SEALED ? set : NULL;
}

enum err registry_write_back(struct registry *registry, bool all, bool *more_out)
{
    pthread_mutex_lock(&registry->write_lock);
    registry_check_sets(registry);
    registry_settle(registry);
    struct set *until = registry_write_until(registry, all);
    enum err e = ERR_OK;
    while (until && e == ERR_OK && until->at == SET_SEALED)
        e = set_write(registry_oldest_sealed(registry), registry->state, registry->runs);
    if (e == ERR_OK) registry_settle(registry);
    bool merging = e == ERR_OK && !all && id_runs_merge(registry->runs);
    *more_out = registry_oldest_sealed(registry) != NULL || merging;
    registry_check_sets(registry);
    pthread_mutex_unlock(&registry->write_lock);
    return e;
}

/* ---- saving ---- */

/* Whether everything up to `applied` has left memory, as it does once written back and flushed. */
static bool registry_is_settled(struct registry *registry, uint64_t applied)
{
    pthread_mutex_lock(&registry->lock);
    bool settled = registry->active->records.sequence_min > applied;
    for (struct set *set = registry->oldest; set && settled; set = set->newer)
        settled = set->records.sequence_min > applied;
    pthread_mutex_unlock(&registry->lock);
    return settled;
}

enum err registry_save_filters(struct registry *registry, uint64_t applied)
{
    pthread_mutex_lock(&registry->write_lock);
    registry_settle(registry);
    enum err e = registry_is_settled(registry, applied)
                     ? filter_chain_save(&registry->chain, &registry->files, applied)
                     : ERR_STORAGE;
    registry_check_sets(registry);
    pthread_mutex_unlock(&registry->write_lock);
    return e;
}

enum err registry_walk(struct registry *registry, registry_visit_fn *visit, void *context)
{
    pthread_mutex_lock(&registry->write_lock);
    enum err e = id_walk(registry->state, registry->runs, visit, context);
    pthread_mutex_unlock(&registry->write_lock);
    return e;
}

void registry_stats(struct registry *registry, struct registry_stats *stats_out)
{
    *stats_out = (struct registry_stats){
        .ids = atomic_load_explicit(&registry->chain.ids, memory_order_relaxed),
        .filter_bytes = filter_chain_bytes(&registry->chain),
        .lookups = atomic_load_explicit(&registry->lookups, memory_order_relaxed),
        .lookups_empty = atomic_load_explicit(&registry->lookups_empty, memory_order_relaxed),
        .merges_failed = id_runs_merges_failed(registry->runs),
    };
    pthread_mutex_lock(&registry->lock);
    uint64_t published = recent_size(&registry->active->records);
    for (struct set *set = registry->newest; set; set = set->older)
        published += recent_size(&set->records);
    stats_out->recent = published + recent_size(&registry->staged);
    pthread_mutex_unlock(&registry->lock);
    stats_out->ids += published;
}
