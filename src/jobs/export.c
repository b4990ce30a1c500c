/* export.c -- a snapshot is opened once, which brings it to its moment, and closed, which writes
 * everything back; then its RocksDB holds all there is and is walked family by family. */
#include "jobs/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/name.h"
#include "core/object.h"
#include "jobs/file.h"
#include "jobs/record.h"
#include "store/embedded/ids/runs.h"
#include "store/embedded/identity.h"
#include "store/embedded/state/records.h"
#include "store/embedded/state/registry_record.h"
#include "store/embedded/state/state.h"

#define EXPORT_CACHE_BYTES (64u << 20)
#define EXPORT_SEGMENT_BYTES (1u << 20) /* nothing is appended */
#define NEVER_MS (INT64_C(1) << 40)

struct exporting {
    const struct export_request *request;
    struct effort *effort;
    struct store_identity identity;
    struct state *state;
    struct id_runs *ids; /* while they are walked */
    struct port_writer *writer;
    struct arena arena;
    struct definition *definitions; /* those whose cells go along */
    unsigned definitions_count;
    unsigned definitions_capacity;
    struct buf line;
    uint64_t lines;
    uint64_t sum; /* of them */
    enum err err;

    /* Of the series under way. */
    struct port_record cell;
};

static bool put(struct exporting *exporting, const struct port_record *record)
{
    port_record_write(&exporting->line, record);
    if (exporting->line.failed) exporting->err = ERR_CORRUPT;
    if (exporting->err == ERR_OK)
        exporting->err = port_writer_line(exporting->writer, buf_bytes(&exporting->line));
    if (exporting->err == ERR_OK && exporting->lines % 1024 == 0)
        exporting->err = tree_has_room(exporting->effort);
    if (exporting->err == ERR_OK && atomic_load(&exporting->effort->stop))
        exporting->err = ERR_BUSY;
    exporting->lines++;
    exporting->sum = port_sum(exporting->sum, buf_bytes(&exporting->line));
    atomic_fetch_add(&exporting->effort->done, 1);
    return exporting->err == ERR_OK;
}

static enum err scan(struct exporting *exporting, enum state_family family, struct bytes from,
                     struct bytes to, state_visit_fn *visit)
{
    if (exporting->err != ERR_OK) return exporting->err;
    enum err e = state_scan(exporting->state, family, from, to, visit, exporting);
    if (exporting->err == ERR_OK) exporting->err = e;
    return exporting->err;
}

/* Objects of one kind. */
static enum err scan_objects(struct exporting *exporting, char kind, state_visit_fn *visit)
{
    char from = kind;
    char to = (char)(kind + 1);
    return scan(exporting, STATE_OBJECTS, bytes_of(&from, 1), bytes_of(&to, 1), visit);
}

/* -- Definitions and rules --------------------------------------------------------------------- */

static void add_definition(struct exporting *exporting, const struct definition *definition)
{
    if (exporting->definitions_count == exporting->definitions_capacity) {
        unsigned capacity = exporting->definitions_capacity * 2 + 16;
        struct definition *more = arena_alloc(&exporting->arena, capacity * sizeof *more);
        if (exporting->definitions_count)
            memcpy(more, exporting->definitions, exporting->definitions_count * sizeof *more);
        exporting->definitions = more;
        exporting->definitions_capacity = capacity;
    }
    exporting->definitions[exporting->definitions_count++] = *definition;
}

static bool put_definition(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    struct definition definition;
    struct bytes copy = arena_copy(&exporting->arena, value);
    exporting->err = definition_decode(copy, &exporting->arena, &definition);
    if (exporting->err != ERR_OK) return false;
    definition.name = arena_copy(&exporting->arena, bytes_of(key.data + 1, key.size - 1));
    add_definition(exporting, &definition);
    return put(exporting, &(struct port_record){.kind = PORT_DEFINITION,
                                                .counter = definition.name,
                                                .mode = definition.mode,
                                                .value = copy});
}

/* Cells and states of an earlier generation are garbage, of a later one a rebuild under way. */
static bool is_current(const struct exporting *exporting, struct bytes counter, uint32_t generation)
{
    for (unsigned i = 0; i < exporting->definitions_count; i++)
        if (bytes_equal(exporting->definitions[i].name, counter))
            return exporting->definitions[i].generation == generation;
    return false;
}

