/* sql.h -- the statements of the store, by name.
 *
 * Their texts are in sql.def, with {S} where the schema's name goes. */
#ifndef TALLY_STORE_POSTGRES_SQL_H
#define TALLY_STORE_POSTGRES_SQL_H

enum sql_name {
#define SQL(name, text) SQL_##name,
#include "store/postgres/sql.def"
#undef SQL
    SQL_COUNT
};

struct sql {
    char *texts[SQL_COUNT];
    char *schema; /* quoted */
};

/* `schema` is a plain name: letters, digits and underscores. */
void sql_init(struct sql *sql, const char *schema);
void sql_release(struct sql *sql);

/* A copy of `text` with the schema's name in place of each {S}; the caller frees it. */
char *sql_in_schema(const char *text, const char *schema);

#endif
