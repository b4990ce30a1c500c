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
    if (header.installation != rebuilder->config.store->installation) {
        reason_say(why,
                   "The export is of another installation: what follows it is not known here.");
        return ERR_INVALID;
    }
    enum err e = store_number(rebuilder->config.store, META_RETAINED, &retained_ms);
    if (e != ERR_OK || force) return e;
    return header.moment_ms < 0 || retained_ms > (uint64_t)header.moment_ms ? ERR_HISTORY : ERR_OK;
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
    bool same = rebuilder->base && rebuilder->base_job == job->id &&
                import_position(rebuilder->base) == job->rebuild.base_lines;
    enum err e = ERR_OK;
    if (!same) {
        rebuild_base_close(rebuilder);
        name_of(name, job->rebuild.from);
        e = importer_open(&rebuilder->base, &rebuilder->config, rebuilder->exports, name,
                          &rebuilder->base_effort, why);
        rebuilder->base_job = job->id;
        if (e == ERR_OK) e = import_skip(rebuilder->base, job->rebuild.base_lines);
    }
    if (e != ERR_OK) return e;
    e = import_only(rebuilder->base, job->name, mode, job->rebuild.generation);
    if (e == ERR_NOT_FOUND) reason_say(why, "the export does not have this counter");
    if (e == ERR_CONFLICT) reason_say(why, "the counter is of another mode in the export");
    return e == ERR_CONFLICT ? ERR_INVALID : e;
}

enum err rebuild_base_chunk(struct rebuilder *rebuilder, const struct job_record *job,
                            enum counter_mode mode, import_mark_fn *mark, void *context,
                            bool *more_out, uint64_t *sequence_out, struct reason *why)
{
    enum err e = open_base(rebuilder, job, mode, why);
    if (e == ERR_OK) e = import_chunk_held(rebuilder->base, mark, context, more_out, why);
    if (e == ERR_OK) *sequence_out = importer_header(rebuilder->base)->sequence;
    if (e != ERR_OK || !*more_out) rebuild_base_close(rebuilder);
    return e;
}
