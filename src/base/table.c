/* table.c -- bucket arrays that double. */
#include "base/table.h"

#include <stdlib.h>

#define TABLE_BUCKETS_MIN 8u

void table_init(struct table *table)
{
    table->buckets = must_calloc(TABLE_BUCKETS_MIN, sizeof *table->buckets);
    table->mask = TABLE_BUCKETS_MIN - 1;
    table->count = 0;
}

void table_release(struct table *table)
{
    free(table->buckets);
    *table = (struct table){0};
}

static void table_grow(struct table *table)
{
    size_t size = (table->mask + 1) * 2;
    struct table_node **buckets = must_calloc(size, sizeof *buckets);
    for (size_t i = 0; i <= table->mask; i++) {
        for (struct table_node *node = table->buckets[i], *next; node; node = next) {
            next = node->next;
            node->next = buckets[node->hash & (size - 1)];
            buckets[node->hash & (size - 1)] = node;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->mask = size - 1;
}

void table_insert(struct table *table, struct table_node *node)
{
    if (table->count > table->mask) table_grow(table);
    struct table_node **bucket = &table->buckets[node->hash & table->mask];
    node->next = *bucket;
    *bucket = node;
    table->count++;
}

void table_remove(struct table *table, struct table_node *node)
{
    struct table_node **place = &table->buckets[node->hash & table->mask];
    while (*place != node) {
        must(*place != NULL);
        place = &(*place)->next;
    }
    *place = node->next;
    table->count--;
}
