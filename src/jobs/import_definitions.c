/* import_definitions.c -- the rule counters of an export become those of a lane, matched by name
 * and mode. Their values are more than their history from then on, and their definitions say so. */
#include "core/object.h"
#include "jobs/import_internal.h"

struct merging {
    const struct importer *importer;
    const struct caretaker *with;
    struct arena arena;
    struct op *ops;
    uint32_t count;
    uint64_t generation;
    struct bytes generation_before; /* as stored */
    struct reason *why;
};

static enum err read_object(struct merging *merging, struct bytes key, struct bytes *value_out)
{
    struct store *store = merging->with->store;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&store->view, key, &value);
    *value_out = e == ERR_OK ? arena_copy(&merging->arena, buf_bytes(&value)) : BYTES_NONE;
    buf_release(&value);
    if (e == ERR_STORAGE) e = ERR_BUSY;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err merge_one(struct merging *merging, const struct port_record *record)
{
    const struct caretaker *config = merging->with;
    struct bytes key = object_key(&merging->arena, OBJECT_DEFINITION, record->counter);
    struct bytes stored;
    struct definition definition;
    enum err e = read_object(merging, key, &stored);
    if (e == ERR_OK)
        e = definition_decode(stored.size ? stored : record->value, &merging->arena, &definition);
    if (e != ERR_OK) return e;
    if (definition.mode != record->mode) {
        reason_say(merging->why, "counter %.*s is %s here and %s in the export",
                   (int)record->counter.size, record->counter.data,
                   counter_mode_names[definition.mode], counter_mode_names[record->mode]);
        return ERR_CONFLICT;
    }
    if (stored.size && definition.adjusted) return ERR_OK;
    if (!stored.size) {
        definition.generation = (uint32_t)++merging->generation;
        definition.since = (uint64_t)clock_now_ms(config->clock);
    }
    definition.adjusted = true;
    merging->ops[merging->count++] =
        propose_object_if(&merging->arena, &config->store->secret, key, stored,
                          definition_bytes(&merging->arena, &definition));
    return ERR_OK;
}

static enum err merge_all(struct merging *merging)
{
    const struct importer *importer = merging->importer;
    struct bytes key = object_key(&merging->arena, OBJECT_META, META_GENERATION);
    enum err e = read_object(merging, key, &merging->generation_before);
    if (e == ERR_OK && merging->generation_before.size &&
        !object_number_decode(merging->generation_before, &merging->generation))
        e = ERR_CORRUPT;
    uint64_t before = merging->generation;
    for (unsigned i = 0; i < importer->definitions_count && e == ERR_OK; i++)
        e = merge_one(merging, &importer->definitions[i]);
    if (e == ERR_OK && merging->generation != before)
        merging->ops[merging->count++] = propose_object_if(
            &merging->arena, &merging->with->store->secret, key, merging->generation_before,
            object_number(&merging->arena, merging->generation));
    return e;
}

static enum err commit_definitions(struct merging *merging)
{
    if (merging->count == 0) return ERR_OK;
    enum err e = propose_all(merging->with, merging->ops, merging->count, BYTES_NONE);
    return e == ERR_OK ? ERR_OK : ERR_BUSY; /* what is stored is read again then */
}

enum err import_definitions(struct importer *importer, const struct import_lane *lane,
                            bool *changed_out, struct reason *why_out)
{
    struct merging merging = {.importer = importer, .with = lane->with, .why = why_out};
    arena_init(&merging.arena, 16u << 10);
    merging.ops =
        arena_alloc(&merging.arena, (importer->definitions_count + 1) * sizeof *merging.ops);
    pthread_mutex_lock(lane->with->enacting);
    enum err e = merge_all(&merging);
    if (e == ERR_OK) e = commit_definitions(&merging);
    pthread_mutex_unlock(lane->with->enacting);
    *changed_out = merging.count > 0;
    arena_release(&merging.arena);
    return e;
}

enum err import_only(const struct importer *importer, struct import_lane *lane,
                     struct bytes counter, enum counter_mode mode, uint32_t generation)
{
    for (unsigned i = 0; i < importer->definitions_count; i++) {
        if (!bytes_equal(importer->definitions[i].counter, counter)) continue;
        if (importer->definitions[i].mode != mode) return ERR_CONFLICT;
        lane->only = importer->definitions[i].counter;
        lane->only_generation = generation;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}
