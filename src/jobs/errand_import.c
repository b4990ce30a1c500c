/* errand_import.c -- an import reads a round of lines and gives each lane what is for it.
 *
 * An object in each lane's store says how far the lane is: the number of the errand, and how many
 * lines are done there. It is put with each of the lane's commits. A lane whose object is about
 * another errand has nothing of this one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "core/object.h"
#include "jobs/errand_internal.h"
#include "jobs/import_history.h"

#define POSITION_SIZE 16u

/* One lane's part of the work. */
struct lane_part {
    struct import_lane lane;
    uint64_t job;
    struct bytes stored; /* the object as the store has it; size 0: there is none */
    char room[POSITION_SIZE];
};

struct importing {
    struct errands *errands;
    struct job_record *job;
    struct reason *why;
    struct importer *importer;
    struct arena arena;      /* holds what the parts have read */
    struct lane_part *parts; /* one for each lane */
    unsigned count;
};

/* -- How far a lane is ------------------------------------------------------------------------- */

static struct bytes position_encode(char room[POSITION_SIZE], uint64_t job, uint64_t lines)
{
    put_u64(room, job);
    put_u64(room + 8, lines);
    return bytes_of(room, POSITION_SIZE);
}

/* The record of an errand that an older version began says how far it is: there was one lane. */
static uint64_t position_of(const struct importing *importing, const struct lane_part *part)
{
    if (part->stored.size == POSITION_SIZE && get_u64(part->stored.data) == part->job)
        return get_u64(part->stored.data + 8);
    return importing->count == 1 ? importing->job->position : 0;
}

static enum err open_part(struct importing *importing, unsigned index)
{
    struct lane_part *part = &importing->parts[index];
    struct lane *lane = &importing->errands->config.lanes->items[index];
    struct bytes key = object_key(&importing->arena, OBJECT_META, META_IMPORT);
    struct buf value;
    *part = (struct lane_part){.job = importing->job->id};
    part->lane = (struct import_lane){.with = &lane->caretaker,
                                      .index = index,
                                      .count = importing->count,
                                      .ids_shared = importing->errands->config.ids_shared};
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&lane->store->view, key, &value);
    if (e == ERR_OK) part->stored = arena_copy(&importing->arena, buf_bytes(&value));
    buf_release(&value);
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    part->lane.position = position_of(importing, part);
    return e == ERR_STORAGE ? ERR_BUSY : e;
}

static struct op mark_part(void *context, struct arena *arena, uint64_t lines)
{
    struct lane_part *part = context;
    char *room = arena_alloc(arena, POSITION_SIZE);
    return propose_object_if(arena, &part->lane.with->store->secret,
                             object_key(arena, OBJECT_META, META_IMPORT), part->stored,
                             position_encode(room, part->job, lines));
}

/* -- Before the first line --------------------------------------------------------------------- */

/* Fingerprints of ids mean something only under the key that they were made with. */
static enum err check_ids(const struct importing *importing)
{
    const struct port_record *header = importer_header(importing->importer);
    const struct store *store = importing->errands->config.lanes->items[0].store;
    if (!header->ids || memcmp(&header->secret, &store->secret, sizeof store->secret) == 0)
        return ERR_OK;
    return reason_err(importing->why, ERR_CONFLICT,
                      "the ids in this export were made with another key; `tally import NAME "
                      "--prepare` makes an empty %s that can take them",
                      store->remote ? "schema" : "data directory");
}

static enum err refresh_rules(const struct importing *importing)
{
    const struct errand_config *config = &importing->errands->config;
    struct buf report;
    buf_init(&report, sizeof importing->why->text);
    enum err e = config->refresh(config->refresh_context, &report);
    if (e != ERR_OK) reason_say(importing->why, "%.*s", (int)report.size, report.data);
    buf_release(&report);
    return e;
}

static enum err define(struct importing *importing)
{
    bool any = false;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++) {
        bool changed = false;
        e = import_definitions(importing->importer, &importing->parts[i].lane, &changed,
                               importing->why);
        any |= changed;
    }
    return e == ERR_OK && any ? refresh_rules(importing) : e;
}

