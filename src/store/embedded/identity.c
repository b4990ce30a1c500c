/* identity.c -- the IDENTITY file.
 *
 *   0  char[8]   "tallyid\n"
 *   8  u32       format: 2, or 3 where there are several lanes
 *  12  u32       scope of event ids: 0 tenant, 1 installation
 *  16  u64       installation
 *  24  u8[192]   fingerprint secret
 * format 3 only:
 * 216  u32       number of lanes, 2 or more
 * 220  u32       this lane, or all ones: the directory that holds the lanes
 * then
 *      u64       checksum of all before it */
#include "store/embedded/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/tree.h"

enum {
    FORMAT_WHOLE = 2,
    FORMAT_LANES = 3,
    AT_FORMAT = 8,
    AT_SCOPE = 12,
    AT_INSTALLATION = 16,
    AT_SECRET = 24,
    AT_LANES = 216,
    AT_LANE = 220,
    CHECKSUM_SIZE = 8,
    WHOLE_SIZE = AT_LANES + CHECKSUM_SIZE,
    LANES_SIZE = AT_LANE + 4 + CHECKSUM_SIZE,
};

#define IDENTITY_NAME "IDENTITY"
static const char magic[AT_FORMAT] = "tallyid\n"; /* without an end */

_Static_assert(AT_SECRET + HASH_SECRET_SIZE == AT_LANES, "the secret fills its place");

static enum err file_path(char path[TREE_PATH_MAX], const char *dir, const char *name,
                          struct reason *why)
{
    if (tree_path(path, dir, name) == ERR_OK) return ERR_OK;
    return reason_err(why, ERR_STORAGE, "the path of the data directory is too long.");
}

/* -- The file ---------------------------------------------------------------------------------- */

static size_t identity_encode(char out[LANES_SIZE], const struct store_identity *identity)
{
    bool whole = identity->lanes == 1;
    size_t size = whole ? WHOLE_SIZE : LANES_SIZE;
    memset(out, 0, LANES_SIZE);
    memcpy(out, magic, sizeof magic);
    put_u32(out + AT_FORMAT, whole ? FORMAT_WHOLE : FORMAT_LANES);
    put_u32(out + AT_SCOPE, identity->ids_shared);
    put_u64(out + AT_INSTALLATION, identity->installation);
    memcpy(out + AT_SECRET, identity->secret.bytes, HASH_SECRET_SIZE);
    if (!whole) {
        put_u32(out + AT_LANES, identity->lanes);
        put_u32(out + AT_LANE, identity->lane);
    }
    put_u64(out + size - CHECKSUM_SIZE, hash_checksum(bytes_of(out, size - CHECKSUM_SIZE)));
    return size;
}

static enum err identity_decode(struct store_identity *identity, struct bytes in, const char *path,
                                struct reason *why)
{
    size_t head = AT_FORMAT + 4;
    uint32_t format = in.size >= head ? get_u32(in.data + AT_FORMAT) : 0;
    size_t size = format == FORMAT_LANES ? LANES_SIZE : WHOLE_SIZE;
    if (in.size >= head && memcmp(in.data, magic, sizeof magic) != 0)
        return reason_err(why, ERR_CORRUPT, "%s is not a tally identity file.", path);
    if (in.size >= head && format != FORMAT_WHOLE && format != FORMAT_LANES)
        return reason_err(why, ERR_CORRUPT,
                          "%s has format %u; this tally knows only formats up to %d.", path, format,
                          FORMAT_LANES);
    if (in.size < size)
        return reason_err(why, ERR_CORRUPT, "%s is damaged: it is cut short.", path);
    if (get_u64(in.data + size - CHECKSUM_SIZE) !=
        hash_checksum(bytes_of(in.data, size - CHECKSUM_SIZE)))
        return reason_err(why, ERR_CORRUPT, "%s is damaged: its checksum does not match.", path);
    identity->ids_shared = get_u32(in.data + AT_SCOPE) != 0;
    identity->installation = get_u64(in.data + AT_INSTALLATION);
    memcpy(identity->secret.bytes, in.data + AT_SECRET, HASH_SECRET_SIZE);
    identity->lanes = format == FORMAT_LANES ? get_u32(in.data + AT_LANES) : 1;
    identity->lane = format == FORMAT_LANES ? get_u32(in.data + AT_LANE) : 0;
    bool known = identity->lane < identity->lanes || identity->lane == IDENTITY_ROOT;
    if (format == FORMAT_LANES && (identity->lanes < 2 || !known))
        return reason_err(why, ERR_CORRUPT, "%s names lane %u of %u, which cannot be.", path,
                          identity->lane, identity->lanes);
    return ERR_OK;
}

