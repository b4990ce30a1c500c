/* ship.c -- see the header. */
#include "replica/ship.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/thread.h"
#include "replica/shipment.h"
#include "store/embedded/journal/block.h"

#define KEPT_AT_FIRST_NS INT64_C(600000000000) /* after a start, until followers have come back */

/* A block that has just become durable. */
struct fresh {
    struct journal_block block; /* its body is `bytes` */
    uint64_t before;            /* running hashes */
    uint64_t hash;
    char *bytes;
    struct fresh *next;
};

struct follower {
    char name[SHIP_NAME_SIZE];
    uint64_t sequence;
    uint64_t sure;    /* the same, found to be in this history */
    int64_t asked_ns; /* 0: it never did */
};

struct ship {
    struct ship_config config;
    pthread_t thread;
    int64_t began_ns;

    atomic_bool settled;
    int64_t gather_ns;

    pthread_mutex_t lock; /* guards what follows; taken last and alone */
    pthread_cond_t news;
    pthread_cond_t acked;
    bool few;      /* the last wait for followers was in vain: the next one is not waited for */
    uint64_t last; /* durable, and so to be shipped */
    uint64_t hash;
    int64_t answered_ns;  /* when somebody was last sent blocks */
    int64_t wakes_ns;     /* when the thread looks again by itself */
    int64_t active_ns;    /* when somebody asked last; 0: nobody has */
    struct fresh *oldest; /* blocks without a gap up to `last` */
    struct fresh *newest;
    size_t fresh_bytes;
    struct ship_ask *asks;
    struct follower followers[SHIP_FOLLOWERS_MAX];
    unsigned followers_count;
    bool followed;
    bool stopped;
};

/* -- Blocks in memory -------------------------------------------------------------------------- */

static void drop_oldest(struct ship *ship)
{
    struct fresh *fresh = ship->oldest;
    ship->oldest = fresh->next;
    if (!ship->oldest) ship->newest = NULL;
    ship->fresh_bytes -= fresh->block.body.size;
    free(fresh->bytes);
    free(fresh);
}

static void drop_all(struct ship *ship)
{
    while (ship->oldest)
        drop_oldest(ship);
}

static void remember(struct ship *ship, const struct journal_block *block, uint64_t hash)
{
    struct fresh *fresh = must_calloc(1, sizeof *fresh);
    fresh->block = *block;
    fresh->before = ship->hash;
    fresh->hash = hash;
    fresh->bytes = must_calloc(1, block->body.size);
    memcpy(fresh->bytes, block->body.data, block->body.size);
    fresh->block.body = bytes_of(fresh->bytes, block->body.size);
    if (ship->newest)
        ship->newest->next = fresh;
    else
        ship->oldest = fresh;
    ship->newest = fresh;
    ship->fresh_bytes += block->body.size;
    while (ship->fresh_bytes > SHIP_MEMORY_BYTES && ship->oldest != ship->newest)
        drop_oldest(ship);
}

static bool is_active(const struct ship *ship, int64_t now_ns)
{
    return ship->active_ns && now_ns - ship->active_ns < SHIP_SILENT_NS;
}

/* -- What followers have --------------------------------------------------------------------- */

/* The lock is held. */
static bool have_enough(const struct ship *ship, uint64_t sequence)
{
    unsigned have = 0;
    for (unsigned i = 0; i < ship->followers_count; i++)
        have += ship->followers[i].sure >= sequence;
    return have >= ship->config.acks;
}

/* The lock is held: a follower that is at this place asks. */
static void note_place(struct ship *ship, struct follower *follower, uint64_t sequence)
{
    follower->sure = sequence;
    if (have_enough(ship, ship->last)) {
        if (!atomic_load(&ship->settled))
            log_line(LOG_INFO, "followers have what was recovered; the primary serves");
        atomic_store(&ship->settled, true);
        ship->few = false;
    }
    pthread_cond_broadcast(&ship->acked);
}

bool ship_is_settled(struct ship *ship)
{
    return atomic_load_explicit(&ship->settled, memory_order_acquire);
}

