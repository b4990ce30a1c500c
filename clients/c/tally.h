/* tally.h -- libtally: counting with tally from C.
 *
 * Example:
 *
 *     static enum tally_end count_a_visit(const char *token)
 *     {
 *         struct tally_error error;
 *         struct tally_value value;
 *         const struct tally_options options = {.url = "http://127.0.0.1:8787", .token = token};
 *         const struct tally_change change = {.name = "visits"};
 *         struct tally *tally = tally_new(&options, &error);
 *         enum tally_end end = TALLY_INVALID;
 *         if (tally) end = tally_increment(tally, &change, &value, &error);
 *         if (end != TALLY_OK) fprintf(stderr, "%s\n", error.sentence);
 *         tally_free(tally);
 *         return end;
 *     }
 *
 * Every call ends in one of four ways (enum tally_end), and says why in a struct tally_error that
 * you hold; pass NULL if you do not care. There are no globals, nothing is printed, and no signal
 * is touched. A struct tally keeps one connection and belongs to one thread at a time; use as many
 * as you like.
 *
 * Retries. A write carries an idempotency key: yours, or a random one made for the call. When the
 * connection breaks, the server is overloaded (429) or cannot write (502 to 504), the same bytes
 * are sent again with the same key, so the server counts once whatever happened to the first
 * reply. Pauses double from 0.1 s up to 5 s, with some chance in them; a longer Retry-After is
 * honoured. After `attempts`, or when `timeout_ms` is over, the last error is yours.
 *
 * Members have the names of HTTP's fields. Where a union gives one member two names, the second is
 * the older one.
 *
 * Times are text: ISO 8601 such as 2026-01-01T10:20:00Z, or an epoch number in seconds or
 * milliseconds. tally_time makes one from a number. NULL means now. */
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLY_CODE_SIZE 64
#define TALLY_SENTENCE_SIZE 512
#define TALLY_TIME_SIZE 32

/* How a call ended. Only TALLY_OK is 0. */
enum tally_end {
    TALLY_OK = 0,
    TALLY_REFUSED, /* the server answered no (4xx); nothing was changed */
    TALLY_UNKNOWN, /* no answer, or none that says what happened: the call may have taken effect.
                      Repeat it with the same key or event id. */
    TALLY_INVALID, /* the arguments cannot be sent, or memory ran out; nothing was sent */
};

/* Why. `code` is stable and fit for comparing: the server's (`constraint_violation`,
 * `limit_exceeded`, `not_found`, ...) or one of the library's own: `unreachable`, `timeout`,
 * `stopped`, `bad_reply`, `invalid_argument`, `out_of_memory`. Neither string ever holds the token
 * or a password that stood in the URL. */
struct tally_error {
    int status; /* of HTTP; 0 if there was no reply */
    char code[TALLY_CODE_SIZE];
    char sentence[TALLY_SENTENCE_SIZE];
};

/* -- The client -------------------------------------------------------------------------------- */

struct tally;

/* How new reads are, where standbys answer them too. */
enum tally_consistency {
    TALLY_SESSION, /* the default: what this client wrote or read before is in every answer. It
                      sends the last Tally-Sequence as minSequence; one that a failover lost is
                      refused once (`position_lost`) and then forgotten. */
    TALLY_ANY,     /* whatever a standby has */
    TALLY_PRIMARY, /* no standby is asked */
};

/* What is zero has the default. The strings are copied. */
struct tally_options {
    const char *url;      /* http://host:port or https://..., a path before /api is kept */
    const char *token;    /* a JWT or an API key; NULL: only what is public */
    const char *tenant;   /* default: the `sub` of a JWT. An API key says nothing, so needs it. */
    unsigned timeout_ms;  /* one call with all its retries; default 30000 */
    unsigned attempt_ms;  /* one attempt; default: all the time there is */
    unsigned connect_ms;  /* making a connection; default 5000 */
    unsigned attempts;    /* default 5 */
    bool (*stop)(void *); /* asked several times a second while waiting: true gives up */
    void *stop_context;
    enum tally_consistency consistency;
};