static bool put_rules(struct exporting *exporting)
{
    struct buf text;
    buf_init(&text, 1u << 30);
    struct bytes key = object_key(&exporting->arena, OBJECT_META, META_RULES);
    enum err e = state_get(exporting->state, STATE_OBJECTS, key, &text);
    bool good = e == ERR_NOT_FOUND;
    if (e == ERR_OK)
        good = put(exporting, &(struct port_record){.kind = PORT_RULES, .text = buf_bytes(&text)});
    else if (e != ERR_NOT_FOUND)
        exporting->err = e;
    buf_release(&text);
    return good;
}

/* -- Cells ------------------------------------------------------------------------------------- */

static bool put_cell(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    uint64_t series;
    enum err e = cell_key_decode(key, &series, &exporting->cell.bucket);
    if (e == ERR_OK) e = cell_record_decode(value, &exporting->cell.cell);
    exporting->err = e;
    return e == ERR_OK && put(exporting, &exporting->cell);
}

/* Names the counter of the series; false: its cells stay here. */
static bool name_cells(struct exporting *exporting, struct bytes key)
{
    struct port_record *cell = &exporting->cell;
    uint32_t generation;
    char kind;
    *cell = (struct port_record){.kind = PORT_CELL};
    if (rule_key_split(key, &cell->tenant, &cell->counter, &generation, &cell->dimensions))
        return is_current(exporting, cell->counter, generation);
    return counter_key_split(key, &cell->tenant, &kind, &cell->counter) &&
           kind == COUNTER_KIND_DIRECT;
}

static bool put_series(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    struct bytes counter;
    int32_t duration;
    char to[SERIES_KEY_SIZE];
    exporting->err = series_record_decode(value, &duration, &counter);
    if (exporting->err != ERR_OK || key.size != SERIES_KEY_SIZE) return false;
    if (!name_cells(exporting, counter)) return true;
    exporting->cell.duration = duration;
    series_key(to, get_ordered_u64(key.data) + 1);
    return scan(exporting, STATE_CELLS, key, bytes_of(to, sizeof to), put_cell) == ERR_OK;
}

/* -- Statuses, states, ids --------------------------------------------------------------------- */

static bool put_status(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    struct usage_row row;
    if (!usage_row_decode(value, &row)) exporting->err = ERR_CORRUPT;
    return exporting->err == ERR_OK &&
           put(exporting, &(struct port_record){.kind = PORT_STATUS,
                                                .tenant = bytes_of(key.data + 1, key.size - 1),
                                                .text = row.status,
                                                .updated_ms = row.updated_ms});
}

/* 's' tenant NUL counter NUL generation entity */
static bool put_state(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    struct bytes rest = bytes_of(key.data + 1, key.size - 1);
    struct port_record state = {.kind = PORT_STATE, .value = value};
    state.tenant = bytes_split(&rest, '\0');
    state.counter = bytes_split(&rest, '\0');
    if (rest.size < 4) exporting->err = ERR_CORRUPT;
    if (exporting->err != ERR_OK) return false;
    if (!is_current(exporting, state.counter, get_ordered_u32(rest.data))) return true;
    state.entity = bytes_of(rest.data + 4, rest.size - 4);
    return put(exporting, &state);
}

static bool put_id(void *context, struct bytes key, struct bytes value)
{
    struct exporting *exporting = context;
    struct port_record id = {.kind = PORT_ID};
    enum err e = record_key_get(key, &id.print);
    if (e == ERR_OK) e = record_decode(value, &id.key);
    exporting->err = e;
    return e == ERR_OK && put(exporting, &id);
}

/* From a run; a newer one may have a newer record of it. */
static void put_event_id(void *context, struct id_span span, const struct id_entry *found)
{
    struct exporting *exporting = context;
    struct id_entry entry;
    if (exporting->err != ERR_OK) return;
    span.last = UINT64_MAX;
    exporting->err = id_runs_find(exporting->ids, span, found->print, &entry);
    if (exporting->err != ERR_OK) return;
    put(exporting, &(struct port_record){.kind = PORT_ID,
                                         .print = found->print,
                                         .key = {.exists = true,
                                                 .event = true,
                                                 .first_seen_ms = entry.first_seen_ms,
                                                 .digest = entry.digest}});
}

