/* flights.c -- a table by key. */
#include "reconcile/flights.h"

#include <stdlib.h>

#include "base/hash.h"

struct flight {
    struct table_node node;
    bool running;
    int64_t until_ns; /* it is not taken up before */
    size_t size;
    char key[];
};

#define FLIGHT_OF(pointer) CONTAINER_OF(pointer, struct flight, node)

void flights_init(struct flights *flights)
{
    table_init(&flights->table);
}

static struct flight *find(const struct flights *flights, struct bytes key)
{
    uint64_t hash = hash_keyed(&hash_own, key);
    TABLE_EACH_MATCH(&flights->table, hash, node)
    {
        struct flight *flight = FLIGHT_OF(node);
        if (bytes_equal(bytes_of(flight->key, flight->size), key)) return flight;
    }
    return NULL;
}

static struct flight *make(struct flights *flights, struct bytes key)
{
    struct flight *flight = must_calloc(1, sizeof *flight + key.size);
    flight->node.hash = hash_keyed(&hash_own, key);
    flight->size = key.size;
    memcpy(flight->key, key.data, key.size);
    table_insert(&flights->table, &flight->node);
    return flight;
}

bool flights_take(struct flights *flights, struct bytes key, int64_t now_ns, int64_t flight_ns)
{
    struct flight *flight = find(flights, key);
    if (flight && (flight->running || now_ns < flight->until_ns)) return false;
    if (!flight) flight = make(flights, key);
    flight->running = true;
    flight->until_ns = now_ns + flight_ns;
    return true;
}

bool flights_seize(struct flights *flights, struct bytes key, int64_t now_ns)
{
    struct flight *flight = find(flights, key);
    if (flight && flight->running) return false;
    if (!flight) flight = make(flights, key);
    flight->running = true;
    if (flight->until_ns < now_ns) flight->until_ns = now_ns;
    return true;
}

void flights_land(struct flights *flights, struct bytes key, int64_t began_ns, int64_t rest_ns)
{
    struct flight *flight = find(flights, key);
    must(flight && flight->running);
    flight->running = false;
    if (flight->until_ns < began_ns + rest_ns) flight->until_ns = began_ns + rest_ns;
}

bool flights_is_up(const struct flights *flights, struct bytes key)
{
    const struct flight *flight = find(flights, key);
    return flight && flight->running;
}

void flights_trim(struct flights *flights, int64_t now_ns)
{
    for (size_t i = 0; i <= flights->table.mask; i++) {
        struct table_node *next;
        for (struct table_node *node = flights->table.buckets[i]; node; node = next) {
            struct flight *flight = FLIGHT_OF(node);
            next = node->next;
            if (flight->running || now_ns < flight->until_ns) continue;
            table_remove(&flights->table, node);
            free(flight);
        }
    }
}

void flights_release(struct flights *flights)
{
    for (size_t i = 0; i <= flights->table.mask; i++)
        for (struct table_node *node = flights->table.buckets[i]; node; node = node->next)
            FLIGHT_OF(node)->running = false;
    flights_trim(flights, INT64_MAX);
    table_release(&flights->table);
}
