/* import.c -- see the header. */
#include "jobs/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/bucket.h"
#include "core/mark.h"
#include "core/name.h"
#include "core/object.h"
#include "jobs/file.h"

#define CHUNK_OPS_MAX 1000u
#define CELL_WEIGHT 64u /* beyond its key: its own time, and two extremes */
#define ID_WEIGHT 64u

struct importer {
    struct caretaker config;
    char dir[TREE_PATH_MAX];
    char name[NAME_SIZE_MAX + 1];
    struct effort *effort;
    struct json_parser *parser;
    struct port_reader *reader;
    struct arena arena; /* of what is kept: header and definitions */
    struct port_record header;
    struct port_record *definitions;
    unsigned definitions_count;
    unsigned definitions_capacity;
    uint64_t lines;           /* of the file, the last not counted */
    uint64_t at;              /* lines taken */
    uint64_t sum;             /* of them */
    uint64_t sum_before;      /* of all but the last of them */
    struct bytes only;        /* the one counter that is taken; size 0: everything */
    uint32_t only_generation; /* where its cells go */
};

/* A chunk under way. */
struct chunk {
    struct importer *importer;
    struct arena arena;
    struct rules *rules; /* held */
    struct op *ops;
    uint32_t count;
    uint32_t count_max;
    size_t weight;
    bool end;
    struct reason *why;
};

/* -- Reading the file through ------------------------------------------------------------------ */

static enum err reopen(struct importer *importer)
{
    port_reader_close(importer->reader);
    importer->reader = NULL;
    importer->at = 0;
    importer->sum = 0;
    return port_reader_open(&importer->reader, importer->dir, importer->name);
}

static enum err next_record(struct importer *importer, struct arena *arena,
                            struct port_record *record_out, struct reason *why)
{
    struct bytes line;
    const char *wrong;
    enum err e = port_reader_line(importer->reader, &line);
    importer->sum_before = importer->sum;
    if (e == ERR_OK) importer->sum = port_sum(importer->sum, line);
    if (e == ERR_OK && !port_record_read(importer->parser, line, arena, record_out, &wrong)) {
        reason_say(why, "line %llu of the export %s", (unsigned long long)importer->at + 1, wrong);
        return ERR_CORRUPT;
    }
    if (e == ERR_CORRUPT || e == ERR_NOT_FOUND) {
        reason_say(why, "the export is cut short or damaged after line %llu",
                   (unsigned long long)importer->at);
        return ERR_CORRUPT;
    }
    importer->at++;
    return e;
}

/* A bucket that begins nowhere could never be read. */
static bool bucket_fits(const struct port_record *cell)
{
    if (cell->dimensions.data) return true;
    if (!bucket_has_name(cell->bucket)) return false;
    return cell->duration ? cell->bucket % cell->duration == 0 : cell->bucket == 0;
}

static void keep_definition(struct importer *importer, const struct port_record *record)
{
    if (importer->definitions_count == importer->definitions_capacity) {
        unsigned capacity = importer->definitions_capacity * 2 + 16;
        struct port_record *more = arena_alloc(&importer->arena, capacity * sizeof *more);
        if (importer->definitions_count)
            memcpy(more, importer->definitions, importer->definitions_count * sizeof *more);
        importer->definitions = more;
        importer->definitions_capacity = capacity;
    }
    struct port_record *kept = &importer->definitions[importer->definitions_count++];
    *kept = *record;
    kept->counter = arena_copy(&importer->arena, record->counter);
    kept->value = arena_copy(&importer->arena, record->value);
}

static bool has_definition(const struct importer *importer, struct bytes counter)
{
    for (unsigned i = 0; i < importer->definitions_count; i++)
        if (bytes_equal(importer->definitions[i].counter, counter)) return true;
    return false;
}

