/* sql.c -- see the header. */
#include "store/postgres/sql.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"

#define TEXT_SIZE_MAX (1u << 20)

static const char *const originals[SQL_COUNT] = {
#define SQL(name, text) text,
#include "store/postgres/sql.def"
#undef SQL
};

char *sql_in_schema(const char *text, const char *schema)
{
    struct buf buf;
    buf_init(&buf, TEXT_SIZE_MAX);
    for (const char *place; (place = strstr(text, "{S}")); text = place + 3) {
        buf_add(&buf, bytes_of(text, (size_t)(place - text)));
        buf_add(&buf, bytes_str(schema));
    }
    buf_add(&buf, bytes_str(text));
    buf_add_char(&buf, '\0');
    must(!buf.failed);
    return buf.data;
}

void sql_init(struct sql *sql, const char *schema)
{
    size_t size = strlen(schema) + 3;
    sql->schema = must_alloc(size);
    snprintf(sql->schema, size, "\"%s\"", schema);
    for (unsigned i = 0; i < SQL_COUNT; i++)
        sql->texts[i] = sql_in_schema(originals[i], sql->schema);
}

void sql_release(struct sql *sql)
{
    for (unsigned i = 0; i < SQL_COUNT; i++)
        free(sql->texts[i]);
    free(sql->schema);
}
