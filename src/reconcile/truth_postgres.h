/* truth_postgres.h -- the truth is in an application's PostgreSQL (reconcile/truth.h).
 *
 * All counters of an entity are read in one read-only repeatable-read snapshot, on the primary: a
 * replica could be behind the request that asks, and a stale count would clear its mark, so
 * a server in recovery is refused. Queries are prepared once a connection; parameters are text that
 * the server types. There are at most TRUTH_CONNECTIONS_MAX connections, and each query has the
 * entry's statementTimeout. A query must give one row with one whole number from 0; anything else
 * is no answer. */
#ifndef TALLY_RECONCILE_TRUTH_POSTGRES_H
#define TALLY_RECONCILE_TRUTH_POSTGRES_H

#include "reconcile/truth.h"

#define TRUTH_CONNECTIONS_MAX 4u

struct truth *truth_postgres_open(const struct reconcile *reconcile);

#endif
