/* export.c -- see the header. */
#include "jobs/export.h"

#include <errno.h>
#include <stdlib.h>

#include "core/event_id.h"
#include "core/mark.h"
#include "core/name.h"
#include "core/object.h"
#include "jobs/file.h"
#include "jobs/sequence_set.h"
#include "store/store.h"
#include "store/walk.h"

#define EVENTS_LOOK_BYTES (8u << 20) /* looked through at once */

/* A counter that rules keep, or kept. */
struct defined {
    struct bytes name;
    enum counter_mode mode;
    uint32_t generation; /* its cells' in the lane that defined it last */
    unsigned lane;       /* that lane, from 1 */
};

struct exporter {
    struct port_writer *writer;
    struct effort *effort;
    struct reason *why;
    struct port_record header;
    unsigned lane;      /* the one under way, from 1 */
    struct arena arena; /* holds the names of the definitions */
    struct defined *defined;
    unsigned defined_count;
    unsigned defined_capacity;
    struct buf line;
    uint64_t lines;
    uint64_t sum; /* port_sum of the lines */
    enum err err;

    struct port_record cell;    /* names the counter under way */
    struct sequence_set events; /* the lane's that are in the export */
};

/* Writes a line. False: the visitor that wrote it is to stop. */
static bool put(struct exporter *exporter, const struct port_record *record)
{
    port_record_write(&exporter->line, record);
    if (exporter->line.failed) exporter->err = ERR_CORRUPT;
    if (exporter->err == ERR_OK)
        exporter->err = port_writer_line(exporter->writer, buf_bytes(&exporter->line));
    if (exporter->err == ERR_OK && exporter->lines % 1024 == 0)
        exporter->err = tree_has_room(exporter->effort);
    if (exporter->err == ERR_OK && atomic_load(&exporter->effort->stop)) exporter->err = ERR_BUSY;
    exporter->lines++;
    exporter->sum = port_sum(exporter->sum, buf_bytes(&exporter->line));
    atomic_fetch_add(&exporter->effort->done, 1);
    return exporter->err == ERR_OK;
}

/* Notes how a walk of the store ended, unless something failed before. A database that cannot be
 * read is another matter than a file that cannot be written: it comes back. */
static enum err walked(struct exporter *exporter, enum err e)
{
    if (exporter->err == ERR_OK) exporter->err = e;
    return exporter->err;
}

static enum err walked_view(struct exporter *exporter, const struct view *view, enum err e)
{
    return walked(exporter, e == ERR_STORAGE && view->store->remote ? ERR_BUSY : e);
}

static enum err walk_objects(struct exporter *exporter, struct view *view, char kind,
                             store_object_fn *visit)
{
    if (exporter->err != ERR_OK) return exporter->err;
    return walked_view(exporter, view,
                       view_objects(view, bytes_of(&kind, 1), BYTES_NONE, visit, exporter));
}

/* -- Rules and definitions --------------------------------------------------------------------- */

/* The first lane's rules stand for all: lanes differ only for the moment of a reload. */
static enum err put_rules(struct exporter *exporter, struct view *view)
{
    struct buf text;
    struct arena arena;
    buf_init(&text, 1u << 30);
    arena_init(&arena, 1024);
    enum err e = view_object(view, object_key(&arena, OBJECT_META, META_RULES), &text);
    if (e == ERR_OK)
        put(exporter, &(struct port_record){.kind = PORT_RULES, .text = buf_bytes(&text)});
    arena_release(&arena);
    buf_release(&text);
    return walked_view(exporter, view, e == ERR_NOT_FOUND ? ERR_OK : e);
}

static struct defined *find_defined(const struct exporter *exporter, struct bytes name)
{
    for (unsigned i = 0; i < exporter->defined_count; i++)
        if (bytes_equal(exporter->defined[i].name, name)) return &exporter->defined[i];
    return NULL;
}

static struct defined *add_defined(struct exporter *exporter, struct bytes name)
{
    if (exporter->defined_count == exporter->defined_capacity) {
        exporter->defined_capacity = exporter->defined_capacity * 2 + 16;
        exporter->defined =
            must_realloc(exporter->defined, exporter->defined_capacity * sizeof *exporter->defined);
    }
    struct defined *defined = &exporter->defined[exporter->defined_count++];
    *defined = (struct defined){.name = arena_copy(&exporter->arena, name)};
    return defined;
}

static bool put_definition(void *context, struct bytes key, struct bytes value)
{
    struct exporter *exporter = context;
    struct bytes name = bytes_of(key.data + 1, key.size - 1);
    struct defined *defined = find_defined(exporter, name);
    struct definition definition;
    struct arena arena;
    bool first = !defined;
    arena_init(&arena, 4096);
    exporter->err = definition_decode(value, &arena, &definition);
    arena_release(&arena);
    if (exporter->err != ERR_OK) return false;
    if (first) defined = add_defined(exporter, name);
    if (first) defined->mode = definition.mode;
    defined->generation = definition.generation;
    defined->lane = exporter->lane;
    if (defined->mode != definition.mode)
        exporter->err = reason_err(exporter->why, ERR_CONFLICT,
                                   "counter %.*s is %s in one lane and %s in another; reload "
                                   "the rules first",
                                   (int)name.size, name.data, counter_mode_names[defined->mode],
                                   counter_mode_names[definition.mode]);
    if (!first) return exporter->err == ERR_OK;
    return put(exporter, &(struct port_record){.kind = PORT_DEFINITION,
                                               .counter = name,
                                               .mode = definition.mode,
                                               .value = value});
}

