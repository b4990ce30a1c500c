/* node.c -- see the header. */
#include "replica/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"

#define FILE_NAME "NODE"
#define FILE_SIZE_MAX (NODE_URL_SIZE + 256)
#define FIRST_LINE BYTES("tally-node 1")

/* -- The file ---------------------------------------------------------------------------------- */

static bool take_line(struct membership *node, struct bytes line)
{
    struct bytes value = line;
    struct bytes name = bytes_split(&value, ' ');
    if (bytes_equal(name, BYTES("role"))) {
        node->follows = bytes_equal(value, BYTES("follower"));
        return node->follows || bytes_equal(value, BYTES("primary"));
    }
    if (bytes_equal(name, BYTES("primary"))) {
        if (value.size >= NODE_URL_SIZE) return false;
        memcpy(node->primary, value.data, value.size);
        node->primary[value.size] = '\0';
        return true;
    }
    node->followed = bytes_equal(value, BYTES("1"));
    return bytes_equal(name, BYTES("followed"));
}

/* The last line has the checksum of all before it. */
static bool decode(struct membership *node, struct bytes text)
{
    char end[32];
    struct bytes rest = text;
    if (!bytes_equal(bytes_split(&rest, '\n'), FIRST_LINE)) return false;
    while (rest.size) {
        size_t before = text.size - rest.size;
        struct bytes line = bytes_split(&rest, '\n');
        if (bytes_starts(line, BYTES("end "))) {
            snprintf(end, sizeof end, "end %016llx",
                     (unsigned long long)hash_checksum(bytes_of(text.data, before)));
            return bytes_equal(line, bytes_str(end)) && node->follows == (node->primary[0] != 0);
        }
        if (!take_line(node, line)) return false;
    }
    return false;
}

static ssize_t read_text(const char *path, char text[FILE_SIZE_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, FILE_SIZE_MAX);
    int error = errno;
    close(fd);
    errno = error;
    return got;
}

enum err node_read(struct membership *node_out, const char *dir, struct reason *why)
{
    char path[TREE_PATH_MAX];
    char text[FILE_SIZE_MAX];
    *node_out = (struct membership){0};
    if (tree_path(path, dir, FILE_NAME) != ERR_OK)
        return reason_err(why, ERR_STORAGE, "the path of the data directory is too long.");
    ssize_t got = read_text(path, text);
    if (got < 0 && errno == ENOENT) return ERR_OK;
    if (got < 0) return reason_err(why, ERR_STORAGE, "cannot read %s: %s.", path, strerror(errno));
    if (decode(node_out, bytes_of(text, (size_t)got))) return ERR_OK;
    return reason_err(why, ERR_CORRUPT,
                      "%s is damaged: it does not say whether this server follows another.", path);
}

static bool write_text(const char *path, struct bytes text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = write(fd, text.data, text.size) == (ssize_t)text.size && fsync(fd) == 0;
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

static enum err replace(const char *dir, struct bytes text)
{
    char path[TREE_PATH_MAX];
    char beside[TREE_PATH_MAX];
    enum err e = tree_make(dir);
    if (e == ERR_OK) e = tree_path(path, dir, FILE_NAME);
    if (e != ERR_OK) return e;
    e = tree_path(beside, dir, FILE_NAME ".new");
    if (e != ERR_OK) return e;
    if (!write_text(beside, text) || rename(beside, path) != 0) return ERR_STORAGE;
    return tree_sync_dir(dir);
}

enum err node_write(const struct membership *node, const char *dir, struct reason *why)
{
    struct buf text;
    buf_init(&text, FILE_SIZE_MAX);
    buf_add(&text, FIRST_LINE);
    buf_addf(&text, "\nrole %s\n", node->follows ? "follower" : "primary");
    if (node->follows) buf_addf(&text, "primary %s\n", node->primary);
    buf_addf(&text, "followed %d\n", node->followed);
    buf_addf(&text, "end %016llx\n", (unsigned long long)hash_checksum(buf_bytes(&text)));
    must(!text.failed);
    enum err e = replace(dir, buf_bytes(&text));
    buf_release(&text);
    if (e == ERR_OK) return e;
    return reason_err(why, e, "cannot write %s/" FILE_NAME ": %s.", dir, strerror(errno));
}

/* -- A snapshot's place ------------------------------------------------------------------------ */

static bool is_there(const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    return tree_path(path, dir, name) == ERR_OK && access(path, F_OK) == 0;
}

bool node_has_store(const char *dir)
{
    return is_there(dir, "IDENTITY") || is_there(dir, NODE_ARRIVED);
}

/* What is in the way goes first. A part that has been moved is not there any more, so that going on
 * after a crash does not touch it. */
static enum err move_part(const char *dir, const char *arrived, const char *part)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    enum err e = tree_path(from, arrived, part);
    if (e == ERR_OK) e = tree_path(to, dir, part);
    if (e != ERR_OK || access(from, F_OK) != 0) return e;
    e = tree_remove(to);
    crash_point("node.before_rename");
    if (e == ERR_OK && rename(from, to) != 0) e = ERR_STORAGE;
    return e == ERR_OK ? tree_sync_dir(dir) : e;
}

enum err node_settle(const char *dir, struct reason *why)
{
    static const char *const parts[] = {"state", "ids", "archive", "journal", "IDENTITY"};
    char arrived[TREE_PATH_MAX];
    char incoming[TREE_PATH_MAX];
    enum err e = tree_path(arrived, dir, NODE_ARRIVED);
    if (e == ERR_OK) e = tree_path(incoming, dir, NODE_INCOMING);
    if (e == ERR_OK && is_there(dir, NODE_ARRIVED)) {
        for (unsigned i = 0; i < ARRAY_COUNT(parts) && e == ERR_OK; i++)
            e = move_part(dir, arrived, parts[i]);
        if (e == ERR_OK) e = tree_remove(arrived);
        if (e == ERR_OK) e = tree_sync_dir(dir);
    }
    if (e == ERR_OK) e = tree_remove(incoming);
    if (e == ERR_OK) return e;
    return reason_err(why, e, "cannot put the snapshot in its place in %s: %s.", dir,
                      strerror(errno));
}
