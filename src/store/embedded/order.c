/* order.c -- the treap. Nothing here is recursive. */
#include "store/embedded/order.h"

#include "base/must.h"

/* Below zero: the node's key comes first. */
static int compare(struct order *order, const struct order_node *node, struct bytes key)
{
    order->steps++;
    return bytes_compare(order->key(node), key);
}

/* Splits what is below `node` in two: before `key` and after it. */
static void split(struct order *order, struct order_node *node, struct bytes key,
                  struct order_node **before, struct order_node **after)
{
    while (node) {
        if (compare(order, node, key) < 0) {
            *before = node;
            before = &node->right;
            node = node->right;
        } else {
            *after = node;
            after = &node->left;
            node = node->left;
        }
    }
    *before = *after = NULL;
}

void order_add(struct order *order, struct order_node *node)
{
    struct bytes key = order->key(node);
    struct order_node **link = &order->root;
    while (*link && (*link)->priority >= node->priority)
        link = compare(order, *link, key) < 0 ? &(*link)->right : &(*link)->left;
    split(order, *link, key, &node->left, &node->right);
    *link = node;
}

void order_remove(struct order *order, struct order_node *node)
{
    struct bytes key = order->key(node);
    struct order_node **link = &order->root;
    while (*link != node) {
        must(*link != NULL);
        link = compare(order, *link, key) < 0 ? &(*link)->right : &(*link)->left;
    }
    struct order_node *left = node->left, *right = node->right;
    while (left && right) {
        struct order_node **higher = left->priority >= right->priority ? &left : &right;
        *link = *higher;
        link = *higher == left ? &left->right : &right->left;
        *higher = *link;
    }
    *link = left ? left : right;
}

struct order_node *order_from(struct order *order, struct bytes key)
{
    struct order_node *first = NULL;
    for (struct order_node *node = order->root; node;) {
        bool before = compare(order, node, key) < 0;
        if (!before) first = node;
        node = before ? node->right : node->left;
    }
    return first;
}

struct order_node *order_after(struct order *order, struct bytes key)
{
    struct order_node *first = NULL;
    for (struct order_node *node = order->root; node;) {
        bool after = compare(order, node, key) > 0;
        if (after) first = node;
        node = after ? node->left : node->right;
    }
    return first;
}
