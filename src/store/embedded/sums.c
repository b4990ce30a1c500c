/* sums.c -- keeps the nodes equal to the stored cells, by the one thread that writes the state.
 *
 * (1) Nodes are made of stored cells only. A batch that changes cells of a summed series also adds
 *     to their nodes the difference between each new cell and the one that the state holds at that
 *     moment; nobody else writes, so that is the one it replaces. What the change was, in a batch
 *     of operations or in the journal, is never looked at.
 * (2) A batch is in the state whole or not at all, and so is it after a crash (state.h). So every
 *     snapshot, and every state that a crash or a reopening leaves behind, is the state after some
 *     whole number of batches, and by (1) its nodes fit its cells.
 * (3) Hence recovery has nothing to repair. It replays absolute values into memory, dirty; written
 *     back they are compared with whatever the state holds, older, equal or newer, and the nodes
 *     follow. Replaying twice, or what the state has already, adds a difference of zero.
 * (4) The mark decides, and it is part of the same snapshots: without it nodes are not read. While
 *     a series is being built only the cells before `built` are in nodes, and only those are kept
 *     up; the mark comes with the batch that builds the rest. A build that a crash cut off leaves
 *     nodes without a mark, which the next build, or the end of the series, removes.
 * (5) A cell whose expiry is exact is over without a batch that says so, and no node could follow.
 *     So a series has no nodes as long as the state holds such a cell of it: the batch that writes
 *     the first one takes the mark away, and a build that meets one is given up.
 * (6) The set in memory says which series are summed, or being built, in the state as it is now: it
 *     is loaded again whenever the state was opened. Readers do not use it. */
#include "store/embedded/sums.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "store/embedded/state/records.h"

#ifdef TALLY_SMALL_WORLD
#define STEP_CELLS 20u
#define ASKED_MAX 4u
#define SUMMED_MAX 16u
#else
#define STEP_CELLS 16384u  /* scanned in one step of building: some milliseconds */
#define ASKED_MAX 64u      /* series waiting to be built */
#define SUMMED_MAX 100000u /* series, at 64 bytes of memory each */
#endif

struct summed {
    struct table_node node;
    uint64_t series;
    int32_t duration;
    bool whole;    /* marked; else: */
    int64_t built; /* cells of indexes below this are in nodes */
    bool broken;   /* one of its rows cannot be read */
    bool exact;    /* one of its cells has an exact expiry */
};

/* The nodes that a noted cell changes: the new values are added, then the stored ones are taken
 * away. */
struct sums_change {
    struct summed *summed;
    int64_t bucket;
    int64_t added;
    int64_t subbed;
};

struct node {
    struct summed *summed;
    int64_t index;
    uint8_t level;
    struct range_sum sum;
};

struct sums {
    struct table set;
    struct summed *building; /* in the set as well */
    struct sums_change changes[SUMS_CHUNK];
    size_t changes_count;

    pthread_mutex_t lock; /* guards what was asked for */
    uint64_t asked[ASKED_MAX];
    size_t asked_count;
};

#define SUMMED_OF(pointer) CONTAINER_OF(pointer, struct summed, node)

struct sums *sums_new(void)
{
    struct sums *sums = must_calloc(1, sizeof *sums);
    table_init(&sums->set);
    pthread_mutex_init(&sums->lock, NULL);
    return sums;
}

static void set_remove(struct sums *sums, struct summed *summed)
{
    if (sums->building == summed) sums->building = NULL;
    table_remove(&sums->set, &summed->node);
    free(summed);
}

static void set_clear(struct sums *sums)
{
    for (size_t i = 0; i <= sums->set.mask; i++) {
        while (sums->set.buckets[i])
            set_remove(sums, SUMMED_OF(sums->set.buckets[i]));
    }
}

void sums_free(struct sums *sums)
{
    if (!sums) return;
    set_clear(sums);
    table_release(&sums->set);
    pthread_mutex_destroy(&sums->lock);
    free(sums);
}

static struct summed *set_find(const struct sums *sums, uint64_t series)
{
    TABLE_EACH_MATCH(&sums->set, hash_mix(series), node)
    {
        if (SUMMED_OF(node)->series == series) return SUMMED_OF(node);
    }
    return NULL;
}

static struct summed *set_add(struct sums *sums, uint64_t series, int32_t duration)
{
    struct summed *summed = must_calloc(1, sizeof *summed);
    summed->node.hash = hash_mix(series);
    summed->series = series;
    summed->duration = duration;
    summed->built = INT64_MIN;
    table_insert(&sums->set, &summed->node);
    return summed;
}

struct loading {
    struct sums *sums;
    enum err err;
};

