/* reads.c -- what readers ask, each of them one statement on a link of the readers' pool.
 *
 * Nothing is answered from memory: any node may have committed since, and a read sees every write
 * that was acknowledged anywhere before it began. So READ_MEMORY is always ERR_BUSY. */
#include "store/postgres/internal.h"

#include "base/log.h"
#include "core/cell.h"
#include "core/counter.h"
#include "store/damage.h"

#define PAGE_CELLS_FIRST 256
#define PAGE_CELLS 8192

static const struct view_ops transaction_ops;

/* -- A reader's way to the database ------------------------------------------------------------ */

struct pool *reading_pool(const struct lane_store *lane)
{
    return lane->database->readers;
}

void inquiry_begin(struct inquiry *inquiry, struct view *view)
{
    inquiry->lane = LANE_STORE_OF(view->store);
    inquiry->moment =
        view->ops == &transaction_ops ? CONTAINER_OF(view, struct moment_view, view)->moment : NULL;
    inquiry->link = NULL;
    values_init(&inquiry->values);
    values_begin(&inquiry->values, inquiry->lane);
}

static void read_failed(struct inquiry *inquiry)
{
    lane_failed(inquiry->lane, "read", inquiry->link);
}

/* Begins the moment's transaction with its first statement, and in its round. */
static void begin_moment(struct inquiry *inquiry)
{
    struct standstill *moment = inquiry->moment;
    if (moment->failed || moment->link) return;
    if (pool_take(reading_pool(inquiry->lane), LINK_WAIT_MS, &moment->link) == ERR_OK)
        link_send(moment->link, SQL_BEGIN_MOMENT, NULL, LINK_DROP);
    else
        moment->failed = true;
}

static enum err ask_on(struct inquiry *inquiry, enum sql_name name, PGresult **result_out)
{
    link_send(inquiry->link, name, &inquiry->values, LINK_KEEP);
    link_go(inquiry->link, READ_WAIT_MS);
    *result_out = link_take(inquiry->link);
    enum err e = link_end(inquiry->link);
    if (e == ERR_OK) return ERR_OK;
    PQclear(*result_out);
    *result_out = NULL;
    return e;
}

static enum err ask_moment(struct inquiry *inquiry, enum sql_name name, PGresult **result_out)
{
    struct standstill *moment = inquiry->moment;
    begin_moment(inquiry);
    inquiry->link = moment->link;
    enum err e = moment->failed ? ERR_STORAGE : ask_on(inquiry, name, result_out);
    if (e != ERR_OK && !moment->failed) read_failed(inquiry);
    moment->failed |= e != ERR_OK;
    return e;
}

/* A link that idled may have been closed from the other side: that is tried again once. */
enum err inquiry_ask(struct inquiry *inquiry, enum sql_name name, PGresult **result_out)
{
    struct pool *pool = reading_pool(inquiry->lane);
    enum err e = ERR_STORAGE;
    *result_out = NULL;
    if (atomic_load(&inquiry->lane->store.outdated)) return ERR_STORAGE;
    if (inquiry->moment) return ask_moment(inquiry, name, result_out);
    for (unsigned tries = 0; tries < 2; tries++) {
        if (!inquiry->link && pool_take(pool, LINK_WAIT_MS, &inquiry->link) != ERR_OK) break;
        bool fresh = link_is_fresh(inquiry->link);
        e = ask_on(inquiry, name, result_out);
        if (e == ERR_OK || !link_is_broken(inquiry->link)) break;
        if (fresh) break;
        pool_give(pool, inquiry->link);
        inquiry->link = NULL;
        pool_renew(pool);
    }
    if (e != ERR_OK) read_failed(inquiry);
    return e;
}

void inquiry_end(struct inquiry *inquiry)
{
    if (!inquiry->moment && inquiry->link) pool_give(reading_pool(inquiry->lane), inquiry->link);
    values_release(&inquiry->values);
}

enum err inquiry_corrupt(const struct inquiry *inquiry, const char *what)
{
    (void)inquiry;
    damage_say(what, BYTES("(a row of the database)"), 1);
    return ERR_CORRUPT;
}

/* -- Cells ------------------------------------------------------------------------------------- */