/* Keys with outcomes are in the state, event ids in files of their own. */
static enum err put_ids(struct exporting *exporting)
{
    char path[TREE_PATH_MAX];
    enum err e = scan(exporting, STATE_IDS, BYTES_NONE, BYTES_NONE, put_id);
    if (e == ERR_OK) e = tree_path(path, exporting->request->snapshot, "ids");
    const struct id_files files = {
        .io = &io_system, .dir = path, .identity = state_identity(exporting->state)};
    if (e == ERR_OK) e = id_runs_open(&exporting->ids, &files);
    if (e == ERR_OK) e = id_runs_scan(exporting->ids, 0, put_event_id, exporting);
    id_runs_free(exporting->ids);
    if (exporting->err == ERR_OK) exporting->err = e;
    return exporting->err;
}

/* -- All of it --------------------------------------------------------------------------------- */

static enum err write_all(struct exporting *exporting)
{
    const struct export_request *request = exporting->request;
    const struct port_record header = {.kind = PORT_HEADER,
                                       .sequence = request->position.last_sequence,
                                       .moment_ms = request->position.time_ms,
                                       .installation = exporting->identity.installation,
                                       .ids_shared = request->store->ids_shared,
                                       .ids = request->ids,
                                       .secret = exporting->identity.secret};
    if (!put(exporting, &header) || !put_rules(exporting)) return exporting->err;
    scan_objects(exporting, OBJECT_DEFINITION, put_definition);
    scan(exporting, STATE_SERIES, BYTES_NONE, BYTES_NONE, put_series);
    scan_objects(exporting, OBJECT_USAGE, put_status);
    scan_objects(exporting, OBJECT_STATE, put_state);
    if (exporting->err == ERR_OK && request->ids) put_ids(exporting);
    if (exporting->err == ERR_OK)
        put(exporting, &(struct port_record){.kind = PORT_END,
                                             .lines = exporting->lines,
                                             .summed = true,
                                             .sum = exporting->sum});
    return exporting->err;
}

static enum err settle(const struct export_request *request, struct reason *why)
{
    struct store *store;
    struct embedded_config config = *request->store;
    config.dir = request->snapshot;
    config.cache_bytes = EXPORT_CACHE_BYTES;
    config.segment_bytes = EXPORT_SEGMENT_BYTES;
    config.spare_segments = 0;
    config.checkpoint_ms = config.archive_ms = NEVER_MS;
    enum err e = embedded_open(&store, &config, why);
    if (e == ERR_OK) store_close(store);
    return e;
}

static enum err open_parts(struct exporting *exporting, struct reason *why)
{
    const struct export_request *request = exporting->request;
    char path[TREE_PATH_MAX];
    enum err e = identity_read(&exporting->identity, request->snapshot, why);
    if (e == ERR_OK) e = tree_path(path, request->snapshot, "state");
    const struct state_config config = {.dir = path, .cache_bytes = EXPORT_CACHE_BYTES};
    if (e == ERR_OK) e = state_open(&exporting->state, &config, why);
    if (e != ERR_OK) return e;
    for (int family = 0; family < STATE_FAMILY_COUNT; family++)
        atomic_fetch_add(&exporting->effort->total,
                         family == STATE_CELLS || (family == STATE_IDS && request->ids)
                             ? state_key_count(exporting->state, (enum state_family)family)
                             : 0);
    return port_writer_open(&exporting->writer, request->dir, request->name);
}

static void close_parts(struct exporting *exporting)
{
    state_close(exporting->state);
    buf_release(&exporting->line);
    arena_release(&exporting->arena);
}

enum err export_write(const struct export_request *request, struct effort *effort,
                      uint64_t *lines_out, struct reason *why_out)
{
    struct exporting exporting = {.request = request, .effort = effort};
    arena_init(&exporting.arena, 16u << 10);
    buf_init(&exporting.line, PORT_LINE_MAX);
    reason_clear(why_out);
    enum err e = settle(request, why_out);
    if (e == ERR_OK) e = open_parts(&exporting, why_out);
    if (e == ERR_OK) e = write_all(&exporting);
    if (exporting.writer) {
        int error = errno;
        enum err closed = port_writer_close(exporting.writer, e == ERR_OK);
        if (e != ERR_OK) errno = error;
        if (e == ERR_OK) e = closed;
    }
    if (e == ERR_STORAGE && !reason_given(why_out))
        reason_say(why_out, "the export could not be written: %s", strerror(errno));
    *lines_out = exporting.lines;
    close_parts(&exporting);
    return e;
}
