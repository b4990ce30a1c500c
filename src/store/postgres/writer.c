/* writer.c -- the turn of a lane, and what makes its batches durable.
 *
 *   begin    -> transaction open: the lane is locked, the newest commit is known
 *   load     -> its rows are read
 *   submit   -> its changes are on their way; nothing waits for them
 *   sync     -> one row more in `commits`, COMMIT, and where another turn is near its BEGIN and its
 *               lock, in the same piece: by the time it begins the lane is locked again
 *   rest     -> no turn came: the lock is given up
 *
 * The transaction stays open from the first turn's begin to the sync; turns between the two are
 * parts of it, so each of them sees what the ones before it wrote. A statement that fails spoils
 * all of it: `failed` is set, further turns are refused, and the sync reports every batch. */
#include "store/postgres/internal.h"

#include <openssl/rand.h>

#include "base/codec.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/object.h"

void values_begin(struct sql_values *values, const struct lane_store *lane)
{
    values_reset(values);
    values_i32(values, (int32_t)lane->lane);
}

void lane_failed(struct lane_store *lane, const char *doing, const struct link *link)
{
    static struct log_limit limit = {.lines_max = 5};
    uint64_t left_out;
    atomic_fetch_add(&lane->errors, 1);
    if (!log_limit_pass(&limit, clock_wall_ms(lane->database->config.clock), &left_out)) return;
    log_line(LOG_ERROR, "the database failed", LOG_KV("doing", doing), LOG_KV("lane", lane->lane),
             LOG_KV("why", link ? link_why(link) : "no connection to it can be had"),
             LOG_KV("sqlstate", link ? link_state(link) : ""), LOG_KV("leftOut", left_out));
}

/* -- The transaction --------------------------------------------------------------------------- */

static bool read_newest(const PGresult *result, struct store_position *position_out,
                        struct stamp *stamp_out, int64_t *now_out)
{
    int64_t sequence, next_series, rules;
    struct fingerprint stamp;
    if (PQntuples(result) != 1) return false;
    if (!result_i64(result, 0, 0, &sequence) || !result_i64(result, 0, 1, &position_out->time_ms))
        return false;
    if (!result_i64(result, 0, 2, &next_series) || !result_i64(result, 0, 3, &rules) ||
        !result_print(result, 0, 4, &stamp) || !result_i64(result, 0, 5, now_out))
        return false;
    position_out->rules = (uint64_t)rules;
    position_out->last_sequence = (uint64_t)sequence;
    position_out->next_series = (uint64_t)next_series;
    *stamp_out = (struct stamp){stamp.high, stamp.low};
    return true;
}

/* Another node may have upgraded the schema, which takes every lane's lock: what is stored is then
 * none of this program's business. */
bool lane_knows_schema(struct lane_store *lane, const PGresult *result, int column)
{
    struct bytes version = PQntuples(result) == 1 ? result_bytes(result, 0, column) : BYTES_NONE;
    bool known =
        version.size == sizeof(uint64_t) && get_ordered_u64(version.data) == SCHEMA_VERSION;
    if (atomic_exchange(&lane->store.outdated, !known) == known)
        log_line(known ? LOG_INFO : LOG_ERROR, "the schema's version has changed",
                 LOG_KV("lane", lane->lane), LOG_KV("known", known));
    return known;
}

void transaction_begin(const struct database *database, struct link *link)
{
    link_send(link, SQL_BEGIN, NULL, LINK_DROP);
    if (database->config.deals_out) link_send(link, SQL_SETTINGS, NULL, LINK_DROP);
}

/* Asks for the lane's lock and for its newest commit. */
static void ask_lock(struct lane_store *lane, struct link *link, int wait_ms)
{
    transaction_begin(lane->database, link);
    values_begin(&lane->values, lane);
    link_send(link, SQL_LOCK, &lane->values, LINK_KEEP);
    link_send(link, SQL_NEWEST, &lane->values, LINK_KEEP);
    lane->asked_ms = clock_boot_ms(lane->database->config.clock);
    link_go(link, wait_ms);
}

/* Waits for both. ERR_STORAGE: the transaction is to be given up. */
static enum err take_lock(struct lane_store *lane, struct link *link,
                          struct store_position *position_out, struct stamp *stamp_out)
{
    struct database *database = lane->database;
    int64_t now_ms;
    link_wait(link, LOCK_WAIT_MS);
    PGresult *locked = link_take(link);
    PGresult *newest = link_take(link);
    enum err e = link_end(link);
    if (e == ERR_OK && (PQntuples(locked) != 1 || !lane_knows_schema(lane, newest, 6) ||
                        !read_newest(newest, position_out, stamp_out, &now_ms)))
        e = ERR_STORAGE;
    else if (e == ERR_OK)
        database_clock_heard(database, now_ms, lane->asked_ms);
    PQclear(locked);
    PQclear(newest);
    return e;
}

