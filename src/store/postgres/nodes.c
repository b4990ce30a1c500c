/* nodes.c -- the nodes of a database: each says that it is there, and sees the others.
 *
 * Nothing is decided by this table, so it may be late: a lane is led by the holder of its lease. A
 * node that ends politely takes its row away; one that was killed is forgotten after a while. */
#include "store/postgres/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

#define SAY_NS INT64_C(5000000000)
#define FORGET_MS (10 * 60 * 1000)

void postgres_serves(struct database *database, const char *address)
{
    char *copy = strdup(address);
    must(copy != NULL);
    must(atomic_load(&database->address) == NULL);
    atomic_store(&database->address, copy);
}

static void say(struct lane_store *lane, struct sql_values *values, const char *address)
{
    PGresult *result;
    values_begin(values, lane);
    values_print(values, lane->database->node);
    values_text(values, bytes_str(address));
    (void)!care_ask(lane, SQL_PUT_NODE, values, false, &result);
    PQclear(result);
    values_begin(values, lane);
    values_i32(values, FORGET_MS);
    (void)!care_ask(lane, SQL_FORGET_NODES, values, false, &result);
    PQclear(result);
}

/* One lane says it for all of this process. */
void nodes_tend(struct lane_store *lane, struct sql_values *values, int64_t now_ns)
{
    struct database *database = lane->database;
    const char *address = atomic_load(&database->address);
    int64_t due_ns = atomic_load(&database->node_ns);
    if (!address || now_ns < due_ns) return;
    if (!atomic_compare_exchange_strong(&database->node_ns, &due_ns, now_ns + SAY_NS)) return;
    say(lane, values, address);
}

void nodes_leave(struct lane_store *lane)
{
    struct sql_values values;
    PGresult *result;
    char *address = atomic_exchange(&lane->database->address, NULL);
    if (!address) return;
    free(address);
    values_init(&values);
    values_begin(&values, lane);
    values_print(&values, lane->database->node);
    (void)!care_ask(lane, SQL_DROP_NODE, &values, false, &result);
    PQclear(result);
    values_release(&values);
}

/* -- Who is there ------------------------------------------------------------------------------ */

/* "{0,3}": an array of numbers, as text. */
static bool read_lanes(struct bytes text, struct arena *arena, struct postgres_node *node)
{
    if (text.size < 2 || text.data[0] != '{' || text.data[text.size - 1] != '}') return false;
    struct bytes rest = bytes_of(text.data + 1, text.size - 2);
    node->lanes_count = 0;
    node->lanes = arena_alloc(arena, (rest.size + 1) * sizeof *node->lanes);
    while (rest.size > 0) {
        int64_t lane;
        if (!quantity_digits(bytes_split(&rest, ','), &lane)) return false;
        node->lanes[node->lanes_count++] = (unsigned)lane;
    }
    return true;
}

static bool read_node(const PGresult *result, int row, struct arena *arena,
                      struct postgres_node *node)
{
    node->id = result_bytes(result, row, 0);
    node->address = result_bytes(result, row, 1);
    return result_i64(result, row, 2, &node->seen_ms) && result_bool(result, row, 3, &node->self) &&
           read_lanes(result_bytes(result, row, 4), arena, node);
}

enum err postgres_nodes(struct store *store, struct arena *arena, postgres_node_fn *visit,
                        void *context)
{
    struct lane_store *lane = LANE_STORE_OF(store);
    struct inquiry inquiry;
    PGresult *result;
    inquiry_begin(&inquiry, &store->view);
    values_print(&inquiry.values, lane->database->node);
    enum err e = inquiry_ask(&inquiry, SQL_NODES, &result);
    for (int row = 0; row < PQntuples(result) && e == ERR_OK; row++) {
        struct postgres_node node;
        if (read_node(result, row, arena, &node))
            visit(context, &node);
        else
            e = inquiry_corrupt(&inquiry, "a node");
    }
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}
