/* sim.h -- one seed's world: the real queue, commit, apply, sweep and store on one thread, and the
 * model beside them.
 *
 *   fleet.c     one to four lanes, which have the machine in common: its clocks, its end, its room
 *   plan.c      what the seed is like: limits, names, times
 *   life.c      opening, crashing, restarting; what is true after it
 *   probe.c     a store around the real one that sees every batch on its way and has the model
 *               decide it too
 *   traffic.c   requests, and whether their answers are right
 *   events.c    events as requests carry them and as history shows them
 *   errands.c   bundles that are no client's, and the world going on while somebody waits for one
 *   nodes.c     two nodes over a real PostgreSQL
 *   reload.c    other rules, brought into force as a reload does it
 *   care.c      rebuilds, retention and the removal of counters, as batches show them
 *   rebuild.c   asking for those, and doing them step by step
 *   reconcile.c records that change behind the counters' back, and counting them
 *   compare.c   reads, and whether they show what the model shows
 *   steps.c     what happens next
 *
 * The order in which the queue hands out operations is taken from it (and checked against its own
 * promises); everything else the model has to know by itself. */
#ifndef TALLY_TESTS_SIM_SIM_H
#define TALLY_TESTS_SIM_SIM_H

#include <stdio.h>

#include "chain.h"
#include "commit/commit.h"
#include "rules/enact.h"
#include "dice.h"
#include "disk.h"
#include "reconcile/reconciler.h"
#include "support/asks.h"
#include "jobs/rebuild.h"
#include "tend/tend.h"

#define SIM_DURATIONS 5
#define SIM_TIMES 5
#define SIM_REQUESTS_MAX 32
#define SIM_RULESETS 4
#define SIM_NO_RULES (-1)
#define SIM_LANES 4
#define SIM_FOR_EVER (INT64_MAX / 4)

enum sim_world { SIM_MEMORY, SIM_EMBEDDED, SIM_POSTGRES };

/* What stays the same for the whole seed. */
struct plan {
    unsigned steps;
    unsigned tenants;
    unsigned names;
    unsigned keys;
    unsigned durations_count;
    int32_t durations[SIM_DURATIONS];
    unsigned times_count;
    int64_t times_ms[SIM_TIMES];
    bool extremes; /* amounts near the largest */
    bool expiring; /* most cells expire */
    unsigned crash_weight;
    unsigned fault_weight;
    unsigned state_faults; /* left; RocksDB takes a second over each */
    struct queue_limits queue;
    struct model_limits limits;
    uint32_t batch_ops_max;
    uint32_t batches_max;
    uint32_t small_ops;
    int64_t sweep_ms;
    uint32_t step_ops; /* that those who tend propose at once */

    size_t cache_bytes;
    uint64_t segment_bytes;
    uint64_t keep_bytes;
    int64_t keep_ms;
    unsigned spare_segments;
    int64_t checkpoint_ms;
    uint64_t checkpoint_bytes;
    int64_t forget_ms; /* keys are dropped for good after so long */

    bool events; /* there are any */
    unsigned ids;
    unsigned rulesets_count;
    struct ruleset rulesets[SIM_RULESETS];
    int64_t archive_ms;
    int64_t retention_ms;
    unsigned rebuild_weight;
    unsigned reconcile_weight;
};

/* A request as its client remembers it. */
struct request {
    struct model_bundle asked; /* its answers are not used */
    enum urgency urgency;
    size_t bytes;
};

/* One time that a request was sent. */
struct flight {
    struct bundle bundle;
    struct request request;
    struct model_bundle expected;
    bool failed; /* a part of it must be answered 503 */
    uint32_t taken;
    unsigned passed_over; /* turns it was the next of its urgency and tenant and got nothing */
    unsigned patience;    /* turns that may be so many */
    struct flight *next;
    struct asks asks;    /* of its events */
    struct rules *rules; /* they were projected by; held */
    struct op ops[MODEL_OPS_MAX];
    struct op_bounds bounds[MODEL_OPS_MAX];
    char keys[MODEL_OPS_MAX][COUNTER_KEY_SIZE_MAX];
};

struct nodes;

