/* scan.c -- chooses among the rows of the dirty queue.
 *
 * A scan walks all rows of its entry, which are those pending and those counted lately: some
 * microseconds each. The thread that scans leaves ten times as long between two scans as one took
 * (reconciler.c), so a queue of any length costs a tenth of a core at most. */
#include "reconcile/scan.h"

#include <stdlib.h>

#include "core/object.h"
#include "store/damage.h"

/* The best rows of one tenant so far, the best first. Rows come grouped by tenant, and all rows of
 * a tenant are in one lane. */
struct scan_share {
    const struct lane *lane;
    struct bytes tenant;
    struct scan_row *rows;
    unsigned count;
    unsigned capacity;
    unsigned taken;
};

/* The walk through a lane's rows. */
struct scan_walk {
    struct scan *scan;
    const struct lane *lane;
    int64_t now_ms;
};

/* -- Whose time has come ----------------------------------------------------------------------- */

/* A time in the future comes from a clock that was set back since: it holds nothing up. */
static bool is_within(int64_t time_ms, int64_t interval_ms, int64_t now_ms)
{
    return time_ms != TIME_NONE && time_ms <= now_ms && now_ms - time_ms < interval_ms;
}

#define RETRY_MS_MAX (10 * 60 * 1000) /* no back-off is longer */

static bool is_due(const struct scan_walk *walk, const struct mark *mark)
{
    int64_t now_ms = walk->now_ms;
    bool held = mark->retry_ms != TIME_NONE && mark->retry_ms > now_ms &&
                mark->retry_ms - now_ms <= RETRY_MS_MAX;
    return !held && !is_within(mark->updated_ms, walk->scan->reconcile->min_interval_ms, now_ms);
}

/* TIME_NONE is the smallest time there is, so an entity that was never counted comes first by
 * itself; of two such the one that has waited longer does. */
static bool comes_before(const struct mark *a, const struct mark *b)
{
    if (a->updated_ms != b->updated_ms) return a->updated_ms < b->updated_ms;
    return a->marked_ms < b->marked_ms;
}

/* -- The best of each tenant ------------------------------------------------------------------- */

static void *grown(struct arena *arena, const void *items, unsigned count, unsigned capacity,
                   size_t size)
{
    void *more = arena_alloc(arena, capacity * size);
    if (count) memcpy(more, items, count * size);
    return more;
}

static struct scan_share *share_of(struct scan_walk *walk, struct bytes tenant)
{
    struct scan *scan = walk->scan;
    if (scan->shares_count) {
        struct scan_share *last = &scan->shares[scan->shares_count - 1];
        if (last->lane == walk->lane && bytes_equal(last->tenant, tenant)) return last;
    }
    if (scan->shares_count == scan->shares_capacity) {
        scan->shares_capacity = scan->shares_capacity * 2 + 8;
        scan->shares = grown(scan->arena, scan->shares, scan->shares_count, scan->shares_capacity,
                             sizeof *scan->shares);
    }
    struct scan_share *share = &scan->shares[scan->shares_count++];
    *share = (struct scan_share){.lane = walk->lane, .tenant = arena_copy(scan->arena, tenant)};
    return share;
}

static void share_add(struct scan *scan, struct scan_share *share, struct bytes entity_json,
                      const struct mark *mark)
{
    struct arena *arena = scan->arena;
    unsigned most = (unsigned)scan->reconcile->scan_limit;
    bool full = share->count == most;
    must(!full || share->rows);
    if (full && !comes_before(mark, &share->rows[most - 1].mark)) return;
    if (full) share->count--;
    if (share->count == share->capacity) {
        share->capacity = share->capacity * 2 + 4;
        share->rows = grown(arena, share->rows, share->count, share->capacity, sizeof *share->rows);
    }
    must(share->rows);
    unsigned at = share->count++;
    for (; at > 0 && comes_before(mark, &share->rows[at - 1].mark); at--)
        share->rows[at] = share->rows[at - 1];
    share->rows[at] =
        (struct scan_row){share->tenant, arena_copy(arena, entity_json), *mark, share->lane};
}

/* Such a row holds up no other: the next change of its entity writes it anew. */
static void see_unreadable(struct scan *scan, struct bytes key)
{
    damage_say("a mark", key, 1);
    if (scan->unreadable++ == 0) scan->unreadable_key = arena_copy(scan->arena, key);
}

