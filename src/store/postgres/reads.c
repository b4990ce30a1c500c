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

void inquiry_begin(struct inquiry *inquiry, struct view *view)
{
    inquiry->lane = LANE_STORE_OF(view->store);
    inquiry->moment =
        view->ops == &transaction_ops ? CONTAINER_OF(view, struct moment_view, view)->moment : NULL;
    way_begin(&inquiry->way, view);
    values_init(&inquiry->values);
    values_begin(&inquiry->values, inquiry->lane);
}

static void read_failed(struct lane_store *lane, const struct way *way)
{
    lane_failed(lane, "read", way->link);
}

static enum err ask_within(struct standstill *moment, enum sql_name name, struct sql_values *values,
                           PGresult **result_out)
{
    struct way *way = &moment->way;
    bool begins = !moment->begun, standby = way_is_standby(way);
    enum err e = ERR_OK;
    if (begins) link_send(way->link, SQL_BEGIN_MOMENT, NULL, LINK_DROP);
    if (begins && standby) way_send_position(way);
    link_send(way->link, name, values, LINK_KEEP);
    link_go(way->link, begins && standby ? STANDBY_WAIT_MS : READ_WAIT_MS);
    if (begins && standby) e = way_hear_position(way);
    moment->begun = true;
    link_wait(way->link, READ_WAIT_MS);
    *result_out = link_take(way->link);
    enum err ended = link_end(way->link);
    return e == ERR_OK ? ended : e;
}

/* The transaction begins with its first statement, and in its round. After a failure the moment is
 * of no more use; moment_transaction sees whether there is another one to be had. */
static enum err ask_moment(struct inquiry *inquiry, enum sql_name name, PGresult **result_out)
{
    struct standstill *moment = inquiry->moment;
    if (moment->err != ERR_OK) return ERR_STORAGE;
    if (!moment->begun) moment->err = way_take(&moment->way);
    if (moment->err == ERR_OK) moment->err = ask_within(moment, name, &inquiry->values, result_out);
    if (moment->err == ERR_OK) {
        way_count(&moment->way);
        return ERR_OK;
    }
    PQclear(*result_out);
    *result_out = NULL;
    if (!way_is_standby(&moment->way)) read_failed(moment->way.lane, &moment->way);
    return ERR_STORAGE;
}

enum err inquiry_ask(struct inquiry *inquiry, enum sql_name name, PGresult **result_out)
{
    *result_out = NULL;
    if (atomic_load(&inquiry->lane->store.outdated)) return ERR_STORAGE;
    if (inquiry->moment) return ask_moment(inquiry, name, result_out);
    enum err e = way_ask(&inquiry->way, name, &inquiry->values, result_out);
    if (e != ERR_OK) read_failed(inquiry->lane, &inquiry->way);
    return e;
}

void inquiry_end(struct inquiry *inquiry)
{
    if (!inquiry->moment) way_end(&inquiry->way);
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

/* Nothing was written, so how it ends does not matter to the caller. */
static void end_moment(struct standstill *moment)
{
    struct link *link = moment->way.link;
    if (!link || !moment->begun) return;
    link_send(link, moment->err == ERR_OK ? SQL_COMMIT : SQL_ROLLBACK, NULL, LINK_DROP);
    link_go(link, READ_WAIT_MS);
    (void)!link_end(link);
    moment->begun = false;
}

void moment_transaction(struct view *view, view_read_fn *read, void *context)
{
    struct standstill still = {0};
    struct moment_view shown = {
        .view = {.ops = &transaction_ops, .store = view->store, .age = view->age},
        .moment = &still};
    way_begin(&still.way, view);
    for (;;) {
        read(context, &shown.view);
        enum err e = still.err;
        end_moment(&still);
        if (e == ERR_OK) break;
        still.err = ERR_OK;
        if (!way_goes_on(&still.way, e)) break;
    }
    way_end(&still.way);
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
