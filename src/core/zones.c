/* zones.c -- zones by name and number.
 *
 * The number of a name is 29 bits of a hash that never changes, because granularities are stored:
 * FNV-1a, folded. Among the six hundred names of today no two share one, and a name that came and
 * shared one would be refused rather than taken for the other. */
#include "core/zones.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

#define NUMBER_BITS 29u
#define KIND_BITS 2u

struct known_zone {
    struct table_node node; /* the hash is its number */
    struct zone *zone;
    char name[ZONE_NAME_MAX + 1];
};

struct zones {
    struct zones *before; /* was in force before this one */
    struct table by_number;
    char version[ZONES_VERSION_MAX + 1];
};

static const char *const kind_names[CALENDAR_KINDS] = {"day", "week", "month", "year"};

static uint32_t number_of(struct bytes name)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 16777619u;
    return (hash ^ hash >> NUMBER_BITS) & ((1u << NUMBER_BITS) - 1);
}

static struct known_zone *find(const struct zones *zones, uint32_t number)
{
    TABLE_EACH_MATCH(&zones->by_number, number, node)
    {
        return CONTAINER_OF(node, struct known_zone, node);
    }
    return NULL;
}

struct zones *zones_new(const char *version)
{
    struct zones *zones = must_calloc(1, sizeof *zones);
    snprintf(zones->version, sizeof zones->version, "%s", version);
    table_init(&zones->by_number);
    return zones;
}

void zones_free(struct zones *zones)
{
    if (!zones) return;
    for (size_t i = 0; i <= zones->by_number.mask; i++) {
        struct table_node *next;
        for (struct table_node *node = zones->by_number.buckets[i]; node; node = next) {
            struct known_zone *known = CONTAINER_OF(node, struct known_zone, node);
            next = node->next;
            zone_free(known->zone);
            free(known);
        }
    }
    table_release(&zones->by_number);
    free(zones);
}

bool zones_add(struct zones *zones, const char *name, struct zone *zone)
{
    uint32_t number = number_of(bytes_str(name));
    if (strlen(name) > ZONE_NAME_MAX || find(zones, number)) {
        zone_free(zone);
        return false;
    }
    struct known_zone *known = must_calloc(1, sizeof *known);
    known->node.hash = number;
    known->zone = zone;
    memcpy(known->name, name, strlen(name));
    table_insert(&zones->by_number, &known->node);
    return true;
}

unsigned zones_count(const struct zones *zones)
{
    return (unsigned)zones->by_number.count;
}

const char *zones_version(const struct zones *zones)
{
    return zones->version;
}

/* Counted down from -1, so that every one is below 0. */
static int32_t granularity_of(enum calendar_kind kind, uint32_t number)
{
    return -1 - (int32_t)(number << KIND_BITS | (uint32_t)kind);
}

bool zones_granularity(const struct zones *zones, enum calendar_kind kind, struct bytes name,
                       int32_t *granularity_out)
{
    const struct known_zone *known = find(zones, number_of(name));
    if (!known || !bytes_equal(bytes_str(known->name), name)) return false;
    *granularity_out = granularity_of(kind, (uint32_t)known->node.hash);
    return true;
}

bool zones_calendar(const struct zones *zones, int32_t granularity, struct calendar *calendar_out)
{
    if (granularity >= 0) return false;
    uint32_t code = (uint32_t)(-1 - granularity);
    const struct known_zone *known = find(zones, code >> KIND_BITS);
    if (!known) return false;
    *calendar_out = (struct calendar){
        .kind = code & (CALENDAR_KINDS - 1), .name = known->name, .zone = known->zone};
    return true;
}

static struct zones *_Atomic in_force;

/* Two threads may come here at once before anything is in force: the one that is late sees it. */
static struct zones *first_zones(void)
{
    struct zones *none = NULL;
    struct zones *zones = zones_new("");
    (void)zones_add(zones, "UTC", zone_new_fixed(0));
    if (atomic_compare_exchange_strong(&in_force, &none, zones)) return zones;
    zones_free(zones);
    return none;
}

const struct zones *zones_in_force(void)
{
    struct zones *zones = atomic_load_explicit(&in_force, memory_order_acquire);
    return zones ? zones : first_zones();
}

void zones_put_in_force(struct zones *zones)
{
    zones->before = atomic_load(&in_force);
    atomic_store_explicit(&in_force, zones, memory_order_release);
}

const char *calendar_kind_name(enum calendar_kind kind)
{
    must(kind < CALENDAR_KINDS);
    return kind_names[kind];
}

bool calendar_kind_parse(struct bytes text, enum calendar_kind *kind_out)
{
    for (unsigned i = 0; i < CALENDAR_KINDS; i++) {
        if (!bytes_equal(text, bytes_str(kind_names[i]))) continue;
        *kind_out = i;
        return true;
    }
    return false;
}
