/* shares.h -- how many connections each tenant has, so that one cannot take them all.
 *
 * A connection counts for the tenant of its first authorised request, until it closes. */
#ifndef TALLY_API_SHARES_H
#define TALLY_API_SHARES_H

#include "base/bytes.h"

struct shares;
struct share;

struct shares *shares_new(unsigned connections_max);
void shares_free(struct shares *shares); /* every share has been returned */

/* NULL: the tenant has its full share. */
MUST_USE struct share *shares_take(struct shares *shares, struct bytes tenant);
void shares_return(struct shares *shares, struct share *share);

#endif