/* Data that the database does not take (SQLSTATE 22), or that breaks a constraint (23): trying the
 * same again does not help. */
static bool is_refusal(const struct link *link)
{
    const char *state = link_state(link);
    return state[0] == '2' && (state[1] == '2' || state[1] == '3');
}

/* Ends what is open without effect, and gives the link back. What was queued for a batch has a
 * round of its own: a statement that fails takes the rest of its round with it, and ROLLBACK must
 * not be part of that. */
static void roll_back(struct lane_store *lane, struct link *link)
{
    if (link_has_queued(link)) {
        link_go(link, LOAD_WAIT_MS);
        if (link_end(link) != ERR_OK) lane_failed(lane, "write", link);
    }
    link_send(link, SQL_ROLLBACK, NULL, LINK_DROP);
    link_go(link, LOCK_WAIT_MS);
    (void)!link_end(link); /* a broken one is closed, and the database ends what it had open */
    pool_give(lane->database->writers, link);
}

static void take_position(struct lane_store *lane, const struct store_position *position)
{
    lane->stored = *position;
    lane->rules = position->rules;
    atomic_store(&lane->durable_sequence, position->last_sequence);
    lane->store.writer.position = *position;
}

/* Law (2): what this node remembers is true as long as the newest commit is the one it knows. */
static void meet_stamp(struct lane_store *lane, const struct store_position *position,
                       struct stamp stamp)
{
    bool ours = stamp.high == lane->stamp.high && stamp.low == lane->stamp.low &&
                position->last_sequence == lane->stored.last_sequence;
    if (!ours) known_clear(&lane->known);
    lane->stamp = stamp;
    take_position(lane, position);
}

static void set_ahead(struct lane_store *lane, struct link *link)
{
    lane->ahead = link;
    atomic_store(&lane->store.writer.ahead, link != NULL);
}

/* The link on which the lane's lock is asked for; NULL: there is none to be had. */
static struct link *asking_link(struct lane_store *lane, bool *fresh_out)
{
    struct link *link = lane->ahead;
    *fresh_out = false;
    set_ahead(lane, NULL);
    if (link) return link;
    if (pool_take(lane->database->writers, LINK_WAIT_MS, &link) != ERR_OK) return NULL;
    *fresh_out = link_is_fresh(link);
    ask_lock(lane, link, LOCK_WAIT_MS);
    return link;
}

/* A connection that idled may have been closed from the other side meanwhile: that is tried again
 * once, on a new one. */
static enum err open_transaction(struct lane_store *lane)
{
    struct store_position position;
    struct stamp stamp;
    bool fresh;
    for (unsigned tries = 0; tries < 2; tries++) {
        struct link *link = asking_link(lane, &fresh);
        if (!link) {
            lane_failed(lane, "begin", NULL);
            return ERR_STORAGE;
        }
        if (take_lock(lane, link, &position, &stamp) == ERR_OK) {
            lane->link = link;
            meet_stamp(lane, &position, stamp);
            return ERR_OK;
        }
        bool stale = link_is_broken(link) && !fresh;
        if (!stale) {
            lane_failed(lane, "begin", link);
            lane_free_hung(lane, link);
        }
        roll_back(lane, link);
        if (!stale) return ERR_STORAGE;
        pool_renew(lane->database->writers);
    }
    return ERR_STORAGE;
}

static void end_ahead(struct lane_store *lane)
{
    struct link *link = lane->ahead;
    if (!link) return;
    set_ahead(lane, NULL);
    link_wait(link, LOCK_WAIT_MS);
    (void)!link_end(link);
    roll_back(lane, link);
}

/* Gives the transaction up that is open. */
static void end_transaction(struct lane_store *lane)
{
    roll_back(lane, lane->link);
    lane->link = NULL;
    lane->failed = lane->refused = false;
}

void lane_let_go(struct lane_store *lane)
{
    if (lane->link) end_transaction(lane);
    end_ahead(lane);
}

static void postgres_rest(struct writer *writer)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    pthread_mutex_lock(&lane->turn);
    end_ahead(lane);
    pthread_mutex_unlock(&lane->turn);
}

static enum err postgres_begin(struct writer *writer)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    enum err e = ERR_STORAGE;
    pthread_mutex_lock(&lane->turn);
    if (lane->link)
        e = lane->failed ? ERR_STORAGE : ERR_OK;
    else
        e = open_transaction(lane);
    atomic_store(&lane->down, e != ERR_OK);
    if (e != ERR_OK) pthread_mutex_unlock(&lane->turn);
    return e;
}

