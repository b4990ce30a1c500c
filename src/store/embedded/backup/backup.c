/* backup.c -- making, listing and removing backups. */
#include "store/embedded/backup/backup.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "core/name.h"
#include "store/embedded/lanes_dir.h"

#define MAKING ".making-"
#define REMOVING ".removing-"

bool backup_name_valid(struct bytes name)
{
    return name_valid(name) && name.size <= BACKUP_NAME_MAX && name.data[0] != '.';
}

bool backup_exists(const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    return tree_path(path, dir, name) == ERR_OK && access(path, F_OK) == 0;
}

enum err backup_find(const char *dir, const char *name, struct manifest *manifest_out)
{
    char path[TREE_PATH_MAX];
    enum err e = tree_path(path, dir, name);
    if (e == ERR_OK) e = manifest_read(path, manifest_out);
    if (e != ERR_OK) return e;
    e = tree_sync_dir(dir);
    if (e != ERR_OK) manifest_release(manifest_out);
    return e;
}

/* -- Listing ----------------------------------------------------------------------------------- */

struct found {
    char *name;
    struct manifest manifest;
};

struct findings {
    struct found *items;
    size_t count;
    size_t capacity;
};

static void add_found(struct findings *findings, const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    struct found found;
    if (!backup_name_valid(bytes_str(name)) || tree_path(path, dir, name) != ERR_OK) return;
    if (manifest_read(path, &found.manifest) != ERR_OK) return;
    if (findings->count == findings->capacity) {
        findings->capacity = findings->capacity * 2 + 16;
        findings->items = must_realloc(findings->items, findings->capacity * sizeof found);
    }
    found.name = strdup(name);
    must(found.name != NULL);
    findings->items[findings->count++] = found;
}

static int compare_found(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    if (left->manifest.taken_ms != right->manifest.taken_ms)
        return left->manifest.taken_ms < right->manifest.taken_ms ? -1 : 1;
    return strcmp(left->name, right->name);
}

static enum err find_all(struct findings *findings, const char *dir)
{
    *findings = (struct findings){0};
    DIR *open_dir = opendir(dir);
    if (!open_dir) return errno == ENOENT ? ERR_OK : ERR_STORAGE;
    for (struct dirent *entry; (entry = readdir(open_dir));)
        add_found(findings, dir, entry->d_name);
    closedir(open_dir);
    if (findings->count)
        qsort(findings->items, findings->count, sizeof *findings->items, compare_found);
    return ERR_OK;
}

static void findings_release(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        manifest_release(&findings->items[i].manifest);
        free(findings->items[i].name);
    }
    free(findings->items);
}

enum err backup_list(const char *dir, backup_visit_fn *visit, void *context)
{
    struct findings findings;
    enum err e = find_all(&findings, dir);
    for (size_t i = 0; i < findings.count; i++)
        if (!visit(context, findings.items[i].name, &findings.items[i].manifest)) break;
    findings_release(&findings);
    return e;
}

#define NAMED_MAX 8u /* names that fit a sentence */

void backup_say_missing(const char *dir, const char *name, struct reason *why_out)
{
    struct findings findings;
    enum err e = find_all(&findings, dir);
    reason_say(why_out, "there is no backup %s in %s", name, dir);
    if (e == ERR_OK && findings.count == 0) reason_add(why_out, ", nor any other");
    for (size_t i = 0; i < findings.count && i < NAMED_MAX; i++) /* the newest first */
        reason_add(why_out, "%s%s",
                   i ? ", " : "; there are: ", findings.items[findings.count - 1 - i].name);
    if (findings.count > NAMED_MAX)
        reason_add(why_out, " and %zu earlier ones", findings.count - NAMED_MAX);
    findings_release(&findings);
}

/* -- The directories of a store ---------------------------------------------------------------- */

static const char *const parts[] = {"state", "ids", "archive", "journal"};

