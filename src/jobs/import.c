/* import.c -- the lines that a round has for a lane become commits of that lane. */
#include "jobs/import.h"

#include "commit/lanes.h"
#include "core/mark.h"
#include "core/name.h"
#include "core/object.h"
#include "core/reconcile.h"
#include "jobs/import_history.h"
#include "jobs/import_internal.h"

#define CHUNK_OPS_MAX 1000u
#define CELL_WEIGHT 64u /* what a cell weighs beyond its key: its own time, and two extremes */
#define ID_WEIGHT 64u

/* A commit under way. */
struct chunk {
    struct importer *importer;
    const struct import_lane *lane;
    struct arena arena;
    struct rules *rules; /* held */
    struct op *ops;
    uint32_t count;
    uint32_t count_max;
    size_t weight;
    uint64_t position; /* where the lane is once this is durable */
    struct reason *why;
};

/* -- Which lane a line is for ------------------------------------------------------------------ */

static bool is_of_tenant(const struct import_lane *lane, struct bytes tenant)
{
    return lanes_index(lane->count, tenant) == lane->index;
}

static bool is_of_only(const struct import_lane *lane, const struct port_record *record)
{
    bool about_rules =
        record->kind == PORT_STATE || (record->kind == PORT_CELL && record->dimensions.data);
    return about_rules && bytes_equal(record->counter, lane->only);
}

static bool is_for(const struct import_lane *lane, const struct import_line *line)
{
    const struct port_record *record = &line->record;
    if (line->number <= lane->position) return false;
    if (lane->only.size && !is_of_only(lane, record)) return false;
    switch (record->kind) {
    case PORT_CELL:
    case PORT_STATE:
    case PORT_STATUS:
    case PORT_MARK:
        return is_of_tenant(lane, record->tenant);
    case PORT_ID:
        return true;
    case PORT_EVENT:
    case PORT_DUPLICATE:
        return is_of_tenant(lane, record->tenant) && import_history_wants(lane, record);
    default: /* these were dealt with before, or are for people to read */
        return false;
    }
}

bool import_has_part(const struct importer *importer, const struct import_lane *lane)
{
    for (uint32_t i = 0; i < importer->round_count; i++)
        if (is_for(lane, &importer->round[i])) return true;
    return false;
}

/* -- Lines as ops ------------------------------------------------------------------------------ */

static const struct hash_secret *secret_of(const struct chunk *chunk)
{
    return &chunk->lane->with->store->secret;
}

static void add_op(struct chunk *chunk, struct op op)
{
    chunk->ops[chunk->count++] = op;
    chunk->weight += op.weight;
}

/* Finds the generation that a rule counter's cells have here. */
static enum err find_generation(struct chunk *chunk, struct bytes counter, uint32_t *generation_out)
{
    *generation_out = chunk->lane->only_generation;
    if (chunk->lane->only.size) return ERR_OK;
    const struct definition *definition = rules_find(chunk->rules, counter);
    if (definition) *generation_out = definition->generation;
    if (!definition)
        reason_say(chunk->why, "counter %.*s is gone", (int)counter.size, counter.data);
    return definition ? ERR_OK : ERR_CONFLICT;
}

/* Names the entity to be counted anew once this cell is in its counter. NULL: no entry reconciles
 * it, or the cell goes into a generation that no reader goes by yet. */
static struct mark_change *mark_of_cell(struct chunk *chunk, const struct port_record *record)
{
    const struct definition *definition = rules_find(chunk->rules, record->counter);
    if (chunk->lane->only.size || !record->dimensions.data || !definition) return NULL;
    struct mark_place *place = mark_of_set(&chunk->arena, secret_of(chunk), definition,
                                           record->tenant, record->dimensions);
    if (!place) return NULL;
    struct mark_change *change = arena_zalloc(&chunk->arena, sizeof *change);
    change->place = *place;
    return change;
}

static enum err add_cell(struct chunk *chunk, const struct port_record *record)
{
    struct bytes key;
    uint32_t generation;
    if (record->dimensions.data) {
        enum err e = find_generation(chunk, record->counter, &generation);
        if (e != ERR_OK) return e;
        key = rule_key(&chunk->arena, record->tenant, record->counter, generation,
                       record->dimensions);
    } else {
        char room[COUNTER_KEY_SIZE_MAX];
        key = arena_copy(&chunk->arena, counter_key(room, record->tenant, record->counter));
    }
    struct mark_change *mark = mark_of_cell(chunk, record);
    add_op(chunk, (struct op){.kind = OP_IMPORT,
                              .mark = mark,
                              .counter = key,
                              .tenant = bytes_of(key.data, record->tenant.size),
                              .counter_print = fingerprint_of(secret_of(chunk), key),
                              .duration = record->duration,
                              .bucket = record->bucket,
                              .imported = &record->cell,
                              .weight = rule_key_weight(key) + CELL_WEIGHT +
                                        (mark ? mark_weight(mark) : 0)});
    return ERR_OK;
}

static enum err add_state(struct chunk *chunk, const struct port_record *record)
{
    uint32_t generation;
    enum err e = find_generation(chunk, record->counter, &generation);
    if (e != ERR_OK) return e;
    struct bytes key = object_state_key(&chunk->arena, record->tenant, record->counter, generation,
                                        record->entity);
    add_op(chunk, propose_object(&chunk->arena, secret_of(chunk), key, record->value));
    return ERR_OK;
}

