/* truth_postgres.c -- libpq, used by threads that may wait, but not for ever.
 *
 * Every wait for an answer ends: with the answer, with postgres_cancel, or some seconds after the
 * server should have ended the statement itself. The last two leave the connection in the middle of
 * something, so it is closed; the server notices and stops counting. PQcancel is not used: it makes
 * a connection of its own, and waits for it as long as TCP does.
 *
 * Why an answer failed is for the operator's log: the server's primary message and SQLSTATE. What
 * libpq says about a connection may name host and user, never the password; if a message held it
 * all the same, it would be taken out. */
#include "reconcile/truth_postgres.h"

#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/number.h"

#define CONNECT_SECONDS "5"
#define ANSWER_MS 3000 /* how long after its time-out a statement's end may take to arrive */
#define NAME_SIZE 16
#define SHOWN_MAX 60

struct connection {
    PGconn *pg; /* NULL: not open */
    bool busy;
    enum err given_up; /* why an answer was not waited for: ERR_BUSY, ERR_SOURCE_DOWN */
    bool used;         /* it has answered before: it may have gone stale since */
    int parameters[RECONCILE_COUNTERS_MAX]; /* how many each query wants */
};

struct postgres {
    struct truth truth;
    char *dsn;
    char *password; /* the password in it; NULL: none */
    char *names[RECONCILE_COUNTERS_MAX];
    char *queries[RECONCILE_COUNTERS_MAX];
    unsigned count;
    int timeout_ms;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct connection connections[TRUTH_CONNECTIONS_MAX];
    bool cancelled;
    int cancelled_fd; /* readable once cancelled */
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

/* True for trouble of the server rather than of one query: no entity could be counted now. */
static bool is_server_trouble(const char *state)
{
    static const char *const classes[] = {"08", "53", "57P", "58", "XX"};
    for (size_t i = 0; state && i < ARRAY_COUNT(classes); i++)
        if (strncmp(state, classes[i], strlen(classes[i])) == 0) return true;
    return false;
}

/* ERR_BUSY: cancelled; else what `count` says. */
static enum err explain(const struct postgres *postgres, const struct connection *connection,
                        const PGresult *result, struct buf *why)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (connection->given_up == ERR_SOURCE_DOWN)
        buf_addf(why, "no answer within %d ms", postgres->timeout_ms + ANSWER_MS);
    if (connection->given_up != ERR_OK) return connection->given_up;
    add_message(postgres, why, primary ? primary : PQerrorMessage(connection->pg));
    if (state) buf_addf(why, " (SQLSTATE %s)", state);
    bool bad = PQstatus(connection->pg) == CONNECTION_BAD;
    return bad || is_server_trouble(state) ? ERR_SOURCE_DOWN : ERR_SOURCE_ANSWER;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static int64_t mono_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until libpq has the next result whole. False: given up. */
static bool wait_result(const struct postgres *postgres, struct connection *connection,
                        int64_t until_ms)
{
    struct pollfd fds[] = {{.fd = postgres->cancelled_fd, .events = POLLIN},
                           {.fd = PQsocket(connection->pg), .events = POLLIN}};
    while (PQisBusy(connection->pg)) {
        int64_t left_ms = until_ms - mono_ms();
        int ready = left_ms > 0 ? poll(fds, ARRAY_COUNT(fds), (int)left_ms) : 0;
        if (ready == 0) connection->given_up = ERR_SOURCE_DOWN;
        if (ready > 0 && fds[0].revents) connection->given_up = ERR_BUSY;
        if (connection->given_up != ERR_OK) return false;
        if (ready > 0 && !PQconsumeInput(connection->pg)) break; /* PQgetResult says why */
    }
    return true;
}

/* The result of the statement that was just sent, as PQexec has it. NULL: see `explain`. */
static PGresult *wait_answer(const struct postgres *postgres, struct connection *connection,
                             int sent)
{
    int64_t until_ms = mono_ms() + postgres->timeout_ms + ANSWER_MS;
    PGresult *last = NULL;
    while (sent && wait_result(postgres, connection, until_ms)) {
        PGresult *next = PQgetResult(connection->pg);
        if (!next) return last;
        PQclear(last);
        last = next;
    }
    PQclear(last);
    return NULL;
}

/* -- Connections ------------------------------------------------------------------------------- */

static void drop_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

static void connection_close(struct connection *connection)
{
    PQfinish(connection->pg);
    connection->pg = NULL;
    connection->used = false;
    connection->given_up = ERR_OK;
}

static bool is_usable(const struct connection *connection)
{
    return connection->given_up == ERR_OK && PQstatus(connection->pg) == CONNECTION_OK;
}

/* Runs a command without result. */
static enum err command(const struct postgres *postgres, struct connection *connection,
                        const char *text, struct buf *why)
{
    PGresult *result = wait_answer(postgres, connection, PQsendQuery(connection->pg, text));
    enum err e = PQresultStatus(result) == PGRES_COMMAND_OK
                     ? ERR_OK
                     : explain(postgres, connection, result, why);
    PQclear(result);
    return e;
}

static enum err refuse_replica(const struct postgres *postgres, struct connection *connection,
                               struct buf *why)
{
    PGresult *result = wait_answer(postgres, connection,
                                   PQsendQuery(connection->pg, "SELECT pg_is_in_recovery()"));
    enum err e = ERR_OK;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        e = explain(postgres, connection, result, why);
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
    PGresult *result = wait_answer(
        postgres, connection, PQsendPrepare(connection->pg, name, postgres->queries[i], 0, NULL));
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        PQclear(result);
        result = wait_answer(postgres, connection, PQsendDescribePrepared(connection->pg, name));
    }
    enum err e = ERR_OK;
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        connection->parameters[i] = PQnparams(result);
    } else {
        buf_addf(why, "counter %s: ", postgres->names[i]);
        e = explain(postgres, connection, result, why);
    }
    PQclear(result);
    return e;
}

