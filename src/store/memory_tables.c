/* memory_tables.c -- plain tables; being obviously right is the only aim. */
#include "store/memory_tables.h"

#include <stdlib.h>

#include "base/must.h"
#include "core/counter.h"

#define OBJECT_OF(pointer) CONTAINER_OF(pointer, struct object, node)

void tables_init(struct tables *tables)
{
    for (unsigned k = 0; k < KINDS; k++)
        table_init(&tables->of[k]);
}

struct object *tables_find(struct tables *tables, enum kind kind, struct bytes key)
{
    uint64_t hash = hash_keyed(&hash_own, key);
    TABLE_EACH_MATCH(&tables->of[kind], hash, node)
    {
        struct object *object = OBJECT_OF(node);
        if (bytes_equal(bytes_of(object->key, object->key_size), key)) return object;
    }
    return NULL;
}

static void tables_remove(struct tables *tables, enum kind kind, struct bytes key)
{
    struct object *object = tables_find(tables, kind, key);
    if (!object) return;
    table_remove(&tables->of[kind], &object->node);
    free(object->value);
    free(object);
}

static void tables_put(struct tables *tables, enum kind kind, struct bytes key, struct bytes value)
{
    tables_remove(tables, kind, key);
    struct object *object = must_calloc(1, sizeof *object + key.size);
    object->node.hash = hash_keyed(&hash_own, key);
    object->key_size = key.size;
    memcpy(object->key, key.data, key.size);
    object->value = must_alloc(value.size);
    if (value.size) memcpy(object->value, value.data, value.size);
    object->value_size = value.size;
    table_insert(&tables->of[kind], &object->node);
}

void tables_each(const struct tables *tables, enum kind kind, object_fn *visit, void *context)
{
    const struct table *table = &tables->of[kind];
    for (size_t b = 0; b <= table->mask; b++)
        for (struct table_node *node = table->buckets[b], *next; node; node = next) {
            next = node->next;
            visit(context, kind, OBJECT_OF(node));
        }
}

void object_free(void *context, enum kind kind, const struct object *object)
{
    (void)context;
    (void)kind;
    free(object->value);
    free((struct object *)object);
}

void tables_release(struct tables *tables)
{
    for (unsigned k = 0; k < KINDS; k++) {
        tables_each(tables, k, object_free, NULL);
        table_release(&tables->of[k]);
    }
}

static void object_copy(void *context, enum kind kind, const struct object *object)
{
    tables_put(context, kind, bytes_of(object->key, object->key_size),
               bytes_of(object->value, object->value_size));
}

void tables_copy(struct tables *to, const struct tables *from)
{
    tables_release(to);
    tables_init(to);
    for (unsigned k = 0; k < KINDS; k++)
        tables_each(from, k, object_copy, to);
}

/* -- Applying a write set ---------------------------------------------------------------------- */

struct grave {
    struct tables *tables;
    uint64_t series;
};

static void bury_cell(void *context, enum kind kind, const struct object *object)
{
    struct grave *grave = context;
    (void)kind;
    struct cell_place place;
    memcpy(&place, object->key, sizeof place);
    if (place.series == grave->series)
        tables_remove(grave->tables, CELLS, bytes_of(object->key, object->key_size));
}

static void apply_counters(struct tables *tables, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->counters_count; i++) {
        const struct read_counter *read = &reads->counters[i];
        if (!read->changed) continue;
        if (read->value)
            tables_put(tables, COUNTERS, read->key,
                       bytes_of(read->value, counter_size(read->value->count)));
        else
            tables_remove(tables, COUNTERS, read->key);
    }
}

static void apply_cells(struct tables *tables, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        if (!read->changed) continue;
        struct cell_place place = {read->series, read->bucket};
        if (read->value.exists)
            tables_put(tables, CELLS, bytes_of(&place, sizeof place),
                       bytes_of(&read->value, sizeof read->value));
        else
            tables_remove(tables, CELLS, bytes_of(&place, sizeof place));
    }
}

/* A key record is stored as its fixed part followed by its outcome. */
static void put_key(struct tables *tables, const struct read_key *read)
{
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    buf_add(&value, bytes_of(&read->value, sizeof read->value));
    buf_add(&value, read->value.outcome);
    must(value.data);
    tables_put(tables, KEYS, bytes_of(&read->print, sizeof read->print), buf_bytes(&value));
    buf_release(&value);
}

static void apply_objects(struct tables *tables, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        if (!read->changed) continue;
        if (read->value.size)
            tables_put(tables, OBJECTS, read->key, read->value);
        else
            tables_remove(tables, OBJECTS, read->key);
    }
}

void tables_apply(struct tables *tables, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    apply_counters(tables, reads);
    apply_cells(tables, reads);
    for (uint32_t i = 0; i < reads->tenants_count; i++)
        if (reads->tenants[i].changed)
            tables_put(tables, TENANTS, reads->tenants[i].tenant,
                       bytes_of(&reads->tenants[i].cells, sizeof reads->tenants[i].cells));
    for (uint32_t i = 0; i < reads->keys_count; i++)
        if (reads->keys[i].changed) put_key(tables, &reads->keys[i]);
    apply_objects(tables, reads);
    for (uint32_t i = 0; i < writes->dead_count; i++) {
        struct grave grave = {tables, writes->dead[i]};
        tables_each(tables, CELLS, bury_cell, &grave);
    }
}
