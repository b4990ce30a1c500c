/* frozen.h -- deleting what is left of a rule counter that is no longer in the config. */
#ifndef TALLY_API_COUNTERS_FROZEN_H
#define TALLY_API_COUNTERS_FROZEN_H

#include "core/rules.h"
#include "wire/exchange.h"

struct call;

/* Deletes the tenant's rows of it, one for each dimension set: at most limits.requestOps a call,
 * and the reply then says "more":true. 404 if there are none. */
enum request_verdict frozen_delete(struct call *call, const struct definition *definition);

#endif
