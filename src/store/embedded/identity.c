/* identity.c -- the IDENTITY file.
 *
 *   0  char[8]   "tallyid\n"
 *   8  u32       format
 *  12  u32       scope of event ids: 0 tenant, 1 installation
 *  16  u64       installation
 *  24  u8[192]   fingerprint secret
 * 216  u64       checksum of all before it */
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

enum {
    IDENTITY_FORMAT = 2,
    IDENTITY_SIZE = 224,
    AT_FORMAT = 8,
    AT_SCOPE = 12,
    AT_INSTALLATION = 16,
    AT_SECRET = 24,
    AT_CHECKSUM = 216,
};

#define IDENTITY_MAGIC "tallyid\n"

_Static_assert(AT_SECRET + HASH_SECRET_SIZE == AT_CHECKSUM, "the secret fills its place");

/* `secret` NULL: a new one. */
static bool identity_encode(char out[IDENTITY_SIZE], bool ids_shared,
                            const struct hash_secret *secret)
{
    memset(out, 0, IDENTITY_SIZE);
    memcpy(out, IDENTITY_MAGIC, 8);
    put_u32(out + AT_FORMAT, IDENTITY_FORMAT);
    put_u32(out + AT_SCOPE, ids_shared);
    if (getrandom(out + AT_INSTALLATION, AT_CHECKSUM - AT_INSTALLATION, 0) < 0) return false;
    if (secret) memcpy(out + AT_SECRET, secret->bytes, HASH_SECRET_SIZE);
    put_u64(out + AT_CHECKSUM, hash_checksum(bytes_of(out, AT_CHECKSUM)));
    return true;
}

static enum err identity_decode(struct identity *identity, const char in[IDENTITY_SIZE],
                                const char *path, char *error_out, size_t error_size)
{
    if (memcmp(in, IDENTITY_MAGIC, 8) != 0) {
        snprintf(error_out, error_size, "%s is not a tally identity file.", path);
        return ERR_CORRUPT;
    }
    if (get_u32(in + AT_FORMAT) != IDENTITY_FORMAT) {
        snprintf(error_out, error_size, "%s has format %u; this tally knows only format %d.", path,
                 get_u32(in + AT_FORMAT), IDENTITY_FORMAT);
        return ERR_CORRUPT;
    }
    if (get_u64(in + AT_CHECKSUM) != hash_checksum(bytes_of(in, AT_CHECKSUM))) {
        snprintf(error_out, error_size, "%s is damaged: its checksum does not match.", path);
        return ERR_CORRUPT;
    }
    if (get_u32(in + AT_SCOPE) != identity->ids_shared) {
        snprintf(error_out, error_size,
                 "events.idScope is %s, but %s was made with the other scope; it cannot change.",
                 identity->ids_shared ? "installation" : "tenant", path);
        return ERR_INVALID;
    }
    identity->installation = get_u64(in + AT_INSTALLATION);
    memcpy(identity->secret.bytes, in + AT_SECRET, HASH_SECRET_SIZE);
    return ERR_OK;
}

static bool sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = fsync(fd) == 0;
    close(fd);
    return ok;
}

/* The data directory's own name is as good as its parent's last sync. A parent that we may not
 * look into is not one that we made it in. */
static bool sync_parent(const char *dir)
{
    char path[4096 + 4];
    snprintf(path, sizeof path, "%s/..", dir);
    return sync_dir(path) || errno == EACCES;
}

/* Written beside its place and renamed, so that a crash leaves no half identity. Where there is one
 * the parent has been synced. */
static bool identity_create(const char *dir, const char *path, bool ids_shared,
                            const struct hash_secret *secret)
{
    char temporary[4096 + 8];
    char bytes[IDENTITY_SIZE];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (!identity_encode(bytes, ids_shared, secret)) return false;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes && fsync(fd) == 0;
    close(fd);
    return ok && sync_parent(dir) && rename(temporary, path) == 0 && sync_dir(dir);
}

static enum err lock_dir(struct identity *identity, const char *dir, char *error_out,
                         size_t error_size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/LOCK", dir);
    identity->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (identity->lock_fd < 0) {
        snprintf(error_out, error_size, "cannot open %s: %s.", path, strerror(errno));
        return ERR_STORAGE;
    }
    if (flock(identity->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        snprintf(error_out, error_size, "%s is in use by another tally.", dir);
        close(identity->lock_fd);
        identity->lock_fd = -1;
        return ERR_BUSY;
    }
    return ERR_OK;
}

static enum err identity_read(struct identity *identity, const char *path, char *error_out,
                              size_t error_size)
{
    char bytes[IDENTITY_SIZE];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    if (fd >= 0) close(fd);
    if (got < 0) {
        snprintf(error_out, error_size, "cannot read %s: %s.", path, strerror(errno));
        return ERR_STORAGE;
    }
    if (got != IDENTITY_SIZE) {
        snprintf(error_out, error_size, "%s is damaged: it is cut short.", path);
        return ERR_CORRUPT;
    }
    return identity_decode(identity, bytes, path, error_out, error_size);
}

static enum err refuse_half_restored(const char *dir, char *error_out, size_t error_size)
{
    char path[4096 + 16];
    snprintf(path, sizeof path, "%s/" IDENTITY_RESTORING, dir);
    if (access(path, F_OK) != 0) return ERR_OK;
    snprintf(error_out, error_size,
             "%s is being restored, or a restore did not finish; empty it and restore again.", dir);
    return ERR_CORRUPT;
}

enum err identity_open(struct identity *identity, const char *dir, char *error_out,
                       size_t error_size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/IDENTITY", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        snprintf(error_out, error_size, "cannot make %s: %s.", dir, strerror(errno));
        return ERR_STORAGE;
    }
    enum err e = refuse_half_restored(dir, error_out, error_size);
    if (e != ERR_OK) return e;
    e = lock_dir(identity, dir, error_out, error_size);
    if (e != ERR_OK) return e;
    if (access(path, F_OK) != 0 && !identity_create(dir, path, identity->ids_shared, NULL)) {
        snprintf(error_out, error_size, "cannot write %s: %s.", path, strerror(errno));
        e = ERR_STORAGE;
    }
    if (e == ERR_OK) e = identity_read(identity, path, error_out, error_size);
    if (e != ERR_OK) identity_release(identity);
    return e;
}

void identity_release(struct identity *identity)
{
    if (identity->lock_fd >= 0) close(identity->lock_fd);
    identity->lock_fd = -1;
}

enum err identity_make(const char *dir, const struct hash_secret *secret, bool ids_shared)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/IDENTITY", dir);
    return identity_create(dir, path, ids_shared, secret) ? ERR_OK : ERR_STORAGE;
}
