/* rebuild_base.c -- a rebuild that begins with an export: its cells and states of the counter. */
#include <stdio.h>

#include "core/object.h"
#include "jobs/prepare.h"
#include "jobs/rebuild_internal.h"

static void name_of(char out[NAME_SIZE_MAX + 1], struct bytes from)
{
    snprintf(out, NAME_SIZE_MAX + 1, "%.*s", (int)from.size, from.data);
}

enum err rebuild_check_base(struct rebuilder *rebuilder, struct arena *arena, struct bytes from,
                            bool force, struct reason *why)
{
    char name[NAME_SIZE_MAX + 1];
    struct port_record header;
    struct reason unread;
    uint64_t retained_ms;
    name_of(name, from);
    reason_clear(why);
    if (port_header(rebuilder->exports, name, arena, &header, &unread) != ERR_OK) {
        reason_say(why, "There is no export of that name.");
        return ERR_INVALID;
    }
    if (header.installation != rebuilder->config.store->installation ||
        header.lanes_count != rebuilder->lanes) {
        reason_say(why,
                   "The export is of another installation: what follows it is not known here.");
        return ERR_INVALID;
    }
    int64_t moment_ms = header.lanes[rebuilder->lane].moment_ms;
    enum err e = store_number(rebuilder->config.store, META_RETAINED, &retained_ms);
    if (e != ERR_OK || force) return e;
    return moment_ms < 0 || retained_ms > (uint64_t)moment_ms ? ERR_HISTORY : ERR_OK;
}

void rebuild_base_close(struct rebuilder *rebuilder)
{
    importer_close(rebuilder->base);
    rebuilder->base = NULL;
}

/* The export stays open from chunk to chunk; it is opened anew where a job begins, or goes on after
 * a restart. */
static enum err open_base(struct rebuilder *rebuilder, const struct job_record *job,
                          enum counter_mode mode, struct reason *why)
{
    char name[NAME_SIZE_MAX + 1];
    const struct job_rebuild *rebuild = &job->rebuild;
    if (rebuilder->base && rebuilder->base_job == job->id &&
        rebuilder->base_lines == rebuild->base_lines &&
        rebuilder->base_lane.only_generation == rebuild->generation)
        return ERR_OK;
    rebuild_base_close(rebuilder);
    name_of(name, rebuild->from);
    rebuilder->base_job = job->id;
    rebuilder->base_lines = rebuild->base_lines;
    rebuilder->base_lane = (struct import_lane){.with = &rebuilder->config,
                                                .index = rebuilder->lane,
                                                .count = rebuilder->lanes,
                                                .position = rebuild->base_lines};
    enum err e =
        importer_open(&rebuilder->base, rebuilder->exports, name, &rebuilder->base_effort, why);
    if (e == ERR_OK) e = importer_seek(rebuilder->base, rebuild->base_lines);
    if (e != ERR_OK) return e;
    e = import_only(rebuilder->base, &rebuilder->base_lane, job->name, mode, rebuild->generation);
    if (e == ERR_NOT_FOUND) reason_say(why, "the export does not have this counter");
    if (e == ERR_CONFLICT) reason_say(why, "the counter is of another mode in the export");
    return e == ERR_CONFLICT ? ERR_INVALID : e;
}

/* What a round has of the counter, one commit of it; a round that has nothing is read and no more.
 */
static enum err take_chunk(struct rebuilder *rebuilder, import_mark_fn *mark, void *context,
                           struct reason *why)
{
    struct import_lane *lane = &rebuilder->base_lane;
    enum err e = ERR_OK;
    if (!import_has_part(rebuilder->base, lane)) e = importer_fill(rebuilder->base, why);
    if (e != ERR_OK || !import_has_part(rebuilder->base, lane)) return e;
    e = import_commit(rebuilder->base, lane, mark, context, why);
    if (e == ERR_OK) rebuilder->base_lines = lane->position;
    return e;
}

enum err rebuild_base_chunk(struct rebuilder *rebuilder, const struct job_record *job,
                            enum counter_mode mode, import_mark_fn *mark, void *context,
                            bool *more_out, uint64_t *sequence_out, struct reason *why)
{
    enum err e = open_base(rebuilder, job, mode, why);
    *more_out = e == ERR_OK && (import_has_part(rebuilder->base, &rebuilder->base_lane) ||
                                !importer_has_ended(rebuilder->base));
    if (e == ERR_OK)
        *sequence_out = importer_header(rebuilder->base)->lanes[rebuilder->lane].sequence;
    if (*more_out) e = take_chunk(rebuilder, mark, context, why);
    if (e != ERR_OK || !*more_out) rebuild_base_close(rebuilder);
    return e;
}
