/* moments.c -- one moment as one statement, and what many readers wait for as one statement too.
 *
 * What a reader asks for is known once it has run, and it may be run again. So it runs first on a
 * view that finds nothing and notes what it was asked for: its wishes. One statement loads the
 * wishes of all readers, of all lanes that are read at the same place, in one snapshot; then each
 * reader runs again and is answered from that.
 *
 * (1) The statement is sent after every reader that it answers has begun, so each sees what was
 *     acknowledged anywhere before.
 * (2) A reader whose second run asks for more (it went on by what it found) has its moment as a
 *     transaction.
 *     So it is on Citus, where one statement goes to one shard.
 * (3) A reader that wished for nothing, or for nothing but what is in memory, costs no statement:
 *     its first run was enough. */
#include "store/postgres/internal.h"

#include <stdlib.h>

#include "base/arena.h"
#include "core/cell.h"

enum wish_kind { WISH_CELL, WISH_OBJECT, WISH_NEWEST, WISH_SUM, WISH_KINDS };

struct wish {
    struct table_node node; /* in the table of `struct wishes` */
    struct wish *next;      /* one of the same kind */
    enum wish_kind kind;
    struct lane_store *lane;
    struct fingerprint print;
    int32_t duration;
    int64_t from; /* a cell's bucket */
    int64_t to;
    int64_t now_ms; /* a sum's */
    uint32_t cells_max;

    enum err err; /* what came of it */
    struct cell cell;
    struct bytes value;
    uint64_t sequence;
    struct range_sum sum;
};

/* What is asked at one place at once. */
struct wishes {
    struct view view; /* the first one's who wishes for something; on the primary, of no age */
    struct view_age newest;
    struct way *ways; /* one for each reader that wishes for something */
    unsigned ways_count;
    bool standby;
    struct arena arena; /* holds the wishes and what was found */
    struct table noted;
    struct wish *first[WISH_KINDS];
    struct wish **end[WISH_KINDS];
    unsigned count[WISH_KINDS];
    bool loaded;
};

struct gathered_view {
    struct view view;
    struct wishes *wishes;
    bool wished; /* it was asked for something, */
    bool missed; /* and for what was not loaded */
};

/* -- What a reader runs on --------------------------------------------------------------------- */

static bool wish_is(const struct wish *wish, const struct wish *other)
{
    return wish->kind == other->kind && wish->lane == other->lane &&
           fingerprint_equal(wish->print, other->print) && wish->duration == other->duration &&
           wish->from == other->from && wish->to == other->to &&
           wish->cells_max == other->cells_max && wish->now_ms == other->now_ms;
}

static struct wish *find(struct wishes *wishes, const struct wish *wish)
{
    TABLE_EACH_MATCH(&wishes->noted, wish->node.hash, node)
    {
        struct wish *found = CONTAINER_OF(node, struct wish, node);
        if (wish_is(found, wish)) return found;
    }
    return NULL;
}

static void note(struct wishes *wishes, const struct wish *wish)
{
    struct wish *noted = arena_alloc(&wishes->arena, sizeof *noted);
    *noted = *wish;
    table_insert(&wishes->noted, &noted->node);
    *wishes->end[wish->kind] = noted;
    wishes->end[wish->kind] = &noted->next;
    wishes->count[wish->kind]++;
}

/* What came of it; NULL in the first run, which notes it. */
static const struct wish *ask_for(struct view *view, struct wish wish)
{
    struct gathered_view *gathered = CONTAINER_OF(view, struct gathered_view, view);
    struct wishes *wishes = gathered->wishes;
    wish.lane = LANE_STORE_OF(view->store);
    wish.node.hash = hash_mix(wish.print.low ^ (uint64_t)wish.from) ^ (uint64_t)wish.duration;
    struct wish *found = find(wishes, &wish);
    gathered->wished = true;
    if (wishes->loaded) {
        gathered->missed |= !found;
        return found;
    }
    if (!found) note(wishes, &wish);
    return NULL;
}

