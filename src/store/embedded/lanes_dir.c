/* lanes_dir.c -- see the header. */
#include "store/embedded/lanes_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crash.h"
#include "store/embedded/begin.h"

#define LANE_PREFIX "lane-"

void lanes_dir_prefix(char out[LANES_PREFIX_SIZE], unsigned count, unsigned lane)
{
    must(lane < count);
    out[0] = '\0';
    if (count > 1) snprintf(out, LANES_PREFIX_SIZE, LANE_PREFIX "%03u/", lane);
}

enum err lanes_dir_path(char out[TREE_PATH_MAX], const char *dir, unsigned count, unsigned lane)
{
    char name[LANES_PREFIX_SIZE];
    must(lane < count);
    snprintf(name, sizeof name, LANE_PREFIX "%03u", lane);
    if (count > 1) return tree_path(out, dir, name);
    int need = snprintf(out, TREE_PATH_MAX, "%s", dir);
    errno = ENAMETOOLONG;
    return need < TREE_PATH_MAX ? ERR_OK : ERR_STORAGE;
}

/* -- What a crash left ------------------------------------------------------------------------- */

/* Calls `visit` for each name in `dir` until it returns false. */
static bool each_name(const char *dir, bool (*visit)(void *context, const char *name),
                      void *context)
{
    DIR *open_dir = opendir(dir);
    bool all = true;
    if (!open_dir) return errno == ENOENT || errno == ENOTDIR;
    for (struct dirent *entry; all && (entry = readdir(open_dir));)
        if (entry->d_name[0] != '.') all = visit(context, entry->d_name);
    closedir(open_dir);
    return all;
}

/* What there is in a lane that was made and never opened; "lost+found" is its file system's. */
static bool is_of_making(void *context, const char *name)
{
    (void)context;
    return strncmp(name, "IDENTITY", 8) == 0 || strcmp(name, "LOCK") == 0 ||
           strcmp(name, "lost+found") == 0;
}

static bool is_lane(const char *name)
{
    return strncmp(name, LANE_PREFIX, strlen(LANE_PREFIX)) == 0;
}

static bool is_part(const char *name)
{
    static const char *const parts[] = {"state", "ids", "archive", "journal"};
    for (unsigned i = 0; i < ARRAY_COUNT(parts); i++)
        if (strcmp(name, parts[i]) == 0) return true;
    return false;
}

struct remains {
    const char *dir;
    char path[TREE_PATH_MAX]; /* the last that was looked at */
};

static bool may_lie_there(void *context, const char *name)
{
    struct remains *remains = context;
    if (!is_part(name) && !is_lane(name)) return true;
    if (tree_path(remains->path, remains->dir, name) != ERR_OK) return false;
    return is_lane(name) ? each_name(remains->path, is_of_making, NULL)
                         : tree_is_empty(remains->path);
}

/* Law (3). */
static enum err refuse_remains(const char *dir, struct reason *why)
{
    struct remains remains = {.dir = dir};
    snprintf(remains.path, sizeof remains.path, "%s", dir);
    if (each_name(dir, may_lie_there, &remains)) return ERR_OK;
    return reason_err(why, ERR_CORRUPT,
                      "%s/IDENTITY is missing, and there is something in %s; nothing is made "
                      "beside it.",
                      dir, remains.path);
}

/* A mount point stays, empty. What cannot be removed stays too, for it does no harm. */
static bool remove_lane(void *context, const char *name)
{
    struct remains *remains = context;
    if (!is_lane(name) || tree_path(remains->path, remains->dir, name) != ERR_OK) return true;
    if (tree_clear(remains->path) == ERR_OK) (void)!rmdir(remains->path);
    return true;
}

static void remove_lanes(const char *dir)
{
    struct remains remains = {.dir = dir};
    (void)!each_name(dir, remove_lane, &remains);
}

/* -- Making ------------------------------------------------------------------------------------ */

static enum err not_made(struct reason *why, const char *dir)
{
    return reason_err(why, ERR_STORAGE, "cannot make the lanes of %s: %s.", dir, strerror(errno));
}

/* What is in it comes before its IDENTITY: without one it is no store. */
static enum err fill_lane(const struct store_identity *identity, const char *path,
                          const struct lanes_make *make, struct reason *why)
{
    enum err e = make->last ? begin_after(path, identity->installation, make->last, why) : ERR_OK;
    if (e != ERR_OK) return e;
    return identity_write(identity, path) == ERR_OK ? ERR_OK : not_made(why, path);
}

static enum err make_lane(const struct store_identity *root, const char *dir, unsigned lane,
                          const struct lanes_make *make, struct reason *why)
{
    char path[TREE_PATH_MAX];
    struct store_identity identity = *root;
    identity.lane = lane;
    enum err e = lanes_dir_path(path, dir, root->lanes, lane);
    if (e == ERR_OK) e = tree_make(path);
    if (e != ERR_OK) return not_made(why, dir);
    e = fill_lane(&identity, path, make, why);
    crash_point("lanes.after_lane");
    return e;
}

