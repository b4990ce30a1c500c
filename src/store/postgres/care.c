/* care.c -- the store's own caretaking, and what is asked of a store beside its two faces.
 *
 * Caretaking that removes rows which a commit could touch takes the lane's lock first, like a
 * commit: two that take rows in different orders could else wait for each other. */
#include "store/postgres/internal.h"

#include <stdlib.h>

#include "base/log.h"

#define MS_NS INT64_C(1000000)
#define CLEAN_MS 10000 /* between two looks for what is of no more use */
#define LEASE_MS 8000
#define LEASE_MARGIN_MS 1000
#define LEASE_RENEW_MS 2500
#define LEASE_TRY_MS 1000
#define AHEAD_MS_MAX 100
#define COMMITS_NS 60000000000
#define CHUNK_ROWS 1000
#define DUE_ROWS 5000
#define HOUR_MS 3600000

/* -- One statement in a transaction of its own ------------------------------------------------- */

enum err care_ask(struct lane_store *lane, enum sql_name name, struct sql_values *values,
                  bool locks, PGresult **result_out)
{
    struct pool *pool = lane->database->writers;
    struct sql_values own;
    struct link *link;
    *result_out = NULL;
    enum err e = pool_take(pool, LINK_WAIT_MS, &link);
    if (e != ERR_OK) return e;
    values_init(&own);
    values_begin(&own, lane);
    transaction_begin(lane->database, link);
    if (locks) link_send(link, SQL_LOCK, &own, LINK_DROP);
    link_send(link, name, values, LINK_KEEP);
    link_send(link, SQL_COMMIT, NULL, LINK_DROP);
    link_go(link, LOAD_WAIT_MS);
    *result_out = link_take(link);
    e = link_end(link);
    if (e != ERR_OK) {
        lane_failed(lane, "caretaking", link);
        lane_free_hung(lane, link);
        PQclear(*result_out);
        *result_out = NULL;
        link_send(link, SQL_ROLLBACK, NULL, LINK_DROP);
        link_go(link, LOCK_WAIT_MS);
        (void)!link_end(link);
    }
    values_release(&own);
    pool_give(pool, link);
    return e;
}

/* Does what care_ask does, for a statement that says how many rows it removed. */
static enum err care_count(struct lane_store *lane, enum sql_name name, struct sql_values *values,
                           bool locks, int64_t *count_out)
{
    PGresult *result;
    *count_out = 0;
    enum err e = care_ask(lane, name, values, locks, &result);
    if (e == ERR_OK && (PQntuples(result) != 1 || !result_i64(result, 0, 0, count_out)))
        e = ERR_STORAGE;
    PQclear(result);
    return e;
}

/* -- Steps; true: there is more of it ---------------------------------------------------------- */

static bool fill_graves(struct lane_store *lane, struct sql_values *values)
{
    int64_t count;
    PGresult *result;
    values_begin(values, lane);
    values_i64(values, CHUNK_ROWS);
    if (care_count(lane, SQL_FILL_GRAVE, values, false, &count) != ERR_OK) return false;
    if (count == CHUNK_ROWS) return true;
    values_begin(values, lane);
    (void)!care_ask(lane, SQL_CLOSE_GRAVES, values, true, &result);
    PQclear(result);
    return false;
}

/* What is forgotten cannot be had back, so it goes by what of the time is sure. */
static bool drop_keys(struct lane_store *lane, struct sql_values *values)
{
    int64_t count;
    int64_t sure_ms = atomic_load(&lane->sure_ms);
    if (sure_ms == INT64_MIN) return false;
    values_begin(values, lane);
    values_i64(values, sure_ms - lane->database->config.key_keep_ms);
    values_i64(values, CHUNK_ROWS);
    enum err e = care_count(lane, SQL_DROP_KEYS, values, true, &count);
    return e == ERR_OK && count == CHUNK_ROWS;
}

