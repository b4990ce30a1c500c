/* tenants.h -- how many cells each tenant has. The numbers of all tenants that have written since
 * the start are kept in memory: tenant ids come from tokens the operator signs, so they do not grow
 * by themselves. */
#ifndef TALLY_STORE_EMBEDDED_TENANTS_H
#define TALLY_STORE_EMBEDDED_TENANTS_H

#include "core/sets.h"
#include "store/embedded/cache.h"

struct tenants;

struct tenants *tenants_new(void);
void tenants_free(struct tenants *tenants);
struct cache *tenants_cache(struct tenants *tenants);

/* These do what those of cells.h do. */
bool tenants_load(struct tenants *tenants, struct read_tenant *read);
void tenants_insert(struct tenants *tenants, struct read_tenant *read, int64_t cells);
void tenants_stage(struct tenants *tenants, struct read_tenant *read);
void tenants_publish(struct tenants *tenants, struct read_tenant *read);
void tenants_drop(struct tenants *tenants, struct read_tenant *read);
void tenants_replay(struct tenants *tenants, struct bytes tenant, int64_t cells);

/* For write-back, inside cache_copy_fn. */
struct bytes tenants_value(const struct cache_entry *entry, int64_t *cells_out);

#endif
