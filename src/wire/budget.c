/* budget.c -- two counters a charge. */
#include "wire/budget.h"

static size_t share_max(const struct wire_budget *budget, const struct wire_share *share)
{
    return share == &budget->nobody ? budget->bytes_max / 8 : budget->bytes_max / 5 * 4;
}

static bool fits(const struct wire_share *share, size_t max, size_t more)
{
    size_t used = atomic_load_explicit(&share->bytes, memory_order_relaxed);
    return used <= max && more <= max - used;
}

bool budget_fits_all(const struct wire_budget *budget, size_t more)
{
    return fits(&budget->all, budget->bytes_max, more);
}

bool budget_fits_share(const struct wire_budget *budget, const struct wire_share *share,
                       size_t more)
{
    return fits(share, share_max(budget, share), more);
}

bool budget_is_half_free(const struct wire_budget *budget, const struct wire_share *share)
{
    return budget_fits_share(budget, share, share_max(budget, share) / 2) &&
           budget_fits_all(budget, budget->bytes_max / 2);
}

static void give(struct wire_share *share, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&share->bytes, bytes, memory_order_relaxed);
    must(before >= bytes);
}

/* Adding first and looking afterwards lets no two threads into the room that is left for one. */
static bool take(struct wire_share *share, size_t max, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&share->bytes, bytes, memory_order_relaxed);
    if (before <= max && bytes <= max - before) return true;
    give(share, bytes);
    return false;
}

bool budget_take(struct wire_budget *budget, struct wire_share *share, size_t bytes)
{
    if (!take(share, share_max(budget, share), bytes)) return false;
    if (take(&budget->all, budget->bytes_max, bytes)) return true;
    give(share, bytes);
    return false;
}

void budget_take_anyway(struct wire_budget *budget, struct wire_share *share, size_t bytes)
{
    atomic_fetch_add_explicit(&share->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&budget->all.bytes, bytes, memory_order_relaxed);
}

void budget_give(struct wire_budget *budget, struct wire_share *share, size_t bytes)
{
    give(share, bytes);
    give(&budget->all, bytes);
}

void budget_check_idle(const struct wire_budget *budget)
{
    must(atomic_load(&budget->all.bytes) == 0);
    must(atomic_load(&budget->nobody.bytes) == 0);
    must(atomic_load(&budget->all.beyond) == NULL);
    must(atomic_load(&budget->nobody.beyond) == NULL);
}
