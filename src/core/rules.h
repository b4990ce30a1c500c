/* rules.h -- which counters an event changes: the config's `counters:`, compiled.
 *
 * A struct rules is immutable once rules_seal was called and is shared by all threads. It lives in
 * one arena and is freed with its last reference. Config (config/rules.c) and the stored
 * definitions of counters that are no longer in the config (`frozen`) make it; project.c uses it.
 */
#ifndef TALLY_CORE_RULES_H
#define TALLY_CORE_RULES_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/codec.h"
#include "base/moment.h"
#include "core/op.h"

#define RULES_COUNTERS_MAX 1000
#define RULES_SETS_MAX 16          /* a counter's: its dimensions and its rollups */
#define RULES_DIMENSIONS_MAX 16    /* a set's */
#define RULES_GRANULARITIES_MAX 16 /* a counter's */
#define RULES_PATH_MAX 16          /* parts of payload.a.b.c */
#define LIMIT_NONE (-1)
#define WINDOW_IDLE_MS (7 * 24 * 3600 * INT64_C(1000)) /* a window is removed so long after it */
#define WINDOW_DURATION INT32_MAX                      /* the series in which windows are kept */

/* When the window in this cell ends. */
static inline int64_t window_end(const struct cell *cell)
{
    return cell->expires_ms - WINDOW_IDLE_MS;
}

/* Whether the window surely is over: as long as it lasts has passed since it began. */
static inline bool window_over(const struct cell *cell, const struct moment *moment)
{
    if (cell->start_ms == TIME_NONE) return moment_due(moment, window_end(cell)); /* an import's */
    return moment_age(moment, cell->start_ms) >= window_end(cell) - cell->start_ms;
}

enum counter_mode { MODE_PERSISTENT, MODE_WINDOWED, MODE_SERIES };
extern const char *const counter_mode_names[MODE_SERIES + 1]; /* as people write them */

/* Where a value is taken from: a dimension, or payload.<path>. */
struct source {
    struct bytes name; /* as written: the dimension's key in the counter's own sets */
    bool payload;
    unsigned parts_count;
    struct bytes *parts; /* the parts of a payload's path */
};

struct condition {
    struct source source;
    struct bytes value; /* equal in string form */
};

struct rule {
    struct bytes on; /* event type */
    enum op_kind op; /* OP_INCREMENT or OP_DECREMENT */
    int64_t amount;  /* > 0; or 0: taken from `amount_from` */
    struct source amount_from;
    struct condition *where; /* all must hold */
    unsigned where_count;
};

/* Dimensions kept together, sorted by name; without any it is the whole tenant. */
struct dimension_set {
    unsigned count;
    struct source *sources;
};

struct reconcile; /* core/reconcile.h */

struct definition {
    struct bytes name;
    enum counter_mode mode;
    struct dimension_set *sets; /* `dimensions` first, then `rollups`; no two with the same keys */
    unsigned sets_count;
    bool floor_at_zero;
    struct rule *rules;
    unsigned rules_count;
    struct source *entity; /* a transition-safe counter's, sorted by name; none: it is raw */
    unsigned entity_count;
    struct bytes group; /* size 0: none */
    int64_t limit;      /* or LIMIT_NONE */
    int64_t window_ms;  /* windowed */
    bool trailing;
    int32_t trailing_seconds; /* size of the buckets the trailing count is made of */
    int32_t *granularities;   /* series: sorted, no two equal */
    unsigned granularities_count;
    int64_t keep_ms; /* series: 0 for ever */

    /* From the store, see rules/enact.h. */
    uint32_t generation; /* its cells'; a rebuild makes the next; 0: not yet given */
    uint64_t since;      /* batch time, in ms, from which on it has counted every event */
    bool adjusted;       /* had adjustments or imports: history alone does not make its value */
    bool frozen;         /* no longer in the config: readable, and nothing changes it */