/* The store as the commit layer sees it. */
struct probe {
    struct store store;
    struct store *real;
    void *batches[CHAIN_MAX]; /* submitted and not yet reported, with their slices */
    const struct apply *applies[CHAIN_MAX];
    unsigned batches_count;
    bool dead;           /* crashed: fails whatever is left */
    unsigned loads;      /* of this turn */
    unsigned fail_loads; /* so many more begins or loads fail */
};

/* A bundle that is no client's and not of those who tend. */
enum errand_kind {
    ERRAND_RELOAD,
    ERRAND_STEP,
    ERRAND_ASK,
    ERRAND_FORGET,
    ERRAND_DELETE,
    ERRAND_MARK,
    ERRAND_CLOCK
};

struct errand {
    struct sim *sim;
    struct bundle *bundle;
    enum errand_kind kind;
    uint32_t count; /* of its ops when it was pushed */
    uint32_t taken;
    unsigned seen; /* rebuilds there were, as readers saw it */
    bool failed;   /* it must be answered 503 */
    bool done;
    struct errand *next;
};

/* Rules on their way into force; one at a time. */
struct reload {
    bool busy;
    struct enactment enactment;
    struct rules *rules; /* our reference */
    int ruleset;
    struct errand errand;
};

/* A lane's, see clocks.c. */
struct clocks {
    struct timekeeper *keeper;
    bool suspect;            /* at the last look */
    bool settling;           /* likewise */
    int64_t settles_from_ms; /* by boot time */
    int64_t back_ms;         /* by how much time was set back, altogether */
};

/* What the lanes of a seed have in common. They share no model: no operation spans two. */
struct fleet {
    uint64_t seed;
    enum sim_world world;
    bool verbose;
    unsigned step;
    const char *doing;
    struct dice dice;
    struct queue_room room;
    struct sim *lanes[SIM_LANES];
    unsigned count;

    struct clock base; /* the kernel's */
    struct timeline_settings settings;
    _Atomic int64_t wall_ms; /* RocksDB's threads ask too */
    _Atomic int64_t mono_ns;
    bool honest;
    bool vouched_for;
    int64_t true_ms;
    int64_t asleep_ms; /* altogether */
};

/* A lane. */
struct sim {
    struct fleet *fleet;
    unsigned index;
    char tenants[MODEL_TENANTS][NAME_SIZE_MAX + 1]; /* names that belong to this lane */
    struct dice *dice;                              /* the fleet's */
    struct plan plan;

    struct clock clock; /* batch time */
    struct clocks clocks;

    struct disk *disk;      /* in the embedded world, */
    struct nodes *nodes;    /* and in that of PostgreSQL */
    struct store *reopened; /* after a crash, until the lane goes on */
    struct queue *queue;
    struct rulebook *rulebook;
    struct commit *commit;
    struct lane lane; /* as those who look after it know it */
    struct lanes lanes;
    struct lane
        reconciled; /* and those who reconcile, whose proposals are errands of another kind */
    struct lanes reconciled_lanes;
    struct tend *tend;
    struct rebuilds *rebuilds;
    struct reconciler *reconciler;
    pthread_mutex_t enacting;
    struct probe probe;
    struct chain chain;

    /* The rulebook as it should be: indexes of plan.rulesets. */
    int rules_next;
    int rules_current;
    struct reload reload;
    struct json_parser *parser;
    int64_t wall_most_ms; /* the latest it ever was */

    struct errand *errands;
    enum errand_kind errand_kind; /* of what is proposed next */
    unsigned errands_depth;       /* how many wait inside one another */
    bool calm;                    /* whoever waits just waits */
    unsigned asked;               /* for rebuilds */
    bool failed_errand;           /* the last one failed for a reason */
    enum err refused;             /* the last step of a rebuild, for this */

    /* What the counters of each entity should be: kept elsewhere, and never lost. */
    int64_t records[MODEL_TENANTS][RULESET_COUNTERS][RULESET_CODES];
    struct model_pass pass; /* that is under way */

    struct chain picture; /* the chain when the disk's picture was taken */
    bool pictured;

    /* Faults that may show: a failure without one is a failure of the store. */
    bool journal_faulty;
    bool state_faulty;
    bool sync_breaks; /* memory, postgres: the next sync fails */
    bool break_keeps; /* and its batches happen all the same; memory alone */

