/* reconcile.h -- where the truth about some counters is, and how often to look: the config's
 * `reconcile:`, compiled.
 *
 * Plain data, part of a struct rules and as immutable. Each entry keeps some persistent counters
 * right for each entity (a conversation, an account): one of their kept dimension sets, the same
 * for all of them. */
#ifndef TALLY_CORE_RECONCILE_H
#define TALLY_CORE_RECONCILE_H

#include "core/rules.h"

#define RECONCILES_MAX 64
#define RECONCILE_COUNTERS_MAX 16
#define RECONCILE_TENANTS_MAX 1000
#define RECONCILE_TIERS_MAX 16
#define RECONCILE_QUERY_SIZE_MAX 8192
#define RECONCILE_DSN_SIZE_MAX 4096

enum truth_kind {
    TRUTH_POSTGRES, /* the records in a tenant's database */
    TRUTH_EVENTS,   /* the retained events */
};

struct reconcile_counter {
    struct bytes name;
    struct bytes query; /* for TRUTH_POSTGRES */
    char where[96];
};

/* An entity below this size is not looked at again within `every_ms`. */
struct reconcile_tier {
    int64_t below; /* INT64_MAX: the last one */
    int64_t every_ms;
};

struct reconcile {
    struct bytes name;
    bool all_tenants; /* the tenant is then the last parameter of each query */
    struct bytes *tenants;
    unsigned tenants_count;
    struct dimension_set entity; /* sorted by name, as in the counters */
    struct bytes *parameters;    /* the same keys as written: $1, $2, ... */
    enum truth_kind truth;
    struct bytes dsn;       /* a secret: never shown, logged or stored */
    struct bytes dsn_shown; /* env:NAME; size 0: the config holds the text itself, which is not to
                             * be shown */
    struct reconcile_counter *counters;
    unsigned counters_count;
    int64_t scan_every_ms;
    int64_t scan_limit;
    int64_t min_interval_ms;
    int64_t statement_timeout_ms;
    struct reconcile_tier *tiers;
    unsigned tiers_count;
    int size_by;         /* index of a counter; -1: every entity is small */
    int64_t drift_alert; /* a difference from which on an alert is logged; 0: never */
    char where[96];
};

/* NULL: no such entry. */
const struct reconcile *reconcile_find(const struct rules *rules, struct bytes name);

bool reconcile_has_tenant(const struct reconcile *reconcile, struct bytes tenant);

/* The entry that keeps this counter right for this tenant, or NULL. There is one at most. */
const struct reconcile *reconcile_of(const struct definition *definition, struct bytes tenant);

/* How long an entity of this size is left alone once it was taken up (S2-17). */
int64_t reconcile_flight_ms(const struct reconcile *reconcile, int64_t size);

/* The digest of everything that says what to count, where and how: with another digest there is
 * another truth. The rest of an entry, which says how often and for whom, is read anew with each
 * scan. */
uint64_t reconcile_digest(const struct reconcile *reconcile);

#endif
