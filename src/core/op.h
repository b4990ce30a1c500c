/* op.h -- the things counting is about, as plain data.
 *
 * An `op` is one change a caller asks for and, once decided, its outcome. A `bundle` is the ops of
 * one request travelling together. Both belong to their maker; the commit layer borrows a bundle
 * from `queue_push` until it calls `bundle->done`. */
#ifndef TALLY_CORE_OP_H
#define TALLY_CORE_OP_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"

#define NAME_SIZE_MAX 255
#define TIME_NONE INT64_MIN /* no expiry; no valid time is this small */
#define MAX_NONE (-1)       /* an increment without a cap */

/* One bucket of one counter, or its current window. `net` is always added - subbed; below zero it
 * is only where a rule allows it. */
struct cell {
    int64_t added;
    int64_t subbed;
    int64_t expires_ms; /* TIME_NONE: never. A window ends WINDOW_IDLE_MS (core/rules.h) before */
    int64_t start_ms;   /* when the window began; TIME_NONE: not a window */
    int64_t updated_ms;
    bool exists;
    bool exact; /* from `expires_ms` on it is as if it were not there; else until the sweep is */
};

struct triple {
    int64_t net;
    int64_t added;
    int64_t subbed;
};

static inline struct triple cell_triple(const struct cell *cell)
{
    return (struct triple){cell->added - cell->subbed, cell->added, cell->subbed};
}

/* One granularity of a counter: where its cells are kept and how many there are. */
struct series {
    uint64_t id;      /* never reused, so a deleted counter's cells can never come back */
    int64_t cells;    /* existing ones */
    int32_t duration; /* seconds; 0 is the one bucket of all time */
    int64_t until_ms; /* from then on none of them is to be seen; 0: no such time is known */
};

/* A counter's granularities, sorted by duration. Immutable once built: a change makes a new one. */
struct counter {
    uint32_t count;
    struct series series[];
};

/* A counter's key as stored: tenant, NUL, kind, name, NUL; of a rule counter then generation and
 * dimensions (core/name.h). Tenant and name cannot contain NUL, so memcmp orders by tenant, then
 * kind, then name. */
#define COUNTER_KEY_SIZE_MAX (2 * NAME_SIZE_MAX + 3) /* a direct counter's */
#define COUNTER_KIND_DIRECT 'd'
#define COUNTER_KIND_RULE 'r'

enum op_kind {
    OP_INCREMENT,
    OP_DECREMENT,
    OP_SET,
    OP_DELETE, /* all cells of a counter, at once */
    OP_EXPIRE, /* proposed by the sweep; the cell goes if it is still due */
    OP_EVENT,  /* registers an id, keeps the event, changes what the rules say */
    OP_REPLAY, /* an event of the past, counted again into another generation: no id, no record */
    OP_OBJECT, /* puts or removes an object, if it still is what the proposer took it for */
    OP_MARK,   /* a step of reconciling one entity (core/mark.h) */
    OP_IMPORT, /* puts a cell as an export has it, its times too */
    OP_IMPORT_ID,    /* remembers an event id or key as an export has it, unless it is known */
    OP_IMPORT_EVENT, /* keeps an event, or the audit of a duplicate, that came to another store */
    OP_READ,         /* says what the cell is at its place in the order, and changes nothing */
    OP_REMOVE,       /* one cell of a counter, if it is there */
    OP_DEADLINE,     /* says until when a cell is there, if it is */
    OP_MOVE,         /* adds a signed amount within bounds */
};

/* What an op makes of a cell's expiry. `expires_ms` says the time. */
enum op_expiry {
    EXPIRY_LATER, /* the later of both stays (HTTP's rule); TIME_NONE leaves it as it is */
    EXPIRY_NONE,  /* there is none any more */
    EXPIRY_AT,    /* exactly then, whatever there was */
    EXPIRY_AFTER, /* the same, so many milliseconds after batch time */
};

/* Which expiry an OP_DEADLINE or OP_MOVE replaces: bits, all of which must hold. No expiry is later
 * than any. */
enum op_unless {
    UNLESS_THERE = 1,     /* there is one */
    UNLESS_NONE = 2,      /* there is none */
    UNLESS_NO_LATER = 4,  /* the new one is not later */
    UNLESS_NO_SOONER = 8, /* the new one is not sooner */
};

/* How an OP_MOVE may go. */
struct op_bounds {
    int64_t least;
    int64_t most;
    bool saturate; /* what would be beyond a bound is at it; else nothing is changed */
};

/* Whether an OP_SET takes effect. */
enum op_when {
    WHEN_ANY,
    WHEN_ABSENT,  /* only where the cell is not there */
    WHEN_PRESENT, /* only where it is */
};

struct event;
struct mark_change;
struct key_record;