/* Drops commits that are no longer asked for: an outcome is asked for within seconds. */
static void drop_commits(struct lane_store *lane, struct sql_values *values, int64_t now_ns)
{
    struct care_state *care = &lane->care;
    PGresult *result;
    if (care->commits_ns && now_ns - care->commits_ns < COMMITS_NS) return;
    if (care->commits_before > 0) {
        values_begin(values, lane);
        values_i64(values, (int64_t)care->commits_before);
        (void)!care_ask(lane, SQL_DROP_COMMITS, values, false, &result);
        PQclear(result);
    }
    care->commits_before = atomic_load(&lane->durable_sequence);
    care->commits_ns = now_ns;
}

/* Other nodes write events, too, and the one that led before may have let go of some. */
static void find_oldest(struct lane_store *lane, struct sql_values *values)
{
    PGresult *result;
    int64_t oldest_ms = 0;
    values_begin(values, lane);
    values_i64(values, atomic_load(&lane->horizon_ms));
    enum err e = care_ask(lane, SQL_OLDEST_EVENT, values, false, &result);
    if (e == ERR_OK && (PQntuples(result) == 0 || result_i64(result, 0, 0, &oldest_ms)))
        atomic_store(&lane->oldest_ms, oldest_ms);
    PQclear(result);
}

static bool forget_some(struct lane_store *lane, struct sql_values *values)
{
    int64_t count;
    int64_t horizon_ms = atomic_load(&lane->horizon_ms);
    if (lane->care.forgotten_ms >= horizon_ms) return false;
    values_begin(values, lane);
    values_i64(values, horizon_ms);
    values_i64(values, CHUNK_ROWS);
    if (care_count(lane, SQL_FORGET, values, false, &count) != ERR_OK) return false;
    if (count == CHUNK_ROWS) return true;
    lane->care.forgotten_ms = horizon_ms;
    return false;
}

/* -- Who leads --------------------------------------------------------------------------------- */

/* A node that only reads has no commit that would tell it. */
static void look_at_schema(struct lane_store *lane, struct sql_values *values)
{
    PGresult *result;
    values_begin(values, lane);
    enum err e = care_ask(lane, SQL_SCHEMA, values, false, &result);
    if (e == ERR_OK) (void)!lane_knows_schema(lane, result, 0);
    PQclear(result);
}

/* A lease is asked for again long before it ends. This node believes in it a little shorter than
 * the database does, from before it asked, so that two seldom lead at once. */
static void renew_lease(struct lane_store *lane, struct sql_values *values, int64_t now_ns)
{
    PGresult *result;
    if (now_ns < lane->care.lease_ns) return;
    look_at_schema(lane, values);
    values_begin(values, lane);
    values_print(values, lane->database->node);
    values_i32(values, LEASE_MS);
    enum err e = care_ask(lane, SQL_TAKE_LEASE, values, false, &result);
    bool leads = e == ERR_OK && PQntuples(result) == 1;
    PQclear(result);
    if (leads)
        atomic_store(&lane->leads_until_ns, now_ns + (LEASE_MS - LEASE_MARGIN_MS) * MS_NS);
    else if (e == ERR_OK)
        atomic_store(&lane->leads_until_ns, 0);
    lane->care.lease_ns = now_ns + (leads ? LEASE_RENEW_MS : LEASE_TRY_MS) * MS_NS;
}

static bool postgres_leads(struct store *store)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    return clock_mono_ns(lane->database->config.clock) < atomic_load(&lane->leads_until_ns);
}

/* The next one need not wait for the lease to end. */
static void give_lease(struct lane_store *lane)
{
    struct sql_values values;
    PGresult *result;
    if (!postgres_leads(&lane->store)) return;
    values_init(&values);
    values_begin(&values, lane);
    values_print(&values, lane->database->node);
    (void)!care_ask(lane, SQL_GIVE_LEASE, &values, false, &result);
    PQclear(result);
    values_release(&values);
}

/* True: there is more to clean. */
static bool clean(struct lane_store *lane, struct sql_values *values, int64_t now_ns)
{
    if (now_ns < lane->care.clean_ns || !postgres_leads(&lane->store)) return false;
    drop_commits(lane, values, now_ns);
    bool more = forget_some(lane, values);
    more |= fill_graves(lane, values);
    more |= drop_keys(lane, values);
    find_oldest(lane, values);
    if (!more) lane->care.clean_ns = now_ns + CLEAN_MS * MS_NS;
    return more;
}

