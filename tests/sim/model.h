/* model.h -- what counting means, once more: an array of integers that is obviously right.
 *
 * Written from SPEC 5 to 7 alone. It shares nothing with src/core but the names of
 * errors, so that a mistake in one is not repeated in the other. A cell is there or it is not; a
 * counter is there as long as it has a cell; a granularity likewise. Everything is found by walking
 * an array.
 *
 * A model is plain data and cheap to copy: the simulator keeps one for each batch under way. */
#ifndef TALLY_TESTS_SIM_MODEL_H
#define TALLY_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/moment.h"
#include "ruleset.h"

#define MODEL_TENANTS 3
#define MODEL_NAMES 4
#define MODEL_KEYS 48        /* of one tenant */
#define MODEL_IDS 120        /* of events, of one tenant or of all */
#define MODEL_CELLS_MAX 4000 /* rebuilds make a counter's once more */
#define MODEL_TENANT_CELLS_MAX 400
#define MODEL_OPS_MAX 48 /* of one bundle */
#define MODEL_REBUILDS_MAX 24
#define MODEL_GENERATIONS_MAX 64 /* of garbage */
#define MODEL_ENTITIES_MAX 1000
#define MODEL_NEVER INT64_MIN
#define MODEL_NO_CAP (-1)
#define MODEL_FIRST_SECOND INT64_C(-62135596800) /* of the year 0001: no bucket begins before */
#define MODEL_SHADOWED 1 /* the name of a direct counter that the first rule counter has too */

/* Names of rule counters: one for each counter and what its cells are kept for. */
#define MODEL_RULE 100
#define MODEL_RULE_NAME(counter, code) (MODEL_RULE + (counter)*RULESET_CODES + (code))
#define MODEL_WINDOW INT32_MAX /* the duration a window is kept under */
#define MODEL_WINDOW_IDLE_MS (7 * 86400 * INT64_C(1000))

enum model_kind {
    MODEL_INCREMENT,
    MODEL_DECREMENT,
    MODEL_SET,
    MODEL_DELETE,
    MODEL_EXPIRE,
    MODEL_EVENT,
    MODEL_READ,
    MODEL_REMOVE,   /* of one cell */
    MODEL_DEADLINE, /* says until when a cell is there */
    MODEL_MOVE      /* within bounds */
};

/* What becomes of a cell's expiry. */
enum model_expiry { MODEL_LATER, MODEL_CLEAR, MODEL_AT, MODEL_AFTER };

/* Conditions on it, under which it stays as it is. */
enum { MODEL_IF_THERE = 1, MODEL_IF_NONE = 2, MODEL_IF_NO_LATER = 4, MODEL_IF_NO_SOONER = 8 };

/* What happened; see ruleset.h for the values. */
struct model_event {
    unsigned id; /* below MODEL_IDS */
    unsigned type;
    unsigned a, b, e, p;
    bool has_n;
    int64_t n;
    int64_t occurred_ms;
};

struct model_key {
    unsigned number; /* below MODEL_KEYS */
    uint64_t digest; /* differs between any two different requests */
    bool used;
};

struct model_op {
    enum model_kind kind;
    unsigned tenant;
    unsigned name;       /* MODEL_NAMES: one that no increment ever uses */
    uint32_t generation; /* of a rule counter; else 0 */
    int32_t duration;
    int64_t bucket;
    int64_t amount; /* or target */
    int64_t max;
    int64_t expires_ms;
    unsigned when; /* of a set: 1 if it is to be absent, 2 if it is to be there */
    enum model_expiry expiry;
    unsigned unless;
    int64_t least, most; /* of a move */
    bool saturate;
    struct model_key key;
    struct model_event event;
    bool malformed;
    bool put_off; /* an event that was to be sent again: allowed only after a refusal */
};

struct model_answer {
    enum err err;
    bool replayed;
    int64_t added;
    int64_t subbed;
    uint64_t sequence;
    bool existed;
    bool unmet;
    int64_t was;     /* of a set or move */
    int64_t left_ms; /* of a read */

    /* Of an event. */
    bool duplicate;
    bool conflict;
    bool foreign;
    uint64_t first_sequence;
    int64_t first_seen_ms;
    unsigned counters; /* cells changed */
};

/* A request's operations and, once decided, what its client has to hear. */
struct model_bundle {
    struct model_op ops[MODEL_OPS_MAX];
    unsigned count;
    unsigned tenant;
    bool atomic;
    struct model_key key;

