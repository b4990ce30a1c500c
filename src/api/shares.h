/* shares.h -- how many connections and streams each tenant has, so that one cannot take them all,
 * and the account of the bytes held for it (wire/budget.h).
 *
 * A connection counts for the tenant of its first authorised request, until it closes; the bytes of
 * a request count for the request's own tenant. */
#ifndef TALLY_API_SHARES_H
#define TALLY_API_SHARES_H

#include "wire/exchange.h"

struct shares;

struct shares *shares_new(unsigned connections_max, unsigned streams_max);
void shares_free(struct shares *shares); /* every share has been returned */

/* For the connection's slot. NULL: the tenant has its full share. */
MUST_USE struct wire_share *shares_take(struct shares *shares, struct bytes tenant);
void shares_return(struct shares *shares, struct wire_share *connection);

/* A stream counts for its own tenant, whichever tenant used its connection before. False: the
 * tenant has as many as it may. */
MUST_USE bool shares_take_stream(struct shares *shares, struct bytes tenant);
void shares_return_stream(struct shares *shares, struct bytes tenant);

/* For the bytes of a request that came over another tenant's connection, as those of a proxy may.
 */
bool shares_is_of(const struct wire_share *connection, struct bytes tenant);
MUST_USE struct wire_share *shares_hold(struct shares *shares, struct bytes tenant);
void shares_let_go(struct shares *shares, struct wire_share *held);

#endif