/* Law (1). */
static enum err make_lanes(struct store_identity *root, const char *dir,
                           const struct lanes_make *make, struct reason *why)
{
    enum err e = ERR_OK;
    root->lane = IDENTITY_ROOT;
    for (unsigned i = 0; i < root->lanes && e == ERR_OK; i++)
        e = make_lane(root, dir, i, make, why);
    crash_point("lanes.before_identity");
    if (e != ERR_OK) return e;
    return identity_write(root, dir) == ERR_OK ? ERR_OK : not_made(why, dir);
}

enum err lanes_dir_make(const char *dir, const struct lanes_make *make, struct reason *why)
{
    struct store_identity identity;
    if (identity_draw(&identity) != ERR_OK) return not_made(why, dir);
    identity.ids_shared = make->ids_shared;
    identity.lanes = make->count;
    if (make->secret) identity.secret = *make->secret;
    if (make->count > 1) return make_lanes(&identity, dir, make, why);
    return fill_lane(&identity, dir, make, why);
}

/* -- Opening ----------------------------------------------------------------------------------- */

/* Law (2), and that each lane is the one it lies as. */
static enum err check_lane(const struct lanes_dir *lanes, const char *dir, unsigned lane,
                           struct reason *why)
{
    const struct identity_wish wish = {.lanes = lanes->count,
                                       .lane = lane,
                                       .ids_shared = lanes->identity.ids_shared,
                                       .installation = lanes->identity.installation};
    struct store_identity identity;
    enum err e = identity_read(&identity, lanes->paths[lane], why);
    if (e == ERR_OK) return identity_expect(&identity, lanes->paths[lane], &wish, why);
    if (e != ERR_NOT_FOUND) return e;
    return reason_err(why, ERR_CORRUPT,
                      "%s is missing; %s has %u lanes, and is not opened without one of them.",
                      lanes->paths[lane], dir, lanes->count);
}

static enum err check_lanes(const struct lanes_dir *lanes, const char *dir, struct reason *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < lanes->count && e == ERR_OK; i++)
        e = check_lane(lanes, dir, i, why);
    return e;
}

static enum err make_missing(struct lanes_dir *lanes, const char *dir,
                             const struct identity_wish *wish, struct reason *why)
{
    enum err e = refuse_remains(dir, why);
    if (e != ERR_OK) return e;
    remove_lanes(dir);
    const struct lanes_make make = {.count = lanes->count, .ids_shared = wish->ids_shared};
    e = lanes_dir_make(dir, &make, why);
    return e == ERR_OK ? identity_read(&lanes->identity, dir, why) : e;
}

static enum err open_several(struct lanes_dir *lanes, const char *dir,
                             const struct identity_wish *wish, struct reason *why)
{
    struct identity_wish root = *wish;
    root.lane = IDENTITY_ROOT;
    enum err e = identity_lock(&lanes->identity, dir, why);
    if (e != ERR_OK) return e;
    e = identity_read(&lanes->identity, dir, why);
    if (e == ERR_NOT_FOUND) e = make_missing(lanes, dir, wish, why);
    if (e == ERR_OK) e = identity_expect(&lanes->identity, dir, &root, why);
    return e == ERR_OK ? check_lanes(lanes, dir, why) : e;
}

/* Looks only: opening the store takes the lock again, and makes the identity if there is none. */
static enum err look_at_one(struct lanes_dir *lanes, const char *dir,
                            const struct identity_wish *wish, struct reason *why)
{
    enum err e = identity_lock(&lanes->identity, dir, why);
    if (e != ERR_OK) return e;
    e = identity_read(&lanes->identity, dir, why);
    if (e == ERR_OK)
        e = identity_expect(&lanes->identity, dir, wish, why);
    else if (e == ERR_NOT_FOUND)
        e = refuse_remains(dir, why);
    identity_release(&lanes->identity);
    return e;
}

static enum err name_lanes(struct lanes_dir *lanes, const char *dir, struct reason *why)
{
    char path[TREE_PATH_MAX];
    lanes->paths = must_calloc(lanes->count, sizeof *lanes->paths);
    for (unsigned i = 0; i < lanes->count; i++) {
        if (lanes_dir_path(path, dir, lanes->count, i) != ERR_OK)
            return reason_err(why, ERR_STORAGE, "the path of the data directory is too long.");
        lanes->paths[i] = strdup(path);
        must(lanes->paths[i] != NULL);
    }
    return ERR_OK;
}

enum err lanes_dir_open(struct lanes_dir *lanes, const char *dir, const struct identity_wish *wish,
                        struct reason *why)
{
    *lanes = (struct lanes_dir){.count = wish->lanes, .identity = {.lock_fd = -1}};
    enum err e = name_lanes(lanes, dir, why);
    if (e != ERR_OK) return e;
    return lanes->count > 1 ? open_several(lanes, dir, wish, why)
                            : look_at_one(lanes, dir, wish, why);
}

void lanes_dir_close(struct lanes_dir *lanes)
{
    for (unsigned i = 0; i < lanes->count && lanes->paths; i++)
        free(lanes->paths[i]);
    free(lanes->paths);
    identity_release(&lanes->identity);
    *lanes = (struct lanes_dir){.identity = {.lock_fd = -1}};
}
