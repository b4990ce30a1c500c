/* truth_postgres.c -- libpq, used by threads that may wait.
 *
 * Why an answer failed is for the operator's log: the server's primary message and SQLSTATE. What
 * libpq says about a connection may name host and user, never the password; should it hold it all
 * the same, it is left out. */
#include "reconcile/truth_postgres.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/number.h"

#define CONNECT_SECONDS "5"
#define NAME_SIZE 16
#define SHOWN_MAX 60

struct connection {
    PGconn *pg;       /* NULL: not open */
    PGcancel *cancel; /* of it */
    bool busy;
    bool used; /* it has answered before: it may have gone stale since */
    int parameters[RECONCILE_COUNTERS_MAX]; /* that each query wants */
};

struct postgres {
    struct truth truth;
    char *dsn;
    char *password; /* in it; NULL: none */
    char *names[RECONCILE_COUNTERS_MAX];
    char *queries[RECONCILE_COUNTERS_MAX];
    unsigned count;
    int timeout_ms;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct connection connections[TRUTH_CONNECTIONS_MAX];
    bool cancelled;
};

/* -- What went wrong --------------------------------------------------------------------------- */

/* libpq's messages end with a line break and may have several lines. */
static void add_message(const struct postgres *postgres, struct buf *why, const char *message)
{
    if (postgres->password && postgres->password[0] && strstr(message, postgres->password)) {
        buf_add(why, BYTES("(the message holds the password and is left out)"));
        return;
    }
    for (; *message; message++) {
        if (*message != '\n')
            buf_add_char(why, *message);
        else if (message[1])
            buf_add(why, BYTES("; "));
    }
}

/* Trouble of the server rather than of one query: no entity could be counted now. */
static bool is_server_trouble(const char *state)
{
    static const char *const classes[] = {"08", "53", "57P", "58", "XX"};
    for (size_t i = 0; state && i < ARRAY_COUNT(classes); i++)
        if (strncmp(state, classes[i], strlen(classes[i])) == 0) return true;
    return false;
}

static enum err explain(const struct postgres *postgres, const struct connection *connection,
                        const PGresult *result, struct buf *why)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    add_message(postgres, why, primary ? primary : PQerrorMessage(connection->pg));
    if (state) buf_addf(why, " (SQLSTATE %s)", state);
    bool bad = PQstatus(connection->pg) == CONNECTION_BAD;
    return bad || is_server_trouble(state) ? ERR_SOURCE_DOWN : ERR_SOURCE_ANSWER;
}

/* -- Connections ------------------------------------------------------------------------------- */

static void drop_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

static void connection_close(struct postgres *postgres, struct connection *connection)
{
    pthread_mutex_lock(&postgres->lock);
    PQfreeCancel(connection->cancel);
    connection->cancel = NULL;
    pthread_mutex_unlock(&postgres->lock);
    PQfinish(connection->pg);
    connection->pg = NULL;
    connection->used = false;
}

/* A command without result. */
static enum err command(const struct postgres *postgres, const struct connection *connection,
                        const char *text, struct buf *why)
{
    PGresult *result = PQexec(connection->pg, text);
    enum err e = PQresultStatus(result) == PGRES_COMMAND_OK
                     ? ERR_OK
                     : explain(postgres, connection, result, why);
    PQclear(result);
    return e;
}

static enum err refuse_replica(const struct postgres *postgres, const struct connection *connection,
                               struct buf *why)
{
    PGresult *result = PQexec(connection->pg, "SELECT pg_is_in_recovery()");
    enum err e = ERR_OK;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        explain(postgres, connection, result, why);
        e = ERR_SOURCE_DOWN;
    } else if (strcmp(PQgetvalue(result, 0, 0), "f") != 0) {
        buf_add(why, BYTES("the source is a replica, which may be behind; name the primary"));
        e = ERR_SOURCE_DOWN;
    }
    PQclear(result);
    return e;
}

static enum err prepare(const struct postgres *postgres, struct connection *connection, unsigned i,
                        struct buf *why)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "q%u", i);
    PGresult *result = PQprepare(connection->pg, name, postgres->queries[i], 0, NULL);
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        PQclear(result);
        result = PQdescribePrepared(connection->pg, name);
    }
    enum err e = ERR_OK;
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        connection->parameters[i] = PQnparams(result);
    } else {
        buf_addf(why, "counter %s: ", postgres->names[i]);
        explain(postgres, connection, result, why);
        e = ERR_SOURCE_DOWN; /* whatever the entity, this query does not work */
    }
    PQclear(result);
    return e;
}

static enum err set_up(const struct postgres *postgres, struct connection *connection,
                       struct buf *why)
{
    char settings[256];
    snprintf(settings, sizeof settings,
             "SET statement_timeout = %d; SET lock_timeout = %d; "
             "SET idle_in_transaction_session_timeout = %d; "
             "SET default_transaction_read_only = on; SET client_encoding = 'UTF8'",
             postgres->timeout_ms, postgres->timeout_ms, postgres->timeout_ms);
    enum err e = command(postgres, connection, settings, why);
    if (e == ERR_OK) e = refuse_replica(postgres, connection, why);
    for (unsigned i = 0; i < postgres->count && e == ERR_OK; i++)
        e = prepare(postgres, connection, i, why);
    return e == ERR_OK ? ERR_OK : ERR_SOURCE_DOWN;
}