static enum err postgres_load(struct writer *writer, struct read_set *reads, struct arena *arena)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    enum err e = lane->failed ? ERR_STORAGE : lane_load(lane, reads, arena);
    if (e == ERR_STORAGE) {
        if (!lane->failed) {
            lane_failed(lane, "load", lane->link);
            lane->refused = is_refusal(lane->link);
        }
        lane->failed = true;
    }
    return e;
}

static void postgres_abandon(struct writer *writer, struct read_set *reads)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    (void)reads;
    if (!lane->submitted_first) end_transaction(lane);
    pthread_mutex_unlock(&lane->turn);
}

/* The text of the rules, or what is kept of a rule counter. */
static bool changes_rules(const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        struct bytes name = bytes_of(read->key.data + 1, read->key.size - 1);
        if (!read->changed) continue;
        if (read->key.data[0] == OBJECT_DEFINITION) return true;
        if (read->key.data[0] == OBJECT_META && bytes_equal(name, META_RULES)) return true;
    }
    return false;
}

static void postgres_submit(struct writer *writer, struct write_set *writes)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    if (writes->count > 0) {
        must(writes->first_sequence == writer->position.last_sequence + 1);
        if (!lane->failed) {
            lane_write(lane, writes);
            lane_remember(lane, writes);
        }
        writer->position =
            (struct store_position){.last_sequence = writes->first_sequence + writes->count - 1,
                                    .next_series = writes->next_series,
                                    .time_ms = writes->time_ms,
                                    .rules = writer->position.rules};
        if (changes_rules(writes->reads)) lane->rules = writer->position.last_sequence;
    }
    writes->next = NULL;
    *(lane->submitted_last ? &lane->submitted_last->next : &lane->submitted_first) = writes;
    lane->submitted_last = writes;
    pthread_mutex_unlock(&lane->turn);
}

/* -- Making durable ---------------------------------------------------------------------------- */

enum fate { FATE_DONE, FATE_UNDONE, FATE_UNKNOWN, FATE_TO_BE_FOUND };

static void add_stamp(struct sql_values *values, struct stamp stamp)
{
    values_print(values, (struct fingerprint){.high = stamp.high, .low = stamp.low});
}

static struct stamp new_stamp(void)
{
    struct stamp stamp;
    must(RAND_bytes((unsigned char *)&stamp, sizeof stamp) == 1);
    return stamp;
}

/* A commit that was found may be on one machine alone, if somebody ended its wait for a standby.
 * The lane's lock is a write, so its COMMIT waits for all that was written before it, too. */
static bool found_is_durable(struct link *link)
{
    link_send(link, SQL_COMMIT, NULL, LINK_KEEP);
    link_go(link, COMMIT_WAIT_MS);
    PGresult *result = link_take(link);
    bool committed = result && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    return link_end(link) == ERR_OK && committed && !link_has_warned(link);
}

/* Law (3): a node that gets the lane's lock after it knows that the transaction has ended. */
static enum fate find_out(struct lane_store *lane, const struct store_position *position,
                          struct stamp stamp)
{
    struct pool *pool = lane->database->writers;
    struct store_position newest;
    struct stamp newest_stamp;
    struct link *link;
    enum fate fate = FATE_UNKNOWN;
    pool_renew(pool);
    if (pool_take(pool, LINK_WAIT_MS, &link) != ERR_OK) return FATE_UNKNOWN;
    ask_lock(lane, link, LOCK_WAIT_MS);
    if (take_lock(lane, link, &newest, &newest_stamp) == ERR_OK) {
        values_begin(&lane->values, lane);
        values_i64(&lane->values, (int64_t)position->last_sequence);
        add_stamp(&lane->values, stamp);
        link_send(link, SQL_STAMPED, &lane->values, LINK_KEEP);
        link_go(link, LOCK_WAIT_MS);
        PGresult *stamped = link_take(link);
        if (link_end(link) == ERR_OK) fate = PQntuples(stamped) == 1 ? FATE_DONE : FATE_UNDONE;
        PQclear(stamped);
        if (fate == FATE_DONE && !found_is_durable(link)) fate = FATE_UNKNOWN;
    }
    roll_back(lane, link);
    return fate;
}

static void send_commit(struct lane_store *lane, struct stamp stamp, bool anything)
{
    const struct store_position *position = &lane->store.writer.position;
    if (anything) {
        values_begin(&lane->values, lane);
        values_i64(&lane->values, (int64_t)position->last_sequence);
        values_i64(&lane->values, position->time_ms);
        values_i64(&lane->values, (int64_t)position->next_series);
        values_i64(&lane->values, (int64_t)lane->rules);
        add_stamp(&lane->values, stamp);
        link_send(lane->link, SQL_APPEND, &lane->values, LINK_DROP);
    }
    link_send(lane->link, SQL_COMMIT, NULL, LINK_KEEP);
    link_go(lane->link, COMMIT_WAIT_MS);
}