    /* The queue as it should be. */
    struct flight *flights; /* oldest first */
    uint32_t queue_ops;
    uint32_t tenant_ops[MODEL_TENANTS];
    size_t tenant_bytes[MODEL_TENANTS];
    uint32_t urgent_ops;
    uint32_t tended_ops;        /* batched ones of those who tend */
    uint32_t tended_urgent_ops; /* and their urgent ones */
    uint32_t waiting;           /* ops that waited when the turn began */
    size_t queue_bytes;

    uint64_t checks;                       /* given out; each request has its own */
    struct request sent[SIM_REQUESTS_MAX]; /* some with keys, to be repeated */
    unsigned sent_count;
    struct request unheard[SIM_REQUESTS_MAX]; /* with keys, whose answer nobody got */
    unsigned unheard_count;

    uint64_t answers;
    uint64_t crashes;
    uint64_t failures; /* answers 503 */
    uint64_t reloads;
    uint64_t rebuilt;
    uint64_t passes;
    uint64_t overtaken; /* of them, by something that came meanwhile */
    unsigned events;    /* in history at the end, duplicates too */
};

/* Says what is wrong and ends the process: the seed is the bug report. */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...) PRINTF_LIKE(2, 3);
void sim_say(struct sim *sim, const char *format, ...) PRINTF_LIKE(2, 3);

/* fleet.c */

/* Lives one seed through. `dir` is for the embedded world. Returns only if all went well. */
void fleet_run(struct fleet *fleet, const char *dir);
/* All lanes end, and whoever waits in one of them hears 503 from here on. */
void fleet_die(struct fleet *fleet);
void fleet_crash(struct fleet *fleet);   /* kill or power cut, then restart */
void fleet_restart(struct fleet *fleet); /* an orderly stop and start; not of memory */
/* What the queues of all lanes have together, with what those who tend proposed. */
uint32_t fleet_queue_ops(const struct fleet *fleet);
uint32_t fleet_urgent_ops(const struct fleet *fleet);
size_t fleet_queue_bytes(const struct fleet *fleet);
/* A turn or a sync in any lane; false: nothing moves. */
bool fleet_move(struct fleet *fleet);
void fleet_free(struct fleet *fleet);

/* plan.c */
void plan_make(struct sim *sim);
void plan_copy(struct sim *sim, const struct sim *from); /* the same limits in another lane */
const char *plan_tenant(const struct sim *sim, unsigned tenant);
const char *plan_name(unsigned name); /* up to and including MODEL_NAMES */
/* The other way round; false: no such counter was ever used. */
bool plan_find(const struct sim *sim, struct bytes counter, unsigned *tenant_out,
               unsigned *name_out);
/* Of a rule counter's cells. */
bool plan_find_rule(const struct sim *sim, struct bytes key, unsigned *tenant_out,
                    unsigned *name_out, uint32_t *generation_out);

/* life.c */
void life_begin(struct sim *sim, const char *dir);
void life_end(struct sim *sim);
/* A lane's part of a crash, in this order; of an orderly stop life_stop instead of the first. */
void life_die(struct sim *sim);
void life_bury(struct sim *sim);
void life_reopen(struct sim *sim);
void life_go_on(struct sim *sim);
void life_stop(struct sim *sim);
/* Until nothing is under way any more. */
void life_drain(struct sim *sim);
/* No faults from here on, and the store is writable again. */
void life_heal(struct sim *sim);
bool life_writable(struct sim *sim);
/* The crash that is to come will have come at one of the next moments, see disk_arm. */
void life_arm_picture(struct sim *sim, unsigned moments_max, bool syncs_only);

/* nodes.c */
void nodes_begin(struct sim *sim);
struct store *nodes_open(struct sim *sim); /* both; the store of the one whose turn it is */
void nodes_close(struct sim *sim);
void nodes_end(struct sim *sim); /* nothing is left of the lane */
void nodes_take_turns(struct sim *sim);
bool nodes_cut(struct sim *sim); /* true: in a transaction, of which nothing will be kept */
void nodes_crash(struct sim *sim);
/* Before the store is asked. This world's time is simulated and the database's is not: a transaction
 * that has been open for seconds may be ended any moment. */
void nodes_look(struct sim *sim);