enum err identity_read(struct store_identity *identity, const char *dir, struct reason *why)
{
    char path[TREE_PATH_MAX];
    char bytes[LANES_SIZE];
    enum err e = file_path(path, dir, IDENTITY_NAME, why);
    if (e != ERR_OK) return e;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return reason_err(why, ERR_NOT_FOUND, "there is no store in %s.", dir);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    int error = errno;
    if (fd >= 0) close(fd);
    if (got < 0) return reason_err(why, ERR_STORAGE, "cannot read %s: %s.", path, strerror(error));
    return identity_decode(identity, bytes_of(bytes, (size_t)got), path, why);
}

enum err identity_draw(struct store_identity *identity)
{
    *identity = (struct store_identity){.lanes = 1, .lock_fd = -1};
    bool drawn = getrandom(&identity->installation, sizeof identity->installation, 0) >= 0 &&
                 getrandom(identity->secret.bytes, HASH_SECRET_SIZE, 0) >= 0;
    return drawn ? ERR_OK : ERR_STORAGE;
}

/* The data directory's own name is as good as its parent's last sync. A parent that this process
 * may not look into is not one that it made the directory in. */
static bool sync_parent(const char *dir)
{
    char path[TREE_PATH_MAX];
    if (tree_path(path, dir, "..") != ERR_OK) return false;
    return tree_sync_dir(path) == ERR_OK || errno == EACCES;
}

