/* id_walk.c -- see the header. An id that came back after it had expired has several records; the
 * one in the newest run counts, also where an older one is in the state. */
#include "store/embedded/ids/id_walk.h"

#include "store/embedded/state/registry_record.h"

struct id_walk {
    struct id_runs *runs;
    registry_visit_fn *visit;
    void *context;
    bool stopped;
    enum err err;
};

static void show(struct id_walk *walk, struct fingerprint print, const struct key_record *record)
{
    walk->stopped = !walk->visit(walk->context, print, record);
}

/* True if a run has a newer record; only an event's id can be in both places. */
static enum err is_in_runs(const struct id_walk *walk, struct fingerprint print,
                           const struct key_record *record, bool *is_out)
{
    struct id_entry newer;
    enum err e =
        record->event ? id_runs_find(walk->runs, ID_SPAN_ALL, print, &newer) : ERR_NOT_FOUND;
    *is_out = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool show_stored(void *context, struct bytes key, struct bytes value)
{
    struct id_walk *walk = context;
    struct fingerprint print;
    struct key_record record;
    bool replaced = false;
    walk->err = record_key_get(key, &print);
    if (walk->err == ERR_OK) walk->err = record_decode(value, &record);
    if (walk->err == ERR_OK) walk->err = is_in_runs(walk, print, &record, &replaced);
    if (walk->err == ERR_OK && !replaced) show(walk, print, &record);
    return walk->err == ERR_OK && !walk->stopped;
}

static void show_entry(void *context, struct id_span span, const struct id_entry *entry)
{
    struct id_walk *walk = context;
    struct id_span newer = {span.last + 1, UINT64_MAX};
    struct id_entry other;
    if (walk->err != ERR_OK || walk->stopped) return;
    enum err e = id_runs_find(walk->runs, newer, entry->print, &other);
    if (e == ERR_OK) return;
    walk->err = e == ERR_NOT_FOUND ? ERR_OK : e;
    const struct key_record record = {.sequence = entry->sequence,
                                      .first_seen_ms = entry->first_seen_ms,
                                      .digest = entry->digest,
                                      .event = true,
                                      .exists = true};
    if (walk->err == ERR_OK) show(walk, entry->print, &record);
}

enum err id_walk(struct state *state, struct id_runs *runs, registry_visit_fn *visit, void *context)
{
    struct id_walk walk = {.runs = runs, .visit = visit, .context = context};
    enum err e = state_scan(state, STATE_IDS, BYTES_NONE, BYTES_NONE, show_stored, &walk);
    if (e == ERR_OK) e = walk.err;
    if (e == ERR_OK && !walk.stopped) e = id_runs_scan(runs, 0, show_entry, &walk);
    return e == ERR_OK ? walk.err : e;
}
