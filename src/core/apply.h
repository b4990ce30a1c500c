/* apply.h -- gather, decide, write: the whole decision about a batch, without I/O.
 *
 *     apply_identify(apply)   lists ids, keys and objects in apply->reads
 *     (the store fills them)
 *     apply_needs(apply)      lists the counters and cells that, knowing these, it could touch
 *     (the store fills them)
 *     apply_decide(apply)     one outcome per op, after-images in apply->reads, apply->writes
 *
 * There are two steps, because an entity's state says under which dimensions it was switched on,
 * and because a duplicate needs no cells.
 *
 * The decision is pure: the same slices, values, time and numbers in give the same out, so live
 * traffic, rebuild and the simulator run the very same code. */
#ifndef TALLY_CORE_APPLY_H
#define TALLY_CORE_APPLY_H

#include "base/json.h"
#include "base/moment.h"
#include "core/rules.h"
#include "core/sets.h"

/* The part of a bundle that goes into one batch. */
struct slice {
    struct bundle *bundle;
    uint32_t first;
    uint32_t count;
};

struct apply_limits {
    int64_t tenant_cells;   /* a new cell past it: ERR_CELL_LIMIT */
    uint32_t granularities; /* one counter's */
    int64_t key_keep_ms;    /* how long an idempotency key is remembered */
    int64_t id_keep_ms;     /* how long an event id is remembered; 0: for ever */
    int64_t tenant_marks;   /* a new one past it: ERR_MARK_LIMIT; 0: any */
    bool ids_shared;        /* event ids are unique over all tenants */
    size_t batch_weight;    /* what a batch's events may weigh, as its rules have it; 0: any */
};

/* Stored values that a batch needed and that do not decode. What they were needed for is refused
 * with ERR_CORRUPT, but for marks, which are made anew. */
struct damage {
    uint32_t count;
    const char *what; /* what the first one was */
    struct bytes key; /* that one's key, or its tenant */
};

struct undo;

struct apply {
    /* Set by the caller. */
    struct arena *arena;
    const struct apply_limits *limits;
    struct slice *slices; /* in the order in which they are to be judged */
    uint32_t slices_count;
    const struct rules *rules;        /* in force for this batch; NULL: none */
    const struct hash_secret *secret; /* the store's */
    struct json_parser *parser;       /* for events that came by other rules; may be NULL without */
    struct moment moment;             /* batch time */
    bool set_back;                    /* it may be before the batch before */
    uint64_t sequence;                /* the last one given out; advanced */
    uint64_t next_series;             /* the next free id; advanced */

    /* The work and its result. */
    struct read_set reads;
    struct write_set writes;
    struct damage damage;

    /* apply's own. */
    uint32_t ops_count;
    uint32_t causes_max;
    uint32_t objects_max; /* room in reads.objects for what the second step adds; 0: nothing */
    uint32_t dead_count;
    uint64_t *dead;
    uint32_t part; /* grows with each all-or-nothing part, see read_counter.owner */
    bool recounts; /* a rebuild's cells take the place of others: a tenant at its limit has room */
    struct undo *undo;
    struct undo *undo_spare; /* from parts that have ended */
};

void apply_identify(struct apply *apply);
void apply_needs(struct apply *apply);
void apply_decide(struct apply *apply);

#endif
