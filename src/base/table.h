/* table.h -- a hash table of nodes that live inside other structs.
 *
 * Example:
 *
 *     struct numbered {
 *         struct table_node node;
 *         int number;
 *     };
 *
 *     static struct numbered *numbered_find(const struct table *table, uint64_t hash, int number)
 *     {
 *         TABLE_EACH_MATCH(table, hash, node)
 *         {
 *             struct numbered *found = CONTAINER_OF(node, struct numbered, node);
 *             if (found->number == number) return found;
 *         }
 *         return NULL;
 *     }
 *
 * Chained and growing by doubling; it allocates only its bucket array. */
#ifndef TALLY_BASE_TABLE_H
#define TALLY_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

struct table_node {
    struct table_node *next;
    uint64_t hash;
};

#define TABLE_SHARE 16u /* bytes of the bucket array to a node, at most */

struct table {
    struct table_node **buckets;
    size_t mask; /* bucket count - 1 */
    size_t count;
};

void table_init(struct table *table);
void table_release(struct table *table); /* the nodes are the caller's */

static inline struct table_node *table_first(const struct table *table, uint64_t hash)
{
    return table->buckets[hash & table->mask];
}

/* Every node with this hash; the caller compares the rest of the key. */
#define TABLE_EACH_MATCH(table, wanted, node)                                           \
    for (struct table_node *node = table_first(table, wanted); node; node = node->next) \
        if (node->hash == (wanted))

/* `node->hash` is set; no node with the same key may be there. */
void table_insert(struct table *table, struct table_node *node);
void table_remove(struct table *table, struct table_node *node);

#define CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
