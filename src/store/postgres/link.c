/* link.c -- libpq in pipeline mode.
 *
 * A round ends with a Sync and not with a mere Flush: only then does the database wait for what
 * comes next with its own time-outs running, and a node that hangs in the middle of a commit lets
 * go of its lane. Sockets do not block: what does not fit the socket's buffer goes out while
 * answers are being waited for, or both sides would wait for each other.
 *
 * The first use of a statement prepares it, in the same round; an answer that nobody asked for is
 * taken out by the note of what was sent (`sent`). A statement that was to be prepared in a round
 * that failed before it is not prepared. */
#include "store/postgres/link.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"

/* A host that is silent is given up for the next one of the DSN after that. Only libpq's own wait
 * does so: whoever polls a connection instead waits for the first silent host until the end. */
#define HOST_SECONDS "2"
#define SETTINGS_MS 3000
#define NAME_SIZE 16

enum sent_kind { SENT_PREPARE, SENT_DROP, SENT_KEEP, SENT_SYNC };

struct sent {
    enum sent_kind kind;
    enum sql_name name;
};

struct link {
    PGconn *pg;
    const struct sql *sql;
    bool prepares;
    bool prepared[SQL_COUNT];
    struct sent *sent; /* in this order, and not yet answered from `taken` on */
    size_t sent_count;
    size_t sent_capacity;
    size_t taken;
    int64_t until_ms;
    bool broken;
    bool failed; /* a statement of this round */
    bool fresh;
    bool warned;
    char state[6];
    struct reason why;
};

static int64_t mono_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* -- What went wrong --------------------------------------------------------------------------- */

/* libpq's messages end with a line break and may have several lines. */
static void say(struct link *link, const char *message)
{
    reason_clear(&link->why);
    for (; *message; message++) {
        if (*message != '\n')
            reason_add(&link->why, "%c", *message);
        else if (message[1])
            reason_add(&link->why, "; ");
    }
}

static void fail(struct link *link, const char *state, const char *message)
{
    if (link->failed) return; /* what came first is the reason */
    link->failed = true;
    snprintf(link->state, sizeof link->state, "%s", state ? state : "");
    say(link, message);
}

static void cut(struct link *link, const char *message)
{
    fail(link, "", message);
    link->broken = true;
}

static void hear_notice(void *context, const PGresult *notice)
{
    struct link *link = context;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity && strcmp(severity, "WARNING") == 0) link->warned = true;
}

/* -- Opening ----------------------------------------------------------------------------------- */

/* A plan that was made once serves every lane and every size of array, so it must not be one that
 * suits the tables as they are now. */
#define SESSION_SETTINGS(SET, END)                                                                 \
    SET "statement_timeout=30000" END SET "row_security=off" END SET "jit=off" END SET             \
        "enable_seqscan=off" END SET "enable_bitmapscan=off" END SET "enable_hashjoin=off" END SET \
        "enable_mergejoin=off" END
static const char session_options[] = SESSION_SETTINGS("-c ", " ");
static const char session_script[] = SESSION_SETTINGS("SET ", ";");

/* The dsn's own options come later in the string and win, but for how long a host may be silent.
 * What would hold for a session is left out where sessions are dealt out; a commit sets all that it
 * needs itself. A pooler takes no options with a connection: they are said once it stands. */
static PGconn *start_connecting(const struct link_config *config)
{
    const char *options = config->prepares && !config->pooled ? session_options : "";
    const char *const keys[] = {"fallback_application_name",
                                "client_encoding",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "tcp_user_timeout",
                                "options",
                                "dbname",
                                "connect_timeout",
                                NULL};
    const char *const values[] = {"tally", "UTF8",  "5",         "5",          "3",
                                  "10000", options, config->dsn, HOST_SECONDS, NULL};
    PGconn *pg = config->open_ms ? PQconnectStartParams(keys, values, 1)
                                 : PQconnectdbParams(keys, values, 1);
    must(pg != NULL);
    return pg;
}

/* Lets a connection that was only begun come about. False: refused, or not done in time. */
static bool connect_by(PGconn *pg, int64_t until_ms)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    if (PQstatus(pg) == CONNECTION_BAD) return false;
    while (next == PGRES_POLLING_WRITING || next == PGRES_POLLING_READING) {
        struct pollfd fd = {.fd = PQsocket(pg),
                            .events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left_ms = until_ms - mono_ms();
        if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0) return false;
        next = PQconnectPoll(pg);
    }
    return next == PGRES_POLLING_OK;
}