static enum err each_part(const char *dir, enum err (*visit)(const char *path))
{
    char path[TREE_PATH_MAX];
    enum err e = ERR_OK;
    for (unsigned i = 0; i < ARRAY_COUNT(parts) && e == ERR_OK; i++) {
        e = tree_path(path, dir, parts[i]);
        if (e == ERR_OK) e = visit(path);
    }
    return e;
}

enum err backup_parts_make(const char *dir, unsigned lanes)
{
    char path[TREE_PATH_MAX];
    enum err e = ERR_OK;
    for (unsigned i = 0; i < lanes && e == ERR_OK; i++) {
        e = lanes_dir_path(path, dir, lanes, i);
        if (e == ERR_OK) e = tree_make(path);
        if (e == ERR_OK) e = each_part(path, tree_make);
    }
    return e;
}

enum err backup_parts_sync(const char *dir, unsigned lanes)
{
    char path[TREE_PATH_MAX];
    enum err e = ERR_OK;
    for (unsigned i = 0; i < lanes && e == ERR_OK; i++) {
        e = lanes_dir_path(path, dir, lanes, i);
        if (e == ERR_OK) e = each_part(path, tree_sync_dir);
        if (e == ERR_OK) e = tree_sync_dir(path);
    }
    return e == ERR_OK ? tree_sync_dir(dir) : e;
}

/* -- Making ------------------------------------------------------------------------------------ */

struct making_backup {
    const struct backup_request *request;
    struct effort *effort;
    char dir[TREE_PATH_MAX];         /* .making-NAME */
    char earlier_dir[TREE_PATH_MAX]; /* the newest backup there is */
    const char *earlier_name;
    const struct manifest *earlier; /* NULL: there is none */
    const char *damaged;            /* the first file of it that is not as it was; NULL: none */
    size_t damaged_count;
    struct manifest manifest;
};

/* Whether the earlier backup's file still holds what its manifest says. ERR_NOT_FOUND: it does not,
 * or cannot be read. A file that is linked unread passes one backup's damage on to all that
 * follow. */
static enum err check_earlier(struct making_backup *making, const char *path,
                              const struct tree_file *file)
{
    struct checksum now;
    enum err e = tree_checksum(path, &now, making->effort);
    if (e == ERR_BUSY) return e;
    atomic_fetch_sub(&making->effort->done, e == ERR_OK ? file->size : 0);
    if (e == ERR_OK && checksum_equal(now, file->checksum)) return ERR_OK;
    log_line(LOG_ERROR, "a file of an earlier backup is damaged; the new backup gets its own copy",
             LOG_KV("file", path));
    if (making->damaged_count++ == 0) making->damaged = file->path;
    return ERR_NOT_FOUND;
}

/* Links the earlier backup's file if it is the same. ERR_NOT_FOUND: it has to be copied. */
static enum err link_earlier(struct making_backup *making, const char *from, const char *to,
                             struct tree_file *file)
{
    const struct tree_file *before =
        making->earlier ? tree_list_find(&making->earlier->files, file->path) : NULL;
    char path[TREE_PATH_MAX];
    if (!before || before->size != file->size) return ERR_NOT_FOUND;
    enum err e = tree_path(path, making->earlier_dir, file->path);
    if (e == ERR_OK) e = tree_checksum(from, &file->checksum, making->effort);
    if (e != ERR_OK) return e;
    bool same = checksum_equal(before->checksum, file->checksum);
    e = same ? check_earlier(making, path, before) : ERR_NOT_FOUND;
    if (e == ERR_OK && link(path, to) == 0) return ERR_OK;
    atomic_fetch_sub(&making->effort->done, file->size); /* the file is read again */
    return e == ERR_OK ? ERR_NOT_FOUND : e;
}

static enum err take_file(struct making_backup *making, const char *from, struct tree_file *file)
{
    char to[TREE_PATH_MAX];
    enum err e = tree_path(to, making->dir, file->path);
    if (e != ERR_OK) return e;
    e = link_earlier(making, from, to, file);
    if (e != ERR_NOT_FOUND) return e;
    making->manifest.copied_bytes += file->size;
    return tree_copy(from, to, &file->checksum, making->effort);
}

