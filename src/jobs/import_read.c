/* import_read.c -- the file of an export, read through once to check it, and then in rounds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/bucket.h"
#include "jobs/import_internal.h"

#ifdef TALLY_SMALL_WORLD
#define ROUND_LINES_MAX 16u
#else
#define ROUND_LINES_MAX 8192u
#endif
#define ROUND_BYTES_MAX (4u << 20) /* a round ends with the line that passes this */
#define ROUND_CHUNK (256u << 10)

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
    if (e == ERR_OK && !port_record_read(importer->parser, line, arena, record_out, &wrong))
        return reason_err(why, ERR_CORRUPT, "line %llu of the export %s",
                          (unsigned long long)importer->at + 1, wrong);
    if (e == ERR_CORRUPT || e == ERR_NOT_FOUND)
        return reason_err(why, ERR_CORRUPT, "the export is cut short or damaged after line %llu",
                          (unsigned long long)importer->at);
    importer->at++;
    return e;
}

/* -- Reading it through ------------------------------------------------------------------------ */

/* A bucket whose start is no bucket's could never be read. */
static bool bucket_fits(const struct port_record *cell)
{
    if (cell->dimensions.data) return true;
    if (!bucket_has_name(cell->bucket, cell->duration)) return false;
    if (cell->duration < 0) return true;
    return cell->duration ? cell->bucket % cell->duration == 0 : cell->bucket == 0;
}

static void keep_header(struct importer *importer, const struct port_record *record)
{
    size_t size = record->lanes_count * sizeof *record->lanes;
    struct port_lane *lanes = arena_alloc(&importer->arena, size);
    memcpy(lanes, record->lanes, size);
    importer->header = *record;
    importer->header.lanes = lanes;
    importer->sequences =
        arena_zalloc(&importer->arena, record->lanes_count * sizeof *importer->sequences);
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

/* Events of a lane stand in the order of their sequences, and none is of a later moment. */
static const char *check_event(struct importer *importer, const struct port_record *record)
{
    const struct port_record *header = &importer->header;
    if (!header->events) return "is an event in an export without events";
    if (record->lane >= header->lanes_count) return "is of a lane that the header does not name";
    uint64_t sequence = record->event.sequence;
    uint64_t *before = &importer->sequences[record->lane];
    if (sequence <= *before) return "is an event that does not follow the one before it";
    if (sequence > header->lanes[record->lane].sequence || record->event.origin > sequence)
        return "is an event of a later moment than the export's";
    *before = sequence;
    return NULL;
}

/* Compares what one line says with those before it. NULL: it fits. */
static const char *check_record(struct importer *importer, const struct port_record *record)
{
    bool first = importer->at == 1;
    if (first != (record->kind == PORT_HEADER)) return "is a header in the wrong place, or none";
    switch (record->kind) {
    case PORT_HEADER:
        keep_header(importer, record);
        return NULL;
    case PORT_DEFINITION:
        if (has_definition(importer, record->counter)) return "defines a counter a second time";
        keep_definition(importer, record);
        return NULL;
    case PORT_CELL:
        if (!bucket_fits(record)) return "has a bucket that begins nowhere";
        if (record->dimensions.data && !has_definition(importer, record->counter))
            return "is about a counter that is not defined before it";
        return NULL;
    case PORT_STATE:
        return has_definition(importer, record->counter) ? NULL : "is of an undefined counter";
    case PORT_EVENT:
    case PORT_DUPLICATE:
        return check_event(importer, record);
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
        if (wrong)
            e = reason_err(why, ERR_CORRUPT, "line %llu of the export %s",
                           (unsigned long long)importer->at, wrong);
        atomic_store(&importer->effort->done, port_reader_offset(importer->reader));
        if (e == ERR_OK && atomic_load(&importer->effort->stop)) e = ERR_BUSY;
    }
    importer->lines = importer->at ? importer->at - 1 : 0;
    arena_release(&arena);
    return e;
}

enum err importer_open(struct importer **importer_out, const char *dir, const char *name,
                       struct effort *effort, struct reason *why_out)
{
    reason_clear(why_out);
    struct importer *importer = must_calloc(1, sizeof *importer);
    importer->effort = effort;
    snprintf(importer->dir, sizeof importer->dir, "%s", dir);
    snprintf(importer->name, sizeof importer->name, "%s", name);
    importer->parser = json_parser_new(PORT_LINE_MAX);
    importer->round = must_calloc(ROUND_LINES_MAX, sizeof *importer->round);
    arena_init(&importer->arena, 16u << 10);
    arena_init(&importer->round_arena, ROUND_CHUNK);
    enum err e = read_through(importer, why_out);
    if (e == ERR_OK) e = reopen(importer);
    if (e == ERR_NOT_FOUND && !reason_given(why_out))
        reason_say(why_out, "there is no export %s in %s", name, dir);
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
    arena_release(&importer->round_arena);
    arena_release(&importer->arena);
    free(importer->round);
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

/* -- Rounds ------------------------------------------------------------------------------------ */

enum err importer_seek(struct importer *importer, uint64_t lines)
{
    struct bytes line;
    enum err e = ERR_OK;
    while (e == ERR_OK && importer->at < lines) {
        e = port_reader_line(importer->reader, &line);
        importer->at++;
    }
    importer->ended = importer->at > importer->lines;
    return e;
}

enum err importer_fill(struct importer *importer, struct reason *why_out)
{
    enum err e = ERR_OK;
    must(!importer->ended);
    arena_reset(&importer->round_arena);
    importer->round_count = 0;
    while (e == ERR_OK && !importer->ended && importer->round_count < ROUND_LINES_MAX &&
           importer->round_arena.total < ROUND_BYTES_MAX) {
        struct import_line *line = &importer->round[importer->round_count];
        e = next_record(importer, &importer->round_arena, &line->record, why_out);
        line->number = importer->at;
        importer->round_count += e == ERR_OK;
        importer->ended = e == ERR_OK && line->record.kind == PORT_END;
    }
    atomic_store(&importer->effort->done,
                 port_reader_size(importer->reader) + port_reader_offset(importer->reader));
    if (e == ERR_OK && atomic_load(&importer->effort->stop)) e = ERR_BUSY;
    return e;
}

uint64_t importer_filled(const struct importer *importer)
{
    return importer->at;
}

bool importer_has_ended(const struct importer *importer)
{
    return importer->ended;
}
