/* errand_export.c -- an export takes a snapshot of every lane and writes what each one shows. */
#include <stdio.h>
#include <stdlib.h>

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
    const struct lanes *lanes;
    struct frozen *frozen; /* one for each lane */
    struct port_lane *moments;
    struct reason *why;
};

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
static enum err export_lane(const struct exporting *exporting, unsigned lane,
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

static enum err write_lanes(const struct exporting *exporting, const struct job_record *job,
                            uint64_t *lines_out)
{
    const struct store *first = exporting->lanes->items[0].store;
    struct errands *errands = exporting->errands;
    char name[NAME_SIZE_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)job->name.size, job->name.data);
    const struct export_request request = {
        .dir = errands->exports,
        .name = name,
        .header = {.kind = PORT_HEADER,
                   .lanes = exporting->moments,
                   .lanes_count = exporting->lanes->count,
                   .installation = first->installation,
                   .ids_shared = errands->config.embedded->ids_shared,
                   .ids = job->ids,
                   .events = job->events,
                   .secret = first->secret},
    };
    struct exporter *exporter;
    enum err e = exporter_open(&exporter, &request, &errands->effort, exporting->why);
    for (unsigned i = 0; i < exporting->lanes->count && e == ERR_OK; i++)
        e = export_lane(exporting, i, exporter);
    return exporter_close(exporter, e, lines_out, exporting->why);
}

enum err errand_export(struct errands *errands, struct job_record *job, struct reason *why)
{
    const struct lanes *lanes = errands->config.lanes;
    const struct exporting exporting = {
        .errands = errands,
        .lanes = lanes,
        .frozen = must_calloc(lanes->count, sizeof *exporting.frozen),
        .moments = must_calloc(lanes->count, sizeof *exporting.moments),
        .why = why,
    };
    enum err e = freeze(&exporting);
    if (e == ERR_OK) e = write_lanes(&exporting, job, &job->size);
    for (unsigned i = 0; i < lanes->count; i++)
        job->sequence += exporting.moments[i].sequence;
    errand_drop_snapshots(errands);
    free(exporting.moments);
    free(exporting.frozen);
    return e;
}
