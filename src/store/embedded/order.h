/* order.h -- entries of a table in the order of their keys, by nodes that live inside them.
 *
 * Example:
 *
 *     static unsigned order_count(struct order *order, struct bytes from)
 *     {
 *         unsigned count = 0;
 *         struct order_node *node = order_from(order, from);
 *         for (; node; node = order_after(order, order->key(node)))
 *             count++;
 *         return count;
 *     }
 *
 * A treap: a search tree by key that is a heap by priority, so it is as shallow as chance makes it,
 * some 2.5 log2(n), whatever keys come in whatever order. It allocates nothing. */
#ifndef TALLY_STORE_EMBEDDED_ORDER_H
#define TALLY_STORE_EMBEDDED_ORDER_H

#include <stdint.h>

#include "base/bytes.h"

struct order_node {
    struct order_node *left;
    struct order_node *right;
    uint64_t priority;
};

/* A view that is good for as long as the node is in the order. */
typedef struct bytes order_key_fn(const struct order_node *node);

struct order {
    struct order_node *root;
    order_key_fn *key;
    uint64_t steps; /* nodes that were looked at, ever */
};

/* The node's `priority` is random, and no node with the same key is there. */
void order_add(struct order *order, struct order_node *node);
void order_remove(struct order *order, struct order_node *node);

/* The first node whose key is `key` or later; order_after: whose key is later. NULL: there is
 * none. */
struct order_node *order_from(struct order *order, struct bytes key);
struct order_node *order_after(struct order *order, struct bytes key);

#endif