/* The password does not belong into a log, whatever put it into a message. */
static void explain_connection(PGconn *pg, struct link *link)
{
    const char *message = PQerrorMessage(pg);
    const char *password = PQpass(pg);
    if (!message[0])
        say(link, "the database did not answer in time");
    else if (password && password[0] && strstr(message, password))
        say(link, "the database cannot be reached (the message holds the password)");
    else
        say(link, message);
}

enum err link_open(struct link **link_out, const struct link_config *config, struct reason *why_out)
{
    struct link *link = must_calloc(1, sizeof *link);
    link->sql = config->sql;
    link->prepares = config->prepares;
    link->fresh = true;
    link->pg = start_connecting(config);
    if (config->open_ms) (void)!connect_by(link->pg, mono_ms() + config->open_ms);
    if (PQstatus(link->pg) != CONNECTION_OK) {
        explain_connection(link->pg, link);
        *why_out = link->why;
        link_close(link);
        return ERR_STORAGE;
    }
    PQsetNoticeReceiver(link->pg, hear_notice, link);
    must(PQsetnonblocking(link->pg, 1) == 0);
    must(PQenterPipelineMode(link->pg) == 1);
    bool begun = !config->pooled || !config->prepares ||
                 link_script(link, session_script, SETTINGS_MS) == ERR_OK;
    if (begun && config->settings)
        begun = link_script(link, config->settings, SETTINGS_MS) == ERR_OK;
    if (!begun) {
        *why_out = link->why;
        link_close(link);
        return ERR_STORAGE;
    }
    *link_out = link;
    return ERR_OK;
}

void link_close(struct link *link)
{
    if (!link) return;
    PQfinish(link->pg);
    free(link->sent);
    free(link);
}

/* -- Waiting ----------------------------------------------------------------------------------- */

/* Waits until libpq has the next result whole. False: the link is broken. */
static bool wait_result(struct link *link)
{
    while (!link->broken && PQisBusy(link->pg)) {
        int unsent = PQflush(link->pg);
        struct pollfd fd = {.fd = PQsocket(link->pg),
                            .events = (short)(POLLIN | (unsent > 0 ? POLLOUT : 0))};
        int64_t left_ms = link->until_ms - mono_ms();
        if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0)
            cut(link, "the database did not answer in time");
        else if ((fd.revents & (POLLIN | POLLERR | POLLHUP)) && !PQconsumeInput(link->pg))
            cut(link, PQerrorMessage(link->pg));
    }
    return !link->broken;
}

static PGresult *next_result(struct link *link)
{
    return wait_result(link) ? PQgetResult(link->pg) : NULL;
}

/* Notes a result that says that something went wrong, and clears it. */
static void hear_failure(struct link *link, PGresult *result)
{
    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        fail(link, PQresultErrorField(result, PG_DIAG_SQLSTATE),
             primary ? primary : PQresultErrorMessage(result));
    } else if (PQresultStatus(result) != PGRES_PIPELINE_ABORTED) {
        fail(link, "", "the database gave an answer of another kind");
    }
    PQclear(result);
    if (PQstatus(link->pg) == CONNECTION_BAD) cut(link, PQerrorMessage(link->pg));
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* Takes the answer to one statement; NULL: it failed. */
static PGresult *take_one(struct link *link)
{
    PGresult *result = next_result(link);
    if (!result) {
        if (!link->broken) cut(link, "the database left an answer out");
        return NULL;
    }
    link->fresh = false;
    if (!is_good(result)) {
        hear_failure(link, result);
        result = NULL;
    }
    PGresult *end = next_result(link);
    if (end) {
        PQclear(end);
        cut(link, "the database gave one answer too many");
    }
    return result;
}

static void take_sync(struct link *link)
{
    PGresult *result = next_result(link);
    if (link->broken) return;
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC) cut(link, "the end of a round did not come");
    PQclear(result);
}

/* -- Rounds ------------------------------------------------------------------------------------ */