/* What one line says, against those before it. NULL: it fits. */
static const char *check_record(struct importer *importer, const struct port_record *record)
{
    bool first = importer->at == 1;
    if (first != (record->kind == PORT_HEADER)) return "is a header in the wrong place, or none";
    switch (record->kind) {
    case PORT_HEADER:
        importer->header = *record;
        return NULL;
    case PORT_DEFINITION:
        keep_definition(importer, record);
        return NULL;
    case PORT_CELL:
        if (!bucket_fits(record)) return "has a bucket that begins nowhere";
        if (record->dimensions.data && !has_definition(importer, record->counter))
            return "is about a counter that is not defined before it";
        return NULL;
    case PORT_STATE:
        return has_definition(importer, record->counter) ? NULL : "is of an undefined counter";
    case PORT_ID:
        return importer->header.ids ? NULL : "is an id in an export without ids";
    case PORT_END:
        if (record->lines != importer->at - 1) return "counts other lines than there are";
        return !record->summed || record->sum == importer->sum_before
                   ? NULL
                   : "has another checksum than the lines before it: one of them was changed";
    default:
        return NULL;
    }
}

static enum err read_through(struct importer *importer, struct reason *why)
{
    struct arena arena;
    struct port_record record = {0};
    arena_init(&arena, 64u << 10);
    enum err e = reopen(importer);
    if (e == ERR_OK) atomic_store(&importer->effort->total, 2 * port_reader_size(importer->reader));
    while (e == ERR_OK && record.kind != PORT_END) {
        arena_reset(&arena);
        e = next_record(importer, &arena, &record, why);
        const char *wrong = e == ERR_OK ? check_record(importer, &record) : NULL;
        if (wrong) {
            reason_say(why, "line %llu of the export %s", (unsigned long long)importer->at, wrong);
            e = ERR_CORRUPT;
        }
        atomic_store(&importer->effort->done, port_reader_offset(importer->reader));
        if (e == ERR_OK && atomic_load(&importer->effort->stop)) e = ERR_BUSY;
    }
    importer->lines = importer->at ? importer->at - 1 : 0;
    arena_release(&arena);
    return e;
}

enum err importer_open(struct importer **importer_out, const struct caretaker *config,
                       const char *dir, const char *name, struct effort *effort,
                       struct reason *why_out)
{
    reason_clear(why_out);
    struct importer *importer = must_calloc(1, sizeof *importer);
    importer->config = *config;
    importer->effort = effort;
    snprintf(importer->dir, sizeof importer->dir, "%s", dir);
    snprintf(importer->name, sizeof importer->name, "%s", name);
    importer->parser = json_parser_new(PORT_LINE_MAX);
    arena_init(&importer->arena, 16u << 10);
    enum err e = read_through(importer, why_out);
    if (e == ERR_OK) e = reopen(importer);
    if (e == ERR_NOT_FOUND && !reason_given(why_out))
        reason_say(why_out, "there is no such export");
    if (e == ERR_STORAGE) reason_say(why_out, "the export cannot be read: %s", strerror(errno));
    *importer_out = importer;
    if (e == ERR_OK) return ERR_OK;
    importer_close(importer);
    *importer_out = NULL;
    return e;
}

void importer_close(struct importer *importer)
{
    if (!importer) return;
    port_reader_close(importer->reader);
    json_parser_free(importer->parser);
    arena_release(&importer->arena);
    free(importer);
}

const struct port_record *importer_header(const struct importer *importer)
{
    return &importer->header;
}

uint64_t importer_lines(const struct importer *importer)
{
    return importer->lines;
}

enum err import_skip(struct importer *importer, uint64_t lines)
{
    struct bytes line;
    enum err e = ERR_OK;
    while (e == ERR_OK && importer->at < lines) {
        e = port_reader_line(importer->reader, &line);
        importer->at++;
    }
    return e;
}

/* -- Definitions ------------------------------------------------------------------------------- */

struct merging {
    struct importer *importer;
    struct arena arena;
    struct op *ops;
    uint32_t count;
    uint64_t generation;
    struct bytes generation_before; /* as stored */
    struct reason *why;
};

static enum err read_object(struct merging *merging, struct bytes key, struct bytes *value_out)
{
    struct store *store = merging->importer->config.store;
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
    const struct caretaker *config = &merging->importer->config;
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
    struct importer *importer = merging->importer;
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
            &merging->arena, &importer->config.store->secret, key, merging->generation_before,
            object_number(&merging->arena, merging->generation));
    return e;
}