/* A directory that files are copied from, and what their names begin with in the backup. */
struct backup_source {
    const char *dir;
    char prefix[LANES_PREFIX_SIZE];
    struct tree_list files;
};

static enum err take_source(struct making_backup *making, const struct backup_source *source)
{
    char from[TREE_PATH_MAX];
    char path[TREE_PATH_MAX];
    struct tree_list *files = &making->manifest.files;
    enum err e = ERR_OK;
    for (size_t i = 0; i < source->files.count && e == ERR_OK; i++) {
        const struct tree_file *file = &source->files.files[i];
        e = tree_path(from, source->dir, file->path);
        if (e != ERR_OK) break;
        int need = snprintf(path, sizeof path, "%s%s", source->prefix, file->path);
        if (need < 0 || (size_t)need >= sizeof path) return ERR_STORAGE;
        tree_list_add(files, path, file->size);
        e = take_file(making, from, &files->files[files->count - 1]);
        crash_point("backup.after_file");
    }
    return e;
}

/* Lists what the lanes have in common. */
static enum err list_root(struct backup_source *source, const char *data)
{
    char path[TREE_PATH_MAX];
    struct stat file;
    enum err e = tree_path(path, data, "IDENTITY");
    if (e == ERR_OK && stat(path, &file) != 0) e = ERR_STORAGE;
    source->dir = data;
    if (e == ERR_OK) tree_list_add(&source->files, "IDENTITY", (uint64_t)file.st_size);
    return e;
}

/* Lists one source for each lane and, where there are several, a last one for what they have in
 * common. */
static enum err list_sources(const struct backup_request *request, struct backup_source *sources)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < request->lanes_count && e == ERR_OK; i++) {
        sources[i].dir = request->lanes[i].snapshot;
        lanes_dir_prefix(sources[i].prefix, request->lanes_count, i);
        e = tree_list_read(&sources[i].files, sources[i].dir);
    }
    if (e == ERR_OK && request->lanes_count > 1)
        e = list_root(&sources[request->lanes_count], request->data);
    return e;
}

static uint64_t bytes_of_sources(const struct backup_source *sources, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        for (size_t j = 0; j < sources[i].files.count; j++)
            bytes += sources[i].files.files[j].size;
    return bytes;
}

static enum err take_files(struct making_backup *making)
{
    unsigned count = making->request->lanes_count + 1;
    struct backup_source *sources = must_calloc(count, sizeof *sources);
    enum err e = list_sources(making->request, sources);
    if (e == ERR_OK) atomic_store(&making->effort->total, bytes_of_sources(sources, count));
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = take_source(making, &sources[i]);
    tree_list_sort(&making->manifest.files);
    for (unsigned i = 0; i < count; i++)
        tree_list_release(&sources[i].files);
    free(sources);
    return e;
}

static enum err finish(struct making_backup *making)
{
    char path[TREE_PATH_MAX];
    const struct backup_request *request = making->request;
    /* All names are durable before the manifest that lists them, and the manifest before the
     * backup's own name. */
    enum err e = backup_parts_sync(making->dir, request->lanes_count);
    crash_point("backup.before_manifest");
    if (e == ERR_OK) e = manifest_write(making->dir, &making->manifest);
    if (e == ERR_OK) e = tree_path(path, request->dir, request->name);
    crash_point("backup.before_rename");
    if (e == ERR_OK && rename(making->dir, path) != 0) e = ERR_STORAGE;
    if (e == ERR_OK) e = tree_sync_dir(request->dir);
    crash_point("backup.after_rename");
    return e;
}

