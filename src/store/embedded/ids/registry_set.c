/* registry_set.c -- sorts a set and writes it: first its run, then what is not for runs. */
#include "store/embedded/ids/registry_set.h"

#include <stdlib.h>

#include "base/crash.h"
#include "store/embedded/state/registry_record.h"

#ifdef TALLY_SMALL_WORLD
#define SET_INGEST_MIN 8u
#else
#define SET_INGEST_MIN 4096u /* fewer go through the memtable: no file of their own */
#endif
#define SET_VALUE_MAX (1u << 30)
#define SET_PREFETCH 8u

struct set_walk {
    const struct recent *records;
    const uint32_t *order;
    size_t next;
    bool plain; /* which ones to give: those for a run, or all others */
    char key[RECORD_KEY_SIZE];
    struct buf value;
};

/* True for what a run can hold. An id's namespace decides it, so all records of one id are alike in
 * it. */
static bool entry_is_plain(const struct recent_entry *entry)
{
    return entry->event && entry->outcome_size == 0 && entry->digest <= UINT32_MAX;
}

static const struct recent_entry *set_walk_entry(struct set_walk *walk)
{
    const struct recent *records = walk->records;
    const struct recent_entry *entries = records->entries + records->first;
    while (walk->next < recent_size(records)) {
        if (walk->next + SET_PREFETCH < recent_size(records))
            __builtin_prefetch(&entries[walk->order[walk->next + SET_PREFETCH]]);
        const struct recent_entry *entry = &entries[walk->order[walk->next++]];
        if (entry_is_plain(entry) == walk->plain) return entry;
    }
    return NULL;
}

static bool set_walk_next(void *context, struct bytes *key_out, struct bytes *value_out)
{
    struct set_walk *walk = context;
    const struct recent_entry *entry = set_walk_entry(walk);
    if (!entry) return false;
    struct key_record record;
    recent_record(walk->records, entry, &record);
    record_key_put(walk->key, entry->print);
    record_encode(&walk->value, &record);
    must(!walk->value.failed);
    *key_out = bytes_of(walk->key, sizeof walk->key);
    *value_out = buf_bytes(&walk->value);
    return true;
}

static bool set_walk_plain(void *context, struct id_entry *entry_out)
{
    const struct recent_entry *entry = set_walk_entry(context);
    if (!entry) return false;
    *entry_out = (struct id_entry){.print = entry->print,
                                   .sequence = entry->sequence,
                                   .first_seen_ms = entry->first_seen_ms,
                                   .digest = (uint32_t)entry->digest};
    return true;
}

static enum err set_ingest(struct set *set, struct state *state, struct set_walk *walk)
{
    enum err e = state_ingest(state, STATE_IDS, set_walk_next, walk);
    if (e == ERR_OK) set->at = SET_INGESTED;
    return e;
}

static enum err set_put(struct set *set, struct state *state, struct set_walk *walk)
{
    struct state_batch *batch = state_batch_new(state);
    struct bytes key, value;
    while (set_walk_next(walk, &key, &value))
        state_batch_put(batch, STATE_IDS, key, value);
    enum err e = state_write(state, batch);
    if (e == ERR_OK) set->at = SET_WRITTEN;
    set->mark = state_batch_mark(batch);
    state_batch_free(batch);
    return e;
}

/* A set's run is written once: it outlives whatever becomes of the state, and must not come to lie
 * over newer ones. */
static enum err set_write_run(struct set *set, struct id_runs *runs, const uint32_t *order)
{
    if (set->run) return ERR_OK;
    struct set_walk walk = {.records = &set->records, .order = order, .plain = true};
    crash_point("registry.ingest.before");
    enum err e = id_runs_add(runs, set_walk_plain, &walk, &set->run);
    crash_point("registry.ingest.after");
    return e;
}

static enum err set_write_rest(struct set *set, struct state *state, const uint32_t *order,
                               size_t count)
{
    struct set_walk walk = {.records = &set->records, .order = order};
    buf_init(&walk.value, SET_VALUE_MAX);
    enum err e =
        count >= SET_INGEST_MIN ? set_ingest(set, state, &walk) : set_put(set, state, &walk);
    buf_release(&walk.value);
    return e;
}

enum err set_write(struct set *set, struct state *state, struct id_runs *runs)
{
    const struct recent *records = &set->records;
    uint32_t *order = recent_sort(records);
    size_t plain = 0;
    for (size_t i = records->first; i < records->count; i++)
        plain += entry_is_plain(&records->entries[i]);
    enum err e = plain ? set_write_run(set, runs, order) : ERR_OK;
    if (e == ERR_OK && plain < recent_size(records))
        e = set_write_rest(set, state, order, recent_size(records) - plain);
    else if (e == ERR_OK)
        set->at = SET_INGESTED;
    free(order);
    return e;
}