static enum err commit_definitions(struct merging *merging)
{
    const struct caretaker *config = &merging->importer->config;
    struct bundle bundle = {.ops = merging->ops,
                            .count = merging->count,
                            .urgency = URGENCY_URGENT,
                            .atomic = true,
                            .whole = true,
                            .weighty = true};
    if (merging->count == 0) return ERR_OK;
    propose_fit(&bundle, config->batch_ops);
    enum err e = config->propose(config->context, &bundle);
    return e == ERR_OK ? ERR_OK : ERR_BUSY; /* what is so is read again */
}

enum err import_definitions(struct importer *importer, bool *changed_out, struct reason *why_out)
{
    struct merging merging = {.importer = importer, .why = why_out};
    arena_init(&merging.arena, 16u << 10);
    merging.ops =
        arena_alloc(&merging.arena, (importer->definitions_count + 1) * sizeof *merging.ops);
    pthread_mutex_lock(importer->config.enacting);
    enum err e = merge_all(&merging);
    if (e == ERR_OK) e = commit_definitions(&merging);
    pthread_mutex_unlock(importer->config.enacting);
    *changed_out = merging.count > 0;
    arena_release(&merging.arena);
    return e;
}

/* -- A chunk ----------------------------------------------------------------------------------- */

static void add_op(struct chunk *chunk, struct op op)
{
    chunk->ops[chunk->count++] = op;
    chunk->weight += op.weight;
}

/* The generation of a rule counter's cells here. */
static enum err find_generation(struct chunk *chunk, struct bytes counter, uint32_t *generation_out)
{
    *generation_out = chunk->importer->only_generation;
    if (chunk->importer->only.size) return ERR_OK;
    const struct definition *definition = rules_find(chunk->rules, counter);
    if (definition) *generation_out = definition->generation;
    if (!definition)
        reason_say(chunk->why, "counter %.*s is gone", (int)counter.size, counter.data);
    return definition ? ERR_OK : ERR_CONFLICT;
}

/* The entity to be counted anew once this cell is in its counter; NULL: nothing reconciles it, or
 * the cell goes into a generation that nobody reads yet. */
static struct mark_change *mark_of_cell(struct chunk *chunk, const struct port_record *record)
{
    const struct definition *definition = rules_find(chunk->rules, record->counter);
    if (chunk->importer->only.size || !record->dimensions.data || !definition) return NULL;
    struct mark_place *place = mark_of_set(&chunk->arena, &chunk->importer->config.store->secret,
                                           definition, record->tenant, record->dimensions);
    if (!place) return NULL;
    struct mark_change *change = arena_zalloc(&chunk->arena, sizeof *change);
    change->place = *place;
    return change;
}

static enum err add_cell(struct chunk *chunk, const struct port_record *record)
{
    const struct hash_secret *secret = &chunk->importer->config.store->secret;
    struct cell *cell = arena_alloc(&chunk->arena, sizeof *cell);
    struct bytes key;
    uint32_t generation;
    *cell = record->cell;
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
                              .counter_print = fingerprint_of(secret, key),
                              .duration = record->duration,
                              .bucket = record->bucket,
                              .imported = cell,
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
    add_op(chunk, propose_object(&chunk->arena, &chunk->importer->config.store->secret, key,
                                 record->value));
    return ERR_OK;
}

static void add_status(struct chunk *chunk, const struct port_record *record)
{
    const struct usage_row row = {.status = record->text, .updated_ms = record->updated_ms};
    add_op(chunk, propose_object(&chunk->arena, &chunk->importer->config.store->secret,
                                 object_key(&chunk->arena, OBJECT_USAGE, record->tenant),
                                 usage_row_encode(&chunk->arena, &row)));
}

static void add_id(struct chunk *chunk, const struct port_record *record)
{
    struct key_record *key = arena_alloc(&chunk->arena, sizeof *key);
    *key = record->key;
    add_op(chunk, (struct op){.kind = OP_IMPORT_ID,
                              .key = record->print,
                              .imported_id = key,
                              .weight = record->key.outcome.size + ID_WEIGHT});
}

/* Whether the line is about the one counter that is wanted. */
static bool is_wanted(const struct importer *importer, const struct port_record *record)
{
    if (importer->only.size == 0) return true;
    bool about_rules =
        record->kind == PORT_STATE || (record->kind == PORT_CELL && record->dimensions.data);
    return about_rules && bytes_equal(record->counter, importer->only);
}

