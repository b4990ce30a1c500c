/* restore.c -- reading backups back: checking them, and laying one out as a data directory.
 *
 * RESTORING stands in the data directory from before its first file until all of them are durable,
 * and a store does not open while it is there (identity.c). So a crash on the way is noticed, also
 * where the directory is a mount point that cannot be renamed into place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "store/embedded/backup/backup.h"
#include "store/embedded/identity.h"

/* A directory of that name without a manifest was a backup once: while one is made or removed it is
 * called something else. */
static enum err open_backup(const char *dir, const char *name, char path[TREE_PATH_MAX],
                            struct manifest *manifest_out, struct reason *why)
{
    enum err e = backup_name_valid(bytes_str(name)) ? tree_path(path, dir, name) : ERR_NOT_FOUND;
    if (e == ERR_NOT_FOUND || !backup_exists(dir, name)) {
        backup_say_missing(dir, name, why);
        return ERR_NOT_FOUND;
    }
    if (e == ERR_OK) e = manifest_read(path, manifest_out);
    if (e == ERR_STORAGE) reason_say(why, "%s cannot be read: %s", path, strerror(errno));
    if (e == ERR_CORRUPT) reason_say(why, "%s/" MANIFEST_NAME " is damaged", path);
    if (e != ERR_NOT_FOUND) return e;
    reason_say(why, "%s/" MANIFEST_NAME " is missing", path);
    return ERR_CORRUPT;
}

static enum err damaged(struct reason *why, const char *root, const struct tree_file *file,
                        const char *how)
{
    reason_say(why, "%s/%s %s", root, file->path, how);
    return ERR_CORRUPT;
}

/* Reads one file again, or copies it to `to`. */
static enum err take(const char *root, const struct tree_file *file, const char *to,
                     struct effort *effort, struct reason *why)
{
    char from[TREE_PATH_MAX];
    struct stat now;
    struct checksum checksum;
    enum err e = tree_path(from, root, file->path);
    if (e != ERR_OK) return e;
    if (stat(from, &now) != 0 && errno == ENOENT) return damaged(why, root, file, "is missing");
    e = to ? tree_copy(from, to, &checksum, effort) : tree_checksum(from, &checksum, effort);
    if (e == ERR_STORAGE)
        reason_say(why, "%s could not be %s: %s", from, to ? "copied" : "read", strerror(errno));
    if (e != ERR_OK) return e;
    if (stat(from, &now) == 0 && (uint64_t)now.st_size != file->size)
        return damaged(why, root, file, "is damaged: it has another size");
    if (!checksum_equal(checksum, file->checksum))
        return damaged(why, root, file, "is damaged: its checksum does not match");
    return ERR_OK;
}

/* ERR_OK too where a file is damaged: the next one is to be looked at as well. */
static enum err check_file(const char *root, const struct tree_file *file, struct effort *effort,
                           backup_damage_fn *damage, void *context, bool *damaged_out)
{
    struct reason why;
    reason_clear(&why);
    enum err e = take(root, file, NULL, effort, &why);
    bool bad = e == ERR_CORRUPT || e == ERR_STORAGE;
    if (bad) {
        damage(context, reason_given(&why) ? why.text : file->path);
        *damaged_out = true;
    }
    return bad ? ERR_OK : e;
}

enum err backup_check(const char *dir, const char *name, struct effort *effort,
                      backup_damage_fn *damage, void *context, struct manifest *manifest_out,
                      struct reason *why_out)
{
    char path[TREE_PATH_MAX];
    bool damaged = false;
    enum err e = open_backup(dir, name, path, manifest_out, why_out);
    if (e != ERR_OK) return e;
    atomic_store(&effort->total, manifest_bytes(manifest_out));
    for (size_t i = 0; i < manifest_out->files.count && e == ERR_OK; i++)
        e = check_file(path, &manifest_out->files.files[i], effort, damage, context, &damaged);
    if (e == ERR_OK && damaged) e = ERR_CORRUPT;
    if (e != ERR_OK) manifest_release(manifest_out);
    return e;
}

/* -- Restoring --------------------------------------------------------------------------------- */

static enum err lay_out(const char *root, const struct manifest *manifest, const char *data,
                        struct effort *effort, struct reason *why)
{
    char to[TREE_PATH_MAX];
    enum err e = backup_parts_make(data, manifest->lanes_count);
    for (size_t i = 0; i < manifest->files.count && e == ERR_OK; i++) {
        e = tree_path(to, data, manifest->files.files[i].path);
        if (e == ERR_OK) e = take(root, &manifest->files.files[i], to, effort, why);
        crash_point("restore.after_file");
    }
    return e == ERR_OK ? backup_parts_sync(data, manifest->lanes_count) : e;
}

static enum err put_marker(const char *marker)
{
    int fd = open(marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return ERR_STORAGE;
    close(fd);
    return ERR_OK;
}

static enum err fill(const char *root, const struct manifest *manifest, const char *data,
                     struct effort *effort, struct reason *why)
{
    char marker[TREE_PATH_MAX];
    enum err e = tree_path(marker, data, IDENTITY_RESTORING);
    if (e == ERR_OK) e = put_marker(marker);
    if (e == ERR_OK) e = tree_sync_dir(data);
    if (e == ERR_OK) e = lay_out(root, manifest, data, effort, why);
    crash_point("restore.before_done");
    if (e == ERR_OK && unlink(marker) != 0) e = ERR_STORAGE;
    if (e == ERR_OK) e = tree_sync_dir(data);
    if (e != ERR_OK && !reason_given(why))
        reason_say(why, "%s cannot be written: %s", data, strerror(errno));
    if (e != ERR_OK) (void)!tree_clear(data);
    return e;
}

enum err backup_restore(const char *dir, const char *name, const char *data, struct effort *effort,
                        unsigned *lanes_out, struct reason *why_out)
{
    char path[TREE_PATH_MAX];
    struct manifest manifest;
    enum err e = open_backup(dir, name, path, &manifest, why_out);
    if (e != ERR_OK) return e;
    atomic_store(&effort->total, manifest_bytes(&manifest));
    if (!tree_is_empty(data)) {
        reason_say(why_out, "%s is not empty; a backup is restored into an empty directory only",
                   data);
        e = ERR_CONFLICT;
    }
    if (e == ERR_OK) e = tree_make(data);
    if (e == ERR_STORAGE)
        reason_say(why_out, "%s cannot be made: %s", data, strerror(errno));
    else if (e == ERR_OK)
        e = fill(path, &manifest, data, effort, why_out);
    *lanes_out = manifest.lanes_count;
    manifest_release(&manifest);
    return e;
}
