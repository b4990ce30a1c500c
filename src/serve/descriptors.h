/* descriptors.h -- as many connections as there are file descriptors for.
 *
 * A connection that is accepted takes a descriptor from whatever opens a file next, the journal's
 * next segment too. So some are kept back for the store, and limits.connections is lowered to what
 * is left. */
#ifndef TALLY_SERVE_DESCRIPTORS_H
#define TALLY_SERVE_DESCRIPTORS_H

#include "config/config.h"

/* Raises the process's limit as far as it may, and lowers limits.connections and
 * limits.tenantConnections to what fits, with a line in the log; another one says so if there are
 * fewer than the lanes need for their files. */
void descriptors_fit(struct config *config);

#endif
