/* link.h -- one connection to the database: statements go out in rounds, and every wait ends.
 *
 * Example:
 *
 *     static enum err lock_lane(struct link *link, struct sql_values *lane, bool *locked_out)
 *     {
 *         link_send(link, SQL_BEGIN, NULL, LINK_DROP); // queued; nothing can fail here
 *         link_send(link, SQL_LOCK, lane, LINK_KEEP);
 *         link_go(link, 2000);                // both on their way, in one piece
 *         PGresult *locked = link_take(link); // the next one that was kept, or NULL
 *         *locked_out = locked && PQntuples(locked) == 1;
 *         PQclear(locked);
 *         return link_end(link); // the rest, and whether all went well
 *     }
 *
 * (1) A round is all that is sent between two calls of link_go. Where a statement of it fails the
 *     database skips those behind it.
 * (2) Statements may be sent without link_go; they belong to the round that the next one ends.
 * (3) A link that was cut, or that did not answer in time, is broken for ever: every call comes
 *     back at once, and all that is left to do is link_close. What became of the statements that
 *     were not answered is not known.
 * (4) One thread at a time. */
#ifndef TALLY_STORE_POSTGRES_LINK_H
#define TALLY_STORE_POSTGRES_LINK_H

#include <libpq-fe.h>

#include "base/err.h"
#include "base/reason.h"
#include "store/postgres/values.h"
#include "store/postgres/sql.h"

struct link;

struct link_config {
    const char *dsn;
    const struct sql *sql;
    bool prepares; /* statements stay prepared: nobody in between deals connections out */
    bool pooled;   /* a pooler stands in between, which takes no options with a connection */
    int open_ms;   /* to wait for a connection at most; 0: HOST_SECONDS in link.c for each host */
    const char *settings; /* a statement that each connection begins with; NULL: none */
};

enum link_result { LINK_DROP, LINK_KEEP };

/* ERR_STORAGE: `why_out` says what was wrong, without a password. */
MUST_USE enum err link_open(struct link **link_out, const struct link_config *config,
                            struct reason *why_out);
void link_close(struct link *link); /* NULL is none */

void link_send(struct link *link, enum sql_name name, struct sql_values *values,
               enum link_result result);
void link_go(struct link *link, int wait_ms);
/* Lets the rest of the round take so long, counted from now; or a round that was sent behind
 * another one. */
void link_wait(struct link *link, int wait_ms);
/* Takes the next result that was kept; the caller clears it. NULL: it failed, or one before it;
 * link_end says so too. */
MUST_USE PGresult *link_take(struct link *link);
/* ERR_STORAGE: link_why and link_state say what the first failure was. */
MUST_USE enum err link_end(struct link *link);

/* Runs a text of several statements, outside of a round; all of them are done or none. */
MUST_USE enum err link_script(struct link *link, const char *text, int wait_ms);
/* Runs one statement with parameters in text form, outside of a round: for what is asked once. The
 * caller clears the result. NULL: it failed. */
MUST_USE PGresult *link_ask(struct link *link, const char *text, int count,
                            const char *const *values, int wait_ms);

/* Host, port and database of the server, for people. */
void link_server(const struct link *link, char *text_out, size_t size);
bool link_is_broken(const struct link *link);
bool link_has_queued(const struct link *link);   /* statements that no link_go has sent off */
bool link_is_fresh(const struct link *link);     /* it has answered nothing yet */
bool link_has_warned(const struct link *link);   /* in its last round */
const char *link_why(const struct link *link);   /* a sentence, or "" */
const char *link_state(const struct link *link); /* SQLSTATE, or "" */
int link_backend(const struct link *link);       /* the database's process */

/* -- What a result holds; row and column count from 0 -- */

MUST_USE bool result_i64(const PGresult *result, int row, int column, int64_t *value_out);
MUST_USE bool result_i32(const PGresult *result, int row, int column, int32_t *value_out);
MUST_USE bool result_bool(const PGresult *result, int row, int column, bool *value_out);
MUST_USE bool result_print(const PGresult *result, int row, int column,
                           struct fingerprint *print_out);
/* INT64_MIN for null. */
MUST_USE bool result_time(const PGresult *result, int row, int column, int64_t *value_out);
/* A view into the result; null is BYTES_NONE. */
struct bytes result_bytes(const PGresult *result, int row, int column);

#endif
