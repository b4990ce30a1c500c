/* cell.c -- the arithmetic of one cell.
 *
 * Invariant of every existing cell of a direct counter: 0 <= subbed <= added <= INT64_MAX, hence
 * 0 <= net <= INT64_MAX. A rule without a floor may take `subbed` past `added`; both stay from 0 to
 * INT64_MAX, so net cannot leave 64 bits. `added` and `subbed` never fall. */
#include "core/cell.h"

static void cell_check(const struct cell *cell)
{
    must(cell->subbed >= 0);
    must(cell->added >= cell->subbed);
}

struct cell cell_absent(void)
{
    return (struct cell){.expires_ms = TIME_NONE, .start_ms = TIME_NONE};
}

enum err cell_increment(struct cell *cell, int64_t amount, int64_t max)
{
    cell_check(cell);
    must(amount >= 0);
    __int128 net = (__int128)cell->added - cell->subbed + amount;
    if (max != MAX_NONE && net > max) return ERR_LIMIT;
    int64_t added;
    if (__builtin_add_overflow(cell->added, amount, &added)) return ERR_OVERFLOW;
    cell->added = added;
    cell->exists = true;
    return ERR_OK;
}

enum err cell_decrement(struct cell *cell, int64_t amount)
{
    cell_check(cell);
    must(amount > 0);
    if (!cell->exists || cell->added - cell->subbed < amount) return ERR_NEGATIVE;
    cell->subbed += amount; /* cannot overflow: it stays at or below added */
    return ERR_OK;
}

enum err cell_set(struct cell *cell, int64_t target)
{
    cell_check(cell);
    must(target >= 0);
    int64_t net = cell->added - cell->subbed;
    int64_t added = cell->added;
    if (target > net && __builtin_add_overflow(cell->added, target - net, &added))
        return ERR_OVERFLOW;
    cell->added = added;
    if (target < net) cell->subbed += net - target;
    cell->exists = true;
    return ERR_OK;
}

enum err cell_raise(struct cell *cell, int64_t amount)
{
    must(amount > 0);
    int64_t added;
    if (__builtin_add_overflow(cell->added, amount, &added)) return ERR_OVERFLOW;
    cell->added = added;
    cell->exists = true;
    return ERR_OK;
}

enum err cell_lower(struct cell *cell, int64_t amount, bool floor_at_zero, int64_t *removed_out)
{
    must(amount > 0);
    int64_t net = cell->added - cell->subbed;
    int64_t most = net > 0 ? net : 0;
    int64_t removed = floor_at_zero && amount > most ? most : amount;
    int64_t subbed;
    *removed_out = removed;
    if (removed == 0) return ERR_OK;
    if (__builtin_add_overflow(cell->subbed, removed, &subbed)) return ERR_OVERFLOW;
    cell->subbed = subbed;
    cell->exists = true;
    return ERR_OK;
}

enum err cell_move(struct cell *cell, int64_t amount, const struct op_bounds *bounds)
{
    must(bounds->least >= 0);
    must(bounds->least <= bounds->most);
    int64_t net = cell->added - cell->subbed;
    __int128 target = (__int128)net + amount;
    bool above = target > bounds->most;
    bool below = target < bounds->least;
    if ((above || below) && !bounds->saturate) return ERR_LIMIT;
    if (above) target = bounds->most;
    if (below) target = bounds->least;
    return cell_set(cell, (int64_t)target);
}

void cell_extend(struct cell *cell, int64_t expires_ms)
{
    if (expires_ms == TIME_NONE) return;
    if (cell->expires_ms != TIME_NONE && expires_ms <= cell->expires_ms) return;
    cell->expires_ms = expires_ms;
    cell->exact = false;
}

bool cell_equal(const struct cell *a, const struct cell *b)
{
    return a->exists == b->exists && a->added == b->added && a->subbed == b->subbed &&
           a->expires_ms == b->expires_ms && a->start_ms == b->start_ms && a->exact == b->exact;
}
