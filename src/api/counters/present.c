/* present.c -- what a rule counter says now. */
#include "api/counters/present.h"

#include "core/cell.h"

bool present_kept(const struct definition *definition, int32_t duration)
{
    if (definition->mode != MODE_SERIES) return duration == present_duration(definition);
    for (unsigned i = 0; i < definition->granularities_count; i++)
        if (definition->granularities[i] == duration) return true;
    return false;
}

/* A window from before time was set back is shown as if time had been right when it began. */
static void present_window(struct cell *cell, const struct moment *moment)
{
    int64_t earlier_ms = cell->start_ms - moment_written(moment, cell->start_ms);
    if (window_over(cell, moment)) cell->added = cell->subbed = 0;
    cell->start_ms -= earlier_ms;
    cell->expires_ms -= earlier_ms;
}

enum err present_read(struct view *view, const struct definition *definition,
                      const struct cell_ref *ref, int64_t bucket, const struct moment *moment,
                      enum read_how how, struct cell *cell_out)
{
    enum err e = view_get(view, ref, bucket, how, cell_out);
    if (e == ERR_NOT_FOUND) {
        *cell_out = cell_absent();
        return ERR_OK;
    }
    if (e != ERR_OK) return e;
    cell_out->exists = true;
    if (definition->mode == MODE_WINDOWED) present_window(cell_out, moment);
    return ERR_OK;
}