static enum err make(struct making_backup *making)
{
    const struct backup_request *request = making->request;
    int need =
        snprintf(making->dir, sizeof making->dir, "%s/" MAKING "%s", request->dir, request->name);
    if (need < 0 || (size_t)need >= sizeof making->dir) return ERR_STORAGE;
    enum err e = tree_make(request->dir);
    if (e == ERR_OK) e = tree_remove(making->dir);
    if (e == ERR_OK) e = tree_make(making->dir);
    if (e == ERR_OK) e = backup_parts_make(making->dir, request->lanes_count);
    if (e == ERR_OK) e = take_files(making);
    if (e == ERR_OK) e = finish(making);
    int error = errno;
    if (e != ERR_OK && tree_remove(making->dir) != ERR_OK)
        log_line(LOG_WARN, "what is left of a failed backup could not be removed");
    errno = error;
    return e;
}

static enum err name_earlier(struct making_backup *making, const struct findings *findings)
{
    if (findings->count == 0) return ERR_OK;
    const struct found *newest = &findings->items[findings->count - 1];
    making->earlier = &newest->manifest;
    making->earlier_name = newest->name;
    return tree_path(making->earlier_dir, making->request->dir, newest->name);
}

static void begin_manifest(struct manifest *manifest, const struct backup_request *request)
{
    manifest_init(manifest, request->lanes_count);
    manifest->taken_ms = request->taken_ms;
    for (unsigned i = 0; i < request->lanes_count; i++) {
        const struct store_position *position = &request->lanes[i].position;
        manifest->lanes[i] = (struct manifest_lane){position->last_sequence, position->time_ms};
    }
}

enum err backup_make(const struct backup_request *request, struct effort *effort,
                     struct reason *why_out)
{
    struct findings findings;
    struct making_backup making = {.request = request, .effort = effort};
    must(backup_name_valid(bytes_str(request->name)));
    reason_clear(why_out);
    begin_manifest(&making.manifest, request);
    enum err e = find_all(&findings, request->dir);
    if (e == ERR_OK) e = name_earlier(&making, &findings);
    if (e == ERR_OK) e = make(&making);
    if (e != ERR_OK) reason_say(why_out, "the backup could not be written: %s", strerror(errno));
    if (e == ERR_OK && making.damaged)
        reason_say(
            why_out,
            "%zu file%s of the earlier backup %s %s damaged, %s first; this one has what the "
            "store has. `tally verify %s` names all",
            making.damaged_count, making.damaged_count == 1 ? "" : "s", making.earlier_name,
            making.damaged_count == 1 ? "is" : "are", making.damaged, making.earlier_name);
    findings_release(&findings);
    manifest_release(&making.manifest);
    return e;
}

/* -- Removing ---------------------------------------------------------------------------------- */

/* The backup is renamed first: half a backup is never taken for one. */
enum err backup_remove(const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    char away[TREE_PATH_MAX];
    must(backup_name_valid(bytes_str(name)));
    enum err e = tree_path(path, dir, name);
    int need = snprintf(away, sizeof away, "%s/" REMOVING "%s", dir, name);
    if (e != ERR_OK || need < 0 || (size_t)need >= sizeof away) return ERR_STORAGE;
    e = tree_remove(away);
    if (e != ERR_OK) return e;
    if (rename(path, away) != 0) return errno == ENOENT ? ERR_NOT_FOUND : ERR_STORAGE;
    e = tree_sync_dir(dir);
    crash_point("backup.removing");
    return e == ERR_OK ? tree_remove(away) : e;
}

void backup_tidy(const char *dir)
{
    char path[TREE_PATH_MAX];
    DIR *open_dir = opendir(dir);
    if (!open_dir) return;
    bool synced = tree_sync_dir(dir) == ERR_OK;
    if (!synced) log_line(LOG_WARN, "backups cannot be synced; what a crash left of one stays");
    for (struct dirent *entry; synced && (entry = readdir(open_dir));) {
        const char *name = entry->d_name;
        bool ours = strncmp(name, MAKING, strlen(MAKING)) == 0 ||
                    strncmp(name, REMOVING, strlen(REMOVING)) == 0;
        if (!ours || tree_path(path, dir, name) != ERR_OK) continue;
        if (tree_remove(path) != ERR_OK)
            log_line(LOG_WARN, "what a crash left of a backup could not be removed");
    }
    closedir(open_dir);
}
