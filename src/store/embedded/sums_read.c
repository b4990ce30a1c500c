/* sums_read.c -- covers a range with as few rows as there can be.
 *
 * A range takes as many whole nodes of the highest level as fit; what is left at either end is
 * taken in nodes of the level below, and so on down to cells: at most five scans of neighbouring
 * rows, all in one view. */
#include "store/embedded/sums.h"

#include "store/embedded/state/records.h"

#define NEAR 8u     /* buckets apart, at most, in a run of newer cells */
#define LOOKUPS 64u /* cells looked up at once */
#ifdef TALLY_SMALL_WORLD
#define SCAN_MIN 3u
#else
#define SCAN_MIN 32u /* cells in a run that is scanned rather than looked up */
#endif

struct cover {
    struct state_view *view;
    uint64_t series;
    int32_t duration;
    struct range_sum *sum;
    enum err err; /* a row's */
};

static bool add_node(void *context, struct bytes key, struct bytes value)
{
    struct cover *cover = context;
    struct range_sum node;
    (void)key;
    cover->err = node_record_decode(value, &node);
    if (cover->err != ERR_OK) return false;
    cover->sum->added += node.added;
    cover->sum->subbed += node.subbed;
    return true;
}

static bool add_cell(void *context, struct bytes key, struct bytes value)
{
    struct cover *cover = context;
    struct cell cell;
    (void)key;
    cover->err = cell_record_decode(value, &cell);
    if (cover->err != ERR_OK) return false;
    cover->sum->added += cell.added;
    cover->sum->subbed += cell.subbed;
    return true;
}

static enum err cover_nodes(struct cover *cover, uint8_t level, int64_t first, int64_t last)
{
    char from[NODE_KEY_SIZE];
    char end[NODE_KEY_SIZE + 1] = {0}; /* right after the last key: the end is not included */
    node_key(from, cover->series, level, first);
    node_key(end, cover->series, level, last);
    enum err e = state_view_scan(cover->view, STATE_SUMS, bytes_of(from, sizeof from),
                                 bytes_of(end, sizeof end), add_node, cover);
    return e == ERR_OK ? cover->err : e;
}

static enum err scan_cells(struct state_view *view, uint64_t series, int64_t first, int64_t last,
                           state_visit_fn *visit, void *context)
{
    char from[CELL_KEY_SIZE];
    char end[CELL_KEY_SIZE + 1] = {0};
    cell_key(from, series, first);
    cell_key(end, series, last);
    return state_view_scan(view, STATE_CELLS, bytes_of(from, sizeof from),
                           bytes_of(end, sizeof end), visit, context);
}

static enum err cover_cells(struct cover *cover, int64_t first, int64_t last)
{
    enum err e = scan_cells(cover->view, cover->series, first * cover->duration,
                            last * cover->duration, add_cell, cover);
    return e == ERR_OK ? cover->err : e;
}

/* Covers the buckets first <= index <= last. No product here leaves that range, so none
 * overflows. */
static enum err cover_buckets(struct cover *cover, uint8_t level, int64_t first, int64_t last)
{
    if (level == 0) return cover_cells(cover, first, last);
    uint8_t below = (uint8_t)(level - 1);
    unsigned shift = level * SUMS_SHIFT;
    int64_t size = (int64_t)1 << shift;
    int64_t node_first = (first >> shift) + ((first & (size - 1)) != 0);
    int64_t node_last = (last >> shift) - ((last & (size - 1)) != size - 1);
    if (node_first > node_last) return cover_buckets(cover, below, first, last);
    int64_t start = node_first * size;
    int64_t end = node_last * size + (size - 1);
    enum err e = cover_nodes(cover, level, node_first, node_last);
    if (e == ERR_OK && first < start) e = cover_buckets(cover, below, first, start - 1);
    if (e == ERR_OK && end < last) e = cover_buckets(cover, below, end + 1, last);
    return e;
}

