/* follow.c -- see the header. */
#include "replica/follow.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"
#include "replica/copy.h"
#include "replica/fetch.h"
#include "replica/ship.h"
#include "replica/shipment.h"
#include "store/embedded/journal/block.h"

#define WAIT_MS 1000      /* a question waits so long for something new */
#define ANSWER_MS 20000   /* and is given up after this */
#define PAUSE_MS_FIRST 50 /* before it is asked again, doubled up to */
#define PAUSE_MS_MAX 500
#define BLOCKS_MAX 4096u /* installed together */

struct follow {
    struct follow_config config;
    struct fetch *fetch;
    struct effort effort;
    pthread_t thread;
    atomic_bool stop;
    bool arrived;
    unsigned failures; /* in a row; these two are the thread's own */
    enum err failure;  /* the last one's */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t stopping;
    struct follow_state state;
    int64_t asked_ns; /* the question under way */
    int64_t level_ns; /* when everything of the primary's was here */
    bool level;
};

static int64_t now_ns(const struct follow *follow)
{
    return clock_mono_ns(follow->config.machine);
}

/* -- An answer --------------------------------------------------------------------------------- */

struct arrival {
    struct shipment_head head;
    struct journal_block blocks[BLOCKS_MAX];
    unsigned count;
    struct store_position position; /* after them */
};

/* Works out the hashes of what came. */
static enum err take_block(struct arrival *arrival, const struct shipment_block *came)
{
    const struct journal_block *block = &came->block;
    struct store_position *position = &arrival->position;
    if (block->first_sequence != position->last_sequence + 1 || block->count == 0)
        return ERR_POSITION;
    uint64_t hash = block_hash(position->hash, block);
    if (hash != came->hash) return ERR_CORRUPT;
    position->hash = hash;
    position->last_sequence = block->first_sequence + block->count - 1;
    arrival->blocks[arrival->count++] = *block;
    return ERR_OK;
}

static enum err install(struct follow *follow, struct arrival *arrival, bool *rules)
{
    struct embedded_news news = {0};
    enum err e = embedded_install(follow->config.store, arrival->blocks, arrival->count,
                                  moment_sure(&arrival->head.moment), &news);
    *rules |= news.rules;
    arrival->count = 0;
    return e;
}

static enum err install_all(struct follow *follow, struct arrival *arrival, struct reader *reader)
{
    bool rules = false;
    struct shipment_block came;
    enum err e = ERR_OK;
    while (e == ERR_OK && (e = shipment_next(reader, &came)) == ERR_OK) {
        e = take_block(arrival, &came);
        if (e == ERR_OK && arrival->count == BLOCKS_MAX) e = install(follow, arrival, &rules);
    }
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    if (e == ERR_OK && arrival->count) e = install(follow, arrival, &rules);
    if (rules && follow->config.rules(follow->config.context) != ERR_OK)
        log_line(LOG_ERROR, "the primary's new rules cannot be gone by here");
    return e;
}

/* Before its blocks are shown: none of them is of a later time. */
static void take_time(struct follow *follow, const struct shipment_head *head)
{
    if (follow->config.keeper) timekeeper_follow(follow->config.keeper, &head->moment);
}

static void note_arrival(struct follow *follow, const struct arrival *arrival)
{
    pthread_mutex_lock(&follow->lock);
    follow->state.sequence = arrival->position.last_sequence;
    follow->state.last = arrival->head.last;
    follow->level = arrival->position.last_sequence >= arrival->head.last;
    if (follow->level) follow->level_ns = follow->asked_ns;
    pthread_mutex_unlock(&follow->lock);
}