/* Cells and states of an earlier generation are garbage, of a later one a rebuild under way. */
static bool is_current(const struct exporter *exporter, struct bytes counter, uint32_t generation)
{
    const struct defined *defined = find_defined(exporter, counter);
    return defined && defined->lane == exporter->lane && defined->generation == generation;
}

/* -- Cells ------------------------------------------------------------------------------------- */

static bool name_cells(void *context, struct bytes key)
{
    struct exporter *exporter = context;
    struct port_record *cell = &exporter->cell;
    uint32_t generation;
    char kind;
    *cell = (struct port_record){.kind = PORT_CELL};
    if (rule_key_split(key, &cell->tenant, &cell->counter, &generation, &cell->dimensions))
        return is_current(exporter, cell->counter, generation);
    return counter_key_split(key, &cell->tenant, &kind, &cell->counter) &&
           kind == COUNTER_KIND_DIRECT;
}

static bool put_cell(void *context, int32_t duration, int64_t bucket, const struct cell *cell)
{
    struct exporter *exporter = context;
    exporter->cell.duration = duration;
    exporter->cell.bucket = bucket;
    exporter->cell.cell = *cell;
    return put(exporter, &exporter->cell);
}

static enum err put_cells(struct exporter *exporter, struct view *view)
{
    const struct walk_visitor visitor = {
        .counter = name_cells, .cell = put_cell, .context = exporter};
    if (exporter->err != ERR_OK) return exporter->err;
    return walked_view(exporter, view, walk_cells(view, &visitor));
}

/* -- Statuses, states, ids --------------------------------------------------------------------- */

static bool put_status(void *context, struct bytes key, struct bytes value)
{
    struct exporter *exporter = context;
    struct usage_row row;
    if (!usage_row_decode(value, &row)) exporter->err = ERR_CORRUPT;
    return exporter->err == ERR_OK &&
           put(exporter, &(struct port_record){.kind = PORT_STATUS,
                                               .tenant = bytes_of(key.data + 1, key.size - 1),
                                               .text = row.status,
                                               .updated_ms = row.updated_ms});
}

/* 's' tenant NUL counter NUL generation entity */
static bool put_state(void *context, struct bytes key, struct bytes value)
{
    struct exporter *exporter = context;
    struct bytes rest = bytes_of(key.data + 1, key.size - 1);
    struct port_record state = {.kind = PORT_STATE, .value = value};
    state.tenant = bytes_split(&rest, '\0');
    state.counter = bytes_split(&rest, '\0');
    if (rest.size < 4) exporter->err = ERR_CORRUPT;
    if (exporter->err != ERR_OK) return false;
    if (!is_current(exporter, state.counter, get_ordered_u32(rest.data))) return true;
    state.entity = bytes_of(rest.data + 4, rest.size - 4);
    return put(exporter, &state);
}

/* A row that is not pending says only when its entity was counted last, which another store's
 * scans will find out. */
static bool put_mark(void *context, struct bytes key, struct bytes value)
{
    struct exporter *exporter = context;
    struct port_record record = {.kind = PORT_MARK};
    struct mark mark;
    if (!mark_key_split(key, &record.reconcile, &record.tenant, &record.dimensions))
        exporter->err = ERR_CORRUPT;
    if (exporter->err != ERR_OK) return false;
    /* A damaged row has its entity counted, here and there. */
    if (mark_decode(value, &mark) && !mark.pending) return true;
    return put(exporter, &record);
}

/* A key's sequence says nothing elsewhere; an event's is what clients know it by. */
static bool put_id(void *context, struct fingerprint print, const struct key_record *record)
{
    struct exporter *exporter = context;
    struct port_record id = {.kind = PORT_ID, .print = print, .key = *record};
    struct event_id_note note;
    id.key.sequence = 0;
    if (!record->event) return put(exporter, &id);
    if (sequence_set_has(&exporter->events, record->sequence)) return true;
    if (!event_id_note_decode(record->outcome, &note)) exporter->err = ERR_CORRUPT;
    if (exporter->err != ERR_OK) return false;
    id.key.sequence = note.origin ? note.origin : record->sequence;
    id.key.outcome = note.owner;
    return put(exporter, &id);
}

static enum err put_ids(struct exporter *exporter, struct view *view)
{
    if (exporter->err != ERR_OK || !exporter->header.ids) return exporter->err;
    return walked_view(exporter, view, view_ids(view, put_id, exporter));
}

