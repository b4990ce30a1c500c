/* make.h -- makes the tables, and brings those of an earlier version up to date. */
#ifndef TALLY_STORE_POSTGRES_MAKE_H
#define TALLY_STORE_POSTGRES_MAKE_H

#include "store/postgres/schema.h"

/* ERR_STORAGE: the link says why; nothing was made. */
MUST_USE enum err schema_make(const struct database *database, struct link *link,
                              const struct schema_founding *founding);

/* Turns version `from` of a schema with that many lanes into this program's, and keeps all other
 * users of its tables out meanwhile. ERR_STORAGE: the link says why, and nothing was changed. */
MUST_USE enum err schema_upgrade(const struct database *database, struct link *link, unsigned from,
                                 unsigned lanes);

/* Lets the role tally_reader see rows, and makes it where that is allowed; if there is none then,
 * nothing is done. ERR_STORAGE: the link says why. */
MUST_USE enum err schema_let_in(const struct database *database, struct link *link);

#endif
