/* errand_backup.c -- a backup of all lanes: a snapshot of each, then the files of all copied. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "jobs/errand_internal.h"

/* -- Snapshots --------------------------------------------------------------------------------- */

static enum err snapshot_path(const struct errands *errands, unsigned lane,
                              char path[TREE_PATH_MAX])
{
    return tree_path(path, lanes_dir_lane(errands->config.dirs, lane), EMBEDDED_SNAPSHOT);
}

enum err errand_snapshot(struct errands *errands, unsigned lane, char dir_out[TREE_PATH_MAX],
                         struct store_position *position_out, struct reason *why)
{
    struct store *store = errands->config.lanes->items[lane].store;
    enum err e = snapshot_path(errands, lane, dir_out);
    if (e == ERR_OK) e = tree_remove(dir_out);
    if (e == ERR_OK) return store_snapshot(store, dir_out, position_out, why);
    reason_say(why, "%s cannot be removed: %s", dir_out, strerror(errno));
    return e;
}

void errand_drop_snapshots(struct errands *errands)
{
    char path[TREE_PATH_MAX];
    for (unsigned i = 0; i < errands->config.dirs->count; i++)
        if (snapshot_path(errands, i, path) != ERR_OK || tree_remove(path) != ERR_OK)
            log_line(LOG_WARN, "a snapshot could not be removed");
}

static bool same_disk(const char *a, const char *b)
{
    struct stat left;
    struct stat right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev;
}

void errand_keep_room(struct errands *errands)
{
    for (unsigned i = 0; i < errands->config.dirs->count; i++) {
        const char *dir = lanes_dir_lane(errands->config.dirs, i);
        if (same_disk(errands->config.ops_dir, dir)) errands->effort.keep_free_of = dir;
    }
}

/* -- The backup -------------------------------------------------------------------------------- */

struct taking {
    struct errands *errands;
    unsigned count;
    struct backup_lane *lanes;
    char (*dirs)[TREE_PATH_MAX];
};

static void taking_init(struct taking *taking, struct errands *errands)
{
    *taking = (struct taking){.errands = errands, .count = errands->config.dirs->count};
    taking->lanes = must_calloc(taking->count, sizeof *taking->lanes);
    taking->dirs = must_calloc(taking->count, sizeof *taking->dirs);
}

static void taking_release(struct taking *taking)
{
    errand_drop_snapshots(taking->errands);
    free(taking->dirs);
    free(taking->lanes);
}

/* All snapshots are taken before the first copy, so that their moments lie close together. */
static enum err take_snapshots(struct taking *taking, struct reason *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < taking->count && e == ERR_OK; i++) {
        taking->lanes[i].snapshot = taking->dirs[i];
        e = errand_snapshot(taking->errands, i, taking->dirs[i], &taking->lanes[i].position, why);
    }
    return e;
}

static enum err copy_backup(struct taking *taking, struct job_record *job, const char *name,
                            struct reason *why)
{
    struct errands *errands = taking->errands;
    const struct backup_request request = {.dir = errands->backups,
                                           .name = name,
                                           .data = errands->config.embedded->dir,
                                           .lanes = taking->lanes,
                                           .lanes_count = taking->count,
                                           .taken_ms = job->asked_ms};
    enum err e = take_snapshots(taking, why);
    if (e != ERR_OK) return e;
    errand_keep_room(errands);
    e = backup_make(&request, &errands->effort, why);
    for (unsigned i = 0; i < taking->count; i++)
        job->sequence += taking->lanes[i].position.last_sequence;
    job->size = atomic_load(&errands->effort.total);
    return e;
}

static enum err name_taken(struct reason *why)
{
    reason_say(why, "that name is taken");
    return ERR_CONFLICT;
}

/* A backup of that name is this errand's if it was asked for at the same moment: it was whole when
 * the server ended, and only the errand's record does not say so yet. */
static enum err is_made(struct job_record *job, const struct manifest *manifest, struct reason *why)
{
    if (manifest->taken_ms != job->asked_ms) return name_taken(why);
    job->sequence = manifest_changes(manifest);
    job->size = manifest_bytes(manifest);
    return ERR_OK;
}

enum err errand_backup(struct errands *errands, struct job_record *job, struct reason *why)
{
    char name[NAME_SIZE_MAX + 1];
    struct manifest manifest;
    struct taking taking;
    snprintf(name, sizeof name, "%.*s", (int)job->name.size, job->name.data);
    enum err e = backup_find(errands->backups, name, &manifest);
    if (e == ERR_OK) {
        e = is_made(job, &manifest, why);
        manifest_release(&manifest);
        return e;
    }
    if (backup_exists(errands->backups, name)) return name_taken(why);
    taking_init(&taking, errands);
    e = copy_backup(&taking, job, name, why);
    taking_release(&taking);
    return e;
}