static enum err take_answer(struct follow *follow, const struct store_position *from,
                            struct bytes bytes, struct reason *why)
{
    uint32_t format;
    struct reader reader;
    struct arrival *arrival = must_calloc(1, sizeof *arrival);
    arrival->position = *from;
    enum err e = shipment_read(bytes, &arrival->head, &reader, &format);
    if (e == ERR_OK) {
        take_time(follow, &arrival->head);
        e = install_all(follow, arrival, &reader);
    }
    if (e == ERR_OK) note_arrival(follow, arrival);
    if (e == ERR_INVALID)
        reason_say(why, "it ships format %u of the journal, and this version knows %u", format,
                   SHIPMENT_FORMAT);
    else if (e == ERR_STORAGE)
        reason_say(why, "the disk here failed");
    else if (e == ERR_BODY_SIZE)
        reason_say(why, "it sent a commit that journal.segmentBytes here is too small for");
    else if (e != ERR_OK)
        reason_say(why, "it sent bytes that are no continuation of the history here");
    free(arrival);
    return e == ERR_OK || e == ERR_STORAGE ? e : ERR_CONFLICT;
}

/* -- A question -------------------------------------------------------------------------------- */

static void ask_path(const struct follow *follow, const struct store_position *position,
                     char path[1024])
{
    const struct store *store = follow->config.store;
    snprintf(path, 1024,
             "/api/replica/journal?format=%u&installation=%016" PRIx64 "&proof=%016" PRIx64
             "&name=%s&after=%" PRIu64 "&hash=%016" PRIx64 "&wait=%d",
             SHIPMENT_FORMAT, store->installation, ship_proof(&store->secret), follow->config.name,
             position->last_sequence, position->hash, WAIT_MS);
}

/* ERR_POSITION: a snapshot is needed. */
static enum err ask_once(struct follow *follow, struct reason *why)
{
    char path[1024];
    const struct fetch_reply *reply;
    const struct store_position position = embedded_position(follow->config.store);
    ask_path(follow, &position, path);
    pthread_mutex_lock(&follow->lock);
    follow->asked_ns = now_ns(follow);
    pthread_mutex_unlock(&follow->lock);
    enum err e = fetch_ask(follow->fetch, "GET", path, ANSWER_MS, &reply);
    if (e == ERR_OK && reply->status == 200)
        return take_answer(follow, &position, buf_bytes(&reply->body), why);
    if (e == ERR_OK && strcmp(reply->code, "position_lost") == 0) return ERR_POSITION;
    reason_say(why, "%s", reply->why.text);
    if (e != ERR_OK) return e;
    return reply->status >= 500 ? ERR_STORAGE : ERR_CONFLICT;
}

/* -- The thread -------------------------------------------------------------------------------- */

static void pause_ms(struct follow *follow, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&follow->lock);
    if (!atomic_load(&follow->stop))
        pthread_cond_clockwait(&follow->stopping, &follow->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&follow->lock);
}

/* Each kind of trouble is said once: a primary that is away for an hour is one line. */
static void note_end(struct follow *follow, enum err e, const struct reason *why)
{
    bool failed = e != ERR_OK;
    if (failed && (follow->failures == 0 || follow->failure != e))
        log_line(e == ERR_CONFLICT ? LOG_ERROR : LOG_WARN, "the primary cannot be followed now",
                 LOG_KV("primary", follow->config.url), LOG_KV("why", why->text));
    if (!failed && follow->failures)
        log_line(LOG_INFO, "the primary is followed again", LOG_KV("primary", follow->config.url));
    follow->failures = failed ? follow->failures + 1 : 0;
    follow->failure = e;
    pthread_mutex_lock(&follow->lock);
    follow->state.connected = !failed;
    pthread_mutex_unlock(&follow->lock);
}

static int64_t pause_after(unsigned failures)
{
    int64_t ms = PAUSE_MS_FIRST;
    while (--failures > 0 && ms < PAUSE_MS_MAX)
        ms *= 2;
    return ms < PAUSE_MS_MAX ? ms : PAUSE_MS_MAX;
}

static void set_copying(struct follow *follow, bool copying)
{
    pthread_mutex_lock(&follow->lock);
    follow->state.copying = copying;
    pthread_mutex_unlock(&follow->lock);
}

