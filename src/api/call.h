/* call.h -- one request inside the API: what it asked for and what has become of it.
 *
 * Made in `head`, in the exchange's arena, and gone with it. An endpoint's function gets the call
 * when the whole request is here. It answers at once, or hands the call to the queue (call_change)
 * or to the readers (call_read) and is called back later. */
#ifndef TALLY_API_CALL_H
#define TALLY_API_CALL_H

#include "api/views/activity.h"
#include "api/api.h"
#include "api/params.h"
#include "api/position.h"
#include "api/readers.h"
#include "api/route.h"
#include "api/shares.h"
#include "api/views/streams.h"
#include "api/unknown.h"

struct loop_state; /* what belongs to one loop thread */

/* What a loop has for one lane in this turn. */
struct collected {
    struct bundle *bundles; /* batched ones, pushed together: see call_change */
    struct bundle **end;
    uint32_t ops;      /* in `bundles` */
    uint32_t turn_ops; /* those and what was pushed before; 0: nothing came in this turn */
};

struct api {
    struct api_config config;
    struct loop_state *loops;
    struct readers **readers; /* for each database, and one more for what is of no tenant, */
                              /* or of nobody's database: one that hangs holds only its own */
    unsigned readers_count;
    struct readers *source_readers; /* they ask a tenant's database, a source of `reconcile:` */
    struct readers *lenders;        /* they lend snapshots to followers; NULL: there are none */
    struct readers *forwarders;     /* they wait for the primary; NULL: nothing is handed on */
    struct readers *packers;        /* they gzip large replies to changes; NULL once it stops */
    struct shares *shares;
    struct cursors *cursors; /* where SCANs are */
    struct activity *activity;
    struct streams *streams;
    _Atomic bool ready;
    _Atomic int64_t over_ns; /* from then on reads end; 0: the server does not stop */
};

struct loop_state {
    struct json_parser *parser;
    struct auth_cache *tokens;
    struct collected *lanes; /* one for each lane */
    unsigned *pushed;        /* which lanes got bundles in this turn */
    unsigned pushed_count;
    struct position_line position;
    int64_t read_ns; /* the turn of the last read */
    int64_t turn_ns; /* the last turn that asked for the time of day, */
    int64_t wall_ms; /* and what it was told */
};

struct call {
    struct api *api;
    struct exchange *exchange;
    const struct route *route;
    struct must_place place; /* what its threads do for it: the route's name */
    struct bytes tenant;
    struct lane *lane; /* the tenant's; of a call without a tenant the first */
    struct bytes name; /* or id; decoded, not yet checked */
    bool name_malformed;
    bool admin;
    int64_t expires_ms;       /* the token's; INT64_MAX: never */
    uint64_t auth_generation; /* under which it was judged */
    struct arena_mark mark;   /* the exchange's arena after `head` */
    struct rules *rules;      /* see call_rules */
    struct params params;     /* the query's; every one is known to the route */
    bool warned;              /* Tally-Warning is among the reply's headers */
    bool positioned;          /* a read of a tenant: its reply says how far it is, */
    uint64_t position;        /* which is at least so far */
    bool lost;                /* it was asked for a position that this history does not contain, */
    uint64_t wanted;          /* or for this one, which only the store can tell; 0: for neither */
    struct view view;         /* what a positioned read looks at: */
    struct view_age age;      /* the store as it was then or later */

    struct bundle bundle;
    struct op op;                      /* a single change's */
    bool errors_only;                  /* ?results=errors */
    size_t reply_bytes;                /* what the reply to a change may take beside the change */
    void (*finish)(struct call *call); /* fills the reply once the bundle is answered */
    void (*look)(struct call *call, struct view *moment); /* see call_look; may be NULL */
    enum err newest_err;              /* what a look at the newest sequence came to, */
    uint64_t newest;                  /* and what it found */
    void (*read)(struct call *call);  /* runs on a reader and fills the reply, in parts: */
    bool more;                        /* set by a part: there is another one */
    uint64_t cells;                   /* visited so far; limits.queryCells bounds it */
    void (*read_done)(struct call *); /* after the last part, whatever came of it; may be NULL */
    void *plan;                       /* the endpoint's own */
    struct stream *stream;            /* the route `stream`'s, once it is one */
    struct wire_share *held;          /* its tenant's, if the connection is another's */
    struct read_task task;
};

static inline struct call *call_of(struct exchange *exchange)
{
    return exchange->state;
}

static inline struct loop_state *call_loop(const struct call *call)
{
    return &call->api->loops[call->exchange->loop_index];
}

/* Whether the bundle came to nothing as a whole, so that its ops say nothing. */
static inline bool call_came_to_nothing(const struct call *call)
{
    enum err e = call->bundle.err;
    return e == ERR_STORAGE || e == ERR_CORRUPT || e == ERR_INTERNAL || e == ERR_FEW_FOLLOWERS;
}

