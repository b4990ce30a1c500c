/* cluster.h -- a real PostgreSQL for the tests of one program: made with the first call, ended with
 * the program however that ends.
 *
 * It listens on a socket in a directory of its own and nowhere else. Its data lie in memory where
 * there is room, with fsync on all the same. */
#ifndef TALLY_TESTS_SUPPORT_CLUSTER_H
#define TALLY_TESTS_SUPPORT_CLUSTER_H

#include "base/bytes.h"

/* How to reach it, as libpq wants to know it. */
const char *cluster_dsn(void);

/* Does what the text says, as the superuser. */
void cluster_run(const char *sql);

/* Ends a connection from the database's side; returns once it is gone. */
void cluster_kill_backend(int backend);

/* Ends the server at once, as a crash does; and starts it again on the same data. */
void cluster_stop(void);
void cluster_start(void);

#endif