static enum err copy(struct follow *follow, struct reason *why)
{
    log_line(LOG_WARN,
             "the primary's journal no longer has what comes next here, or never had what "
             "is here; a snapshot is taken, and the old state served meanwhile");
    set_copying(follow, true);
    enum err e =
        copy_take(follow->fetch, follow->config.dir, follow->config.name, &follow->effort, why);
    set_copying(follow, false);
    follow->arrived = e == ERR_OK;
    return e;
}

static void *follow_main(void *context)
{
    struct follow *follow = context;
    while (!atomic_load(&follow->stop) && !follow->arrived) {
        struct reason why;
        reason_clear(&why);
        enum err e = ask_once(follow, &why);
        if (e == ERR_POSITION) e = copy(follow, &why);
        if (e == ERR_BUSY) break;
        note_end(follow, e, &why);
        if (e != ERR_OK) pause_ms(follow, pause_after(follow->failures));
    }
    if (follow->arrived) follow->config.arrived(follow->config.context);
    return NULL;
}

struct follow *follow_new(const struct follow_config *config)
{
    struct follow *follow = must_calloc(1, sizeof *follow);
    follow->config = *config;
    follow->effort.keep_free_of = config->dir;
    follow->state.sequence = embedded_position(config->store).last_sequence;
    follow->level_ns = clock_mono_ns(config->machine);
    follow->fetch = fetch_new(config->url, config->token, &follow->stop);
    pthread_mutex_init(&follow->lock, NULL);
    pthread_cond_init(&follow->stopping, NULL);
    return follow;
}

void follow_start(struct follow *follow)
{
    thread_start(&follow->thread, "follow", follow_main, follow);
}

void follow_stop(struct follow *follow)
{
    pthread_mutex_lock(&follow->lock);
    atomic_store(&follow->stop, true);
    atomic_store(&follow->effort.stop, true);
    pthread_mutex_unlock(&follow->lock);
    pthread_cond_signal(&follow->stopping);
    pthread_join(follow->thread, NULL);
}

void follow_free(struct follow *follow)
{
    fetch_free(follow->fetch);
    pthread_cond_destroy(&follow->stopping);
    pthread_mutex_destroy(&follow->lock);
    free(follow);
}

/* A primary that is asked, and whose last answer was everything, would say at once if there were
 * more. */
void follow_state(struct follow *follow, struct follow_state *state_out)
{
    int64_t now = now_ns(follow);
    pthread_mutex_lock(&follow->lock);
    *state_out = follow->state;
    bool asking = follow->level && follow->state.connected &&
                  now - follow->asked_ns < 2 * WAIT_MS * INT64_C(1000000);
    state_out->lag_ms = asking ? 0 : (now - follow->level_ns) / 1000000;
    pthread_mutex_unlock(&follow->lock);
}

/* -- Before there is a store ------------------------------------------------------------------- */

static void sleep_ms(int64_t ms, const atomic_bool *stop)
{
    for (int64_t slept = 0; slept < ms && !atomic_load(stop); slept += 10)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

enum err follow_begin(const struct follow_config *config, const atomic_bool *stop,
                      struct reason *why)
{
    struct effort effort = {.keep_free_of = config->dir};
    struct fetch *fetch = fetch_new(config->url, config->token, stop);
    enum err e = ERR_STORAGE;
    for (unsigned failures = 1; e == ERR_STORAGE; failures++) {
        reason_clear(why);
        e = copy_take(fetch, config->dir, config->name, &effort, why);
        if (e != ERR_STORAGE) break;
        if (failures == 1)
            log_line(LOG_WARN, "the primary cannot be copied yet", LOG_KV("primary", config->url),
                     LOG_KV("why", why->text));
        sleep_ms(pause_after(failures), stop);
        if (atomic_load(stop)) e = ERR_BUSY;
    }
    fetch_free(fetch);
    return e;
}
