/* pool.h -- links that are lent out, opened as they are wanted and no more than a number of them.
 *
 * While the database cannot be reached no thread waits for it: after an opening that failed no
 * other is tried but by pool_probe, which one thread calls now and then (warden.c). Links that are
 * open are lent on; where there is none, every thread is refused at once. */
#ifndef TALLY_STORE_POSTGRES_POOL_H
#define TALLY_STORE_POSTGRES_POOL_H

#include "store/postgres/link.h"

struct pool;

struct pool *pool_new(const struct link_config *config, unsigned links_max);
void pool_free(struct pool *pool); /* all were given back */

/* Any thread. Waits for a free link for `wait_ms` at most. ERR_STORAGE: there is none. */
MUST_USE enum err pool_take(struct pool *pool, int wait_ms, struct link **link_out);

/* Closes it if it is broken. */
void pool_give(struct pool *pool, struct link *link);

/* A link broke that was good before: closes the idle ones, for the server they led to is most
 * likely gone, and the next ones taken are new. */
void pool_renew(struct pool *pool);

/* Whether a thread waits for a link. */
bool pool_is_wanted(struct pool *pool);

/* There is no link, and the last opening failed. */
bool pool_is_down(struct pool *pool);
/* Opens one if the last opening failed and that was a while ago. */
void pool_probe(struct pool *pool);

#endif
