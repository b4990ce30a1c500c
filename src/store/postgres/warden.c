/* warden.c -- a thread for each database: it opens links where the last opening failed, and asks
 * the standby how far it is.
 *
 * Every database has one of its own, so that a server that does not answer is waited for by nobody
 * who has something else to do.
 *
 * A lane's lag in time: at each look for which the standby has come as far as the `target` of
 * before, what is the newest now becomes the next one. So the lag is the age of the oldest state
 * that the standby is known to lack, to the second. */
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "store/postgres/internal.h"

#define WATCH_NS 250000000
#define LOOK_NS INT64_C(1000000000)
#define LOOK_WAIT_MS 3000
#define MS_NS INT64_C(1000000)

struct warded {
    struct lane_store *lane; /* NULL: it is not open */
    uint64_t target;
    int64_t target_ns;
};

struct warden {
    struct database *database;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
    int64_t looked_ns;
    pthread_t thread;
    struct warded lanes[];
};

static int64_t mono_ns(const struct warden *warden)
{
    return clock_mono_ns(warden->database->config.clock);
}

/* The lock is held. */
static void note_lane(struct warded *warded, uint64_t sequence, int64_t now_ns)
{
    uint64_t known = atomic_load(&warded->lane->durable_sequence);
    standby_heard(warded->lane, sequence);
    if (sequence >= warded->target) {
        warded->target = known;
        warded->target_ns = now_ns;
    }
    int64_t behind_ms = sequence >= known ? 0 : (now_ns - warded->target_ns) / MS_NS;
    atomic_store(&warded->lane->standby_lag_ms, behind_ms);
}

static void note_lanes(struct warden *warden, const PGresult *result)
{
    int64_t now_ns = mono_ns(warden);
    pthread_mutex_lock(&warden->lock);
    for (int row = 0; row < PQntuples(result); row++) {
        int32_t lane;
        uint64_t sequence;
        if (!result_i32(result, row, 0, &lane) || lane < 0) continue;
        if ((unsigned)lane >= warden->database->config.lanes || !warden->lanes[lane].lane) continue;
        if (standby_position(warden->database, result, row, &sequence))
            note_lane(&warden->lanes[lane], sequence, now_ns);
    }
    pthread_mutex_unlock(&warden->lock);
}

/* A standby that does not answer falls behind, too. */
static void note_silence(struct warden *warden)
{
    int64_t now_ns = mono_ns(warden);
    pthread_mutex_lock(&warden->lock);
    for (unsigned i = 0; i < warden->database->config.lanes; i++) {
        struct lane_store *lane = warden->lanes[i].lane;
        if (lane) note_lane(&warden->lanes[i], atomic_load(&lane->standby_sequence), now_ns);
    }
    pthread_mutex_unlock(&warden->lock);
}

static void name_lanes(struct warden *warden, struct sql_values *lanes)
{
    values_init(lanes);
    values_columns(lanes, "i");
    pthread_mutex_lock(&warden->lock);
    for (unsigned i = 0; i < warden->database->config.lanes; i++)
        if (warden->lanes[i].lane) row_i32(lanes, (int32_t)i);
    pthread_mutex_unlock(&warden->lock);
}

static void look(struct warden *warden)
{
    struct pool *pool = warden->database->standbys;
    struct link *link;
    PGresult *result = NULL;
    if (!pool || mono_ns(warden) - warden->looked_ns < LOOK_NS) return;
    warden->looked_ns = mono_ns(warden);
    if (pool_take(pool, 0, &link) == ERR_OK) {
        struct sql_values lanes;
        name_lanes(warden, &lanes);
        link_send(link, SQL_REACHED, &lanes, LINK_KEEP);
        link_go(link, LOOK_WAIT_MS);
        values_release(&lanes);
        result = link_take(link);
        (void)!link_end(link); /* then there is no result */
        pool_give(pool, link);
    }
    if (result)
        note_lanes(warden, result);
    else
        note_silence(warden);
    PQclear(result);
}

static void probe(struct warden *warden)
{
    pool_probe(warden->database->writers);
    pool_probe(warden->database->readers);
    if (warden->database->standbys) pool_probe(warden->database->standbys);
}

/* The lock is held. False: it is over. */
static bool rest(struct warden *warden)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = (int64_t)until.tv_sec * 1000000000 + until.tv_nsec + WATCH_NS;
    until = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    if (!warden->over)
        pthread_cond_clockwait(&warden->ended, &warden->lock, CLOCK_MONOTONIC, &until);
    return !warden->over;
}

static void *warden_main(void *context)
{
    struct warden *warden = context;
    pthread_mutex_lock(&warden->lock);
    while (rest(warden)) {
        pthread_mutex_unlock(&warden->lock);
        probe(warden);
        look(warden);
        pthread_mutex_lock(&warden->lock);
    }
    pthread_mutex_unlock(&warden->lock);
    return NULL;
}

struct warden *warden_new(struct database *database)
{
    struct warden *warden =
        must_calloc(1, sizeof *warden + database->config.lanes * sizeof warden->lanes[0]);
    warden->database = database;
    pthread_mutex_init(&warden->lock, NULL);
    pthread_cond_init(&warden->ended, NULL);
    thread_start(&warden->thread, "database", warden_main, warden);
    return warden;
}

void warden_free(struct warden *warden)
{
    pthread_mutex_lock(&warden->lock);
    warden->over = true;
    pthread_mutex_unlock(&warden->lock);
    pthread_cond_broadcast(&warden->ended);
    pthread_join(warden->thread, NULL);
    pthread_cond_destroy(&warden->ended);
    pthread_mutex_destroy(&warden->lock);
    free(warden);
}

void warden_join(struct warden *warden, struct lane_store *lane)
{
    pthread_mutex_lock(&warden->lock);
    warden->lanes[lane->lane] = (struct warded){.lane = lane, .target_ns = mono_ns(warden)};
    pthread_mutex_unlock(&warden->lock);
}

void warden_leave(struct warden *warden, struct lane_store *lane)
{
    pthread_mutex_lock(&warden->lock);
    warden->lanes[lane->lane].lane = NULL;
    pthread_mutex_unlock(&warden->lock);
}
