/* reconcile.c -- looking things up in the entries of `reconcile:`. */
#include "core/reconcile.h"

#include "base/hash.h"

const struct reconcile *reconcile_find(const struct rules *rules, struct bytes name)
{
    for (unsigned i = 0; i < rules->reconciles_count; i++)
        if (bytes_equal(rules->reconciles[i].name, name)) return &rules->reconciles[i];
    return NULL;
}

bool reconcile_has_tenant(const struct reconcile *reconcile, struct bytes tenant)
{
    if (reconcile->all_tenants) return true;
    for (unsigned i = 0; i < reconcile->tenants_count; i++)
        if (bytes_equal(reconcile->tenants[i], tenant)) return true;
    return false;
}

const struct reconcile *reconcile_of(const struct definition *definition, struct bytes tenant)
{
    for (unsigned i = 0; i < definition->reconciles_count; i++)
        if (reconcile_has_tenant(definition->reconciles[i], tenant))
            return definition->reconciles[i];
    return NULL;
}

int64_t reconcile_flight_ms(const struct reconcile *reconcile, int64_t size)
{
    unsigned i = 0;
    while (i + 1 < reconcile->tiers_count && size >= reconcile->tiers[i].below)
        i++;
    return reconcile->tiers[i].every_ms;
}

static uint64_t mix(uint64_t digest, struct bytes part)
{
    return hash_mix(digest ^ hash_checksum(part)) + part.size;
}

uint64_t reconcile_digest(const struct reconcile *reconcile)
{
    uint64_t numbers[] = {reconcile->truth, reconcile->all_tenants, reconcile->entity.count,
                          (uint64_t)reconcile->statement_timeout_ms};
    uint64_t digest = mix(0, bytes_of(numbers, sizeof numbers));
    digest = mix(digest, reconcile->dsn);
    for (unsigned i = 0; i < reconcile->counters_count; i++) {
        digest = mix(digest, reconcile->counters[i].name);
        digest = mix(digest, reconcile->counters[i].query);
    }
    for (unsigned i = 0; i < reconcile->entity.count; i++)
        digest = mix(digest, reconcile->parameters[i]);
    return digest;
}