static bool load_mark(void *context, struct bytes key, struct bytes value)
{
    struct loading *loading = context;
    uint64_t series;
    int32_t duration;
    loading->err = mark_key_decode(key, &series);
    if (loading->err == ERR_OK) loading->err = mark_record_decode(value, &duration);
    if (loading->err != ERR_OK) return false;
    set_add(loading->sums, series, duration)->whole = true;
    return true;
}

enum err sums_load(struct sums *sums, struct state *state)
{
    char from[MARK_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    struct loading loading = {.sums = sums};
    set_clear(sums);
    sums->changes_count = 0;
    enum err e =
        state_scan(state, STATE_SUMS, mark_key(from, 0), series_key(to, 1), load_mark, &loading);
    return e == ERR_OK ? loading.err : e;
}

/* ---- kept up with the cells ---- */

static bool is_built(const struct summed *summed, int64_t bucket)
{
    return summed->whole || sums_index(bucket, summed->duration) < summed->built;
}

void sums_note(struct sums *sums, uint64_t series, int64_t bucket, const struct cell *cell)
{
    if (sums->set.count == 0) return;
    struct summed *summed = set_find(sums, series);
    if (!summed || !is_built(summed, bucket)) return;
    must(sums->changes_count < SUMS_CHUNK);
    if (cell->exists && cell->exact) summed->exact = true;
    sums->changes[sums->changes_count++] =
        (struct sums_change){.summed = summed,
                             .bucket = bucket,
                             .added = cell->exists ? cell->added : 0,
                             .subbed = cell->exists ? cell->subbed : 0};
}

static void old_cell_found(void *context, size_t index, struct bytes value)
{
    struct sums *sums = context;
    struct sums_change *change = &sums->changes[index];
    struct cell old;
    if (cell_record_decode(value, &old) != ERR_OK) {
        change->summed->broken = true;
        return;
    }
    change->added -= old.added;
    change->subbed -= old.subbed;
}

static enum err take_old_cells(struct sums *sums, struct state *state)
{
    char rooms[SUMS_CHUNK][CELL_KEY_SIZE];
    struct bytes keys[SUMS_CHUNK];
    for (size_t i = 0; i < sums->changes_count; i++)
        keys[i] = cell_key(rooms[i], sums->changes[i].summed->series, sums->changes[i].bucket);
    return state_get_many(state, STATE_CELLS, keys, sums->changes_count, old_cell_found, sums);
}

static int node_compare(const void *a, const void *b)
{
    const struct node *left = a;
    const struct node *right = b;
    if (left->summed->series != right->summed->series)
        return left->summed->series < right->summed->series ? -1 : 1;
    if (left->level != right->level) return left->level < right->level ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* Equal nodes become one; returns how many are left. */
static size_t merge_nodes(struct node *nodes, size_t count)
{
    size_t last = 0;
    if (count == 0) return 0;
    qsort(nodes, count, sizeof *nodes, node_compare);
    for (size_t i = 1; i < count; i++) {
        if (node_compare(&nodes[last], &nodes[i]) != 0) {
            nodes[++last] = nodes[i];
            continue;
        }
        nodes[last].sum.added += nodes[i].sum.added;
        nodes[last].sum.subbed += nodes[i].sum.subbed;
    }
    return count ? last + 1 : 0;
}

static size_t changed_nodes(const struct sums *sums, struct node *nodes)
{
    size_t count = 0;
    for (size_t i = 0; i < sums->changes_count; i++) {
        const struct sums_change *change = &sums->changes[i];
        if (change->added == 0 && change->subbed == 0) continue;
        int64_t index = sums_index(change->bucket, change->summed->duration);
        for (uint8_t level = 1; level <= SUMS_LEVELS; level++) {
            nodes[count++] = (struct node){.summed = change->summed,
                                           .index = index >> level * SUMS_SHIFT,
                                           .level = level,
                                           .sum = {change->added, change->subbed}};
        }
    }
    return merge_nodes(nodes, count);
}

static void old_node_found(void *context, size_t index, struct bytes value)
{
    struct node *node = (struct node *)context + index;
    struct range_sum old;
    if (node_record_decode(value, &old) != ERR_OK) {
        node->summed->broken = true;
        return;
    }
    node->sum.added += old.added;
    node->sum.subbed += old.subbed;
}

/* Asserts that no sum is below zero, for it cannot come from the cells that are there. */
static void check_node(struct node *node)
{
    if (node->sum.added < 0 || node->sum.subbed < 0) node->summed->broken = true;
}

static void put_node(struct state_batch *batch, const struct node *node)
{
    char key[NODE_KEY_SIZE];
    char room[64];
    struct bytes name = node_key(key, node->summed->series, node->level, node->index);
    if (node->sum.added == 0 && node->sum.subbed == 0) {
        state_batch_delete(batch, STATE_SUMS, name);
        return;
    }
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    node_record(&value, &node->sum);
    must(!value.failed);
    state_batch_put(batch, STATE_SUMS, name, buf_bytes(&value));
}

static bool is_unfit(const struct summed *summed)
{
    return summed->broken || summed->exact;
}

static enum err write_nodes(struct sums *sums, struct state *state, struct state_batch *batch)
{
    struct node nodes[SUMS_CHUNK * SUMS_LEVELS];
    char rooms[SUMS_CHUNK * SUMS_LEVELS][NODE_KEY_SIZE];
    struct bytes keys[SUMS_CHUNK * SUMS_LEVELS];
    size_t count = changed_nodes(sums, nodes);
    for (size_t i = 0; i < count; i++)
        keys[i] = node_key(rooms[i], nodes[i].summed->series, nodes[i].level, nodes[i].index);
    enum err e = state_get_many(state, STATE_SUMS, keys, count, old_node_found, nodes);
    for (size_t i = 0; i < count && e == ERR_OK; i++)
        check_node(&nodes[i]);
    for (size_t i = 0; i < count && e == ERR_OK; i++) {
        if (!is_unfit(nodes[i].summed)) put_node(batch, &nodes[i]);
    }
    return e;
}

/* A damaged row must not keep the journal from being trimmed: the series is no longer summed. Its
 * cells are read one by one again, and the next reader who walks many has it built anew. */
static void give_up(struct sums *sums, struct state_batch *batch, struct summed *summed)
{
    char key[MARK_KEY_SIZE];
    if (summed->broken)
        log_line(LOG_ERROR, "a stored sum cannot be read; it will be made anew",
                 LOG_KV("series", summed->series));
    state_batch_delete(batch, STATE_SUMS, mark_key(key, summed->series));
    set_remove(sums, summed);
}

static void give_up_unfit(struct sums *sums, struct state_batch *batch)
{
    for (size_t i = 0; i < sums->changes_count; i++) {
        struct summed *summed = sums->changes[i].summed;
        if (!summed || !is_unfit(summed)) continue;
        for (size_t j = i; j < sums->changes_count; j++) {
            if (sums->changes[j].summed == summed) sums->changes[j].summed = NULL;
        }
        give_up(sums, batch, summed);
    }
}

enum err sums_write(struct sums *sums, struct state *state, struct state_batch *batch)
{
    if (sums->changes_count == 0) return ERR_OK;
    enum err e = take_old_cells(sums, state);
    if (e == ERR_OK) e = write_nodes(sums, state, batch);
    if (e == ERR_OK) give_up_unfit(sums, batch);
    sums->changes_count = 0;
    return e;
}

static bool any_row(void *context, struct bytes key, struct bytes value)
{
    (void)key, (void)value;
    *(bool *)context = true;
    return false;
}

/* Deletes also what a build that was cut off left behind. */
static enum err delete_nodes(struct state *state, struct state_batch *batch, uint64_t series)
{
    char from[SERIES_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    bool any = false;
    struct bytes first = series_key(from, series);
    struct bytes end = series_key(to, series + 1);
    enum err e = state_scan(state, STATE_SUMS, first, end, any_row, &any);
    if (e == ERR_OK && any) state_batch_delete_range(batch, STATE_SUMS, first, end);
    return e;
}

enum err sums_bury(struct sums *sums, struct state *state, struct state_batch *batch,
                   uint64_t series)
{
    char key[MARK_KEY_SIZE];
    struct summed *summed = set_find(sums, series);
    enum err e = delete_nodes(state, batch, series);
    if (e != ERR_OK || !summed) return e;
    if (summed->whole) state_batch_delete(batch, STATE_SUMS, mark_key(key, series));
    set_remove(sums, summed);
    return ERR_OK;
}

/* ---- building ---- */

void sums_ask(struct sums *sums, uint64_t series)
{
    pthread_mutex_lock(&sums->lock);
    bool known = sums->asked_count == ASKED_MAX;
    for (size_t i = 0; i < sums->asked_count && !known; i++)
        known = sums->asked[i] == series;
    if (!known) sums->asked[sums->asked_count++] = series;
    pthread_mutex_unlock(&sums->lock);
}

/* The next series that a reader asked for; 0: none. */
static uint64_t next_asked(struct sums *sums)
{
    pthread_mutex_lock(&sums->lock);
    uint64_t series = sums->asked_count ? sums->asked[--sums->asked_count] : 0;
    pthread_mutex_unlock(&sums->lock);
    return series;
}

/* A series that has died since it was asked for has no row any more. */
static enum err build_begin(struct sums *sums, struct state *state, struct state_batch *batch,
                            uint64_t series)
{
    char key[SERIES_KEY_SIZE];
    struct buf value;
    int32_t duration = 0;
    struct bytes counter;
    if (set_find(sums, series) || sums->set.count >= SUMMED_MAX) return ERR_OK;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = state_get(state, STATE_SERIES, series_key(key, series), &value);
    if (e == ERR_OK) e = series_record_decode(buf_bytes(&value), &duration, &counter);
    if (e == ERR_OK && duration > 0) e = delete_nodes(state, batch, series);
    if (e == ERR_OK && duration > 0) sums->building = set_add(sums, series, duration);
    buf_release(&value);
    return e == ERR_STORAGE ? e : ERR_OK;
}

/* Cells come in order, so at each level one node at a time is being filled. */
struct building {
    struct summed *summed;
    struct state_batch *batch;
    struct node filling[SUMS_LEVELS];
    size_t cells;
    bool stopped; /* before the end; at `next` */
    int64_t next;
    enum err err;
};

static void fill_level(struct building *building, uint8_t level, int64_t index,
                       const struct cell *cell)
{
    struct node *node = &building->filling[level - 1];
    int64_t mine = index >> level * SUMS_SHIFT;
    if (!node->summed || node->index != mine) {
        if (node->summed) put_node(building->batch, node);
        *node = (struct node){.summed = building->summed, .index = mine, .level = level};
    }
    node->sum.added += cell->added;
    node->sum.subbed += cell->subbed;
}

/* Stops between two nodes of the highest level only, so that no node is built in two steps. */
static bool stops_before(struct building *building, int64_t index)
{
    const unsigned shift = SUMS_LEVELS * SUMS_SHIFT;
    int64_t top = index >> shift;
    if (building->cells < STEP_CELLS || building->filling[SUMS_LEVELS - 1].index == top)
        return false;
    building->next = top * ((int64_t)1 << shift);
    return true;
}

static bool build_cell(void *context, struct bytes key, struct bytes value)
{
    struct building *building = context;
    uint64_t series;
    int64_t bucket;
    struct cell cell;
    building->err = cell_key_decode(key, &series, &bucket);
    if (building->err == ERR_OK) building->err = cell_record_decode(value, &cell);
    if (building->err == ERR_OK && cell.exact) building->err = ERR_CONFLICT;
    if (building->err != ERR_OK) return false;
    int64_t index = sums_index(bucket, building->summed->duration);
    building->stopped = stops_before(building, index);
    if (building->stopped) return false;
    for (uint8_t level = 1; level <= SUMS_LEVELS; level++)
        fill_level(building, level, index, &cell);
    building->cells++;
    return true;
}

static void build_end(struct building *building)
{
    struct summed *summed = building->summed;
    for (size_t i = 0; i < SUMS_LEVELS; i++) {
        if (building->filling[i].summed) put_node(building->batch, &building->filling[i]);
    }
    summed->whole = !building->stopped;
    summed->built = building->next;
    if (!summed->whole) return;
    char key[MARK_KEY_SIZE];
    char room[16];
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    mark_record(&value, summed->duration);
    state_batch_put(building->batch, STATE_SUMS, mark_key(key, summed->series), buf_bytes(&value));
}

static enum err build_step(struct sums *sums, struct state *state, struct state_batch *batch)
{
    struct summed *summed = sums->building;
    struct building building = {.summed = summed, .batch = batch};
    char from[CELL_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    int64_t start = summed->built == INT64_MIN ? INT64_MIN : summed->built * summed->duration;
    enum err e = state_scan(state, STATE_CELLS, cell_key(from, summed->series, start),
                            series_key(to, summed->series + 1), build_cell, &building);
    if (e != ERR_OK) return e;
    if (building.err != ERR_OK) { /* the reader of a cell that is damaged is told */
        state_batch_clear(batch);
        set_remove(sums, summed);
        return ERR_OK;
    }
    build_end(&building);
    if (summed->whole) sums->building = NULL;
    return state_write(state, batch);
}

enum err sums_build(struct sums *sums, struct state *state, struct state_batch *batch,
                    bool *more_out)
{
    enum err e = ERR_OK;
    if (!sums->building) {
        uint64_t series = next_asked(sums);
        if (series) e = build_begin(sums, state, batch, series);
    }
    if (e == ERR_OK && sums->building) e = build_step(sums, state, batch);
    *more_out = e == ERR_OK && sums->building;
    return e;
}
