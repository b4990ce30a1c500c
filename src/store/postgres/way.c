/* way.c -- see the header.
 *
 * Each lane remembers how far its standby was when it said so last. As long as that is far enough a
 * read takes one round; otherwise the position is asked for alone, every STANDBY_LOOK_NS, so that
 * no large answer is fetched for nothing. */
#include "store/postgres/way.h"

#include <time.h>

#include "base/codec.h"
#include "base/metrics.h"
#include "store/postgres/internal.h"

#define STANDBY_LOOK_NS 3000000
#define ANSWER_MS 20
#define MS_NS INT64_C(1000000)

static int64_t mono_ns(const struct way *way)
{
    return clock_mono_ns(way->lane->database->config.clock);
}

static bool may_lag(const struct way *way)
{
    return way->age && !way->age->newest && way->lane->database->standbys;
}

void way_begin(struct way *way, struct view *view)
{
    struct lane_store *lane = CONTAINER_OF(view->store, struct lane_store, store);
    *way =
        (struct way){.lane = lane, .age = view->age, .known = atomic_load(&lane->durable_sequence)};
    if (may_lag(way)) way->until_ns = mono_ns(way) + STANDBY_WAIT_MS * MS_NS;
}

static void give_link(struct way *way)
{
    if (way->link) pool_give(way->pool, way->link);
    way->link = NULL;
}

void way_end(struct way *way)
{
    give_link(way);
}

static bool leads_to_standby(const struct way *way, const struct pool *pool)
{
    return pool && pool == way->lane->database->standbys;
}

bool way_is_standby(const struct way *way)
{
    return leads_to_standby(way, way->pool);
}

static void note_reached(struct way *way, uint64_t sequence)
{
    if (way->age && sequence < way->age->reached) way->age->reached = sequence;
}

/* -- The standby ------------------------------------------------------------------------------- */

static void pass_over(struct way *way, enum metric why)
{
    metric_add(why, 1);
    way->age->newest = true;
    give_link(way);
}

/* Somewhat more than is left at the end: an answer under way would cost its link otherwise. */
static int left_ms(const struct way *way)
{
    int64_t left = (way->until_ns - mono_ns(way)) / MS_NS;
    return left > ANSWER_MS ? (int)left : ANSWER_MS;
}

static bool is_late(const struct way *way)
{
    return mono_ns(way) >= way->until_ns;
}

static void send_positions(struct link *link, const struct way *ways, unsigned count)
{
    struct sql_values values;
    values_init(&values);
    values_columns(&values, "i");
    for (unsigned i = 0; i < count; i++)
        row_i32(&values, (int32_t)ways[i].lane->lane);
    link_send(link, SQL_REACHED, &values, LINK_KEEP);
    values_release(&values);
}

bool standby_position(const struct database *database, const PGresult *result, int row,
                      uint64_t *sequence_out)
{
    int64_t sequence;
    if (!result_i64(result, row, 1, &sequence)) return false;
    struct bytes installation = result_bytes(result, row, 2), schema = result_bytes(result, row, 3);
    if (installation.size != 8 || get_ordered_u64(installation.data) != database->installation)
        return false;
    *sequence_out = (uint64_t)sequence;
    return schema.size == 8 && get_ordered_u64(schema.data) == SCHEMA_VERSION;
}

static enum err judge(struct way *way, uint64_t sequence)
{
    standby_heard(way->lane, sequence);
    if (sequence < way->age->least) return ERR_BUSY;
    note_reached(way, sequence);
    return ERR_OK;
}

/* ERR_STORAGE: it says nothing of use. Otherwise each way knows by itself. */
static enum err hear_positions(struct link *link, struct way *ways, unsigned count)
{
    PGresult *result = link_take(link);
    uint64_t sequence;
    bool whole = result && (unsigned)PQntuples(result) == count;
    for (unsigned i = 0; i < count; i++) {
        bool good = whole && standby_position(ways[i].lane->database, result, (int)i, &sequence);
        ways[i].heard = good ? judge(&ways[i], sequence) : ERR_STORAGE;
    }
    PQclear(result);
    return whole ? ERR_OK : ERR_STORAGE;
}

void way_send_position(struct way *way)
{
    send_positions(way->link, way, 1);
}

enum err way_hear_position(struct way *way)
{
    enum err e = hear_positions(way->link, way, 1);
    return e == ERR_OK ? way->heard : e;
}

static enum err take_standby(struct way *way)
{
    way->pool = way->lane->database->standbys;
    return way->link ? ERR_OK : pool_take(way->pool, left_ms(way), &way->link);
}

/* Asks it for nothing but its position. */
static enum err ask_position(struct way *way)
{
    enum err e = take_standby(way);
    if (e != ERR_OK) return e;
    way_send_position(way);
    link_go(way->link, left_ms(way));
    e = way_hear_position(way);
    enum err ended = link_end(way->link);
    return ended == ERR_OK ? e : ended;
}

static bool seems_far_enough(const struct way *way)
{
    return atomic_load(&way->lane->standby_sequence) >= way->age->least;
}

static bool was_late_before(const struct way *way)
{
    uint64_t late = atomic_load(&way->lane->standby_late);
    return late > 0 && way->age->least >= late;
}