/* A failure here is one for every entity. A server too old to look whether its client is still
 * there goes on counting until the statement's time-out. */
static enum err set_up(const struct postgres *postgres, struct connection *connection,
                       struct buf *why)
{
    static const char look[] = "SET client_connection_check_interval = 1000";
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
    if (e == ERR_OK) PQclear(wait_answer(postgres, connection, PQsendQuery(connection->pg, look)));
    return e == ERR_SOURCE_ANSWER ? ERR_SOURCE_DOWN : e;
}

/* The config's own options come later in the string and win. */
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
        connection_close(connection);
        return ERR_SOURCE_DOWN;
    }
    PQsetNoticeProcessor(connection->pg, drop_notice, NULL);
    enum err e = set_up(postgres, connection, why);
    if (e != ERR_OK) connection_close(connection);
    return e;
}

/* Waits for a connection that is free; NULL: cancelled. */
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

/* Reads one row of one column, a whole number from 0, or says what it is instead. */
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

static enum err count_one(const struct postgres *postgres, struct connection *connection,
                          unsigned i, const char *const *values, int64_t *count_out,
                          struct buf *why)
{
    char name[NAME_SIZE];
    size_t before = why->size;
    snprintf(name, sizeof name, "q%u", i);
    buf_addf(why, "counter %s: ", postgres->names[i]);
    int sent =
        PQsendQueryPrepared(connection->pg, name, connection->parameters[i], values, NULL, NULL, 0);
    PGresult *result = wait_answer(postgres, connection, sent);
    enum err e = PQresultStatus(result) == PGRES_TUPLES_OK
                     ? read_count(result, count_out, why)
                     : explain(postgres, connection, result, why);
    PQclear(result);
    if (e == ERR_OK) why->size = before;
    return e;
}

static enum err count_in_snapshot(const struct postgres *postgres, struct connection *connection,
                                  const char *const *values, int64_t *counts_out, struct buf *why)
{
    enum err e =
        command(postgres, connection, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", why);
    for (unsigned i = 0; i < postgres->count && e == ERR_OK; i++)
        e = count_one(postgres, connection, i, values, &counts_out[i], why);
    if (e == ERR_OK) return command(postgres, connection, "COMMIT", why);
    if (is_usable(connection))
        PQclear(wait_answer(postgres, connection, PQsendQuery(connection->pg, "ROLLBACK")));
    return e;
}

/* A connection that idled may have been closed from the other side, so that is tried again once. */
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
        again = stale && PQstatus(connection->pg) == CONNECTION_BAD;
        connection->used = true;
        if (!is_usable(connection)) connection_close(connection);
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
        e = connection ? count_on(postgres, connection, values, counts_out, why_out) : ERR_BUSY;
        if (connection) connection_give(postgres, connection);
    }
    arena_release(&arena);
    return e;
}

static void postgres_cancel(struct truth *truth)
{
    struct postgres *postgres = (struct postgres *)truth;
    pthread_mutex_lock(&postgres->lock);
    postgres->cancelled = true;
    int failed = eventfd_write(postgres->cancelled_fd, 1);
    must(failed == 0);
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
        if (postgres->connections[i].pg) connection_close(&postgres->connections[i]);
    }
    for (unsigned i = 0; i < postgres->count; i++) {
        free(postgres->names[i]);
        free(postgres->queries[i]);
    }
    text_wipe(postgres->dsn);
    text_wipe(postgres->password);
    close(postgres->cancelled_fd);
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
    postgres->cancelled_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(postgres->cancelled_fd >= 0);
    pthread_mutex_init(&postgres->lock, NULL);
    pthread_cond_init(&postgres->freed, NULL);
    return &postgres->truth;
}