static enum err add_record(struct chunk *chunk, const struct port_record *record)
{
    if (!is_wanted(chunk->importer, record)) return ERR_OK;
    switch (record->kind) {
    case PORT_CELL:
        return add_cell(chunk, record);
    case PORT_STATE:
        return add_state(chunk, record);
    case PORT_STATUS:
        add_status(chunk, record);
        return ERR_OK;
    case PORT_ID:
        add_id(chunk, record);
        return ERR_OK;
    default: /* dealt with before, or for people to read */
        return ERR_OK;
    }
}

static bool chunk_full(const struct chunk *chunk)
{
    return chunk->count == chunk->count_max ||
           chunk->weight >= chunk->importer->config.batch_weight / 2;
}

static enum err fill_chunk(struct chunk *chunk)
{
    struct importer *importer = chunk->importer;
    struct port_record record;
    enum err e = ERR_OK;
    while (e == ERR_OK && !chunk->end && !chunk_full(chunk)) {
        e = next_record(importer, &chunk->arena, &record, chunk->why);
        if (e == ERR_OK) e = add_record(chunk, &record);
        chunk->end = e == ERR_OK && record.kind == PORT_END;
    }
    return e;
}

static enum err commit_chunk(struct chunk *chunk)
{
    const struct caretaker *config = &chunk->importer->config;
    struct bundle bundle = {.ops = chunk->ops,
                            .count = chunk->count,
                            .urgency = URGENCY_BATCHED,
                            .tenant = BYTES(" import"), /* takes turns; no tenant has this name */
                            .atomic = true,
                            .whole = true,
                            .weighty = true};
    propose_fit(&bundle, config->batch_ops);
    enum err e = config->propose(config->context, &bundle);
    if (e == ERR_STORAGE || e == ERR_CONFLICT) return ERR_BUSY;
    if (e != ERR_OK) reason_say(chunk->why, "%s", err_sentence(e));
    return e;
}

static void chunk_begin(struct chunk *chunk, struct importer *importer, struct reason *why)
{
    uint32_t most =
        importer->config.batch_ops < CHUNK_OPS_MAX ? importer->config.batch_ops : CHUNK_OPS_MAX;
    *chunk = (struct chunk){.importer = importer, .why = why};
    chunk->count_max = most > 2 ? most : 2;
    chunk->count = 1; /* the first place is the mark's */
    arena_init(&chunk->arena, 256u << 10);
    chunk->ops = arena_alloc(&chunk->arena, chunk->count_max * sizeof *chunk->ops);
    chunk->rules = rulebook_hold(importer->config.rulebook);
}

enum err import_chunk_held(struct importer *importer, import_mark_fn *mark, void *context,
                           bool *more_out, struct reason *why_out)
{
    struct chunk chunk;
    chunk_begin(&chunk, importer, why_out);
    enum err e = fill_chunk(&chunk);
    if (e == ERR_OK) {
        chunk.ops[0] = mark(context, &chunk.arena, importer->at);
        e = commit_chunk(&chunk);
    }
    rules_release(chunk.rules);
    atomic_store(&importer->effort->done,
                 port_reader_size(importer->reader) + port_reader_offset(importer->reader));
    *more_out = e == ERR_OK && !chunk.end;
    if (e == ERR_OK && atomic_load(&importer->effort->stop)) e = ERR_BUSY;
    arena_release(&chunk.arena);
    return e;
}

enum err import_chunk(struct importer *importer, import_mark_fn *mark, void *context,
                      bool *more_out, struct reason *why_out)
{
    pthread_mutex_lock(importer->config.enacting);
    enum err e = import_chunk_held(importer, mark, context, more_out, why_out);
    pthread_mutex_unlock(importer->config.enacting);
    return e;
}

enum err import_only(struct importer *importer, struct bytes counter, enum counter_mode mode,
                     uint32_t generation)
{
    for (unsigned i = 0; i < importer->definitions_count; i++) {
        if (!bytes_equal(importer->definitions[i].counter, counter)) continue;
        if (importer->definitions[i].mode != mode) return ERR_CONFLICT;
        importer->only = importer->definitions[i].counter;
        importer->only_generation = generation;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}

uint64_t import_position(const struct importer *importer)
{
    return importer->at;
}