/* NULL: `error` says what is wrong with the options. Does not talk to the server. */
struct tally *tally_new(const struct tally_options *options, struct tally_error *error);
void tally_free(struct tally *tally); /* NULL is fine */

/* Whose counters are meant; "" if neither the options nor the token say. */
const char *tally_tenant(const struct tally *tally);

/* Where the server is, without user and password; for messages. */
const char *tally_address(const struct tally *tally);

/* -- Direct counters --------------------------------------------------------------------------- */

/* What a cell holds. net = added - subbed. */
struct tally_value {
    int64_t net;
    int64_t added;
    int64_t subbed;
    bool replayed; /* a change: this is the first answer to the same key again */
};

/* One change of one cell. Only `name` is required. */
struct tally_change {
    const char *name;
    int64_t amount;            /* increment, decrement: default 1. tally_set: the target, >= 0 */
    uint32_t duration_seconds; /* the bucket's length; 0: one for ever */
    union {                    /* which bucket; default now */
        const char *timestamp;
        const char *at;
    };
    union { /* default never */
        const char *expires_at;
        const char *expires;
    };
    const int64_t *max; /* increment: refuse (`limit_exceeded`) if net would pass it */
    const char *key;    /* idempotency key, 1 to 255 printable ASCII; default random */
    bool sync;          /* increment, decrement: ahead of queued work */
};

/* TALLY_REFUSED with code `constraint_violation`: it would fall below zero; `limit_exceeded`: it
 * would pass `max`, and `value` holds what there is; `managed_by_rules`: only events change it.
 * `value` may be NULL. */
enum tally_end tally_increment(struct tally *tally, const struct tally_change *change,
                               struct tally_value *value, struct tally_error *error);
enum tally_end tally_decrement(struct tally *tally, const struct tally_change *change,
                               struct tally_value *value, struct tally_error *error);
enum tally_end tally_set(struct tally *tally, const struct tally_change *change,
                         struct tally_value *value, struct tally_error *error);

/* -- Reading ----------------------------------------------------------------------------------- */

struct tally_dimension {
    const char *key;
    const char *value;
};

/* Which cells. A counter kept by rules is read by its dimensions. */
struct tally_where {
    const char *name;
    uint32_t duration_seconds;
    union { /* tally_get; default now */
        const char *timestamp;
        const char *at;
    };
    union { /* tally_sum, tally_series: required, both ends belong to the range */
        const char *start_time;
        const char *from;
    };
    union { /* default now */
        const char *end_time;
        const char *to;
    };
    bool fill; /* tally_series: empty buckets too */
    const struct tally_dimension *dimensions;
    size_t dimensions_count;
};

/* TALLY_REFUSED with code `not_found`: the cell does not exist. */
enum tally_end tally_get(struct tally *tally, const struct tally_where *where,
                         struct tally_value *value, struct tally_error *error);

/* A sum past 64 bits is TALLY_REFUSED with code `out_of_range`; tally_call reads it exactly. */
enum tally_end tally_sum(struct tally *tally, const struct tally_where *where,
                         struct tally_value *value, struct tally_error *error);

/* Calls `bucket` for each bucket in time order. `start` is ISO 8601 and good during the call. */
typedef void tally_bucket(void *context, const char *start, const struct tally_value *value);
enum tally_end tally_series(struct tally *tally, const struct tally_where *where,
                            tally_bucket *bucket, void *context, struct tally_error *error);

/* -- Events ------------------------------------------------------------------------------------ */

/* An event takes effect at most once, for ever, by its id. */
struct tally_event {
    union { /* 1 to 255 bytes; NULL: a random one, so that retries are safe */
        const char *event_id;
        const char *id;
    };
    const char *type; /* required */
    union {           /* default: when the server gets it */
        const char *occurred_at;
        const char *at;
    };
    const struct tally_dimension *dimensions;
    size_t dimensions_count;
    const char *payload; /* JSON text of any value; default none */
};

struct tally_event_result {
    bool duplicate;    /* seen before: nothing was counted */
    bool conflict;     /* ... and the first one said something else */
    uint64_t id;       /* where it stands in the journal; of a duplicate, the first one */
    unsigned counters; /* how many cells changed */
};

