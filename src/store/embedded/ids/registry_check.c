/* registry_check.c -- the registry's laws (registry_internal.h), executed. */
#include "store/embedded/ids/registry_internal.h"

static void check_recent(const struct recent *recent)
{
    must(recent->first <= recent->count && recent->count <= recent->capacity);
    must(2 * recent->slots_used <= recent->slot_count);
    must(recent->outcomes_size <= recent->outcomes_capacity);
}

static void check_links(const struct registry *registry)
{
    unsigned spares = 0;
    const struct set *newer = NULL;
    for (const struct set *set = registry->newest; set; set = set->older) {
        check_recent(&set->records);
        must(recent_size(&set->records) > 0);
        must(set->newer == newer);
        must(set->older || set == registry->oldest);
        newer = set;
    }
    for (const struct set *set = registry->spare; set; set = set->older, spares++)
        must(recent_size(&set->records) == 0);
    must(spares == registry->spare_count);
    check_recent(&registry->staged);
    check_recent(&registry->active->records);
}

void registry_check(const struct registry *registry)
{
    must(registry->active != NULL);
    must(recent_size(&registry->active->records) < registry->seal_count);
    must((registry->newest == NULL) == (registry->oldest == NULL));
    must(!registry->newest || (!registry->newest->newer && !registry->oldest->older));
    must(registry->spare_count <= REGISTRY_SPARES_MAX);
    if (SLOW_CHECKS) check_links(registry);
}

static void check_order(struct registry *registry, uint64_t run_last)
{
    bool sealed = false;
    uint64_t run = 0;
    pthread_mutex_lock(&registry->lock);
    registry_check(registry);
    for (const struct set *set = registry->oldest; set; set = set->newer) {
        sealed |= set->at == SET_SEALED;
        must(!sealed || set->at == SET_SEALED);
        must(set->run == 0 || set->run > run);
        if (set->run) run = set->run;
    }
    pthread_mutex_unlock(&registry->lock);
    must(run <= run_last);
}

static void check_filters(const struct filter_chain *chain)
{
    uint64_t ids = 0;
    must(chain->count <= FILTER_COUNT_MAX);
    must(chain->saved_count <= chain->count);
    must(chain->tail_count <= FILTER_TAIL_MAX + 1u);
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct filter *filter = &chain->filters[i];
        must(filter->blocks != NULL);
        must(filter->ids_saved <= filter->ids);
        must(i + 1 == chain->count || filter->ids >= filter->ids_max);
        ids += filter->ids;
    }
    must(ids == chain->ids);
}

void registry_check_sets(struct registry *registry)
{
    uint64_t run_last = id_runs_last(registry->runs);
    must(filter_chain_last(&registry->chain) <= run_last);
    check_filters(&registry->chain);
    check_order(registry, run_last);
}