/* A turn that was near did not come, and nobody noticed. */
static void end_forgotten_lock(struct lane_store *lane)
{
    if (!atomic_load(&lane->store.writer.ahead) || pthread_mutex_trylock(&lane->turn) != 0) return;
    int64_t asked_ago_ms = clock_boot_ms(lane->database->config.clock) - lane->asked_ms;
    if (lane->ahead && asked_ago_ms > AHEAD_MS_MAX) lane_let_go(lane);
    pthread_mutex_unlock(&lane->turn);
}

static bool postgres_tend(struct store *store)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    int64_t now_ns = clock_mono_ns(lane->database->config.clock);
    struct sql_values values;
    end_forgotten_lock(lane);
    if (pool_is_down(lane->database->writers)) return false;
    values_init(&values);
    renew_lease(lane, &values, now_ns);
    nodes_tend(lane, &values, now_ns);
    bool more = clean(lane, &values, now_ns);
    more |= lane_make_sums(lane, &values, now_ns);
    values_release(&values);
    return more;
}

/* -- What else is asked ------------------------------------------------------------------------ */

/* Readers of this node forget at once; the rows go while the store is tended. */
static void postgres_forget(struct store *store, int64_t before_ms)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    if (before_ms <= atomic_load(&lane->horizon_ms)) return;
    atomic_store(&lane->horizon_ms, before_ms);
    lane->care.clean_ns = 0;
}

static enum err postgres_due(struct store *store, int64_t now_ms, store_due_fn *visit,
                             void *context)
{
    struct inquiry inquiry;
    PGresult *result;
    int64_t hour = now_ms / HOUR_MS;
    inquiry_begin(&inquiry, &store->view);
    values_i32(&inquiry.values, hour > INT32_MAX ? INT32_MAX : (int32_t)hour);
    values_i64(&inquiry.values, now_ms);
    values_i64(&inquiry.values, DUE_ROWS);
    enum err e = inquiry_ask(&inquiry, SQL_DUE, &result);
    for (int row = 0; row < PQntuples(result) && e == ERR_OK; row++) {
        int32_t duration;
        int64_t bucket;
        if (!result_i32(result, row, 1, &duration) || !result_i64(result, row, 2, &bucket))
            e = inquiry_corrupt(&inquiry, "a due cell");
        else if (!visit(context, result_bytes(result, row, 0), duration, bucket))
            break;
    }
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

static void postgres_stats(struct store *store, struct store_stats *stats_out)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    uint64_t sequence = atomic_load(&lane->durable_sequence);
    *stats_out = (struct store_stats){.writable = !atomic_load(&lane->down) &&
                                                  !pool_is_down(lane->database->writers),
                                      .durable_sequence = sequence,
                                      .applied_sequence = sequence,
                                      .archived_sequence = sequence,
                                      .cache_bytes = atomic_load(&lane->known_bytes),
                                      .oldest_event_ms = atomic_load(&lane->oldest_ms),
                                      .syncs = atomic_load(&lane->syncs),
                                      .storage_errors = atomic_load(&lane->errors),
                                      .copied = lane->database->standbys != NULL,
                                      .copy_sequence = atomic_load(&lane->standby_sequence),
                                      .copy_lag_ms = atomic_load(&lane->standby_lag_ms)};
}

static void postgres_close_lane(struct store *store)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    warden_leave(lane->database->warden, lane);
    lane_let_go(lane);
    give_lease(lane);
    nodes_leave(lane);
    values_release(&lane->values);
    pthread_mutex_destroy(&lane->sums.lock);
    known_release(&lane->known);
    pthread_mutex_destroy(&lane->turn);
    free(lane);
}

const struct store_ops postgres_store_ops = {
    .name = "postgres",
    .forget = postgres_forget,
    .due = postgres_due,
    .tend = postgres_tend,
    .leads = postgres_leads,
    .stats = postgres_stats,
    .close = postgres_close_lane,
};