static void note_sent(struct link *link, enum sent_kind kind, enum sql_name name)
{
    if (link->sent_count == link->sent_capacity) {
        link->sent_capacity = link->sent_capacity * 2 + 16;
        link->sent = must_realloc(link->sent, link->sent_capacity * sizeof *link->sent);
    }
    link->sent[link->sent_count++] = (struct sent){kind, name};
}

static void prepare(struct link *link, enum sql_name name, const char *called)
{
    if (!PQsendPrepare(link->pg, called, link->sql->texts[name], 0, NULL)) {
        cut(link, PQerrorMessage(link->pg));
        return;
    }
    note_sent(link, SENT_PREPARE, name);
    link->prepared[name] = true;
}

static void send_one(struct link *link, enum sql_name name, struct sql_values *values,
                     enum link_result result)
{
    const char *texts[VALUES_MAX];
    int sizes[VALUES_MAX];
    static const int binary[VALUES_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int count = values ? (int)values->count : 0;
    char called[NAME_SIZE];
    if (link->broken) return;
    if (values) values_bind(values, texts, sizes);
    snprintf(called, sizeof called, "t%u", (unsigned)name);
    if (link->prepares && !link->prepared[name]) prepare(link, name, called);
    if (link->broken) return;
    int sent = link->prepares
                   ? PQsendQueryPrepared(link->pg, called, count, texts, sizes, binary, 1)
                   : PQsendQueryParams(link->pg, link->sql->texts[name], count, NULL, texts, sizes,
                                       binary, 1);
    if (sent)
        note_sent(link, result == LINK_KEEP ? SENT_KEEP : SENT_DROP, name);
    else
        cut(link, PQerrorMessage(link->pg));
}

/* Nothing is set for a session that is dealt out. So what comes without SETTINGS says itself that
 * rows which row security would hide are an error, for its transaction, which is the round where
 * none was begun. */
void link_send(struct link *link, enum sql_name name, struct sql_values *values,
               enum link_result result)
{
    bool first = link->sent_count == 0 || link->sent[link->sent_count - 1].kind == SENT_SYNC;
    bool alone = !link->prepares && first && PQtransactionStatus(link->pg) == PQTRANS_IDLE;
    if (alone && name != SQL_BEGIN && name != SQL_BEGIN_MOMENT)
        send_one(link, SQL_UNHIDDEN, NULL, LINK_DROP);
    send_one(link, name, values, result);
    if (alone && name == SQL_BEGIN_MOMENT) send_one(link, SQL_UNHIDDEN, NULL, LINK_DROP);
}

void link_go(struct link *link, int wait_ms)
{
    link->until_ms = mono_ms() + wait_ms;
    link->warned = false;
    if (link->broken) return;
    if (!PQpipelineSync(link->pg)) {
        cut(link, PQerrorMessage(link->pg));
        return;
    }
    note_sent(link, SENT_SYNC, 0);
    if (PQflush(link->pg) < 0) cut(link, PQerrorMessage(link->pg));
}

void link_wait(struct link *link, int wait_ms)
{
    link->until_ms = mono_ms() + wait_ms;
}

PGresult *link_take(struct link *link)
{
    while (!link->broken && link->taken < link->sent_count) {
        const struct sent sent = link->sent[link->taken];
        must(sent.kind != SENT_SYNC); /* there is no more in this round */
        link->taken++;
        PGresult *result = take_one(link);
        if (sent.kind == SENT_KEEP) return result;
        if (!result && sent.kind == SENT_PREPARE) link->prepared[sent.name] = false;
        PQclear(result);
    }
    return NULL;
}

enum err link_end(struct link *link)
{
    while (!link->broken && link->taken < link->sent_count &&
           link->sent[link->taken].kind != SENT_SYNC) {
        const struct sent sent = link->sent[link->taken++];
        PGresult *result = take_one(link);
        if (!result && sent.kind == SENT_PREPARE) link->prepared[sent.name] = false;
        PQclear(result);
    }
    if (!link->broken) {
        must(link->taken < link->sent_count);
        take_sync(link);
        link->taken++;
    }
    if (link->broken || link->taken == link->sent_count) link->taken = link->sent_count = 0;
    enum err e = link->failed || link->broken ? ERR_STORAGE : ERR_OK;
    if (e == ERR_OK) reason_clear(&link->why);
    link->failed = false;
    return e;
}

/* -- Outside of a round ------------------------------------------------------------------------ */

/* Takes all results of a query that was sent by itself; the last one is given back. */
static PGresult *take_all(struct link *link)
{
    PGresult *last = NULL;
    for (PGresult *result; (result = next_result(link));) {
        PQclear(last);
        last = NULL;
        if (is_good(result))
            last = result;
        else
            hear_failure(link, result);
    }
    if (!link->failed && !link->broken) return last;
    PQclear(last);
    return NULL;
}

static bool leave_rounds(struct link *link, int wait_ms)
{
    must(link->sent_count == 0);
    link->until_ms = mono_ms() + wait_ms;
    link->failed = false;
    if (!link->broken && !PQexitPipelineMode(link->pg)) cut(link, PQerrorMessage(link->pg));
    return !link->broken;
}

static void enter_rounds(struct link *link)
{
    if (!link->broken && !PQenterPipelineMode(link->pg)) cut(link, PQerrorMessage(link->pg));
}

enum err link_script(struct link *link, const char *text, int wait_ms)
{
    PGresult *result = NULL;
    if (!leave_rounds(link, wait_ms)) return ERR_STORAGE;
    if (PQsendQuery(link->pg, text))
        result = take_all(link);
    else
        cut(link, PQerrorMessage(link->pg));
    enum err e = result ? ERR_OK : ERR_STORAGE;
    PQclear(result);
    enter_rounds(link);
    link->failed = false;
    return e;
}

PGresult *link_ask(struct link *link, const char *text, int count, const char *const *values,
                   int wait_ms)
{
    PGresult *result = NULL;
    if (!leave_rounds(link, wait_ms)) return NULL;
    if (PQsendQueryParams(link->pg, text, count, NULL, values, NULL, NULL, 0))
        result = take_all(link);
    else
        cut(link, PQerrorMessage(link->pg));
    enter_rounds(link);
    link->failed = false;
    return result;
}

/* -- Looking ----------------------------------------------------------------------------------- */

void link_server(const struct link *link, char *text_out, size_t size)
{
    snprintf(text_out, size, "%s:%s/%s", PQhost(link->pg), PQport(link->pg), PQdb(link->pg));
}

bool link_is_broken(const struct link *link)
{
    return link->broken;
}

bool link_has_queued(const struct link *link)
{
    return link->sent_count > 0 && link->sent[link->sent_count - 1].kind != SENT_SYNC;
}

bool link_is_fresh(const struct link *link)
{
    return link->fresh;
}

bool link_has_warned(const struct link *link)
{
    return link->warned;
}

const char *link_why(const struct link *link)
{
    return link->why.text;
}

const char *link_state(const struct link *link)
{
    return link->state;
}

int link_backend(const struct link *link)
{
    return PQbackendPID(link->pg);
}

/* -- Results ----------------------------------------------------------------------------------- */

static const char *fixed(const PGresult *result, int row, int column, int size)
{
    if (PQgetisnull(result, row, column) || PQgetlength(result, row, column) != size) return NULL;
    return PQgetvalue(result, row, column);
}

bool result_i64(const PGresult *result, int row, int column, int64_t *value_out)
{
    const char *at = fixed(result, row, column, 8);
    if (at) *value_out = (int64_t)get_ordered_u64(at);
    return at != NULL;
}

bool result_i32(const PGresult *result, int row, int column, int32_t *value_out)
{
    const char *at = fixed(result, row, column, 4);
    if (at) *value_out = (int32_t)get_ordered_u32(at);
    return at != NULL;
}

bool result_bool(const PGresult *result, int row, int column, bool *value_out)
{
    const char *at = fixed(result, row, column, 1);
    if (at) *value_out = *at != 0;
    return at != NULL;
}

bool result_print(const PGresult *result, int row, int column, struct fingerprint *print_out)
{
    const char *at = fixed(result, row, column, 16);
    if (!at) return false;
    *print_out = (struct fingerprint){.high = get_ordered_u64(at), .low = get_ordered_u64(at + 8)};
    return true;
}

bool result_time(const PGresult *result, int row, int column, int64_t *value_out)
{
    *value_out = INT64_MIN;
    return PQgetisnull(result, row, column) || result_i64(result, row, column, value_out);
}

struct bytes result_bytes(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column)) return BYTES_NONE;
    return bytes_of(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}
