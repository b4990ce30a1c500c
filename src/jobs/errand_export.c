/* errand_export.c -- an export has every lane stand still and writes what each one shows.
 *
 * A lane on disk is shown by a snapshot of its own. Lanes in a database are shown by one
 * transaction for all of them, which lasts as long as the export: the header, which comes first,
 * says where each lane is. While it lasts the database keeps what was deleted or changed since, so
 * the log says when it begins and how long it took. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/crash.h"
#include "jobs/errand_internal.h"
#include "jobs/export.h"

#define EXPORT_CACHE_BYTES (64u << 20)
#define EXPORT_SEGMENT_BYTES (1u << 20) /* nothing is appended */
#define NEVER_MS (INT64_C(1) << 40)

/* A lane's snapshot. */
struct frozen {
    char dir[TREE_PATH_MAX];
    struct store_position position;
};

struct exporting {
    struct errands *errands;
    struct job_record *job;
    const struct lanes *lanes;
    struct port_lane *moments; /* one for each lane, as the others here */
    struct frozen *frozen;     /* lanes on disk have these, */
    struct view **views;       /* lanes in a database these; NULL: not yet */
    unsigned *depths;          /* within how many other moments the one is that each view shows */
    struct arena arena;        /* has the views */
    struct reason *why;
    enum err err;
};

/* -- Lanes on disk ----------------------------------------------------------------------------- */

static enum err open_snapshot(const struct exporting *exporting, unsigned lane,
                              struct store **store_out)
{
    struct embedded_config config = *exporting->errands->config.embedded;
    config.dir = exporting->frozen[lane].dir;
    config.lane = lane;
    config.cache_bytes = EXPORT_CACHE_BYTES;
    config.segment_bytes = EXPORT_SEGMENT_BYTES;
    config.spare_segments = 0;
    config.checkpoint_ms = config.archive_ms = NEVER_MS;
    return embedded_open(store_out, &config, exporting->why);
}

/* The first opening brings the snapshot to its moment, and closing it writes everything back: the
 * store that is walked then has nothing in memory that each range would have to look through. */
static enum err export_snapshot(const struct exporting *exporting, unsigned lane,
                                struct exporter *exporter)
{
    struct store *store;
    enum err e = open_snapshot(exporting, lane, &store);
    if (e == ERR_OK) store_close(store);
    if (e == ERR_OK) e = open_snapshot(exporting, lane, &store);
    if (e != ERR_OK) return e;
    e = exporter_lane(exporter, &store->view, exporting->why);
    store_close(store);
    return e;
}

/* All snapshots are taken before the first is read, so that their moments lie close together. */
static enum err freeze(const struct exporting *exporting)
{
    enum err e = tree_make(exporting->errands->exports);
    for (unsigned i = 0; i < exporting->lanes->count && e == ERR_OK; i++) {
        struct frozen *frozen = &exporting->frozen[i];
        e = errand_snapshot(exporting->errands, i, frozen->dir, &frozen->position, exporting->why);
        exporting->moments[i] =
            (struct port_lane){frozen->position.last_sequence, frozen->position.time_ms};
    }
    errand_keep_room(exporting->errands);
    return e;
}

/* -- The file ---------------------------------------------------------------------------------- */

static enum err export_lane(const struct exporting *exporting, unsigned lane,
                            struct exporter *exporter)
{
    if (exporting->frozen) return export_snapshot(exporting, lane, exporter);
    must(exporting->views);
    crash_point("export.lane");
    return exporter_lane(exporter, exporting->views[lane], exporting->why);
}

/* A node that leads no more leaves no file: another one makes it. */
static enum err write_lanes(const struct exporting *exporting)
{
    struct store *first = exporting->lanes->items[0].store;
    struct errands *errands = exporting->errands;
    struct job_record *job = exporting->job;
    char name[NAME_SIZE_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)job->name.size, job->name.data);
    const struct export_request request = {
        .dir = errands->exports,
        .name = name,
        .header = {.kind = PORT_HEADER,
                   .lanes = exporting->moments,
                   .lanes_count = exporting->lanes->count,
                   .installation = first->installation,
                   .ids_shared = errands->config.ids_shared,
                   .ids = job->ids,
                   .events = job->events,
                   .secret = first->secret},
    };
    struct exporter *exporter;
    enum err e = exporter_open(&exporter, &request, &errands->effort, exporting->why);
    for (unsigned i = 0; i < exporting->lanes->count && e == ERR_OK; i++)
        e = export_lane(exporting, i, exporter);
    if (e == ERR_OK && !store_leads(first)) e = ERR_BUSY;
    return exporter_close(exporter, e, &job->size, exporting->why);
}