static enum err moment_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                           enum read_how how, struct cell *cell_out)
{
    if (how == READ_MEMORY) return ERR_BUSY;
    const struct wish *found = ask_for(view, (struct wish){.kind = WISH_CELL,
                                                           .print = ref->print,
                                                           .duration = ref->duration,
                                                           .from = bucket});
    if (!found) return ERR_NOT_FOUND;
    *cell_out = found->cell;
    return found->err;
}

static enum err moment_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                           uint32_t cells_max, struct range_sum *sum_out)
{
    *sum_out = (struct range_sum){0};
    const struct wish *found = ask_for(view, (struct wish){.kind = WISH_SUM,
                                                           .print = ref->print,
                                                           .duration = ref->duration,
                                                           .from = from,
                                                           .to = to,
                                                           .now_ms = ref->now_ms,
                                                           .cells_max = cells_max});
    if (!found) return ERR_OK;
    *sum_out = found->sum;
    return found->err;
}

static enum err moment_object(struct view *view, struct bytes key, struct buf *value_out)
{
    buf_reset(value_out);
    const struct wish *found =
        ask_for(view, (struct wish){.kind = WISH_OBJECT,
                                    .print = fingerprint_of(&view->store->secret, key)});
    if (!found) return ERR_NOT_FOUND;
    buf_add(value_out, found->value);
    return found->err;
}

static enum err moment_newest(struct view *view, uint64_t *sequence_out)
{
    *sequence_out = 0;
    const struct wish *found = ask_for(view, (struct wish){.kind = WISH_NEWEST});
    if (!found) return ERR_OK;
    *sequence_out = found->sequence;
    return found->err;
}

/* A moment within a moment is the same one. */
static void same_instant(struct view *view, view_read_fn *read, void *context)
{
    read(context, view);
}

static const struct view_ops gathered_ops = {
    .get = moment_get,
    .sum = moment_sum,
    .object = moment_object,
    .newest = moment_newest,
    .instant = same_instant,
};

/* -- Asking ------------------------------------------------------------------------------------ */

#define EACH_WISH(wishes, kind, wish) \
    for (struct wish *wish = (wishes)->first[kind]; wish; wish = wish->next)

static void add_cells(struct wishes *wishes, struct sql_values *values)
{
    values_columns(values, "iuil");
    EACH_WISH(wishes, WISH_CELL, wish)
    {
        row_i32(values, (int32_t)wish->lane->lane);
        row_print(values, wish->print);
        row_i32(values, wish->duration);
        row_i64(values, wish->from);
    }
}

static void add_others(struct wishes *wishes, struct sql_values *values)
{
    values_columns(values, "iu");
    EACH_WISH(wishes, WISH_OBJECT, wish)
    {
        row_i32(values, (int32_t)wish->lane->lane);
        row_print(values, wish->print);
    }
    values_columns(values, "i");
    EACH_WISH(wishes, WISH_NEWEST, wish)
    {
        row_i32(values, (int32_t)wish->lane->lane);
    }
    values_columns(values, "iuillll");
    EACH_WISH(wishes, WISH_SUM, wish)
    {
        row_i32(values, (int32_t)wish->lane->lane);
        row_print(values, wish->print);
        row_i32(values, wish->duration);
        row_i64(values, wish->from);
        row_i64(values, wish->to);
        row_i64(values, (int64_t)wish->cells_max + 1);
        row_i64(values, wish->now_ms ? wish->now_ms : INT64_MIN);
    }
}

/* The two sums as text, with a space in between. */
static bool take_sum(struct wish *wish, int64_t cells, struct bytes text)
{
    const char *space = text.size ? memchr(text.data, ' ', text.size) : NULL;
    if (!space) return false;
    size_t size = (size_t)(space - text.data);
    wish->err = cells > wish->cells_max ? ERR_TOO_MANY_CELLS : ERR_OK;
    return parse_sum(bytes_of(text.data, size), &wish->sum.added) &&
           parse_sum(bytes_of(space + 1, text.size - size - 1), &wish->sum.subbed);
}