    struct model_answer answers[MODEL_OPS_MAX];
    enum err err;
    unsigned failed_index;
    bool replayed;
    uint64_t sequence;
};

struct model_cell {
    unsigned tenant;
    unsigned name;
    uint32_t generation; /* 0: of a direct counter */
    int32_t duration;
    int64_t bucket;
    int64_t added;
    int64_t subbed;
    int64_t expires_ms;
    int64_t updated_ms;
    int64_t start_ms; /* of a window; else MODEL_NEVER */
    bool exact;       /* from `expires_ms` on nobody sees it */
};

/* What a key led to; never changed, shared by all models of a seed. */
struct model_outcome {
    struct model_outcome *next;
    bool of_bundle;
    enum err err;
    unsigned failed_index;
    unsigned count;
    struct model_answer answers[];
};

struct model_record {
    const struct model_outcome *outcome; /* NULL: no such key */
    uint64_t digest;
    uint64_t sequence;
    int64_t first_seen_ms;
    int64_t first_true_ms; /* the same, really */
};

struct model_id {
    bool known;
    unsigned tenant; /* whose it is */
    uint64_t sequence;
    int64_t first_seen_ms;
    struct model_event event;
};

/* What a transition-safe counter remembers of an entity that is on. */
struct model_entity {
    unsigned tenant;
    uint32_t generation;
    unsigned entity;
    unsigned count;
    unsigned codes[RULESET_SETS]; /* the cells it was switched on under */
};

struct model_row {
    unsigned status; /* 0: no row */
    int64_t updated_ms;
};

/* A rule counter as the store knows it, in the config or not. */
struct model_counter {
    bool known;
    uint32_t generation; /* of the cells that are shown */
    int64_t since_ms;    /* it is made of every event since then */
    int64_t first_ms;    /* and the oldest of them arrived then; INT64_MAX: there is none */
    bool adjusted;       /* set right by what was counted elsewhere */
};

/* A row of the dirty queue. */
struct model_mark {
    uint64_t version; /* 0: no row */
    bool pending;
    int64_t marked_ms;
    int64_t cause_ms;
    int64_t updated_ms; /* MODEL_NEVER */
    int64_t retry_ms;   /* MODEL_NEVER */
    unsigned failures;
};

/* One counter of an entity, as a pass found it. */
struct model_count {
    unsigned counter;
    uint32_t generation;
    int64_t then;
    int64_t truth;
};

/* An entity counted anew. */
struct model_pass {
    unsigned tenant;
    unsigned code;
    uint64_t version; /* of its row when the pass began */
    int64_t updated_ms;
    unsigned count;
    struct model_count counts[RULESET_COUNTERS];
    bool cleared;    /* out */
    bool unadjusted; /* out: some counter must first be said to be adjusted */
};

enum model_progress { MODEL_WAITING, MODEL_RUNNING, MODEL_DONE, MODEL_FAILED };

/* A counter counted again. */
struct model_rebuild {
    unsigned counter;
    bool force;
    enum model_progress progress;
    uint32_t generation; /* that is being made; 0: none yet */
    int ruleset;         /* it goes by, all the way */
    int64_t since_ms;
    int64_t first_ms;
    uint64_t position; /* every event up to here is in it */
};

/* One event or dropped duplicate; never changed, shared by all models of a seed. */
struct model_past {
    const struct model_past *before;
    struct model_past *next; /* of all there are, to be freed */
    unsigned tenant;
    uint64_t sequence;
    int64_t arrived_ms;
    struct model_event event;
    bool duplicate;
    uint64_t first_sequence;
    int64_t first_seen_ms;
};

struct model_limits {
    int64_t tenant_cells;
    unsigned granularities;
    int64_t key_keep_ms;
    bool ids_shared;
    unsigned tenant_marks;          /* 0: as many as there may be */
    struct moment moment;           /* of the batch that is decided */
    int64_t true_ms;                /* when it is decided, really */
    int64_t early_ms;               /* by how much earlier at most a key may be forgotten */
    bool early;                     /* out: one was forgotten still earlier */
    unsigned refusals;              /* of events, in the batch that is decided */
    const struct ruleset *rules;    /* in force for what is decided now; NULL: none */
    struct model_outcome *outcomes; /* all there are, to be freed */
    struct model_past *pasts;       /* likewise */
};