/* False: it was passed over. */
static bool await_standby(struct way *way)
{
    enum err e = ERR_BUSY;
    bool late = was_late_before(way);
    while (!late && e == ERR_BUSY && !seems_far_enough(way)) {
        e = ask_position(way);
        if (e != ERR_BUSY) break;
        nanosleep(&(struct timespec){.tv_nsec = STANDBY_LOOK_NS}, NULL);
        late = is_late(way);
        if (late) atomic_store(&way->lane->standby_late, way->age->least);
    }
    if (late)
        pass_over(way, METRIC_STANDBY_BEHIND);
    else if (e == ERR_STORAGE)
        pass_over(way, METRIC_STANDBY_FAILED);
    return !way->age->newest;
}

/* Nothing that was late is late for ever: what it had not reached it has now. */
void standby_heard(struct lane_store *lane, uint64_t sequence)
{
    uint64_t late = atomic_load(&lane->standby_late);
    atomic_store(&lane->standby_sequence, sequence);
    if (late > 0 && sequence >= late) atomic_compare_exchange_strong(&lane->standby_late, &late, 0);
}

/* -- The choice -------------------------------------------------------------------------------- */

struct pool *way_choose(struct way *way)
{
    const struct database *database = way->lane->database;
    if (!may_lag(way)) return database->readers;
    if (pool_is_down(database->standbys)) {
        pass_over(way, METRIC_STANDBY_FAILED);
        return database->readers;
    }
    return await_standby(way) ? database->standbys : database->readers;
}

void way_note_primary(struct way *way)
{
    /* A caller makes sure that there is what it asks for (view_newest), so the primary has it. */
    uint64_t least = way->age ? way->age->least : 0;
    note_reached(way, way->known > least ? way->known : least);
}

enum err way_take(struct way *way)
{
    struct pool *pool = way_choose(way);
    if (way->link && way->pool == pool) return ERR_OK;
    must(!way->link);
    if (leads_to_standby(way, pool)) return take_standby(way);
    way->pool = pool;
    way_note_primary(way);
    return pool_take(pool, LINK_WAIT_MS, &way->link);
}

/* A link that idled may have been closed from the other side: that is tried again once, on a new
 * one. */
static bool is_stale(const struct way *way)
{
    return way->link && link_is_broken(way->link) && !link_is_fresh(way->link);
}

bool way_goes_on(struct way *way, enum err e)
{
    bool stale = is_stale(way);
    if (stale) pool_renew(way->pool);
    if (way_is_standby(way)) {
        if (e != ERR_BUSY)
            pass_over(way, METRIC_STANDBY_FAILED);
        else if (is_late(way))
            pass_over(way, METRIC_STANDBY_BEHIND);
        return true;
    }
    bool again = stale && !way->renewed;
    if (again) give_link(way);
    way->renewed |= stale;
    return again;
}

void way_count(const struct way *way)
{
    bool standby = way_is_standby(way);
    if (way->age) metric_add(standby ? METRIC_READS_STANDBY : METRIC_READS_PRIMARY, 1);
}

static enum err ask_on(struct way *way, enum sql_name name, struct sql_values *values,
                       PGresult **result_out)
{
    enum err e = ERR_OK;
    bool standby = way_is_standby(way);
    if (standby) way_send_position(way);
    link_send(way->link, name, values, LINK_KEEP);
    link_go(way->link, standby ? STANDBY_WAIT_MS : READ_WAIT_MS);
    if (standby) {
        e = way_hear_position(way);
        link_wait(way->link, READ_WAIT_MS);
    }
    *result_out = link_take(way->link);
    enum err ended = link_end(way->link);
    if (e == ERR_OK) e = ended;
    if (e == ERR_OK) return ERR_OK;
    PQclear(*result_out);
    *result_out = NULL;
    return e;
}

enum err way_ask(struct way *way, enum sql_name name, struct sql_values *values,
                 PGresult **result_out)
{
    enum err e;
    *result_out = NULL;
    do {
        e = way_take(way);
        if (e == ERR_OK) e = ask_on(way, name, values, result_out);
        if (e == ERR_OK) {
            way_count(way);
            return ERR_OK;
        }
    } while (way_goes_on(way, e));
    return e;
}

/* -- Together ---------------------------------------------------------------------------------- */

enum err way_ask_together(struct way *ways, unsigned count, enum sql_name name,
                          struct sql_values *values, PGresult **result_out)
{
    struct way *first = &ways[0];
    *result_out = NULL;
    enum err e = take_standby(first);
    if (e == ERR_OK) {
        send_positions(first->link, ways, count);
        link_send(first->link, name, values, LINK_KEEP);
        link_go(first->link, STANDBY_WAIT_MS);
        e = hear_positions(first->link, ways, count);
        link_wait(first->link, READ_WAIT_MS);
        *result_out = link_take(first->link);
        enum err ended = link_end(first->link);
        if (e == ERR_OK) e = ended;
        if (e == ERR_OK) way_count(first);
    }
    if (e != ERR_OK && is_stale(first)) pool_renew(first->pool);
    for (unsigned i = 0; i < count && e != ERR_OK; i++) {
        ways[i].heard = e;
        pass_over(&ways[i], METRIC_STANDBY_FAILED);
    }
    give_link(first);
    return e;
}
