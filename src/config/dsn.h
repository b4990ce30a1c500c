/* dsn.h -- connection strings of PostgreSQL, written down or left to the environment. */
#ifndef TALLY_CONFIG_DSN_H
#define TALLY_CONFIG_DSN_H

#include "config/walk.h"

enum dsn_fault { DSN_GOOD, DSN_NOT_SET, DSN_MALFORMED };

/* What `text` stands for: itself, or with env:NAME the value of that variable, which is `*name_out`
 * then. A view of either. */
enum dsn_fault config_dsn(const struct config_load *load, struct bytes text, struct bytes *dsn_out,
                          struct bytes *name_out);

#define DSN_MALFORMED_TEXT \
    "is not a connection string: postgresql://user@host/database, or host=... dbname=..."

/* Reads a connection string or a list of them, as it is written. */
void config_read_databases(const struct walk *walk, const struct setting *setting,
                           const yaml_node_t *node);

/* Checks the settings of a store in PostgreSQL, and puts the connection strings in their place. */
void config_check_postgres(struct config_load *load);

#endif