static bool take_row(struct wishes *wishes, struct wish *wish, const PGresult *result, int row)
{
    int64_t number = 0;
    wish->err = ERR_OK;
    if (wish->kind == WISH_CELL) return row_cell(result, row, 2, &wish->cell);
    if (!result_i64(result, row, 2, &number)) return false;
    wish->sequence = (uint64_t)number;
    wish->value = arena_copy(&wishes->arena, result_bytes(result, row, 8));
    return wish->kind != WISH_SUM || take_sum(wish, number, result_bytes(result, row, 9));
}

/* The wishes of each kind, as the statement counts them. */
struct numbered {
    struct wish **of[WISH_KINDS];
};

static void number_wishes(struct wishes *wishes, struct numbered *numbered)
{
    for (unsigned kind = 0; kind < WISH_KINDS; kind++) {
        unsigned i = 0;
        numbered->of[kind] =
            arena_alloc(&wishes->arena, (wishes->count[kind] + 1) * sizeof(struct wish *));
        EACH_WISH(wishes, kind, wish)
        {
            /* Sums and lanes always have a row. */
            bool may_lack = kind == WISH_CELL || kind == WISH_OBJECT;
            wish->err = may_lack ? ERR_NOT_FOUND : ERR_CORRUPT;
            numbered->of[kind][i++] = wish;
        }
    }
}

static enum err take_rows(struct wishes *wishes, const PGresult *result)
{
    struct numbered numbered;
    number_wishes(wishes, &numbered);
    for (int row = 0; row < PQntuples(result); row++) {
        int64_t n;
        int32_t kind;
        if (!result_i64(result, row, 0, &n) || !result_i32(result, row, 1, &kind) || kind < 0 ||
            kind >= WISH_KINDS || n < 1 || n > wishes->count[kind])
            return ERR_CORRUPT;
        struct wish *wish = numbered.of[kind][n - 1];
        if (!take_row(wishes, wish, result, row)) wish->err = ERR_CORRUPT;
    }
    return ERR_OK;
}

static bool only_cells(const struct wishes *wishes)
{
    return wishes->count[WISH_OBJECT] + wishes->count[WISH_NEWEST] + wishes->count[WISH_SUM] == 0;
}

static void fail_all(struct wishes *wishes, enum err e)
{
    for (unsigned kind = 0; kind < WISH_KINDS; kind++)
        EACH_WISH(wishes, kind, wish)
        {
            wish->err = e;
        }
}

static void load_all(struct wishes *wishes)
{
    struct inquiry inquiry;
    PGresult *result;
    bool cells = only_cells(wishes);
    inquiry_begin(&inquiry, &wishes->view);
    values_reset(&inquiry.values);
    add_cells(wishes, &inquiry.values);
    if (!cells) add_others(wishes, &inquiry.values);
    enum sql_name name = cells ? SQL_GATHER_CELLS : SQL_GATHER;
    enum err e = wishes->standby ? way_ask_together(wishes->ways, wishes->ways_count, name,
                                                    &inquiry.values, &result)
                                 : inquiry_ask(&inquiry, name, &result);
    if (e == ERR_OK && take_rows(wishes, result) != ERR_OK)
        e = inquiry_corrupt(&inquiry, "what was gathered");
    if (e != ERR_OK) fail_all(wishes, e);
    PQclear(result);
    inquiry_end(&inquiry);
}

static bool is_one_cell(const struct wishes *wishes)
{
    const struct wish *cell = wishes->first[WISH_CELL];
    bool of_one_reader = !wishes->standby || wishes->ways_count == 1; /* or each has its own age */
    return only_cells(wishes) && !cell->next && of_one_reader;
}

/* Grants the wishes. A cell that is alone has a statement of its own, which takes the database half
 * the time. */
static void load(struct wishes *wishes)
{
    struct wish *cell = wishes->first[WISH_CELL];
    if (is_one_cell(wishes)) {
        const struct cell_ref ref = {.print = cell->print, .duration = cell->duration};
        struct view view = {.ops = &postgres_view_ops, .store = &cell->lane->store};
        view.age = wishes->view.age;
        cell->err = view_get(&view, &ref, cell->from, READ_ALL, &cell->cell);
    } else {
        load_all(wishes);
    }
    wishes->loaded = true;
}