static void add_status(struct chunk *chunk, const struct port_record *record)
{
    const struct usage_row row = {.status = record->text, .updated_ms = record->updated_ms};
    add_op(chunk, propose_object(&chunk->arena, secret_of(chunk),
                                 object_key(&chunk->arena, OBJECT_USAGE, record->tenant),
                                 usage_row_encode(&chunk->arena, &row)));
}

/* An entry that this server has not, or not for the tenant, has nobody who would count it. */
static void add_mark(struct chunk *chunk, const struct port_record *record)
{
    const struct reconcile *reconcile = reconcile_find(chunk->rules, record->reconcile);
    if (!reconcile || !reconcile_has_tenant(reconcile, record->tenant)) return;
    if (!mark_is_entity(record->dimensions, reconcile)) return;
    struct mark_change *change = arena_zalloc(&chunk->arena, sizeof *change);
    change->step = MARK_REQUEST;
    change->place = mark_place_of(&chunk->arena, secret_of(chunk), reconcile->name, record->tenant,
                                  record->dimensions);
    add_op(chunk, propose_mark(record->tenant, change));
}

static void add_id(struct chunk *chunk, const struct port_record *record)
{
    add_op(chunk, (struct op){.kind = OP_IMPORT_ID,
                              .key = record->print,
                              .imported_id = &record->key,
                              .weight = record->key.outcome.size + ID_WEIGHT});
}

static enum err add_record(struct chunk *chunk, const struct port_record *record)
{
    switch (record->kind) {
    case PORT_CELL:
        return add_cell(chunk, record);
    case PORT_STATE:
        return add_state(chunk, record);
    case PORT_STATUS:
        add_status(chunk, record);
        return ERR_OK;
    case PORT_MARK:
        add_mark(chunk, record);
        return ERR_OK;
    case PORT_ID:
        add_id(chunk, record);
        return ERR_OK;
    case PORT_EVENT:
    case PORT_DUPLICATE:
        add_op(chunk, import_history_op(chunk->lane, &chunk->arena, record));
        import_history_take(chunk->lane, record);
        return ERR_OK;
    default:
        unreachable_state(record->kind);
    }
}

/* -- Commits ----------------------------------------------------------------------------------- */

static bool chunk_is_full(const struct chunk *chunk)
{
    return chunk->count == chunk->count_max || chunk->weight >= chunk->lane->with->batch_weight / 2;
}

/* Fills the chunk up to what a commit takes, or to the round's end for a lane that has
 * all of it. */
static enum err fill_chunk(struct chunk *chunk)
{
    const struct importer *importer = chunk->importer;
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < importer->round_count && e == ERR_OK; i++) {
        const struct import_line *line = &importer->round[i];
        if (!is_for(chunk->lane, line)) continue;
        if (chunk_is_full(chunk)) return ERR_OK;
        e = add_record(chunk, &line->record);
        chunk->position = line->number;
    }
    chunk->position = importer_filled(importer);
    return e;
}

static enum err commit_chunk(struct chunk *chunk)
{
    enum err e = propose_all(chunk->lane->with, chunk->ops, chunk->count, BYTES(" import"));
    if (e == ERR_STORAGE || e == ERR_CONFLICT) return ERR_BUSY;
    if (e != ERR_OK) reason_say(chunk->why, "%s", err_sentence(e));
    return e;
}

static void chunk_begin(struct chunk *chunk, struct importer *importer,
                        const struct import_lane *lane, struct reason *why)
{
    uint32_t most = lane->with->batch_ops < CHUNK_OPS_MAX ? lane->with->batch_ops : CHUNK_OPS_MAX;
    *chunk = (struct chunk){.importer = importer, .lane = lane, .why = why};
    chunk->count_max = most > 3 ? most : 3;
    chunk->count = lane->history.taken ? 2 : 1; /* the first ones are the marks */
    arena_init(&chunk->arena, 256u << 10);
    chunk->ops = arena_alloc(&chunk->arena, chunk->count_max * sizeof *chunk->ops);
    chunk->rules = rulebook_hold(lane->with->rulebook);
}

/* With the marks, which say what it takes. */
static enum err end_chunk(struct chunk *chunk, struct import_lane *lane, import_mark_fn *mark,
                          void *context)
{
    chunk->ops[0] = mark(context, &chunk->arena, chunk->position);
    if (lane->history.taken) chunk->ops[1] = import_history_mark(lane, &chunk->arena);
    enum err e = commit_chunk(chunk);
    if (e != ERR_OK) return e;
    lane->position = chunk->position;
    import_history_taken(lane);
    return ERR_OK;
}

static void chunk_release(struct chunk *chunk)
{
    rules_release(chunk->rules);
    arena_release(&chunk->arena);
}

enum err import_commit(struct importer *importer, struct import_lane *lane, import_mark_fn *mark,
                       void *context, struct reason *why_out)
{
    struct chunk chunk;
    import_history_begin(lane);
    chunk_begin(&chunk, importer, lane, why_out);
    enum err e = fill_chunk(&chunk);
    if (e == ERR_OK) e = end_chunk(&chunk, lane, mark, context);
    chunk_release(&chunk);
    return e;
}

enum err import_note(struct importer *importer, struct import_lane *lane, uint64_t position,
                     import_mark_fn *mark, void *context, struct reason *why_out)
{
    struct chunk chunk;
    chunk_begin(&chunk, importer, lane, why_out);
    chunk.position = position;
    enum err e = end_chunk(&chunk, lane, mark, context);
    chunk_release(&chunk);
    return e;
}
