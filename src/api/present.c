/* present.c -- what a rule counter says now. */
#include "api/present.h"

#include "core/cell.h"

bool present_kept(const struct definition *definition, int32_t duration)
{
    if (definition->mode != MODE_SERIES) return duration == present_duration(definition);
    for (unsigned i = 0; i < definition->granularities_count; i++)
        if (definition->granularities[i] == duration) return true;
    return false;
}

enum err present_read(struct store *store, const struct definition *definition,
                      const struct cell_ref *ref, int64_t bucket, int64_t now_ms, enum read_how how,
                      struct cell *cell_out)
{
    enum err e = store->ops->get(store, ref, bucket, how, cell_out);
    if (e == ERR_NOT_FOUND) {
        *cell_out = cell_absent();
        return ERR_OK;
    }
    if (e != ERR_OK) return e;
    cell_out->exists = true;
    if (definition->mode == MODE_WINDOWED && now_ms >= window_end(cell_out)) {
        cell_out->added = 0;
        cell_out->subbed = 0;
    }
    return ERR_OK;
}
