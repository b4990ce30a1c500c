/* shares.h -- how many connections each tenant has, so that one cannot take them all.
 *
 * A connection counts for the tenant of its first authorised request, until it closes. */
#ifndef TALLY_API_SHARES_H
#define TALLY_API_SHARES_H

#include "wire/exchange.h"

struct shares;

struct shares *shares_new(unsigned connections_max, unsigned streams_max, size_t bytes_max);
void shares_free(struct shares *shares); /* every share has been returned */

/* For the connection's slot. NULL: the tenant has its full share. */
MUST_USE struct wire_share *shares_take(struct shares *shares, struct bytes tenant);
void shares_return(struct shares *shares, struct wire_share *connection);

/* A stream counts for the tenant it is of, whoever used its connection before. False: the tenant
 * has as many as it may. */
MUST_USE bool shares_take_stream(struct shares *shares, struct bytes tenant);
void shares_return_stream(struct shares *shares, struct bytes tenant);

/* Bytes of replies that readers made and clients have not taken yet: a client that asks and never
 * reads must not fill the memory. Room is looked for before a read begins; what it made is charged
 * until its exchange ends. A tenant may have four fifths. */
bool shares_has_room(struct shares *shares, struct bytes tenant);
void shares_charge(struct shares *shares, struct bytes tenant, size_t bytes);
void shares_discharge(struct shares *shares, struct bytes tenant, size_t bytes);

#endif