/* What the config says comes later and wins. */
static enum err connection_open(struct postgres *postgres, struct connection *connection,
                                struct buf *why)
{
    const char *const keys[] = {"connect_timeout",
                                "fallback_application_name",
                                "keepalives_idle",
                                "keepalives_interval",
                                "tcp_user_timeout",
                                "dbname",
                                NULL};
    const char *const values[] = {CONNECT_SECONDS, "tally",       "30", "10",
                                  "30000",         postgres->dsn, NULL};
    connection->pg = PQconnectdbParams(keys, values, 1);
    must(connection->pg != NULL);
    if (PQstatus(connection->pg) != CONNECTION_OK) {
        add_message(postgres, why, PQerrorMessage(connection->pg));
        connection_close(postgres, connection);
        return ERR_SOURCE_DOWN;
    }
    PQsetNoticeProcessor(connection->pg, drop_notice, NULL);
    pthread_mutex_lock(&postgres->lock);
    connection->cancel = PQgetCancel(connection->pg);
    pthread_mutex_unlock(&postgres->lock);
    enum err e = set_up(postgres, connection, why);
    if (e != ERR_OK) connection_close(postgres, connection);
    return e;
}

/* Waits for one that is free; NULL: cancelled. */
static struct connection *connection_take(struct postgres *postgres)
{
    struct connection *free_one = NULL;
    pthread_mutex_lock(&postgres->lock);
    while (!postgres->cancelled && !free_one) {
        for (unsigned i = 0; i < TRUTH_CONNECTIONS_MAX; i++) {
            struct connection *connection = &postgres->connections[i];
            if (!connection->busy && (!free_one || connection->pg)) free_one = connection;
        }
        if (!free_one) pthread_cond_wait(&postgres->freed, &postgres->lock);
    }
    if (postgres->cancelled) free_one = NULL;
    if (free_one) free_one->busy = true;
    pthread_mutex_unlock(&postgres->lock);
    return free_one;
}

static void connection_give(struct postgres *postgres, struct connection *connection)
{
    pthread_mutex_lock(&postgres->lock);
    connection->busy = false;
    pthread_cond_signal(&postgres->freed);
    pthread_mutex_unlock(&postgres->lock);
}

/* -- Counting ---------------------------------------------------------------------------------- */

/* The parameters as C strings: the entity's values, then the tenant if queries ask for it. */
static bool fill_parameters(const struct truth_query *query, struct arena *arena,
                            const char **values, struct buf *why)
{
    unsigned count = query->reconcile->entity.count;
    for (unsigned i = 0; i <= count; i++) {
        struct bytes value = i < count ? query->values[i] : query->tenant;
        if (memchr(value.data, '\0', value.size)) {
            buf_add(why, BYTES("the entity has a NUL character, which PostgreSQL does not take"));
            return false;
        }
        char *text = arena_zalloc(arena, value.size + 1);
        memcpy(text, value.data, value.size);
        values[i] = text;
    }
    return true;
}

/* One row, one column, one whole number from 0. Says what it is instead. */
static enum err read_count(const PGresult *result, int64_t *count_out, struct buf *why)
{
    int rows = PQntuples(result), columns = PQnfields(result);
    if (rows != 1 || columns != 1) {
        buf_addf(why, "the query gave %d rows of %d columns instead of one count", rows, columns);
        return ERR_SOURCE_ANSWER;
    }
    if (PQgetisnull(result, 0, 0)) {
        buf_add(why, BYTES("the query gave NULL instead of a count"));
        return ERR_SOURCE_ANSWER;
    }
    struct bytes text = bytes_str(PQgetvalue(result, 0, 0));
    if (number_parse(text, count_out) && *count_out >= 0) return ERR_OK;
    buf_addf(why, "the query gave \"%.*s\" instead of a whole number from 0 to 9223372036854775807",
             (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX), text.data);
    return ERR_SOURCE_ANSWER;
}

static enum err count_one(const struct postgres *postgres, const struct connection *connection,
                          unsigned i, const char *const *values, int64_t *count_out,
                          struct buf *why)
{
    char name[NAME_SIZE];
    size_t before = why->size;
    snprintf(name, sizeof name, "q%u", i);
    buf_addf(why, "counter %s: ", postgres->names[i]);
    PGresult *result =
        PQexecPrepared(connection->pg, name, connection->parameters[i], values, NULL, NULL, 0);
    enum err e = PQresultStatus(result) == PGRES_TUPLES_OK
                     ? read_count(result, count_out, why)
                     : explain(postgres, connection, result, why);
    PQclear(result);
    if (e == ERR_OK) why->size = before;
    return e;
}