static enum err export_snapshots(struct exporting *exporting)
{
    exporting->frozen = must_calloc(exporting->lanes->count, sizeof *exporting->frozen);
    enum err e = freeze(exporting);
    if (e == ERR_OK) e = write_lanes(exporting);
    errand_drop_snapshots(exporting->errands);
    free(exporting->frozen);
    return e;
}

/* -- Lanes in a database ----------------------------------------------------------------------- */

/* A moment within `depth` others. */
struct export_moment {
    struct exporting *exporting;
    unsigned depth;
};

/* A moment whose reader is run again shows its lanes as they are by then. */
static void forget_lanes(const struct exporting *exporting, unsigned depth)
{
    for (unsigned i = 0; i < exporting->lanes->count; i++)
        if (exporting->depths[i] >= depth) exporting->views[i] = NULL;
}

/* Takes the lanes that the moment shows. `*next_out` is the first one that no moment shows yet. */
static enum err join_moment(struct exporting *exporting, struct view *moment, unsigned depth,
                            unsigned *next_out)
{
    const struct lanes *lanes = exporting->lanes;
    *next_out = lanes->count;
    forget_lanes(exporting, depth);
    for (unsigned i = 0; i < lanes->count; i++) {
        struct view_lane lane;
        if (exporting->views[i]) continue;
        enum err e = view_beside(moment, lanes->items[i].store, &exporting->arena, &lane);
        if (e == ERR_NOT_FOUND) {
            if (*next_out == lanes->count) *next_out = i;
            continue;
        }
        if (e != ERR_OK) return e == ERR_STORAGE ? ERR_BUSY : e;
        exporting->views[i] = lane.view;
        exporting->depths[i] = depth;
        exporting->moments[i] = (struct port_lane){lane.sequence, lane.time_ms};
    }
    return ERR_OK;
}

/* Lanes may be dealt over several databases: each has a moment of its own, within the others'. */
static void read_moment(void *context, struct view *moment)
{
    const struct export_moment *standing = context;
    struct exporting *exporting = standing->exporting;
    struct export_moment inner = {exporting, standing->depth + 1};
    unsigned next;
    log_line(LOG_INFO, "an export holds a snapshot of the database until it ends",
             LOG_KV("name", exporting->job->name));
    exporting->err = join_moment(exporting, moment, standing->depth, &next);
    if (exporting->err != ERR_OK) return;
    if (next < exporting->lanes->count)
        view_still(&exporting->lanes->items[next].store->view, read_moment, &inner);
    else
        exporting->err = write_lanes(exporting);
}

static enum err export_moments(struct exporting *exporting)
{
    const struct clock *clock = exporting->errands->config.with.clock;
    int64_t began_ns = clock_mono_ns(clock);
    enum err e = tree_make(exporting->errands->exports);
    if (e != ERR_OK) return e;
    backup_tidy(exporting->errands->exports); /* this node leads, so no other one writes there */
    struct export_moment outermost = {exporting, 0};
    exporting->depths = must_calloc(exporting->lanes->count, sizeof *exporting->depths);
    exporting->views = must_calloc(exporting->lanes->count, sizeof *exporting->views);
    arena_init(&exporting->arena, 4096);
    view_still(&exporting->lanes->items[0].store->view, read_moment, &outermost);
    arena_release(&exporting->arena);
    free(exporting->views);
    free(exporting->depths);
    log_line(LOG_INFO, "an export let go of its snapshot of the database",
             LOG_KV("name", exporting->job->name),
             LOG_KV("seconds", (clock_mono_ns(clock) - began_ns) / 1000000000));
    return exporting->err;
}

/* -- All of it --------------------------------------------------------------------------------- */

enum err errand_export(struct errands *errands, struct job_record *job, struct reason *why)
{
    const struct lanes *lanes = errands->config.lanes;
    struct exporting exporting = {
        .errands = errands,
        .job = job,
        .lanes = lanes,
        .moments = must_calloc(lanes->count, sizeof *exporting.moments),
        .why = why,
    };
    bool remote = lanes->items[0].store->remote;
    enum err e = remote ? export_moments(&exporting) : export_snapshots(&exporting);
    for (unsigned i = 0; i < lanes->count; i++)
        job->sequence += exporting.moments[i].sequence;
    free(exporting.moments);
    return e;
}
