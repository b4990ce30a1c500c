/* nodes.c -- the world "postgres": a lane is rows of a schema in a real database, and two nodes that
 * know nothing of each other commit to it in turn.
 *
 * What a node remembers of the lane is then old more often than not, and it has to find out. Its
 * connection is cut in the middle of transactions, which takes what was not committed. A crash ends
 * both nodes; what was under way may have been committed all the same. */
#include "sim.h"

#include <stdlib.h>

#include "store/postgres/internal.h"
#include "support/cluster.h"

#define NODES 2
#define SLOW_NS INT64_C(3000000000) /* the database ends a transaction that idles for 5 s */

struct nodes {
    char schema[16];
    struct database *databases[NODES];
    struct store *stores[NODES];
    unsigned turn;    /* whose it is */
    int64_t began_ns; /* when its transaction was first seen, by the real clock; 0: it has none */
};

static void open_node(struct sim *sim, unsigned index)
{
    struct nodes *nodes = sim->nodes;
    struct reason why;
    const struct postgres_config config = {
        .dsn = cluster_dsn(),
        .schema = nodes->schema,
        .lanes = 1,
        .connections = 1,
        .read_connections = 2,
        .ids_shared = sim->plan.limits.ids_shared,
        .key_keep_ms = sim->plan.forget_ms,
        .node = "both", /* leases last for seconds of real time, and neither is to wait for one */
        .clock = &sim->fleet->base,
    };
    enum err e = postgres_open(&nodes->databases[index], &config, &why);
    if (e == ERR_OK) e = postgres_lane(nodes->databases[index], 0, &nodes->stores[index], &why);
    if (e != ERR_OK) sim_fail(sim, "a node does not open: %s", why.text);
}

void nodes_begin(struct sim *sim)
{
    static unsigned made;
    sim->nodes = must_calloc(1, sizeof *sim->nodes);
    snprintf(sim->nodes->schema, sizeof sim->nodes->schema, "s%u", ++made);
}

struct store *nodes_open(struct sim *sim)
{
    for (unsigned i = 0; i < NODES; i++)
        open_node(sim, i);
    return sim->nodes->stores[sim->nodes->turn];
}

void nodes_close(struct sim *sim)
{
    for (unsigned i = 0; i < NODES; i++) {
        store_close(sim->nodes->stores[i]);
        postgres_close(sim->nodes->databases[i]);
    }
}

void nodes_end(struct sim *sim)
{
    char text[100];
    snprintf(text, sizeof text, "SET client_min_messages = error; DROP SCHEMA %s CASCADE",
             sim->nodes->schema);
    cluster_run(text);
    free(sim->nodes);
}

void nodes_take_turns(struct sim *sim)
{
    struct nodes *nodes = sim->nodes;
    struct store *before = nodes->stores[nodes->turn];
    if (sim->probe.dead || sim->probe.batches_count > 0 || sim->sync_breaks) return;
    if (LANE_STORE_OF(before)->link) return; /* in the middle of a transaction */
    writer_rest(&before->writer);            /* nobody waits for its next turn */
    nodes->turn = (nodes->turn + 1) % NODES;
    struct store *now = nodes->stores[nodes->turn];
    now->writer.durable = before->writer.durable;
    now->writer.durable_context = before->writer.durable_context;
    sim->probe.real = now;
    sim_say(sim, "node %u has the turn", nodes->turn);
}

bool nodes_cut(struct sim *sim)
{
    const struct lane_store *lane = LANE_STORE_OF(sim->probe.real);
    if (!lane->link || link_is_broken(lane->link)) return false;
    cluster_kill_backend(link_backend(lane->link));
    sim_say(sim, "the connection is cut");
    return true;
}

void nodes_look(struct sim *sim)
{
    struct nodes *nodes = sim->nodes;
    int64_t now_ns = clock_mono_ns(&clock_system);
    if (!LANE_STORE_OF(sim->probe.real)->link)
        nodes->began_ns = 0;
    else if (nodes->began_ns == 0)
        nodes->began_ns = now_ns;
    else if (now_ns - nodes->began_ns > SLOW_NS)
        sim->sync_breaks = true;
}

static void ignore(void *context, void *batch, enum err e)
{
    (void)context;
    (void)batch;
    (void)e;
}

void nodes_crash(struct sim *sim)
{
    struct store *real = sim->probe.real;
    bool committed = sim->probe.batches_count > 0 && dice_chance(sim->dice, 50);
    real->writer.durable = ignore;
    if (committed) (void)!writer_sync(&real->writer);
    sim_say(sim, "what was under way %s", committed ? "was sent" : "was not");
}