static enum err count_in_snapshot(const struct postgres *postgres,
                                  const struct connection *connection, const char *const *values,
                                  int64_t *counts_out, struct buf *why)
{
    enum err e =
        command(postgres, connection, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", why);
    for (unsigned i = 0; i < postgres->count && e == ERR_OK; i++)
        e = count_one(postgres, connection, i, values, &counts_out[i], why);
    if (e == ERR_OK) return command(postgres, connection, "COMMIT", why);
    if (PQstatus(connection->pg) == CONNECTION_OK) PQclear(PQexec(connection->pg, "ROLLBACK"));
    return e;
}

/* A connection that idled may have been closed from the other side: that is tried again once. */
static enum err count_on(struct postgres *postgres, struct connection *connection,
                         const char *const *values, int64_t *counts_out, struct buf *why)
{
    enum err e = ERR_OK;
    for (bool again = true; again;) {
        buf_reset(why);
        bool stale = connection->used;
        if (!connection->pg) e = connection_open(postgres, connection, why);
        if (!connection->pg) return e;
        e = count_in_snapshot(postgres, connection, values, counts_out, why);
        bool bad = PQstatus(connection->pg) == CONNECTION_BAD;
        connection->used = true;
        if (bad) connection_close(postgres, connection);
        again = bad && stale;
    }
    return e;
}

static enum err postgres_count(struct truth *truth, const struct truth_query *query,
                               int64_t *counts_out, struct buf *why_out)
{
    struct postgres *postgres = (struct postgres *)truth;
    const char *values[RULES_DIMENSIONS_MAX + 1];
    struct arena arena;
    must(query->reconcile->counters_count == postgres->count);
    arena_init(&arena, 1024);
    enum err e = ERR_SOURCE_ANSWER;
    if (fill_parameters(query, &arena, values, why_out)) {
        struct connection *connection = connection_take(postgres);
        e = connection ? count_on(postgres, connection, values, counts_out, why_out)
                       : ERR_SOURCE_DOWN;
        if (connection) connection_give(postgres, connection);
    }
    arena_release(&arena);
    return e;
}

static void postgres_cancel(struct truth *truth)
{
    struct postgres *postgres = (struct postgres *)truth;
    char error[256];
    pthread_mutex_lock(&postgres->lock);
    postgres->cancelled = true;
    for (unsigned i = 0; i < TRUTH_CONNECTIONS_MAX; i++)
        if (postgres->connections[i].busy && postgres->connections[i].cancel)
            PQcancel(postgres->connections[i].cancel, error, sizeof error);
    pthread_cond_broadcast(&postgres->freed);
    pthread_mutex_unlock(&postgres->lock);
}

/* -- Beginning and end ------------------------------------------------------------------------- */

static char *text_of(struct bytes text)
{
    char *copy = must_calloc(1, text.size + 1);
    if (text.size) memcpy(copy, text.data, text.size);
    return copy;
}

static void text_wipe(char *text)
{
    if (text) explicit_bzero(text, strlen(text));
    free(text);
}

static char *find_password(const char *dsn)
{
    PQconninfoOption *options = PQconninfoParse(dsn, NULL);
    char *password = NULL;
    for (PQconninfoOption *o = options; o && o->keyword; o++)
        if (strcmp(o->keyword, "password") == 0 && o->val) password = text_of(bytes_str(o->val));
    PQconninfoFree(options);
    return password;
}

static void postgres_free(struct truth *truth)
{
    struct postgres *postgres = (struct postgres *)truth;
    for (unsigned i = 0; i < TRUTH_CONNECTIONS_MAX; i++) {
        must(!postgres->connections[i].busy);
        if (postgres->connections[i].pg) connection_close(postgres, &postgres->connections[i]);
    }
    for (unsigned i = 0; i < postgres->count; i++) {
        free(postgres->names[i]);
        free(postgres->queries[i]);
    }
    text_wipe(postgres->dsn);
    text_wipe(postgres->password);
    pthread_cond_destroy(&postgres->freed);
    pthread_mutex_destroy(&postgres->lock);
    free(postgres);
}

struct truth *truth_postgres_open(const struct reconcile *reconcile)
{
    static const struct truth_ops ops = {postgres_count, postgres_cancel, postgres_free};
    struct postgres *postgres = must_calloc(1, sizeof *postgres);
    postgres->truth.ops = &ops;
    postgres->dsn = text_of(reconcile->dsn);
    postgres->password = find_password(postgres->dsn);
    postgres->timeout_ms = (int)reconcile->statement_timeout_ms;
    postgres->count = reconcile->counters_count;
    for (unsigned i = 0; i < postgres->count; i++) {
        postgres->names[i] = text_of(reconcile->counters[i].name);
        postgres->queries[i] = text_of(reconcile->counters[i].query);
    }
    pthread_mutex_init(&postgres->lock, NULL);
    pthread_cond_init(&postgres->freed, NULL);
    return &postgres->truth;
}