/* The time of day, for which a loop asks once a turn, in which many requests are read. */
int64_t loop_wall_ms(struct api *api, struct loop_state *loop, int64_t turn_ns);

/* Fills the reply with an error and says so. `sentence` NULL: the table's. */
enum request_verdict call_refuse(struct call *call, enum err e, const char *sentence);

/* The name in the path, or false after refusing. */
bool call_name(struct call *call, enum request_verdict *verdict_out);

/* Fills `params` from the query, or false after refusing what is malformed or unknown. */
bool call_params(struct call *call, enum request_verdict *verdict_out);

/* Whether nobody may be told anything yet: what was recovered here is perhaps on no follower. */
bool call_awaits_followers(const struct call *call);

/* False after refusing a body with fields, of a call that takes no body. */
bool call_bare(struct call *call, enum request_verdict *verdict_out);

/* For an object that has other fields than the known ones: ERR_OK if these may be ignored, or if
 * the config lets them pass with a warning; else ERR_UNKNOWN_FIELD. */
MUST_USE enum err call_unknown(struct call *call, const struct json_value *object,
                               const struct known *known, struct reason *why);
/* The same once `why` is known. */
MUST_USE enum err call_warn(struct call *call, const struct reason *why);

/* The body's fields, all of which may be absent, and then the body too. */
MUST_USE enum err call_fields(struct call *call, const struct field *fields, unsigned count,
                              struct field_value *values_out, struct reason *why);

/* The rules in force when the call first asked, held until it ends. */
const struct rules *call_rules(struct call *call);
/* The rule counter of that name, or NULL: a direct one. Frozen ones too. */
const struct definition *call_definition(struct call *call, struct bytes name);

/* Sends call->bundle on its way; `finish` will be called on the loop thread. The caller has set
 * ops, count, urgency, whole, atomic and the keys. */
enum request_verdict call_change(struct call *call, void (*finish)(struct call *call));
/* Collects a batched bundle, of whatever maker, for its tenant's lane: in the order of these calls
 * its maker's bundles are judged. One that found no room gets its `err`, and `done`. */
void loop_collect(struct loop_state *loop, struct lane *lane, struct bundle *bundle);
/* Puts what a loop has collected for a lane into its queue; commit_help or queue_wake must follow.
 */
void call_push_collected(struct lane *lane, struct collected *collected);

/* The memory that a change and its reply may take: more would never find room beside its own
 * body. */
size_t call_bytes_max(const struct call *call);

/* Only fills in the rest of call->bundle, for a reader that pushes it into the queue itself. */
void call_prepare(struct call *call, void (*finish)(struct call *call));

/* The pool that reads of that lane wait in. */
struct readers *api_readers(const struct api *api, const struct lane *lane);

/* Whether the server stops and the time for reads, under way or waiting, is over. */
bool api_is_over(struct api *api);

/* Lets `read` run on a reader thread: once, and again as long as it leaves `more` set. Between two
 * parts, each of some milliseconds, other reads have their turn and the reply so far is charged. */
enum request_verdict call_read(struct call *call, void (*read)(struct call *call));

/* The same on a thread that may wait for a source of `reconcile:`, which is another's database. */
enum request_verdict call_read_source(struct call *call, void (*read)(struct call *call));

/* Does what call_read does for a read that begins by looking at some `values` of one moment. Where
 * the store would have to be asked for them `look` runs before `read`, together with those of other
 * calls, and may run again from its start: call->task.looked says that it ran. It fills nothing but
 * the plan. */
enum request_verdict call_look(struct call *call, unsigned values,
                               void (*look)(struct call *call, struct view *moment),
                               void (*read)(struct call *call));

/* The same on a thread that may wait for the disk as long as a follower copies, and on one that may
 * wait for the primary. */
enum request_verdict call_read_lent(struct call *call, void (*read)(struct call *call));
enum request_verdict call_read_forward(struct call *call, void (*read)(struct call *call));

/* Fills everything of an op that names its cell. The key's bytes are copied into the arena. */
void call_address(struct call *call, struct op *op, struct bytes name, int32_t duration,
                  int64_t bucket);

/* The Idempotency-Key header as fingerprint and digest. False after refusing a malformed one; if
 * there is none, `*keyed_out` is false. */
bool call_key(struct call *call, bool *keyed_out, struct fingerprint *key_out, uint64_t *digest_out,
              enum request_verdict *verdict_out);
struct fingerprint call_key_print(struct call *call, struct bytes key);
struct fingerprint lane_key_print(const struct lane *lane, struct bytes tenant, struct bytes key);

/* Pieces of replies. */
void reply_replayed(struct reply *reply);
void reply_triple(struct buf *body, __int128 net, __int128 added, __int128 subbed);
void reply_error_fields(struct buf *body, enum err e); /* "error":..,"code":.. */
/* Ends a list and its object: ],"next":..}. `cursor` without data: this was the last page. */
void reply_page_end(struct buf *body, struct bytes cursor);

#endif
