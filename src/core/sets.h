/* sets.h -- what a batch reads and what it writes, as typed lists that every store shares.
 *
 * apply_identify and apply_needs (core/apply.h) list the objects, the store fills in their values,
 * apply_decide changes them, the store keeps what changed. All memory is the batch's arena's. */
#ifndef TALLY_CORE_SETS_H
#define TALLY_CORE_SETS_H

#include "base/arena.h"
#include "core/op.h"

/* What an idempotency key or an event id led to. A key's `outcome` is encoded by core/outcome.c. An
 * event id has none or, where ids are unique over the installation, the tenant whose it is. */
struct key_record {
    uint64_t sequence;
    int64_t first_seen_ms;
    uint64_t digest;
    struct bytes outcome;
    bool event; /* an event id: never forgotten */
    bool exists;
};

/* The objects a batch could touch. The two steps that list them fill in the keys, writer_load fills
 * in the values, apply_decide sets `changed` and the new values. `handle` is the store's. */
struct read_counter {
    struct fingerprint print;
    struct bytes key;
    const struct counter *value; /* NULL: no such counter */
    uint32_t tenant_index;
    uint32_t owner; /* apply's own: which all-or-nothing part may change `value` in place */
    enum { KEPT_UNKNOWN, KEPT_DIRECTLY, KEPT_BY_RULES } kept; /* apply's own */
    bool changed;
    void *handle;
};

struct read_cell {
    uint32_t counter_index;
    int32_t duration;
    int64_t bucket;
    uint64_t series; /* that `value` is in; set by apply_decide when it makes a new one; 0: none */
    struct cell value;
    bool changed;
    void *handle;
};

struct read_tenant {
    struct fingerprint print;
    struct bytes tenant;
    int64_t cells; /* over all its counters */
    bool changed;
    void *handle;
};

struct read_key {
    struct fingerprint print;
    struct bytes tenant; /* whose it is; size 0: of an import, nobody knows */
    struct key_record value;
    bool met; /* apply's own: an event of this batch has that id */
    bool changed;
    void *handle;
};

struct change;

struct read_object {
    struct fingerprint print;
    struct bytes key;
    struct bytes value;            /* size 0: absent */
    const struct change *switched; /* apply's own: what in this batch switched the entity on */
    const struct change *foreseen; /* what will have switched it on, see change_recall */
    bool foreseen_on;              /* whether it will be on after the changes met so far */
    bool is_foreseen;              /* the two above are set */
    bool changed;
    void *handle;
};

/* What was loaded so far: the store's own. */
struct loaded {
    uint32_t counters;
    uint32_t cells;
    uint32_t tenants;
    uint32_t keys;
    uint32_t objects;
};

struct read_set {
    struct loaded loaded;
    struct read_counter *counters;
    struct read_cell *cells;
    struct read_tenant *tenants;
    struct read_key *keys;
    struct read_object *objects;
    uint32_t counters_count;
    uint32_t cells_count;
    uint32_t tenants_count;
    uint32_t keys_count;
    uint32_t objects_count;
};

/* A decided batch. The changed entries of `reads` are its after-images, `causes` what was asked. It
 * belongs to the commit layer, which leaves it untouched until `durable` returns. */
struct write_set {
    uint64_t first_sequence; /* the first cause's */
    uint32_t count;          /* causes; 0: nothing changed, it only waits its turn */
    int64_t time_ms;         /* batch time: runs back only where a bundle sets it back */
    int64_t sure_ms;         /* how much of it is sure, see base/moment.h */
    bool set_back;           /* `time_ms` may be before the batch before */
    uint64_t next_series;    /* the first series id not yet given out */
    struct read_set *reads;
    const struct op **causes;
    const uint64_t *dead; /* series that this batch unmapped: their cells are garbage from now on */
    uint32_t dead_count;
    struct arena *arena;    /* lives as long as the write set */
    void *batch;            /* the commit layer's, handed to `durable` */
    void *stored;           /* the store's own */
    struct write_set *next; /* the store's own */
};

#endif