/* `result` may be NULL. */
enum tally_end tally_send_event(struct tally *tally, const struct tally_event *event,
                                struct tally_event_result *result, struct tally_error *error);

/* -- Many at once ------------------------------------------------------------------------------ */

/* Gathers changes, or events, and sends them together: a hundred thousand a second and more instead
 * of a few thousand. Each has its own key or id, so a batch that has to be sent again counts once.
 *
 * Example:
 *
 *     static enum tally_end count_all(struct tally *tally, const struct tally_change *changes,
 *                                     size_t count, struct tally_error *error)
 *     {
 *         enum tally_end end = TALLY_OK;
 *         struct tally_batch *batch = tally_batch_new(tally, 1000, NULL, NULL);
 *         for (size_t i = 0; i < count && end == TALLY_OK; i++)
 *             end = tally_batch_increment(batch, &changes[i], error);
 *         if (end == TALLY_OK) end = tally_batch_flush(batch, error);
 *         tally_batch_free(batch);
 *         return end;
 *     }
 *
 * A full batch sends itself. When that ends in TALLY_UNKNOWN, what was gathered stays: call
 * tally_batch_flush again until it is TALLY_OK, and nothing is lost or counted twice. */
struct tally_batch;

/* Told of each change or event that the server refused; `number` counts what was put in from 0. */
typedef void tally_refused(void *context, uint64_t number, const struct tally_error *error);

/* `ops_max`: from 1 to 100000. Changes and events do not mix in one batch: the second kind is
 * TALLY_INVALID. NULL: no memory. `refused` may be NULL. */
struct tally_batch *tally_batch_new(struct tally *tally, size_t ops_max, tally_refused *refused,
                                    void *context);
void tally_batch_free(struct tally_batch *batch); /* what was not flushed is dropped */

/* TALLY_INVALID: this one was not put in. Otherwise it was. */
enum tally_end tally_batch_increment(struct tally_batch *batch, const struct tally_change *change,
                                     struct tally_error *error);
enum tally_end tally_batch_decrement(struct tally_batch *batch, const struct tally_change *change,
                                     struct tally_error *error);
enum tally_end tally_batch_set(struct tally_batch *batch, const struct tally_change *change,
                               struct tally_error *error);
enum tally_end tally_batch_event(struct tally_batch *batch, const struct tally_event *event,
                                 struct tally_error *error);

/* Sends what is there. TALLY_OK: all of it is durable or was refused one by one. */
enum tally_end tally_batch_flush(struct tally_batch *batch, struct tally_error *error);

/* What became of everything flushed so far. */
struct tally_batch_totals {
    uint64_t applied;
    uint64_t duplicates; /* events seen before, changes answered from their key's record */
    uint64_t refused;
    uint64_t waiting; /* put in and not sent yet */
};
struct tally_batch_totals tally_batch_totals(const struct tally_batch *batch);

/* -- Everything else --------------------------------------------------------------------------- */

/* Any call of the HTTP interface, with this client's retries. */
struct tally_request {
    const char *method; /* default GET */
    const char *path;   /* begins with /api/; percent-encoded, with its query; see tally_escape */
    const char *body;
    size_t body_size;
    const char *type; /* of the body; default application/json */
    const char *key;  /* Idempotency-Key; default none */
    bool repeatable;  /* safe to send again though it is no GET and has no key */
};

/* `body` is followed by a NUL and good until the client's next call. */
struct tally_reply {
    int status;
    const char *body;
    size_t body_size;
    bool replayed;
};

/* TALLY_OK: a reply below 400. On a refusal `reply` holds the reply too. */
enum tally_end tally_call(struct tally *tally, const struct tally_request *request,
                          struct tally_reply *reply, struct tally_error *error);

/* Percent-encodes one segment of a path or one part of a query. False: it does not fit. */
bool tally_escape(const char *text, char *out, size_t out_size);

/* Milliseconds since the Unix epoch as ISO 8601. */
void tally_time(int64_t epoch_ms, char out[TALLY_TIME_SIZE]);

/* A random idempotency key, fit to be kept with the work it belongs to. */
#define TALLY_KEY_SIZE 33
void tally_random_key(char out[TALLY_KEY_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
