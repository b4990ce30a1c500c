/* memory_tables.h -- plain tables: every kind of object under its key. */
#ifndef TALLY_STORE_MEMORY_TABLES_H
#define TALLY_STORE_MEMORY_TABLES_H

#include "base/table.h"
#include "core/sets.h"

/* One object of any kind, under a key of bytes. */
struct object {
    struct table_node node;
    size_t key_size;
    size_t value_size;
    char *value;
    char key[];
};

enum kind { COUNTERS, CELLS, TENANTS, KEYS, OBJECTS, KINDS };

struct tables {
    struct table of[KINDS];
};

/* The key of a cell. */
struct cell_place {
    uint64_t series;
    int64_t bucket;
};

void tables_init(struct tables *tables);
void tables_release(struct tables *tables);
void tables_copy(struct tables *to, const struct tables *from); /* `to` is released first */

struct object *tables_find(struct tables *tables, enum kind kind, struct bytes key);

typedef void object_fn(void *context, enum kind kind, const struct object *object);
void tables_each(const struct tables *tables, enum kind kind, object_fn *visit, void *context);

/* Installs a batch's after-images. */
void tables_apply(struct tables *tables, const struct write_set *writes);

void object_free(void *context, enum kind kind, const struct object *object);
static inline struct bytes object_value(const struct object *object)
{
    return bytes_of(object->value, object->value_size);
}

#endif