/* The database warns where it gave up the wait for a standby: the batch is there and perhaps
 * nowhere else, so it is not called durable. */
static enum fate hear_commit(struct lane_store *lane, bool anything)
{
    struct link *link = lane->link;
    PGresult *result = link_take(link);
    bool committed = result && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    enum err e = link_end(link);
    if (committed) return link_has_warned(link) ? FATE_UNKNOWN : FATE_DONE;
    if (e == ERR_OK || !link_is_broken(link)) {
        lane_failed(lane, "commit", link);
        lane->refused = is_refusal(link);
        return FATE_UNDONE;
    }
    return anything ? FATE_TO_BE_FOUND : FATE_UNDONE;
}

/* Commits, and if another turn is near asks for the lock again in the same piece: whatever other
 * node waits for it comes first, because it is given in the order in which it was asked for. */
static enum fate commit_link(struct lane_store *lane, struct stamp stamp, bool anything)
{
    struct link *link = lane->link;
    bool goes_on = lane->store.writer.more && !pool_is_wanted(lane->database->writers);
    send_commit(lane, stamp, anything);
    if (goes_on) ask_lock(lane, link, COMMIT_WAIT_MS);
    enum fate fate = hear_commit(lane, anything);
    if (fate == FATE_UNKNOWN || fate == FATE_TO_BE_FOUND) lane_failed(lane, "commit", link);
    if (fate == FATE_DONE && goes_on) {
        set_ahead(lane, link);
    } else if (fate == FATE_DONE) {
        pool_give(lane->database->writers, link);
    } else {
        if (goes_on) (void)!link_end(link);
        roll_back(lane, link);
    }
    lane->link = NULL;
    return fate;
}

/* The last batch that changes anything; NULL: none does. */
static const struct write_set *last_change(const struct write_set *list)
{
    const struct write_set *last = NULL;
    for (; list; list = list->next)
        if (list->count > 0) last = list;
    return last;
}

/* ERR_OK: all of it is durable. ERR_INTERNAL: none is, and the database refuses it. Otherwise it is
 * not, or it is not known whether. Either way this node is done with the transaction. */
static enum err commit_transaction(struct lane_store *lane, const struct write_set *list)
{
    struct store_position decided = lane->store.writer.position;
    struct stamp stamp = new_stamp();
    const struct write_set *last = last_change(list);
    enum fate fate = FATE_UNDONE;
    crash_point("postgres.before_commit");
    if (!lane->failed) fate = commit_link(lane, stamp, last != NULL);
    crash_point("postgres.after_commit");
    bool refused = lane->refused;
    if (lane->link) end_transaction(lane);
    lane->failed = lane->refused = false;
    if (fate == FATE_TO_BE_FOUND) fate = find_out(lane, &decided, stamp);
    if (fate == FATE_DONE && last) {
        lane->stamp = stamp;
        decided.rules = lane->rules;
        take_position(lane, &decided);
        atomic_store(&lane->sure_ms, last->sure_ms);
    }
    lane->store.writer.position = lane->stored;
    if (fate == FATE_DONE) return ERR_OK;
    known_clear(&lane->known); /* it has what was decided */
    return refused ? ERR_INTERNAL : ERR_STORAGE;
}

static struct write_set *take_submitted(struct lane_store *lane)
{
    struct write_set *list = lane->submitted_first;
    lane->submitted_first = lane->submitted_last = NULL;
    return list;
}

static uint32_t postgres_sync(struct writer *writer)
{
    struct lane_store *lane = LANE_STORE_OF(writer->store);
    pthread_mutex_lock(&lane->turn);
    struct write_set *list = take_submitted(lane);
    enum err e = list ? commit_transaction(lane, list) : ERR_OK;
    if (list) {
        atomic_fetch_add(&lane->syncs, 1);
        atomic_store(&lane->known_bytes, known_bytes(&lane->known));
        atomic_store(&lane->down, e == ERR_STORAGE);
    }
    if (e == ERR_OK) pthread_mutex_unlock(&lane->turn);
    uint32_t count = 0;
    for (struct write_set *writes = list, *next; writes; writes = next) {
        next = writes->next;
        writer->durable(writer->durable_context, writes->batch, e);
        count++;
    }
    /* A failure is told before the next turn, which must not go by what failed. */
    if (e != ERR_OK) pthread_mutex_unlock(&lane->turn);
    return count;
}

const struct writer_ops postgres_writer_ops = {
    .begin = postgres_begin,
    .load = postgres_load,
    .submit = postgres_submit,
    .abandon = postgres_abandon,
    .sync = postgres_sync,
    .rest = postgres_rest,
};