static struct timespec after_ms(int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

/* Before it is settled nobody is shown anything, so nothing needs to wait. */
static bool is_reached(void *context, uint64_t sequence, bool wait)
{
    struct ship *ship = context;
    if (!ship_is_settled(ship)) return true;
    const struct timespec until = after_ms(ship->config.timeout_ms);
    pthread_mutex_lock(&ship->lock);
    bool late = !wait || ship->few;
    bool reached = have_enough(ship, sequence);
    while (!reached && !late && !ship->stopped) {
        late = pthread_cond_clockwait(&ship->acked, &ship->lock, CLOCK_MONOTONIC, &until) != 0;
        reached = have_enough(ship, sequence);
    }
    if (wait && !reached) ship->few = true;
    pthread_mutex_unlock(&ship->lock);
    return reached;
}

static void released(void *context)
{
    struct ship *ship = context;
    ship->config.released(ship->config.context);
}

/* The hook of the store: on the thread that syncs, which must not be kept. */
static void block_durable(void *context, const struct journal_block *block, uint64_t hash)
{
    struct ship *ship = context;
    int64_t now_ns = clock_mono_ns(ship->config.clock);
    pthread_mutex_lock(&ship->lock);
    if (is_active(ship, now_ns))
        remember(ship, block, hash);
    else
        drop_all(ship);
    ship->last = block->first_sequence + block->count - 1;
    ship->hash = hash;
    bool sleeps = ship->asks && ship->wakes_ns > ship->answered_ns + ship->gather_ns;
    if (sleeps) ship->wakes_ns = 0; /* it is woken once */
    pthread_mutex_unlock(&ship->lock);
    if (sleeps) pthread_cond_signal(&ship->news);
}

/* -- Answers ----------------------------------------------------------------------------------- */

static void add_head(struct ship *ship, struct buf *out, bool settle)
{
    struct moment moment = clock_moment(ship->config.clock);
    pthread_mutex_lock(&ship->lock);
    const struct shipment_head head = {.last = ship->last, .moment = moment};
    pthread_mutex_unlock(&ship->lock);
    if (settle)
        shipment_settle(out, &head);
    else
        shipment_begin(out, &head);
}

/* The lock is held. True: what comes after the place is in memory, and as much of it as fits is in
 * the answer; or it is not this history's. */
static bool answer_fresh(struct ship *ship, struct ship_ask *ask)
{
    const struct fresh *fresh = ship->oldest;
    while (fresh && fresh->block.first_sequence <= ask->after)
        fresh = fresh->next;
    if (!fresh || fresh->block.first_sequence != ask->after + 1) return false;
    if (fresh->before != ask->hash) {
        ask->err = ERR_POSITION;
        return true;
    }
    for (; fresh && ask->out->size < SHIP_ANSWER_BYTES; fresh = fresh->next)
        shipment_add(ask->out, &fresh->block, fresh->hash);
    return true;
}

struct older {
    struct ship_ask *ask;
    uint64_t hash;
};

static enum err answer_block(void *context, const struct journal_block *block)
{
    struct older *older = context;
    if (older->ask->out->size >= SHIP_ANSWER_BYTES) return ERR_BUSY;
    older->hash = block_hash(older->hash, block);
    shipment_add(older->ask->out, block, older->hash);
    return ERR_OK;
}

/* From the disk, without the lock. */
static void answer_older(struct ship *ship, struct ship_ask *ask)
{
    struct older older = {.ask = ask, .hash = ask->hash};
    enum err e = embedded_blocks(ship->config.store, ask->after, ask->hash, answer_block, &older);
    ask->err = e == ERR_NOT_FOUND ? ERR_POSITION : e;
    if (e == ERR_NOT_FOUND)
        log_line(LOG_WARN, "a follower is behind the journal kept for it, and takes a snapshot");
}

/* What was in memory was looked at when the question came. */
static void note_older(struct ship *ship, const struct ship_ask *ask)
{
    pthread_mutex_lock(&ship->lock);
    struct follower *follower = &ship->followers[ask->follower];
    if (follower->sequence == ask->after) note_place(ship, follower, ask->after);
    pthread_mutex_unlock(&ship->lock);
}

static void answer(struct ship *ship, struct ship_ask *ask)
{
    bool done = true;
    ask->err = ERR_OK;
    add_head(ship, ask->out, false);
    pthread_mutex_lock(&ship->lock);
    if (ship->stopped)
        ask->err = ERR_BUSY;
    else if (ask->after > ship->last || (ask->after == ship->last && ask->hash != ship->hash))
        ask->err = ERR_POSITION;
    else if (ask->after < ship->last)
        done = answer_fresh(ship, ask);
    pthread_mutex_unlock(&ship->lock);
    if (!done) answer_older(ship, ask);
    if (!done && ask->err == ERR_OK) note_older(ship, ask);
    if (ask->err == ERR_OK) add_head(ship, ask->out, true);
    crash_point("ship.before_answer");
    ask->done(ask);
}

/* -- Whose turn it is -------------------------------------------------------------------------- */

/* When the question is to be answered, the lock being held; what is past is due. Somebody who is
 * far behind is not kept waiting, nor is one whose place is not here. */
static int64_t due_ns(const struct ship *ship, const struct ship_ask *ask)
{
    if (ship->stopped || ask->after > ship->last) return INT64_MIN;
    if (ask->after == ship->last) return ask->hash == ship->hash ? ask->until_ns : INT64_MIN;
    if (!ship->oldest || ask->after + 1 < ship->oldest->block.first_sequence) return INT64_MIN;
    int64_t gathered_ns = ship->answered_ns + ship->gather_ns;
    return gathered_ns < ask->until_ns ? gathered_ns : ask->until_ns;
}

/* Takes what is due off the list; `*until_ns_out` is when the next one will be. */
static struct ship_ask *take_due(struct ship *ship, int64_t now_ns, int64_t *until_ns_out)
{
    struct ship_ask *due = NULL;
    struct ship_ask **at = &ship->asks;
    *until_ns_out = INT64_MAX;
    while (*at) {
        struct ship_ask *ask = *at;
        int64_t ns = due_ns(ship, ask);
        if (ns <= now_ns) {
            *at = ask->next;
            ask->next = due;
            due = ask;
            continue;
        }
        if (ns < *until_ns_out) *until_ns_out = ns;
        at = &ask->next;
    }
    ship->wakes_ns = *until_ns_out;
    if (due) ship->answered_ns = now_ns;
    return due;
}

static void wait_for_news(struct ship *ship, int64_t until_ns, int64_t now_ns)
{
    struct timespec until;
    if (until_ns == INT64_MAX) {
        pthread_cond_wait(&ship->news, &ship->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (until_ns - now_ns);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_clockwait(&ship->news, &ship->lock, CLOCK_MONOTONIC, &until);
}

static void *ship_main(void *context)
{
    struct ship *ship = context;
    pthread_mutex_lock(&ship->lock);
    while (!ship->stopped || ship->asks) {
        int64_t until_ns;
        int64_t now_ns = clock_mono_ns(ship->config.clock);
        struct ship_ask *due = take_due(ship, now_ns, &until_ns);
        if (!due) {
            wait_for_news(ship, until_ns, now_ns);
            continue;
        }
        pthread_mutex_unlock(&ship->lock);
        while (due) {
            struct ship_ask *ask = due;
            due = ask->next; /* its owner may be gone once it is done */
            answer(ship, ask);
        }
        pthread_mutex_lock(&ship->lock);
    }
    pthread_mutex_unlock(&ship->lock);
    return NULL;
}

/* -- Followers --------------------------------------------------------------------------------- */

uint64_t ship_proof(const struct hash_secret *secret)
{
    return fingerprint_of(secret, BYTES("the secret of a follower's store")).low;
}

enum err ship_judge_format(uint32_t format, struct reason *why)
{
    if (format == SHIPMENT_FORMAT) return ERR_OK;
    return reason_err(why, ERR_CONFLICT,
                      "The follower takes format %u of the journal, and this primary ships format "
                      "%u: run the same version of tally on both.",
                      format, SHIPMENT_FORMAT);
}

enum err ship_judge(struct ship *ship, const struct ship_hello *hello, struct reason *why)
{
    const struct store *store = ship->config.store;
    enum err e = ship_judge_format(hello->format, why);
    if (e != ERR_OK) return e;
    if (hello->installation != store->installation)
        return reason_err(why, ERR_CONFLICT,
                          "The follower's data are of another installation: it has never been a "
                          "copy of this primary. Give it an empty data directory.");
    if (hello->proof != ship_proof(&store->secret))
        return reason_err(why, ERR_CONFLICT,
                          "The follower's fingerprint secret is another one, so its data are no "
                          "copy of this primary. Give it an empty data directory.");
    return ERR_OK;
}

/* The lock is held. NULL: there are too many; one that is away makes room. */
static struct follower *find_follower(struct ship *ship, struct bytes name, int64_t now_ns)
{
    struct follower *away = NULL;
    for (unsigned i = 0; i < ship->followers_count; i++) {
        struct follower *follower = &ship->followers[i];
        if (bytes_equal(bytes_str(follower->name), name)) return follower;
        if (now_ns - follower->asked_ns >= SHIP_SILENT_NS) away = follower;
    }
    struct follower *made = ship->followers_count < SHIP_FOLLOWERS_MAX
                                ? &ship->followers[ship->followers_count++]
                                : away;
    if (!made) return NULL;
    *made = (struct follower){.asked_ns = now_ns};
    memcpy(made->name, name.data, name.size);
    return made;
}

/* The lock is held. Who has followed in an earlier life may be back soon, at some place not known
 * yet. */
static uint64_t needed(const struct ship *ship, int64_t now_ns)
{
    uint64_t least = UINT64_MAX;
    if (ship->config.followed && now_ns - ship->began_ns < KEPT_AT_FIRST_NS) return 0;
    for (unsigned i = 0; i < ship->followers_count; i++)
        if (ship->followers[i].sequence < least) least = ship->followers[i].sequence;
    return least;
}

/* Whether the place is in the part of the history that is in memory. The lock is held. */
static bool is_here(const struct ship *ship, const struct ship_ask *ask)
{
    if (ask->after == ship->last) return ask->hash == ship->hash;
    const struct fresh *fresh = ship->oldest;
    while (fresh && fresh->block.first_sequence <= ask->after)
        fresh = fresh->next;
    return fresh && fresh->block.first_sequence == ask->after + 1 && fresh->before == ask->hash;
}

/* `ask` is NULL for one that begins to copy. */
static enum err note_follower(struct ship *ship, struct bytes name, uint64_t sequence,
                              struct ship_ask *ask)
{
    int64_t now_ns = clock_mono_ns(ship->config.clock);
    must(name.size > 0 && name.size < SHIP_NAME_SIZE);
    pthread_mutex_lock(&ship->lock);
    struct follower *follower = find_follower(ship, name, now_ns);
    bool first = follower && !ship->followed;
    if (follower) {
        follower->sequence = sequence;
        follower->asked_ns = ship->active_ns = now_ns;
        ship->followed = true;
    }
    if (follower && ask) {
        ask->follower = (unsigned)(follower - ship->followers);
        if (is_here(ship, ask)) note_place(ship, follower, sequence);
    }
    uint64_t keep = needed(ship, now_ns);
    pthread_mutex_unlock(&ship->lock);
    embedded_keep(ship->config.store, keep, ship->config.keep_bytes);
    if (first) ship->config.first(ship->config.context);
    return follower ? ERR_OK : ERR_BUSY;
}

enum err ship_copying(struct ship *ship, struct bytes name)
{
    return note_follower(ship, name, embedded_position(ship->config.store).last_sequence, NULL);
}

enum err ship_ask(struct ship *ship, struct bytes name, struct ship_ask *ask)
{
    int64_t wait_ms = ask->wait_ms < SHIP_WAIT_MS_MAX ? ask->wait_ms : SHIP_WAIT_MS_MAX;
    enum err e = note_follower(ship, name, ask->after, ask);
    if (e != ERR_OK) return e;
    ask->until_ns = clock_mono_ns(ship->config.clock) + wait_ms * 1000000;
    pthread_mutex_lock(&ship->lock);
    bool stopped = ship->stopped;
    if (!stopped) {
        ask->next = ship->asks;
        ship->asks = ask;
    }
    pthread_mutex_unlock(&ship->lock);
    if (stopped) return ERR_BUSY;
    pthread_cond_signal(&ship->news);
    return ERR_OK;
}

unsigned ship_followers(struct ship *ship, struct ship_follower out[SHIP_FOLLOWERS_MAX])
{
    int64_t now_ns = clock_mono_ns(ship->config.clock);
    pthread_mutex_lock(&ship->lock);
    unsigned count = ship->followers_count;
    for (unsigned i = 0; i < count; i++) {
        const struct follower *follower = &ship->followers[i];
        bool ahead = follower->sequence > ship->last;
        out[i] = (struct ship_follower){.sequence = follower->sequence,
                                        .behind = ahead ? 0 : ship->last - follower->sequence,
                                        .silent_ms = (now_ns - follower->asked_ns) / 1000000};
        memcpy(out[i].name, follower->name, sizeof out[i].name);
    }
    pthread_mutex_unlock(&ship->lock);
    return count;
}

/* -- Beginning and end ------------------------------------------------------------------------- */

struct ship *ship_new(const struct ship_config *config)
{
    struct ship *ship = must_calloc(1, sizeof *ship);
    const struct store_position end = embedded_position(config->store);
    ship->config = *config;
    ship->began_ns = clock_mono_ns(config->clock);
    ship->followed = config->followed;
    ship->last = end.last_sequence;
    ship->hash = end.hash;
    pthread_mutex_init(&ship->lock, NULL);
    pthread_cond_init(&ship->news, NULL);
    pthread_cond_init(&ship->acked, NULL);
    ship->gather_ns = config->acks ? 0 : SHIP_GATHER_NS;
    atomic_store(&ship->settled, config->acks == 0);
    if (config->acks) embedded_withhold(config->store, is_reached, released, ship);
    if (config->followed) embedded_keep(config->store, 0, config->keep_bytes);
    embedded_tell(config->store, block_durable, ship);
    return ship;
}

void ship_start(struct ship *ship)
{
    thread_start(&ship->thread, "ship", ship_main, ship);
}

void ship_stop(struct ship *ship)
{
    pthread_mutex_lock(&ship->lock);
    ship->stopped = true;
    pthread_mutex_unlock(&ship->lock);
    pthread_cond_signal(&ship->news);
    pthread_cond_broadcast(&ship->acked);
    pthread_join(ship->thread, NULL);
}

void ship_free(struct ship *ship)
{
    embedded_tell(ship->config.store, NULL, NULL);
    drop_all(ship);
    pthread_cond_destroy(&ship->acked);
    pthread_cond_destroy(&ship->news);
    pthread_mutex_destroy(&ship->lock);
    free(ship);
}