/* -- Readers ----------------------------------------------------------------------------------- */

static void wishes_begin(struct wishes *wishes, struct view *view, bool standby, unsigned ways_max)
{
    *wishes = (struct wishes){.view = *view, .standby = standby};
    wishes->newest.newest = true;
    if (!standby && view->age) wishes->view.age = &wishes->newest;
    for (unsigned kind = 0; kind < WISH_KINDS; kind++)
        wishes->end[kind] = &wishes->first[kind];
    wishes->ways = must_calloc(ways_max, sizeof *wishes->ways);
    arena_init(&wishes->arena, 16384);
    table_init(&wishes->noted);
}

static void wishes_end(struct wishes *wishes)
{
    table_release(&wishes->noted);
    arena_release(&wishes->arena);
    free(wishes->ways);
}

/* Runs it on what is known. */
static void run(struct wishes *wishes, const struct view_reading *reading,
                struct gathered_view *gathered)
{
    *gathered = (struct gathered_view){
        .view = {.ops = &gathered_ops, .store = reading->view->store}, .wishes = wishes};
    reading->read(reading->context, &gathered->view);
}

/* The reader wished for something. */
static void add_way(struct wishes *wishes, const struct view_reading *reading)
{
    struct way *way = &wishes->ways[wishes->ways_count++];
    way_begin(way, reading->view);
    if (!wishes->standby)
        way_note_primary(way);
    else if (wishes->ways_count == 1)
        wishes->view = *reading->view;
}

/* Whether the reader can be answered from what was loaded: the standby may be far enough for others
 * and not for this one. */
static bool is_answered(struct wishes *wishes, unsigned index, const struct view_reading *reading)
{
    struct gathered_view gathered;
    bool together = wishes->standby && !is_one_cell(wishes);
    if (together && wishes->ways[index].heard != ERR_OK) return false;
    run(wishes, reading, &gathered);
    return !gathered.missed;
}

/* Answers those that are read where the first one is, and marks them. */
static void gather_at(const struct view_reading *readings, unsigned count, struct pool **pools)
{
    struct pool *pool = pools[0];
    struct lane_store *lane = LANE_STORE_OF(readings->view->store);
    struct gathered_view gathered;
    struct wishes wishes;
    const struct view_reading **mine = must_calloc(count, sizeof *mine);
    wishes_begin(&wishes, readings->view, pool == lane->database->standbys, count);
    for (unsigned i = 0; i < count; i++) {
        if (pools[i] != pool) continue;
        pools[i] = NULL;
        run(&wishes, &readings[i], &gathered);
        if (!gathered.wished) continue;
        mine[wishes.ways_count] = &readings[i];
        add_way(&wishes, &readings[i]);
    }
    bool loads = wishes.ways_count > 0 && !(lane->database->citus && !is_one_cell(&wishes));
    if (loads) load(&wishes);
    for (unsigned i = 0; i < wishes.ways_count; i++)
        if (!loads || !is_answered(&wishes, i, mine[i]))
            moment_transaction(mine[i]->view, mine[i]->read, mine[i]->context);
    wishes_end(&wishes);
    free(mine);
}

/* Where each of them is read; all have begun before any of them waits for a standby. */
static void choose_pools(const struct view_reading *readings, unsigned count, struct pool **pools)
{
    struct way *ways = must_calloc(count, sizeof *ways);
    for (unsigned i = 0; i < count; i++)
        way_begin(&ways[i], readings[i].view);
    for (unsigned i = 0; i < count; i++) {
        pools[i] = way_choose(&ways[i]);
        way_end(&ways[i]);
    }
    free(ways);
}

void moment_gather(const struct view_reading *readings, unsigned count)
{
    struct pool **pools = must_calloc(count, sizeof(struct pool *));
    choose_pools(readings, count, pools);
    for (unsigned i = 0; i < count; i++)
        if (pools[i]) gather_at(readings + i, count - i, pools + i);
    free(pools);
}

void moment_instant(struct view *view, view_read_fn *read, void *context)
{
    const struct view_reading reading = {.view = view, .read = read, .context = context};
    moment_gather(&reading, 1);
}