static enum err open_history(struct importing *importing)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++)
        e = import_history_open(importing->importer, &importing->parts[i].lane, &importing->arena,
                                importing->why);
    return e;
}

static enum err open_parts(struct importing *importing)
{
    uint64_t least = UINT64_MAX;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++) {
        e = open_part(importing, i);
        if (importing->parts[i].lane.position < least) least = importing->parts[i].lane.position;
    }
    return e == ERR_OK ? importer_seek(importing->importer, least) : e;
}

/* -- Rounds ------------------------------------------------------------------------------------ */

static enum err part_ended(struct lane_part *part, enum err e)
{
    if (e == ERR_OK) part->stored = position_encode(part->room, part->job, part->lane.position);
    crash_point("import.after_chunk");
    return e;
}

static enum err commit_part(struct importing *importing, struct lane_part *part)
{
    pthread_mutex_lock(part->lane.with->enacting);
    enum err e = import_commit(importing->importer, &part->lane, mark_part, part, importing->why);
    pthread_mutex_unlock(part->lane.with->enacting);
    return part_ended(part, e);
}

/* Events of its own that come to a lane from here on do not keep it from taking the export's. */
static enum err begin_history(struct importing *importing)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++) {
        struct lane_part *part = &importing->parts[i];
        if (part->lane.position > 0 || !import_history_has_more(importing->importer, &part->lane))
            continue;
        import_history_begin(&part->lane);
        e = import_note(importing->importer, &part->lane, 1, mark_part, part, importing->why);
        e = part_ended(part, e);
    }
    return e;
}

/* All of the export's history is in each lane: another import need not look for more. */
static enum err end_history(struct importing *importing)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++) {
        struct lane_part *part = &importing->parts[i];
        if (!import_history_has_more(importing->importer, &part->lane)) continue;
        import_history_take_all(importing->importer, &part->lane);
        e = import_note(importing->importer, &part->lane, importer_filled(importing->importer),
                        mark_part, part, importing->why);
        e = part_ended(part, e);
    }
    return e;
}

/* A lane that has nothing of a round is past it without a commit: after a crash it would find
 * nothing there again. */
static enum err take_round(struct importing *importing)
{
    enum err e = importer_fill(importing->importer, importing->why);
    for (unsigned i = 0; i < importing->count && e == ERR_OK; i++) {
        struct lane_part *part = &importing->parts[i];
        while (e == ERR_OK && import_has_part(importing->importer, &part->lane))
            e = commit_part(importing, part);
    }
    return e;
}

static enum err run(struct importing *importing)
{
    enum err e = check_ids(importing);
    if (e == ERR_OK) e = open_parts(importing);
    if (e == ERR_OK) e = open_history(importing);
    if (e == ERR_OK) e = define(importing);
    if (e == ERR_OK) e = begin_history(importing);
    importing->job->size = importer_lines(importing->importer);
    while (e == ERR_OK && !importer_has_ended(importing->importer))
        e = take_round(importing);
    if (e == ERR_OK) e = end_history(importing);
    crash_point("import.before_done");
    return e;
}

static uint64_t last_sequence(const struct lanes *lanes)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < lanes->count; i++) {
        struct store_stats stats;
        store_stats(lanes->items[i].store, &stats);
        sum += stats.durable_sequence;
    }
    return sum;
}

enum err errand_import(struct errands *errands, struct job_record *job, struct reason *why)
{
    const struct lanes *lanes = errands->config.lanes;
    struct importing importing = {
        .errands = errands, .job = job, .why = why, .count = lanes->count};
    char name[NAME_SIZE_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)job->name.size, job->name.data);
    enum err e = importer_open(&importing.importer, errands->exports, name, &errands->effort, why);
    if (e != ERR_OK) return e;
    arena_init(&importing.arena, 4096);
    importing.parts = must_calloc(lanes->count, sizeof *importing.parts);
    e = run(&importing);
    free(importing.parts);
    arena_release(&importing.arena);
    importer_close(importing.importer);
    job->sequence = last_sequence(lanes);
    return e;
}
