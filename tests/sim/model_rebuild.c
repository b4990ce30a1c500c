/* model_rebuild.c -- what becomes of whole counters: given a generation, counted again, forgotten.
 *
 * From SPEC 7: a new counter counts from when its rules come into force; a rebuild is
 * refused once retention has dropped events that went into a total of all time, or something else
 * than events went into it. */
#include "base/must.h"
#include "model.h"

void model_enact(struct model *model, const struct ruleset *rules, int64_t time_ms)
{
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        struct model_counter *counter = &model->counters[i];
        if (!rules->counters[i].there || counter->known) continue;
        *counter = (struct model_counter){.known = true,
                                          .generation = ++model->generation,
                                          .since_ms = time_ms,
                                          .first_ms = INT64_MAX};
    }
}

bool model_keeps_totals(const struct ruleset_counter *counter)
{
    if (counter->mode == RULESET_SERIES) return counter->granularities[0] == 0;
    return counter->mode == RULESET_PERSISTENT;
}

enum err model_may_rebuild(const struct model *model, const struct ruleset *rules, unsigned counter,
                           bool force)
{
    if (!rules || !rules->counters[counter].there) return ERR_NOT_FOUND;
    if (force || !model_keeps_totals(&rules->counters[counter])) return ERR_OK;
    if (model->counters[counter].adjusted) return ERR_HISTORY;
    return model->retained_ms > model->counters[counter].since_ms ? ERR_HISTORY : ERR_OK;
}

struct model_rebuild *model_rebuild_of(struct model *model, uint32_t generation)
{
    for (unsigned i = 0; i < model->rebuilds_count; i++) {
        struct model_rebuild *rebuild = &model->rebuilds[i];
        if (rebuild->progress == MODEL_RUNNING && rebuild->generation == generation) return rebuild;
    }
    return NULL;
}

bool model_is_garbage(const struct model *model, uint32_t generation)
{
    for (unsigned i = 0; i < model->garbage_count; i++)
        if (model->garbage[i] == generation) return true;
    return false;
}

void model_add_garbage(struct model *model, uint32_t generation)
{
    if (model_is_garbage(model, generation)) return;
    must(model->garbage_count < MODEL_GENERATIONS_MAX);
    model->garbage[model->garbage_count++] = generation;
}

void model_end_garbage(struct model *model, uint32_t generation)
{
    for (unsigned i = 0; i < model->garbage_count; i++)
        if (model->garbage[i] == generation)
            model->garbage[i--] = model->garbage[--model->garbage_count];
}

bool model_has_generation(const struct model *model, uint32_t generation)
{
    for (unsigned i = 0; i < model->cells_count; i++)
        if (model->cells[i].generation == generation) return true;
    for (unsigned i = 0; i < model->entities_count; i++)
        if (model->entities[i].generation == generation) return true;
    return false;
}