/* What an OP_OBJECT does. A value of size 0 is an absent object. */
struct object_change {
    struct bytes key;
    struct fingerprint print;
    bool conditional; /* refuse with ERR_CONFLICT unless it is `expected` */
    struct bytes expected;
    struct bytes value;
    uint32_t index; /* apply's own */
};

/* The fields by which an op of every kind is decided come first: a batch of events is walked
 * several times, and then costs two cache lines an op instead of four. */
struct op {
    enum op_kind kind;
    enum err err;           /* on entry: anything but ERR_OK is skipped; then the outcome */
    struct fingerprint key; /* made of (namespace, tenant, key) */
    bool keyed;             /* carries an idempotency key */
    bool replayed;          /* out: answered from the key's record */
    bool existed;           /* out: the cell was there before this op */
    bool unmet;             /* out: a condition did not hold, so nothing was changed */
    uint32_t key_index;     /* apply's own: where this op's objects are in the read set */
    struct event *event;    /* for OP_EVENT, OP_REPLAY and OP_IMPORT_EVENT */
    struct bytes tenant;    /* a view into `counter`, if there is one */
    size_t weight;          /* bytes it adds to a journal block beyond what any direct op may */
    uint64_t sequence;      /* out: in the journal; a refusal has the last one before it */

    struct bytes counter; /* the counter's key */
    struct fingerprint counter_print;
    uint32_t counter_index; /* apply's own */
    uint32_t cell_index;
    int64_t bucket; /* start, in seconds since the epoch */
    int32_t duration;
    enum op_when when; /* for OP_SET */
    int64_t amount;    /* or the target of OP_SET */
    union {
        int64_t max;     /* cap on net, or MAX_NONE */
        int64_t was;     /* out, of OP_SET and OP_MOVE: what net was */
        int64_t left_ms; /* out, of OP_READ: until it expires; TIME_NONE: it does not */
    };
    int64_t expires_ms; /* or TIME_NONE */
    enum op_expiry expiry;
    unsigned unless;     /* bits of enum op_unless */
    struct triple after; /* out: the cell right after this op; for ERR_LIMIT, as it stands */
    uint64_t key_digest; /* hash of the request the key came with */

    struct object_change *object;
    struct mark_change *mark;       /* for OP_MARK; for OP_IMPORT where what it marks is, or NULL */
    const struct cell *imported;    /* for OP_IMPORT */
    const struct op_bounds *bounds; /* for OP_MOVE */
    const struct key_record *imported_id; /* for OP_IMPORT_ID, whose `key` is its fingerprint */
};

enum urgency {
    URGENCY_BATCHED,
    URGENCY_URGENT, /* incrementSync, set and the like: first, never refused for a full queue */
};

struct bundle {
    struct op *ops;
    uint32_t count;
    uint32_t taken;    /* the queue's own: ops already handed to a batch */
    uint32_t answered; /* the commit layer's own: ops already durable */
    enum urgency urgency;
    bool whole;     /* all ops in one batch: atomic or keyed bundles */
    bool alone;     /* urgent bundles only: a batch of its own, of whatever size */
    bool weighty;   /* some op has a weight */
    bool unbounded; /* never refused for a full queue: its maker waits for each, one at a time */
    bool atomic;    /* all or nothing */
    bool keyed;     /* the bundle itself carries a key: its outcome is stored as one */
    bool replayed;  /* out */
    struct fingerprint key;
    uint64_t key_digest;
    uint32_t key_index;    /* apply's own */
    enum err err;          /* out: why an atomic bundle failed, or ERR_STORAGE, or a key conflict */
    uint32_t failed_index; /* out: the op that stopped an atomic bundle */
    uint64_t sequence;     /* out: the highest of its ops */
    size_t bytes;          /* what it holds in memory, for limits.inflightBytes */
    struct bytes tenant;
    int64_t queued_ns; /* when it was pushed, for the latency metric */

    /* Called once, by the thread that synced the batch (the commit thread, the sync thread or a
     * helper), when every op is decided and durable, or will not be (`err`). It must not wait. */
    void (*done)(struct bundle *bundle);
    struct rules *rules; /* the new ones that this bundle puts into force; else NULL */
    /* For an urgent bundle whose ops can be made only when nothing else is under way. It is pushed
     * with one op and decided alone; the thread that has the turn calls this once every earlier
     * batch is durable, and it sets `ops` and `count`. `time_ms` is the batch time it will be
     * decided at. */
    void (*prepare)(struct bundle *bundle, int64_t time_ms);
    /* For such a bundle too; called before its time is taken. True: it set the clock back, and the
     * batch's time may be before that of the batch before. */
    bool (*retime)(struct bundle *bundle);
    void *owner;
    struct bundle *next; /* the holder's list */
};

#endif
