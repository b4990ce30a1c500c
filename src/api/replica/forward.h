/* forward.h -- what becomes of a request that changes something where another server decides. */
#ifndef TALLY_API_REPLICA_FORWARD_H
#define TALLY_API_REPLICA_FORWARD_H

#include "wire/exchange.h"

struct call;

/* Whether the call is the primary's, and this server follows one. */
bool forward_concerns(const struct call *call);

/* Instead of the call's own function, whose checks the primary makes. */
enum request_verdict forward_request(struct call *call);

/* Fills the reply with 421 and the primary's address. */
void reply_not_primary(struct exchange *exchange, const char *primary);

#endif
