/* lists.c -- counters and objects in the order of their keys.
 *
 * A key may be longer than an index takes, so the index has its first 512 bytes, and the few that
 * are alike so far are sorted. Lists are read in pages; each is of its own time. */
#include "store/postgres/internal.h"

#include "core/counter.h"

#define PAGE_FIRST 128 /* a page of 100, which is what most ask for, and one to know of more */
#define PAGE_MOST \
    8192 /* more rows than one counter has granularities: its page is never full of it */

struct key_walk {
    struct inquiry inquiry;
    struct arena arena; /* holds `from` */
    struct bytes from;  /* this key or a later one */
    struct bytes end;   /* all are before it; size 0: there is no end */
    int64_t page;
    bool over;
};

/* The least key after all that begin with `prefix`; size 0: there is none. */
static struct bytes prefix_end(struct arena *arena, struct bytes prefix)
{
    while (prefix.size > 0 && (unsigned char)prefix.data[prefix.size - 1] == 0xff)
        prefix.size--;
    if (prefix.size == 0) return BYTES_NONE;
    char *end = arena_alloc(arena, prefix.size);
    memcpy(end, prefix.data, prefix.size);
    end[prefix.size - 1]++;
    return bytes_of(end, prefix.size);
}

/* The least key after `key`. */
static void key_walk_go_on(struct key_walk *walk, struct bytes key)
{
    char *next = arena_alloc(&walk->arena, key.size + 1);
    memcpy(next, key.data, key.size);
    next[key.size] = '\0';
    walk->from = bytes_of(next, key.size + 1);
}

static void key_walk_begin(struct key_walk *walk, struct view *view, struct bytes prefix,
                           struct bytes after)
{
    *walk = (struct key_walk){.page = PAGE_FIRST};
    arena_init(&walk->arena, 4096);
    walk->end = prefix_end(&walk->arena, prefix);
    if (after.size > 0 && bytes_compare(after, prefix) >= 0)
        key_walk_go_on(walk, after);
    else
        walk->from = prefix;
    inquiry_begin(&walk->inquiry, view);
}

static enum err key_walk_page(struct key_walk *walk, enum sql_name bounded, enum sql_name to_end,
                              PGresult **result_out)
{
    struct sql_values *values = &walk->inquiry.values;
    values_begin(values, walk->inquiry.lane);
    values_bytes(values, walk->from);
    if (walk->end.size > 0) values_bytes(values, walk->end);
    values_i64(values, walk->page);
    return inquiry_ask(&walk->inquiry, walk->end.size > 0 ? bounded : to_end, result_out);
}

static void key_walk_end(struct key_walk *walk)
{
    inquiry_end(&walk->inquiry);
    arena_release(&walk->arena);
}

static void key_walk_grow(struct key_walk *walk)
{
    walk->page = walk->page * 4 > PAGE_MOST ? PAGE_MOST : walk->page * 4;
}

/* -- Counters ---------------------------------------------------------------------------------- */

struct counter_walk {
    struct key_walk walk;
    struct arena arena; /* holds one page */
    store_counter_fn *visit;
    void *context;
};

static int rows_of_key(const PGresult *result, int row)
{
    struct bytes key = result_bytes(result, row, 0);
    int count = 1;
    while (row + count < PQntuples(result) &&
           bytes_equal(result_bytes(result, row + count, 0), key))
        count++;
    return count;
}

/* A full page may end in the middle of a counter: that one is left to the next page. */
static enum err visit_counters(struct counter_walk *counters, const PGresult *result)
{
    struct key_walk *walk = &counters->walk;
    int rows = PQntuples(result);
    bool full = rows == walk->page;
    walk->over = !full;
    arena_reset(&counters->arena);
    for (int row = 0, count; row < rows; row += count) {
        count = rows_of_key(result, row);
        if (full && row + count == rows) return ERR_OK;
        struct bytes key = result_bytes(result, row, 0);
        const struct counter *counter = rows_counter(result, row, count, 1, &counters->arena);
        if (!counter) return inquiry_corrupt(&walk->inquiry, "a counter");
        key_walk_go_on(walk, key);
        if (counters->visit(counters->context, key, counter)) continue;
        walk->over = true;
        return ERR_OK;
    }
    return ERR_OK;
}

