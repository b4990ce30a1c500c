/* budget.h -- the bytes held for requests, each charged to the share of the one who sent it.
 *
 * Everything that a client can make the server hold is charged from the moment it is held until it
 * is let go: large inputs, what a request was read into, its reply, output that nobody reads. It is
 * charged twice, to a share and to the whole:
 *
 *     share     a tenant's; it may hold four fifths of the whole, so that none takes all of it
 *     nobody    connections that have shown no token; an eighth: beside one tenant's share there is
 *               still room for another's
 *
 * What a connection of one ordinary request costs is not charged: limits.connections bounds it.
 *
 * (1) What is charged to shares is charged to the whole; nothing is given back that was not taken.
 * (2) Once nothing is held nothing is charged, and no input goes beyond any bound. */
#ifndef TALLY_WIRE_BUDGET_H
#define TALLY_WIRE_BUDGET_H

#include "wire/exchange.h"

struct wire_budget {
    struct wire_share all;
    struct wire_share nobody; /* connections that have shown no token */
    size_t bytes_max;
};

/* Whether the whole, or the share, has room for so many more bytes at this moment. */
bool budget_fits_all(const struct wire_budget *budget, size_t more);
bool budget_fits_share(const struct wire_budget *budget, const struct wire_share *share,
                       size_t more);

/* At least half of what the share, and the whole, may hold is free. A connection that only wants
 * more at once asks this first, and leaves the other half to those that want anything at all. */
bool budget_is_half_free(const struct wire_budget *budget, const struct wire_share *share);

/* Charges the whole and the share or, if either has no room, neither. */
MUST_USE bool budget_take(struct wire_budget *budget, struct wire_share *share, size_t bytes);
/* Charges what is held already, whatever the bounds. */
void budget_take_anyway(struct wire_budget *budget, struct wire_share *share, size_t bytes);
void budget_give(struct wire_budget *budget, struct wire_share *share, size_t bytes);

/* Law (2): to be called once every loop has let go of everything. */
void budget_check_idle(const struct wire_budget *budget);

#endif
