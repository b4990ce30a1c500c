/* ship.h -- the primary's side of following: who follows, how far each is, what it is sent next.
 *
 * A follower asks for what comes after the place (sequence, running hash) that it has on disk; so
 * each question also says how far it is. The answer waits until there is something, or for as long
 * as the question allows, in a list here: no thread is kept waiting for it. Blocks that have just
 * become durable are taken from memory, older ones from the journal. One thread, `ship`, answers.
 *
 * (1) A block is shipped only once it is durable here.
 * (2) A place that is not in this history gets ERR_POSITION: the follower takes a snapshot.
 * (3) Followers cost nothing but this thread, SHIP_MEMORY_BYTES, and journal within keep_bytes: who
 *     does not ask is not waited for. Without followers nothing is copied and nobody is woken.
 * (5) With `acks` a follower counts for what it has on disk only once its place was found to be in
 *     this history. Until so many had everything that was recovered here, the ship is not settled,
 *     and nobody may read or write. While fewer have the last block than that, the store withholds
 *     it (embedded_withhold); nobody but the thread that syncs waits, and no longer than the
 *     timeout. Nothing is gathered then.
 * (4) Between two answers with blocks lie SHIP_GATHER_NS: a lone change is sent at once, and under
 *     load a follower costs the primary some hundred requests a second and not one a batch. */
#ifndef TALLY_REPLICA_SHIP_H
#define TALLY_REPLICA_SHIP_H

#include "base/clock.h"
#include "base/reason.h"
#include "store/store.h"

#ifdef TALLY_SMALL_WORLD
#define SHIP_MEMORY_BYTES (8u << 10)
#define SHIP_ANSWER_BYTES (4u << 10)
#else
#define SHIP_MEMORY_BYTES (16u << 20)
#define SHIP_ANSWER_BYTES (4u << 20) /* in one answer, but for its last block */
#endif
#define SHIP_GATHER_NS INT64_C(10000000)
#define SHIP_WAIT_MS_MAX 10000
#define SHIP_FOLLOWERS_MAX 32u
#define SHIP_NAME_SIZE 128u
#define SHIP_SILENT_NS INT64_C(10000000000) /* a follower that has not asked for so long is away */

struct ship;

struct ship_config {
    struct store *store;
    const struct clock *clock; /* the lane's: batch time */
    uint64_t keep_bytes;
    unsigned acks;                   /* followers that must have a block before it is shown */
    int64_t timeout_ms;              /* how long one waits for them */
    void (*released)(void *context); /* see embedded_released_fn */
    bool followed;                   /* somebody followed in an earlier life */
    void (*first)(void *context);    /* told once, when somebody follows for the first time */
    void *context;
};

/* Who asks, and whose history it has. */
struct ship_hello {
    uint32_t format; /* SHIPMENT_FORMAT of the follower */
    uint64_t installation;
    uint64_t proof; /* ship_proof of its secret */
    struct bytes name;
};

/* A question; its owner keeps it until `done`. */
struct ship_ask {
    uint64_t after;
    uint64_t hash;
    int64_t wait_ms;
    struct buf *out;                    /* a shipment (shipment.h) */
    enum err err;                       /* ERR_OK, ERR_POSITION, ERR_STORAGE, ERR_CORRUPT, or
                                          * ERR_BUSY: the server stops */
    void (*done)(struct ship_ask *ask); /* on the thread `ship` */
    void *owner;
    unsigned follower; /* these are the ship's own */
    struct ship_ask *next;
    int64_t until_ns;
};

struct ship *ship_new(const struct ship_config *config);
void ship_start(struct ship *ship);
void ship_stop(struct ship *ship); /* answers whoever waits, and then everybody at once */
void ship_free(struct ship *ship);

/* What a store's secret says of itself without being told. */
uint64_t ship_proof(const struct hash_secret *secret);

/* ERR_CONFLICT with a sentence: the follower speaks another format than this program. */
MUST_USE enum err ship_judge_format(uint32_t format, struct reason *why);

/* Any thread. Whether followers have what a start has recovered; true for ever then. */
bool ship_is_settled(struct ship *ship);

/* Any thread. ERR_CONFLICT with a sentence: it is no follower of this store, and nothing helps. */
MUST_USE enum err ship_judge(struct ship *ship, const struct ship_hello *hello, struct reason *why);

/* Any thread; after ship_judge. ERR_BUSY: SHIP_FOLLOWERS_MAX others follow already. */
MUST_USE enum err ship_ask(struct ship *ship, struct bytes name, struct ship_ask *ask);

/* A follower begins to copy a snapshot: the journal from here on is kept for it. */
MUST_USE enum err ship_copying(struct ship *ship, struct bytes name);

struct ship_follower {
    char name[SHIP_NAME_SIZE];
    uint64_t sequence; /* what it has on disk */
    uint64_t behind;   /* how many changes it has not */
    int64_t silent_ms; /* since it asked */
};
/* Any thread. Those that asked in this life, in the order in which they came. */
unsigned ship_followers(struct ship *ship, struct ship_follower out[SHIP_FOLLOWERS_MAX]);

#endif