enum err postgres_list(struct view *view, struct bytes prefix, struct bytes after,
                       store_counter_fn *visit, void *context)
{
    struct counter_walk counters = {.visit = visit, .context = context};
    enum err e = ERR_OK;
    key_walk_begin(&counters.walk, view, prefix, after);
    arena_init(&counters.arena, 16384);
    while (e == ERR_OK && !counters.walk.over) {
        PGresult *result;
        e = key_walk_page(&counters.walk, SQL_LIST, SQL_LIST_TO_END, &result);
        if (e == ERR_OK) e = visit_counters(&counters, result);
        PQclear(result);
        key_walk_grow(&counters.walk);
    }
    arena_release(&counters.arena);
    key_walk_end(&counters.walk);
    return e;
}

/* -- Objects ----------------------------------------------------------------------------------- */

enum err postgres_objects(struct view *view, struct bytes prefix, struct bytes after,
                          store_object_fn *visit, void *context)
{
    struct key_walk walk;
    enum err e = ERR_OK;
    key_walk_begin(&walk, view, prefix, after);
    while (e == ERR_OK && !walk.over) {
        PGresult *result;
        e = key_walk_page(&walk, SQL_OBJECTS, SQL_OBJECTS_TO_END, &result);
        int rows = PQntuples(result);
        walk.over = rows < walk.page;
        for (int row = 0; row < rows; row++) {
            struct bytes key = result_bytes(result, row, 0);
            if (row + 1 == rows) key_walk_go_on(&walk, key);
            if (visit(context, key, result_bytes(result, row, 1))) continue;
            walk.over = true;
            break;
        }
        PQclear(result);
        key_walk_grow(&walk);
    }
    key_walk_end(&walk);
    return e;
}

/* -- Ids --------------------------------------------------------------------------------------- */

static bool row_id(const PGresult *result, int row, struct fingerprint *print_out,
                   struct key_record *record_out)
{
    int64_t sequence, digest;
    *record_out = (struct key_record){.exists = true, .outcome = result_bytes(result, row, 5)};
    if (!result_print(result, row, 0, print_out) || !result_i64(result, row, 1, &sequence) ||
        !result_i64(result, row, 2, &record_out->first_seen_ms) ||
        !result_i64(result, row, 3, &digest) || !result_bool(result, row, 4, &record_out->event))
        return false;
    record_out->sequence = (uint64_t)sequence;
    record_out->digest = (uint64_t)digest;
    return true;
}

/* No id has the fingerprint of zeros that the first page comes after: that would be one in 2^128.
 */
enum err postgres_ids(struct view *view, store_id_fn *visit, void *context)
{
    struct fingerprint print = {0};
    struct inquiry inquiry;
    bool stopped = false;
    int rows = PAGE_MOST;
    enum err e = ERR_OK;
    inquiry_begin(&inquiry, view);
    while (e == ERR_OK && !stopped && rows == PAGE_MOST) {
        PGresult *result;
        values_begin(&inquiry.values, inquiry.lane);
        values_print(&inquiry.values, print);
        values_i64(&inquiry.values, PAGE_MOST);
        e = inquiry_ask(&inquiry, SQL_IDS, &result);
        rows = e == ERR_OK ? PQntuples(result) : 0;
        for (int row = 0; row < rows && e == ERR_OK && !stopped; row++) {
            struct key_record record;
            if (!row_id(result, row, &print, &record))
                e = inquiry_corrupt(&inquiry, "an id");
            else
                stopped = !visit(context, print, &record);
        }
        PQclear(result);
    }
    inquiry_end(&inquiry);
    return e;
}
