/* hung.c -- a node that hangs in the middle of what it sends.
 *
 * Between two rounds the database ends a transaction that stands still for 5 s
 * (idle_in_transaction_session_timeout). Inside a round no time-out of its own runs: it waits for
 * the next message, or for the node to read its answer, for as long as the connection seems to be
 * alive, and keeps what it has locked. So the node that waits in vain for that lock ends the other
 * one's session. That is safe at any moment: a transaction that waits for its client has not begun
 * to commit, and whoever sent it finds by the stamp that it did not. */
#include "store/postgres/internal.h"

#include <string.h>

#include "base/log.h"

#define LOCK_NOT_AVAILABLE "55P03"

void lane_free_hung(struct lane_store *lane, struct link *link)
{
    if (link_is_broken(link) || strcmp(link_state(link), LOCK_NOT_AVAILABLE) != 0) return;
    link_send(link, SQL_ROLLBACK, NULL, LINK_DROP);
    link_send(link, SQL_END_HUNG, NULL, LINK_KEEP);
    link_go(link, LOCK_WAIT_MS);
    PGresult *ended = link_take(link);
    int count = ended ? PQntuples(ended) : 0;
    PQclear(ended);
    (void)!link_end(link);
    if (count > 0)
        log_line(LOG_WARN, "another node hung in a transaction, which was ended",
                 LOG_KV("lane", lane->lane), LOG_KV("sessions", count));
}