/* clocks.c */
void clocks_plan(struct fleet *fleet);
void clocks_begin(struct sim *sim); /* once the store is open */
void clocks_note(struct sim *sim);
void clocks_end(struct sim *sim);
void clocks_between(struct fleet *fleet); /* two lives */
void clocks_step(struct fleet *fleet);
void clocks_wait(struct fleet *fleet, int64_t by_ms);
void clocks_calm(struct fleet *fleet);
void clocks_decided(struct sim *sim, const struct model *model, const struct apply *apply);

/* probe.c */
void probe_init(struct sim *sim, struct store *real);

/* traffic.c */
void traffic_push(struct sim *sim);
void traffic_renew(struct sim *sim); /* deletes and makes a tenant's counters: large blocks */
void traffic_retry(struct sim *sim); /* something unheard, if there is any */
/* Asks for each key in a way that changes nothing and shows whether it is known. */
void traffic_ask_keys(struct sim *sim);
struct flight *traffic_flight(struct bundle *bundle); /* NULL: the sweep's */
void traffic_taken(struct sim *sim, const struct apply *apply);
void traffic_refused(struct sim *sim); /* what this turn took; it did not even begin */
bool traffic_sync_room(const struct sim *sim, uint32_t count);
bool traffic_idle(const struct sim *sim);
void traffic_check_depth(struct sim *sim);

/* events.c */
void events_ask(struct sim *sim, struct model_bundle *bundle); /* a request of events */
void events_fill(struct sim *sim, struct flight *flight, unsigned index);
void events_check(struct sim *sim, const struct flight *flight, unsigned index);
/* Reads history in pages and compares it with the model's. */
void events_compare_all(struct sim *sim);
void events_compare_some(struct sim *sim);

/* errands.c */
void errand_push(struct sim *sim, struct errand *errand, struct bundle *bundle,
                 enum errand_kind kind);
struct errand *errand_of(const struct bundle *bundle); /* NULL: it is none */
void errands_taken(struct sim *sim);
void errands_refused(struct sim *sim);
uint32_t errands_waiting(const struct sim *sim); /* urgent ops that no turn has taken */
/* A propose_fn: `sim->errand_kind` says what it is. */
enum err errand_propose(void *context, struct bundle *bundle);
/* Whether a batch under way brings new rules or generations. */
bool errands_change_rules(const struct sim *sim);

/* reload.c */
void reload_push(struct sim *sim); /* if nobody else changes rules or generations */
void reload_answered(struct sim *sim);
void reload_decided(struct sim *sim, struct model *model, int64_t time_ms);
void reload_reported(struct sim *sim, const struct bundle *bundle, enum err e);
const struct ruleset *reload_rules(const struct sim *sim, int number); /* NULL: none */

/* care.c: the model goes along with what a batch shows, or says what is wrong with it. */
void care_decided(struct sim *sim, struct model *model, const struct apply *apply,
                  const struct slice *slice);

/* rebuild.c */
void rebuild_some(struct sim *sim);        /* a few steps */
void rebuild_all(struct sim *sim);         /* until nothing is left to do */
void rebuild_ask_some(struct sim *sim);    /* somebody asks for one */
void rebuild_forget_some(struct sim *sim); /* an operator forgets a counter */
void rebuild_delete_some(struct sim *sim); /* or removes one tenant's cells of it */

/* reconcile.c */
struct reconciler *reconcile_begin(struct sim *sim);
void reconcile_some(struct sim *sim);     /* a scan and a few passes */
void reconcile_ask_some(struct sim *sim); /* records change, and somebody may ask for a pass */
void reconcile_all(struct sim *sim);      /* until everything is right */
void reconcile_compare(struct sim *sim);  /* the dirty queue with the model's */
void reconcile_decided(struct sim *sim, struct model *model, const struct apply *apply,
                       const struct op *op);

/* compare.c */
void compare_all(struct sim *sim);
void compare_some(struct sim *sim);

/* steps.c */
void steps_one(struct sim *sim);
void steps_settle(struct sim *sim);  /* at the end: everything is well and all is answered, */
void steps_recount(struct sim *sim); /* rebuilt, reconciled and swept */
bool step_turn(struct sim *sim);     /* false: nothing was waiting */
bool step_turn_now(struct sim *sim); /* even if it would wait */
bool step_sync(struct sim *sim);     /* false: nothing was under way */
void step_tend(struct sim *sim);
void step_wait(struct sim *sim, int64_t by_ms);
void step_meanwhile(struct sim *sim); /* whatever may happen while somebody waits */

#endif