static bool see_row(void *context, struct bytes key, struct bytes value)
{
    struct scan_walk *walk = context;
    struct scan *scan = walk->scan;
    struct bytes name, tenant, entity_json;
    struct mark mark;
    if (!mark_key_split(key, &name, &tenant, &entity_json) || !mark_decode(value, &mark)) {
        see_unreadable(scan, key);
        return true;
    }
    if (!mark.pending || !reconcile_has_tenant(scan->reconcile, tenant)) return true;
    scan->pending++;
    if (mark.marked_ms < scan->oldest_ms) scan->oldest_ms = mark.marked_ms;
    if (is_due(walk, &mark)) share_add(scan, share_of(walk, tenant), entity_json, &mark);
    return true;
}

/* -- Taking turns ------------------------------------------------------------------------------ */

static int compare_shares(const void *a, const void *b)
{
    return bytes_compare(((const struct scan_share *)a)->tenant,
                         ((const struct scan_share *)b)->tenant);
}

/* The place of the first tenant after the one that was served last, in the order of their ids. */
static unsigned first_turn(const struct scan *scan)
{
    for (unsigned i = 0; i < scan->shares_count; i++)
        if (bytes_compare(scan->shares[i].tenant, scan->after_tenant) > 0) return i;
    return 0;
}

static void take_turns(struct scan *scan, unsigned most)
{
    unsigned first = first_turn(scan);
    bool any = true;
    while (any && scan->count < most) {
        any = false;
        for (unsigned i = 0; i < scan->shares_count && scan->count < most; i++) {
            struct scan_share *share = &scan->shares[(first + i) % scan->shares_count];
            if (share->taken == share->count) continue;
            scan->rows[scan->count++] = share->rows[share->taken++];
            any = true;
        }
    }
}

void scan_begin(struct scan *scan)
{
    *scan = (struct scan){.arena = scan->arena,
                          .reconcile = scan->reconcile,
                          .after_tenant = scan->after_tenant,
                          .oldest_ms = INT64_MAX};
}

enum err scan_lane(struct scan *scan, const struct lane *lane)
{
    struct scan_walk walk = {.scan = scan, .lane = lane, .now_ms = clock_now_ms(lane->clock)};
    struct bytes prefix = mark_prefix(scan->arena, scan->reconcile->name, BYTES_NONE);
    return view_objects(&lane->store->view, prefix, BYTES_NONE, see_row, &walk);
}

/* The tenants of each lane came in order; those of all lanes together are put in order here. */
void scan_choose(struct scan *scan)
{
    unsigned most = (unsigned)scan->reconcile->scan_limit;
    scan->rows = arena_alloc(scan->arena, most * sizeof *scan->rows);
    if (scan->shares_count == 0) return;
    qsort(scan->shares, scan->shares_count, sizeof *scan->shares, compare_shares);
    take_turns(scan, most);
}

/* -- Rows that are of no more use -------------------------------------------------------------- */

struct useless {
    const struct lane *lane;
    const struct rules *rules;
    int64_t now_ms;
    struct arena *arena;
    struct mark_change *changes;
    struct bytes *tenants;
    unsigned count;
    unsigned most;
};

static bool is_useless(const struct useless *useless, struct bytes name, struct bytes tenant,
                       const struct mark *mark)
{
    const struct reconcile *reconcile = reconcile_find(useless->rules, name);
    if (!reconcile || !reconcile_has_tenant(reconcile, tenant)) return true;
    if (mark->pending) return false;
    return !is_within(mark->updated_ms, reconcile->min_interval_ms, useless->now_ms);
}

static bool see_useless(void *context, struct bytes key, struct bytes value)
{
    struct useless *useless = context;
    struct bytes name, tenant, entity_json;
    struct mark mark;
    if (!mark_key_split(key, &name, &tenant, &entity_json) || !mark_decode(value, &mark))
        return true;
    if (!is_useless(useless, name, tenant, &mark)) return true;
    useless->tenants[useless->count] = arena_copy(useless->arena, tenant);
    useless->changes[useless->count++] =
        (struct mark_change){.step = MARK_FORGET,
                             .version = mark.version,
                             .place = mark_place_of(useless->arena, &useless->lane->store->secret,
                                                    name, tenant, entity_json)};
    return useless->count < useless->most;
}

enum err scan_useless(const struct lane *lane, const struct rules *rules, struct arena *arena,
                      struct mark_change *changes, struct bytes *tenants, unsigned most,
                      unsigned *count_out)
{
    struct useless useless = {lane, rules, clock_now_ms(lane->clock), arena, changes, tenants,
                              0,    most};
    enum err e = view_objects(&lane->store->view, object_key(arena, OBJECT_MARK, BYTES_NONE),
                              BYTES_NONE, see_useless, &useless);
    *count_out = useless.count;
    return e;
}