static bool write_file(const char *path, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = write(fd, bytes, size) == (ssize_t)size && fsync(fd) == 0;
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

/* The file is written beside its place and renamed, so that a crash leaves no half identity. Where
 * one was there before, the parent has been synced. */
enum err identity_write(const struct store_identity *identity, const char *dir)
{
    char path[TREE_PATH_MAX];
    char beside[TREE_PATH_MAX];
    char bytes[LANES_SIZE];
    size_t size = identity_encode(bytes, identity);
    if (tree_path(path, dir, IDENTITY_NAME) != ERR_OK) return ERR_STORAGE;
    if (tree_path(beside, dir, IDENTITY_NAME ".new") != ERR_OK) return ERR_STORAGE;
    if (!write_file(beside, bytes, size) || !sync_parent(dir)) return ERR_STORAGE;
    return rename(beside, path) == 0 ? tree_sync_dir(dir) : ERR_STORAGE;
}

/* -- The lock ---------------------------------------------------------------------------------- */

static enum err refuse_half_restored(const char *dir, struct reason *why)
{
    char path[TREE_PATH_MAX];
    enum err e = file_path(path, dir, IDENTITY_RESTORING, why);
    if (e != ERR_OK || access(path, F_OK) != 0) return e;
    return reason_err(why, ERR_CORRUPT,
                      "%s is being restored, or a restore did not finish; empty it and restore "
                      "again.",
                      dir);
}

enum err identity_lock(struct store_identity *identity, const char *dir, struct reason *why)
{
    char path[TREE_PATH_MAX];
    identity->lock_fd = -1;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return reason_err(why, ERR_STORAGE, "cannot make %s: %s.", dir, strerror(errno));
    enum err e = refuse_half_restored(dir, why);
    if (e == ERR_OK) e = file_path(path, dir, "LOCK", why);
    if (e != ERR_OK) return e;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return reason_err(why, ERR_STORAGE, "cannot open %s: %s.", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return reason_err(why, ERR_BUSY, "%s is in use by another tally.", dir);
    }
    identity->lock_fd = fd;
    return ERR_OK;
}

void identity_release(struct store_identity *identity)
{
    if (identity->lock_fd >= 0) close(identity->lock_fd);
    identity->lock_fd = -1;
}

/* -- What is expected -------------------------------------------------------------------------- */

static enum err refuse_number(const struct store_identity *identity, const char *dir,
                              unsigned wished, struct reason *why)
{
    return reason_err(
        why, ERR_INVALID,
        "store.lanes is %u, but %s was made with %u, and that cannot change. To move, "
        "start with %u, `tally export --ids --events`, and `tally import` that into a "
        "new directory with %u.",
        wished, dir, identity->lanes, identity->lanes, wished);
}

static enum err refuse_place(const struct store_identity *identity, const char *dir,
                             const struct identity_wish *wish, struct reason *why)
{
    if (identity->lane == IDENTITY_ROOT)
        return reason_err(why, ERR_CORRUPT, "%s has the identity of a directory of %u lanes.", dir,
                          identity->lanes);
    if (wish->lanes > 1 && wish->lane != IDENTITY_ROOT)
        return reason_err(why, ERR_CORRUPT,
                          "%s is lane %u and lies where lane %u belongs; put it back.", dir,
                          identity->lane, wish->lane);
    return reason_err(why, ERR_CORRUPT,
                      "%s is lane %u of %u of a store; it is served together with the others, from "
                      "the directory above it.",
                      dir, identity->lane, identity->lanes);
}

enum err identity_expect(const struct store_identity *identity, const char *dir,
                         const struct identity_wish *wish, struct reason *why)
{
    unsigned lanes = wish->lanes ? wish->lanes : 1;
    bool root = identity->lane == IDENTITY_ROOT;
    bool whole = lanes == 1 || wish->lane == IDENTITY_ROOT;
    if (identity->ids_shared != wish->ids_shared)
        return reason_err(
            why, ERR_INVALID,
            "events.idScope is %s, but %s was made with the other scope; it cannot change.",
            wish->ids_shared ? "installation" : "tenant", dir);
    if (whole && (root || identity->lanes == 1) && identity->lanes != lanes)
        return refuse_number(identity, dir, lanes, why);
    if (identity->lanes != lanes || identity->lane != wish->lane)
        return refuse_place(identity, dir, wish, why);
    if (wish->installation && identity->installation != wish->installation)
        return reason_err(why, ERR_CORRUPT, "%s is of another installation.", dir);
    return ERR_OK;
}

static enum err make_whole(const char *dir, const struct identity_wish *wish, struct reason *why)
{
    struct store_identity made;
    enum err e = identity_draw(&made);
    made.ids_shared = wish->ids_shared;
    if (e == ERR_OK) e = identity_write(&made, dir);
    if (e == ERR_OK) return e;
    return reason_err(why, e, "cannot write %s/" IDENTITY_NAME ": %s.", dir, strerror(errno));
}

enum err identity_open(struct store_identity *identity, const char *dir,
                       const struct identity_wish *wish, struct reason *why)
{
    enum err e = identity_lock(identity, dir, why);
    if (e != ERR_OK) return e;
    e = identity_read(identity, dir, why);
    if (e == ERR_NOT_FOUND && wish->lanes <= 1) {
        e = make_whole(dir, wish, why);
        if (e == ERR_OK) e = identity_read(identity, dir, why);
    }
    if (e == ERR_OK) e = identity_expect(identity, dir, wish, why);
    if (e != ERR_OK) identity_release(identity);
    return e;
}