static enum err is_summed(struct state_view *view, uint64_t series, bool *summed_out)
{
    char key[MARK_KEY_SIZE];
    char room[32];
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    enum err e = state_view_get(view, STATE_SUMS, mark_key(key, series), &value);
    *summed_out = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

enum err sums_read(struct state_view *view, const struct series *series, int64_t from, int64_t to,
                   struct range_sum *sum, bool *summed_out)
{
    must(series->duration > 0);
    int64_t first = sums_index(from, series->duration);
    int64_t last = sums_index(to, series->duration);
    if (from % series->duration != 0) first++; /* a bucket that begins before is not in the range */
    enum err e = is_summed(view, series->id, summed_out);
    if (e != ERR_OK || !*summed_out || first > last) return e;
    struct cover cover = {
        .view = view, .series = series->id, .duration = series->duration, .sum = sum};
    return cover_buckets(&cover, SUMS_LEVELS, first, last);
}

/* -- Exchanging stored cells for newer ones ----------------------------------------------------
 *
 * A scan asks every file of the state, a lookup only those whose filter knows the cell: a hundred
 * times less for a cell that stands alone, more for one of many neighbours. */

struct renewal {
    struct state_view *view;
    const struct series *series;
    const struct bucket_cell *newer; /* those of the run being scanned */
    size_t count;
    size_t at;
    char rooms[LOOKUPS][CELL_KEY_SIZE];
    struct bytes keys[LOOKUPS]; /* to be looked up */
    size_t keys_count;
    struct range_sum *sum;
    enum err err; /* a row's */
};

static void take_away(struct renewal *renewal, struct bytes value)
{
    struct cell cell;
    enum err e = cell_record_decode(value, &cell);
    if (e != ERR_OK) {
        renewal->err = e;
        return;
    }
    renewal->sum->added -= cell.added;
    renewal->sum->subbed -= cell.subbed;
}

static void take_away_found(void *context, size_t index, struct bytes value)
{
    (void)index;
    take_away(context, value);
}

static enum err renew_looked_up(struct renewal *renewal)
{
    size_t count = renewal->keys_count;
    renewal->keys_count = 0;
    enum err e = state_view_get_many(renewal->view, STATE_CELLS, renewal->keys, count,
                                     take_away_found, renewal);
    return e == ERR_OK ? renewal->err : e;
}

static enum err renew_one(struct renewal *renewal, int64_t bucket)
{
    size_t at = renewal->keys_count++;
    renewal->keys[at] = cell_key(renewal->rooms[at], renewal->series->id, bucket);
    return renewal->keys_count == LOOKUPS ? renew_looked_up(renewal) : ERR_OK;
}

static bool take_away_old(void *context, struct bytes key, struct bytes value)
{
    struct renewal *renewal = context;
    uint64_t series;
    int64_t bucket;
    renewal->err = cell_key_decode(key, &series, &bucket);
    if (renewal->err != ERR_OK) return false;
    while (renewal->at < renewal->count && renewal->newer[renewal->at].bucket < bucket)
        renewal->at++;
    if (renewal->at < renewal->count && renewal->newer[renewal->at].bucket == bucket)
        take_away(renewal, value);
    return renewal->err == ERR_OK;
}

static enum err renew_run(struct renewal *renewal, const struct bucket_cell *run, size_t length)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < length && length < SCAN_MIN && e == ERR_OK; i++)
        e = renew_one(renewal, run[i].bucket);
    if (length < SCAN_MIN) return e;
    renewal->newer = run;
    renewal->count = length;
    renewal->at = 0;
    e = scan_cells(renewal->view, renewal->series->id, run[0].bucket, run[length - 1].bucket,
                   take_away_old, renewal);
    return e == ERR_OK ? renewal->err : e;
}

static size_t run_length(const struct bucket_cell *newer, size_t count, int32_t duration)
{
    size_t length = 1;
    uint64_t gap = (uint64_t)duration * NEAR;
    while (length < count &&
           (uint64_t)newer[length].bucket - (uint64_t)newer[length - 1].bucket <= gap)
        length++;
    return length;
}

enum err sums_renew(struct state_view *view, const struct series *series,
                    const struct bucket_cell *newer, size_t count, struct range_sum *sum)
{
    enum err e = ERR_OK;
    struct renewal renewal = {.view = view, .series = series, .sum = sum};
    for (size_t i = 0; i < count; i++) {
        if (!newer[i].cell.exists) continue;
        sum->added += newer[i].cell.added;
        sum->subbed += newer[i].cell.subbed;
    }
    for (size_t at = 0, length; at < count && e == ERR_OK; at += length) {
        length = run_length(newer + at, count - at, series->duration);
        e = renew_run(&renewal, newer + at, length);
    }
    return e == ERR_OK ? renew_looked_up(&renewal) : e;
}
