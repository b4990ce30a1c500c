/* project.h -- what one event does to the counters, worked out before anything is looked up.
 *
 * It is pure and done where the event is read, on any thread; the commit thread does it again only
 * for events that were projected by rules which are no longer in force. */
#ifndef TALLY_CORE_PROJECT_H
#define TALLY_CORE_PROJECT_H

#include "base/hash.h"
#include "base/json.h"
#include "core/event.h"
#include "core/mark.h"
#include "core/rules.h"

/* One dimension set of one counter. */
struct target {
    struct bytes key; /* the counter's: core/name.h */
    struct fingerprint print;
    struct mark_place *mark; /* the row of the entity to be reconciled with it (core/mark.h), or
                              * NULL */
    uint32_t counter_index;  /* apply's own: places in the read set; definition_cells of `cells` */
    uint32_t *cells;
};

/* The keys of all sets of one transition-safe counter take at most so much: its entity's state
 * remembers them. */
#define ENTITY_KEYS_MAX (4u << 10)

enum change_result { CHANGE_APPLIED, CHANGE_CLAMPED, CHANGE_IGNORED };

/* The entity whose state a change of a transition-safe counter switches. */
struct entity_state {
    struct bytes key; /* its object's (core/object.h) */
    struct fingerprint print;
    uint32_t index; /* apply's own */
    uint32_t former_count;
    bool unreadable;               /* apply's own: its stored state is damaged */
    struct target *former;         /* apply's own: the targets it was switched on under */
    const struct change *foreseen; /* the change of this batch that switches it on; NULL: it was on
                                    * before */
    struct buf *told;              /* out, if asked for: the keys of `former`, each with its size */
};

/* One rule of one counter, set off by the event. What few changes have is kept apart: a large batch
 * is megabytes on their way from one core to another. */
struct change {
    const struct definition *definition;
    struct target *targets;      /* one for each set whose dimensions the event has */
    struct entity_state *entity; /* NULL: a raw counter */
    int64_t amount;              /* >= 0 */
    enum op_kind op;
    uint32_t generation; /* the cells' that it changes */
    uint32_t targets_count;
    enum change_result result; /* out */
    bool marks;                /* its entities are reconciled */
};

/* The tenant's status object, which the event may write. */
struct row_change {
    struct bytes key;
    struct fingerprint print;
    uint32_t index;      /* apply's own */
    struct bytes status; /* from this event on; size 0: as it is */
};

struct projection {
    const struct rules *rules; /* held by the holder of the projection */
    struct change *changes;
    struct row_change *row; /* NULL: neither a status nor `usage` */
    size_t weight;          /* bytes it adds to a journal block at most */
    uint32_t changes_count;
    uint32_t missing_dimension; /* sets skipped */
    uint32_t missing_entity;    /* changes skipped */
    uint32_t bad_amount;        /* amounts taken as 0 */
    bool usage;                 /* some change is to a counter of group `usage` */
    bool usage_changed;         /* out: and it changed a cell of one */
    bool too_large;             /* an entity's sets are over ENTITY_KEYS_MAX: the event is to be
                                 * refused */
};

/* Many events projected one after the other, by the same rules into the same arena, share the keys
 * of sets without dimensions, which are the same for every event of a tenant. */
#define PROJECT_MEMO_SLOTS 8u
struct project_memo {
    struct {
        const struct dimension_set *set; /* NULL: free */
        struct bytes key;
        struct fingerprint print;
    } slots[PROJECT_MEMO_SLOTS];
};

struct project_input {
    const struct rules *rules;
    const struct hash_secret *secret;
    struct bytes tenant;
    const struct definition *only; /* NULL: all that are not frozen; else this one (a rebuild) */
    uint32_t generation;           /* that of `only` */
    const struct json_value *payload;
    struct arena *arena;       /* holds the projection */
    bool tell;                 /* make room for `told`, which a person reads */
    struct project_memo *memo; /* all zero at first; or NULL */
};

struct projection *project(const struct project_input *input, const struct event *event);

#define USAGE_GROUP BYTES("usage")

#endif