/* -- Events ------------------------------------------------------------------------------------ */

static bool put_event(void *context, const struct stored_event *event)
{
    struct exporter *exporter = context;
    if (!event->duplicate) sequence_set_add(&exporter->events, event->sequence);
    return put(exporter,
               &(struct port_record){.kind = event->duplicate ? PORT_DUPLICATE : PORT_EVENT,
                                     .event = *event,
                                     .lane = exporter->lane - 1});
}

static enum err read_retained(struct view *view, uint64_t *retained_out)
{
    struct arena arena;
    struct buf value;
    arena_init(&arena, 256);
    buf_init(&value, 256);
    *retained_out = 0;
    enum err e = view_object(view, object_key(&arena, OBJECT_META, META_RETAINED), &value);
    if (e == ERR_OK && !object_number_decode(buf_bytes(&value), retained_out)) e = ERR_CORRUPT;
    buf_release(&value);
    arena_release(&arena);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Those that retention has let go of are not shown, though they may still lie there. */
static enum err put_events(struct exporter *exporter, struct view *view)
{
    uint64_t retained_ms;
    uint64_t next = 0;
    sequence_set_release(&exporter->events);
    if (exporter->err != ERR_OK || !exporter->header.events) return exporter->err;
    enum err e = read_retained(view, &retained_ms);
    struct event_query query = {.upto = UINT64_MAX,
                                .arrived_from = retained_ms ? (int64_t)retained_ms : INT64_MIN,
                                .events = true,
                                .duplicates = true,
                                .budget = EVENTS_LOOK_BYTES};
    if (e != ERR_OK) return walked_view(exporter, view, e);
    do {
        query.after = next;
        e = view_events(view, &query, put_event, exporter, &next);
    } while (walked_view(exporter, view, e) == ERR_OK && next > 0);
    return exporter->err;
}

/* -- All of it --------------------------------------------------------------------------------- */

enum err exporter_open(struct exporter **exporter_out, const struct export_request *request,
                       struct effort *effort, struct reason *why_out)
{
    struct exporter *exporter = must_calloc(1, sizeof *exporter);
    *exporter_out = exporter;
    exporter->effort = effort;
    exporter->header = request->header;
    arena_init(&exporter->arena, 16u << 10);
    buf_init(&exporter->line, PORT_LINE_MAX);
    reason_clear(why_out);
    enum err e = port_writer_open(&exporter->writer, request->dir, request->name);
    if (e == ERR_OK) put(exporter, &exporter->header);
    return walked(exporter, e);
}

/* Progress takes the lanes to come to be as large as this one. */
static enum err expect_lines(struct exporter *exporter, struct view *view)
{
    uint64_t cells;
    struct store_stats stats;
    enum err e = walk_count(view, &cells);
    store_stats(view->store, &stats);
    uint64_t lines = cells + (exporter->header.ids ? stats.registry_ids : 0);
    uint64_t left = exporter->header.lanes_count - exporter->lane + 1;
    atomic_store(&exporter->effort->total, exporter->lines + left * lines);
    return walked_view(exporter, view, e);
}

enum err exporter_lane(struct exporter *exporter, struct view *view, struct reason *why_out)
{
    exporter->why = why_out;
    exporter->lane++;
    must(exporter->lane <= exporter->header.lanes_count);
    enum err e = expect_lines(exporter, view);
    if (e == ERR_OK && exporter->lane == 1) e = put_rules(exporter, view);
    if (e == ERR_OK) e = walk_objects(exporter, view, OBJECT_DEFINITION, put_definition);
    if (e == ERR_OK) e = put_cells(exporter, view);
    if (e == ERR_OK) e = walk_objects(exporter, view, OBJECT_USAGE, put_status);
    if (e == ERR_OK) e = walk_objects(exporter, view, OBJECT_STATE, put_state);
    if (e == ERR_OK) e = walk_objects(exporter, view, OBJECT_MARK, put_mark);
    if (e == ERR_OK) e = put_events(exporter, view);
    return e == ERR_OK ? put_ids(exporter, view) : e;
}

enum err exporter_close(struct exporter *exporter, enum err e, uint64_t *lines_out,
                        struct reason *why_out)
{
    const struct port_record end = {
        .kind = PORT_END, .lines = exporter->lines, .summed = true, .sum = exporter->sum};
    if (e == ERR_OK) put(exporter, &end);
    if (e == ERR_OK) e = exporter->err;
    if (exporter->writer) {
        int error = errno;
        enum err closed = port_writer_close(exporter->writer, e == ERR_OK);
        if (e != ERR_OK) errno = error;
        if (e == ERR_OK) e = closed;
    }
    if (e == ERR_STORAGE && !reason_given(why_out))
        reason_say(why_out, "the export could not be written: %s", strerror(errno));
    *lines_out = exporter->lines;
    sequence_set_release(&exporter->events);
    free(exporter->defined);
    buf_release(&exporter->line);
    arena_release(&exporter->arena);
    free(exporter);
    return e;
}