struct model {
    uint64_t sequence;
    int64_t time_ms; /* of the last batch that changed something */
    unsigned cells_count;
    unsigned events_count;
    const struct model_past *events; /* the newest */
    struct model_record keys[MODEL_TENANTS][MODEL_KEYS];
    struct model_id ids[MODEL_TENANTS][MODEL_IDS]; /* shared ones are the first tenant's */
    struct model_row rows[MODEL_TENANTS];
    struct model_mark marks[MODEL_TENANTS][RULESET_CODES];
    struct model_counter counters[RULESET_COUNTERS];
    uint32_t generation; /* the last one given out */
    int64_t retained_ms; /* events that arrived before may be gone */
    uint64_t gone;       /* and those up to here, that did when time was set back */
    unsigned rebuilds_count;
    struct model_rebuild rebuilds[MODEL_REBUILDS_MAX]; /* the first has id 1 */
    unsigned garbage_count;
    uint32_t garbage[MODEL_GENERATIONS_MAX]; /* generations nobody reads any more */
    unsigned entities_count;
    struct model_entity entities[MODEL_ENTITIES_MAX];
    struct model_cell cells[MODEL_CELLS_MAX];
};

void model_init(struct model *model);
void model_copy(struct model *to, const struct model *from);

/* Bucket start of a moment: floor, also before 1970. */
int64_t model_bucket(int64_t time_ms, int32_t duration);

/* How long ago a time that was written surely is, as batches may take it. */
int64_t model_age(const struct moment *moment, int64_t then_ms);

/* Decides `count` ops of the bundle from `first` on and fills their answers; for an atomic or keyed
 * bundle, which is never cut, the bundle's as well. */
void model_decide(struct model *model, struct model_limits *limits, int64_t time_ms,
                  struct model_bundle *bundle, unsigned first, unsigned count);

/* model_events.c: one event. */
void model_decide_event(struct model *model, struct model_limits *limits, int64_t time_ms,
                        const struct model_op *op, struct model_answer *answer);
/* An event of the past, counted again. Only its counter's cells of the generation in the making
 * change. */
enum err model_replay(struct model *model, const struct model_limits *limits, int64_t time_ms,
                      struct model_rebuild *rebuild, const struct model_past *past);
/* Whether the event is any business of the counter's. */
bool model_touches(const struct ruleset_counter *counter, const struct model_event *event);
/* Whether one more cell fits; `recount`: it takes another one's place. */
enum err model_room(const struct model *model, const struct model_limits *limits,
                    const struct model_cell *cell, bool recount);

/* model_rebuild.c: what becomes of whole counters. */
void model_enact(struct model *model, const struct ruleset *rules, int64_t time_ms);
/* What somebody who asks for a rebuild has to hear. */
enum err model_may_rebuild(const struct model *model, const struct ruleset *rules, unsigned counter,
                           bool force);
/* Of all time, so that what is lost stays lost. */
bool model_keeps_totals(const struct ruleset_counter *counter);
/* The rebuild that is making this generation; NULL: none. */
struct model_rebuild *model_rebuild_of(struct model *model, uint32_t generation);
bool model_is_garbage(const struct model *model, uint32_t generation);
void model_add_garbage(struct model *model, uint32_t generation);
void model_end_garbage(struct model *model, uint32_t generation);
/* Whether cells or entities of it are left. */
bool model_has_generation(const struct model *model, uint32_t generation);

/* model_marks.c: the dirty queue. */
unsigned model_marks_count(const struct model *model, unsigned tenant);
/* The entity changed, or somebody asks for it: by what happens next. */
enum err model_touch(struct model *model, const struct model_limits *limits, int64_t time_ms,
                     unsigned tenant, unsigned code);
/* All of it happens, or nothing. */
enum err model_settle(struct model *model, const struct model_limits *limits, int64_t time_ms,
                      struct model_pass *pass);
enum err model_hold_back(struct model_mark *mark, int64_t retry_ms);
enum err model_forget(struct model_mark *mark, uint64_t version);

/* `generation` is 0 for a direct counter. */
const struct model_cell *model_find(const struct model *model, unsigned tenant, unsigned name,
                                    uint32_t generation, int32_t duration, int64_t bucket);
/* Whether nobody sees it any more. */
bool model_over(const struct model_cell *cell, int64_t now_ms);
/* How many cells of that granularity there are. */
unsigned model_cells(const struct model *model, unsigned tenant, unsigned name, uint32_t generation,
                     int32_t duration);
/* Whether a sweep at `now_ms` would find anything. */
bool model_has_due(const struct model *model, int64_t now_ms);

void model_limits_release(struct model_limits *limits);

#endif