bool row_cell(const PGresult *result, int row, int column, struct cell *cell_out)
{
    *cell_out = (struct cell){.exists = true};
    return result_i64(result, row, column, &cell_out->added) &&
           result_i64(result, row, column + 1, &cell_out->subbed) &&
           result_time(result, row, column + 2, &cell_out->expires_ms) &&
           result_time(result, row, column + 3, &cell_out->start_ms) &&
           result_i64(result, row, column + 4, &cell_out->updated_ms) &&
           result_bool(result, row, column + 5, &cell_out->exact);
}

static void values_ref(struct sql_values *values, const struct cell_ref *ref)
{
    values_print(values, ref->print);
    values_i32(values, ref->duration);
}

static enum err postgres_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                             enum read_how how, struct cell *cell_out)
{
    struct inquiry inquiry;
    PGresult *result;
    if (how == READ_MEMORY) return ERR_BUSY;
    inquiry_begin(&inquiry, view);
    values_ref(&inquiry.values, ref);
    values_i64(&inquiry.values, bucket);
    enum err e = inquiry_ask(&inquiry, SQL_GET, &result);
    if (e == ERR_OK && PQntuples(result) == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK && !row_cell(result, 0, 0, cell_out)) e = inquiry_corrupt(&inquiry, "a cell");
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

static enum err postgres_series(struct view *view, const struct cell_ref *ref, uint64_t *series_out)
{
    struct inquiry inquiry;
    PGresult *result;
    int64_t id = 0;
    inquiry_begin(&inquiry, view);
    values_ref(&inquiry.values, ref);
    enum err e = inquiry_ask(&inquiry, SQL_SERIES, &result);
    if (e == ERR_OK && PQntuples(result) > 0 && !result_i64(result, 0, 0, &id))
        e = inquiry_corrupt(&inquiry, "a series");
    *series_out = (uint64_t)id;
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

/* A range under way. It is read in pages, so that one that is stopped early costs no more
 * than it shows. */
struct ranging {
    struct inquiry inquiry;
    uint64_t series;
    int64_t from;
    int64_t to;
    int32_t page;
    bool over;
    store_cell_fn *visit;
    void *context;
};

static enum err range_page(struct ranging *ranging)
{
    struct sql_values *values = &ranging->inquiry.values;
    PGresult *result;
    values_begin(values, ranging->inquiry.lane);
    values_i64(values, (int64_t)ranging->series);
    values_i64(values, ranging->from);
    values_i64(values, ranging->to);
    values_i64(values, ranging->page);
    enum err e = inquiry_ask(&ranging->inquiry, SQL_RANGE, &result);
    int count = PQntuples(result);
    ranging->over = count < ranging->page;
    for (int row = 0; row < count; row++) {
        struct cell cell;
        int64_t bucket;
        if (!result_i64(result, row, 0, &bucket) || !row_cell(result, row, 1, &cell)) {
            e = inquiry_corrupt(&ranging->inquiry, "a cell");
            break;
        }
        bool more = ranging->visit(ranging->context, bucket, &cell);
        if (!more || bucket == ranging->to) {
            ranging->over = true;
            break;
        }
        ranging->from = bucket + 1;
    }
    PQclear(result);
    return e;
}

static enum err postgres_range(struct view *view, const struct cell_ref *ref, int64_t from,
                               int64_t to, struct range_newer *newer, store_cell_fn *visit,
                               void *context)
{
    struct ranging ranging = {
        .from = from, .to = to, .page = PAGE_CELLS_FIRST, .visit = visit, .context = context};
    (void)newer; /* is for stores that have some cells elsewhere */
    enum err e = postgres_series(view, ref, &ranging.series);
    if (e != ERR_OK || ranging.series == 0) return e;
    inquiry_begin(&ranging.inquiry, view);
    while (e == ERR_OK && !ranging.over) {
        e = range_page(&ranging);
        ranging.page = PAGE_CELLS;
    }
    inquiry_end(&ranging.inquiry);
    return e;
}

bool parse_sum(struct bytes text, __int128 *sum_out)
{
    __int128 sum = 0;
    if (text.size == 0 || text.size > 38) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        sum = sum * 10 + (text.data[i] - '0');
    }
    *sum_out = sum;
    return true;
}

static enum err postgres_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                                 const struct counter **counter_out)
{
    struct inquiry inquiry;
    PGresult *result;
    *counter_out = NULL;
    inquiry_begin(&inquiry, view);
    values_print(&inquiry.values, ref->print);
    enum err e = inquiry_ask(&inquiry, SQL_COUNTER, &result);
    if (e == ERR_OK && PQntuples(result) > 0) {
        *counter_out = rows_counter(result, 0, PQntuples(result), 0, arena);
        if (!*counter_out) e = inquiry_corrupt(&inquiry, "a counter");
    }
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

/* -- Objects and keys -------------------------------------------------------------------------- */

static enum err postgres_object(struct view *view, struct bytes key, struct buf *value_out)
{
    struct inquiry inquiry;
    PGresult *result;
    buf_reset(value_out);
    inquiry_begin(&inquiry, view);
    values_print(&inquiry.values, fingerprint_of(&view->store->secret, key));
    enum err e = inquiry_ask(&inquiry, SQL_OBJECT, &result);
    if (e == ERR_OK && PQntuples(result) == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK) buf_add(value_out, result_bytes(result, 0, 0));
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

static enum err postgres_lookup(struct view *view, struct fingerprint print,
                                struct key_record *record_out)
{
    struct inquiry inquiry;
    PGresult *result;
    int64_t sequence = 0, digest = 0;
    *record_out = (struct key_record){.exists = true};
    inquiry_begin(&inquiry, view);
    values_print(&inquiry.values, print);
    enum err e = inquiry_ask(&inquiry, SQL_LOOKUP, &result);
    if (e == ERR_OK && PQntuples(result) == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK &&
        (!result_i64(result, 0, 0, &sequence) ||
         !result_i64(result, 0, 1, &record_out->first_seen_ms) ||
         !result_i64(result, 0, 2, &digest) || !result_bool(result, 0, 3, &record_out->event)))
        e = inquiry_corrupt(&inquiry, "a key");
    record_out->sequence = (uint64_t)sequence;
    record_out->digest = (uint64_t)digest;
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

static uint64_t postgres_sequence(struct view *view)
{
    return atomic_load(&LANE_STORE_OF(view->store)->durable_sequence);
}

static enum err postgres_newest(struct view *view, uint64_t *sequence_out)
{
    struct inquiry inquiry;
    PGresult *result;
    int64_t sequence = 0;
    inquiry_begin(&inquiry, view);
    enum err e = inquiry_ask(&inquiry, SQL_NEWEST, &result);
    if (e == ERR_OK && (PQntuples(result) != 1 || !result_i64(result, 0, 0, &sequence)))
        e = inquiry_corrupt(&inquiry, "the newest commit");
    *sequence_out = (uint64_t)sequence;
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

/* -- One moment -------------------------------------------------------------------------------- */

void moment_transaction(struct view *view, view_read_fn *read, void *context)
{
    struct lane_store *lane = LANE_STORE_OF(view->store);
    struct standstill still = {0};
    struct moment_view shown = {.view = {.ops = &transaction_ops, .store = view->store},
                                .moment = &still};
    read(context, &shown.view);
    if (!still.link) return;
    link_send(still.link, SQL_COMMIT, NULL, LINK_DROP);
    link_go(still.link, READ_WAIT_MS);
    (void)!link_end(still.link); /* nothing was written */
    pool_give(reading_pool(lane), still.link);
}

/* A moment within a moment is the same one. */
static void same_instant(struct view *view, view_read_fn *read, void *context)
{
    read(context, view);
}

/* What a view of its own and a moment share: each read knows by its view which of them it is. */
#define READS                                                                          \
    .get = postgres_get, .range = postgres_range, .sum = postgres_sum,                 \
    .counter = postgres_counter, .series = postgres_series, .list = postgres_list,     \
    .object = postgres_object, .objects = postgres_objects, .events = postgres_events, \
    .lookup = postgres_lookup, .ids = postgres_ids, .sequence = postgres_sequence,     \
    .cells = postgres_cells

static const struct view_ops transaction_ops = {
    READS,
    .instant = same_instant,
    .newest = postgres_newest,
    .beside = postgres_beside,
};

const struct view_ops postgres_view_ops = {
    READS,
    .instant = moment_instant,
    .gather = moment_gather,
    .still = moment_transaction,
    .newest = postgres_newest,
};