    const struct reconcile **reconciles; /* the entries that keep it right, each for other
                                          * tenants */
    unsigned reconciles_count;

    char where[96]; /* "tally.yaml:12:5", for messages about what the store knows */
};

struct status_rule {
    struct bytes on;
    struct bytes status;
};

struct rules;

/* One rule of one counter that a type of event may set off. */
struct trigger {
    const struct definition *definition;
    const struct rule *rule;
};

struct rules {
    struct arena arena;
    atomic_uint references;
    struct rules *parent;           /* held: owns what this one borrows; NULL: none */
    bool for_lane;                  /* a lane's own: it owns more than it borrows, so a copy of it
                                     * holds it */
    struct definition *definitions; /* in the order of the file, frozen ones last */
    unsigned definitions_count;
    struct status_rule *statuses;
    unsigned statuses_count;
    struct bytes *types; /* events.types; `types_closed` without any refuses every event */
    unsigned types_count;
    bool types_closed;
    struct reconcile *reconciles; /* in the order of the file */
    unsigned reconciles_count;

    /* By what an operator knows them (rules/enact.h); rules made of these have the same. */
    uint64_t digest;    /* the config's text's; 0: none were brought into force yet */
    int64_t enacted_ms; /* the time of the batch that did; TIME_NONE: it was done without one */

    /* rules.c's own, made by rules_seal. */
    struct name_slot *names;
    uint32_t names_mask;
    struct type_slot *triggers;
    uint32_t triggers_mask;
};

/* Empty rules with one reference, to be filled by the caller from their arena. */
struct rules *rules_new(void);
/* To be called after filling, and again after filling in more, as long as no other thread has the
 * rules: sorts what is to be sorted and builds the lookups. */
void rules_seal(struct rules *rules);
/* The same rules with definitions of their own, to be filled in with what a lane's store knows. */
struct rules *rules_for_lane(struct rules *rules);
/* The same rules with another generation of one counter's cells, made of every event since then
 * and, unless `adjusted`, nothing else. */
struct rules *rules_with_generation(struct rules *rules, struct bytes name, uint32_t generation,
                                    uint64_t since, bool adjusted);
/* The same rules with counters that history alone no longer makes (`adjusted`). */
struct rules *rules_with_adjusted(struct rules *rules, const struct bytes *names, unsigned count);
/* The same rules without one counter. */
struct rules *rules_without(struct rules *rules, struct bytes name);
struct rules *rules_hold(struct rules *rules);
void rules_release(struct rules *rules); /* NULL is fine */

/* Sorts by name. */
void sources_sort(struct source *sources, unsigned count);

/* NULL: no such counter. */
const struct definition *rules_find(const struct rules *rules, struct bytes name);
/* The rules that this type sets off, in the order of the file. */
const struct trigger *rules_triggers(const struct rules *rules, struct bytes type,
                                     unsigned *count_out);
/* The status a tenant gets by an event of this type; size 0: none. */
struct bytes rules_status(const struct rules *rules, struct bytes type);
bool rules_type_known(const struct rules *rules, struct bytes type);

/* The index of the set with exactly these keys (sorted, no two equal), or -1. */
int definition_set(const struct definition *definition, const struct bytes *keys, unsigned count);

/* The cells that one dimension set of a counter has at a time: window and trailing bucket, or one
 * for each granularity. */
unsigned definition_cells(const struct definition *definition);

/* What the store keeps of a definition: enough to read its cells once it is frozen, and to notice a
 * name that changes its mode. It leaves out conditions and rules. Decoding fills a definition in
 * `arena`; ERR_CORRUPT for bytes that no encoder wrote. */
void definition_encode(struct buf *buf, const struct definition *definition);
struct bytes definition_bytes(struct arena *arena, const struct definition *definition);
MUST_USE enum err definition_decode(struct bytes bytes, struct arena *arena,
                                    struct definition *definition_out);

#endif
