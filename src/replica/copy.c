/* copy.c -- see the header. */
#include "replica/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/number.h"
#include "replica/lend.h"
#include "replica/node.h"
#include "replica/shipment.h"

#define BEGIN_MS 600000 /* a snapshot first writes back what is in memory */
#define PIECE_MS 60000

struct copy {
    struct fetch *fetch;
    struct effort *effort;
    struct reason *why;
    char incoming[TREE_PATH_MAX];
    uint64_t number;
    struct tree_list files;
};

/* What an answer other than 200 means. */
static enum err refused(const struct fetch_reply *reply, struct reason *why)
{
    bool later = reply->status >= 500 || reply->status == 408 || reply->status == 429;
    reason_say(why, "%s", reply->why.text);
    return later ? ERR_STORAGE : ERR_CONFLICT;
}

static enum err ask(struct copy *copy, const char *method, const char *path, int64_t timeout_ms,
                    const struct fetch_reply **reply_out)
{
    enum err e = fetch_ask(copy->fetch, method, path, timeout_ms, reply_out);
    if (e == ERR_STORAGE) reason_say(copy->why, "%s", (*reply_out)->why.text);
    if (e == ERR_OK && (*reply_out)->status != 200) e = refused(*reply_out, copy->why);
    return e;
}

static enum err disk_failed(struct copy *copy, const char *path)
{
    return reason_err(copy->why, ERR_STORAGE, "%s cannot be written: %s", path, strerror(errno));
}

/* -- The listing ------------------------------------------------------------------------------- */

/* A path of our own making: below the directory, and nothing clever. */
static bool is_plain(struct bytes path)
{
    for (struct bytes rest = path; rest.data;) {
        struct bytes part = bytes_split(&rest, '/');
        if (part.size == 0 || part.data[0] == '.') return false;
    }
    return path.size < TREE_PATH_MAX / 2 && !memchr(path.data, '\0', path.size);
}

static bool read_number(struct bytes text, uint64_t *number_out)
{
    int64_t number;
    if (!number_parse(text, &number) || number < 0) return false;
    *number_out = (uint64_t)number;
    return true;
}

static bool read_file_line(struct copy *copy, struct bytes rest)
{
    char path[TREE_PATH_MAX];
    uint64_t size;
    if (!read_number(bytes_split(&rest, ' '), &size) || !rest.data || !is_plain(rest)) return false;
    snprintf(path, sizeof path, "%.*s", (int)rest.size, rest.data);
    tree_list_add(&copy->files, path, size);
    atomic_fetch_add(&copy->effort->total, size);
    return true;
}

static bool read_listing(struct copy *copy, struct bytes text)
{
    char end[32];
    uint64_t sequence;
    struct bytes rest = text;
    if (!bytes_equal(bytes_split(&rest, '\n'), BYTES("tally-snapshot 1"))) return false;
    while (rest.size) {
        size_t before = text.size - rest.size;
        struct bytes value = bytes_split(&rest, '\n');
        struct bytes name = bytes_split(&value, ' ');
        bool good = false;
        if (bytes_equal(name, BYTES("end"))) {
            snprintf(end, sizeof end, "%016" PRIx64, hash_checksum(bytes_of(text.data, before)));
            return bytes_equal(value, bytes_str(end));
        }
        if (bytes_equal(name, BYTES("number"))) good = read_number(value, &copy->number);
        if (bytes_equal(name, BYTES("sequence"))) good = read_number(value, &sequence);
        if (bytes_equal(name, BYTES("file"))) good = read_file_line(copy, value);
        if (!good) return false;
    }
    return false;
}

static enum err begin(struct copy *copy, const char *name)
{
    char path[512];
    const struct fetch_reply *reply;
    snprintf(path, sizeof path, "/api/replica/snapshot?format=%u&name=%s", SHIPMENT_FORMAT, name);
    enum err e = ask(copy, "POST", path, BEGIN_MS, &reply);
    if (e != ERR_OK) return e;
    if (read_listing(copy, buf_bytes(&reply->body))) return ERR_OK;
    return reason_err(copy->why, ERR_CONFLICT,
                      "its listing of a snapshot is none that this version understands");
}

/* -- Files ------------------------------------------------------------------------------------- */

/* Directories of a file's path are made, not those above the snapshot. */
static enum err make_dirs(struct copy *copy, char *path)
{
    for (char *at = path + strlen(copy->incoming) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!made) return disk_failed(copy, path);
        *at = '/';
    }
    return ERR_OK;
}

static enum err take_piece(struct copy *copy, size_t file, uint64_t offset, int fd,
                           const char *path, uint64_t *size_out)
{
    char question[256];
    const struct fetch_reply *reply;
    snprintf(question, sizeof question,
             "/api/replica/snapshot?number=%" PRIu64 "&file=%zu&offset=%" PRIu64, copy->number,
             file, offset);
    enum err e = ask(copy, "GET", question, PIECE_MS, &reply);
    if (e != ERR_OK) return e;
    struct bytes body = buf_bytes(&reply->body);
    if (body.size < LEND_CHECKSUM_SIZE) body.size = 0;
    size_t size = body.size ? body.size - LEND_CHECKSUM_SIZE : 0;
    if (!body.size || get_u64(body.data + size) != hash_checksum(bytes_of(body.data, size)))
        return reason_err(copy->why, ERR_STORAGE, "a piece of %s came damaged", path);
    e = tree_has_room(copy->effort);
    if (e == ERR_OK && pwrite(fd, body.data, size, (off_t)offset) != (ssize_t)size) e = ERR_STORAGE;
    if (e != ERR_OK) return disk_failed(copy, path);
    *size_out = size;
    atomic_fetch_add(&copy->effort->done, size);
    return ERR_OK;
}

static enum err take_file(struct copy *copy, size_t index)
{
    char path[TREE_PATH_MAX];
    const struct tree_file *file = &copy->files.files[index];
    uint64_t offset = 0;
    uint64_t size = 1;
    enum err e = tree_path(path, copy->incoming, file->path);
    if (e == ERR_OK) e = make_dirs(copy, path);
    if (e != ERR_OK) return e;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return disk_failed(copy, path);
    while (e == ERR_OK && offset < file->size && size > 0) {
        e = take_piece(copy, index, offset, fd, path, &size);
        offset += e == ERR_OK ? size : 0;
    }
    if (e == ERR_OK && offset != file->size)
        e = reason_err(copy->why, ERR_STORAGE, "%s came cut short", path);
    if (e == ERR_OK && fsync(fd) != 0) e = disk_failed(copy, path);
    close(fd);
    return e;
}

/* Empty directories are no files, and a store wants them all. */
static enum err make_parts(struct copy *copy)
{
    static const char *const parts[] = {"state", "ids", "archive", "journal"};
    char path[TREE_PATH_MAX];
    enum err e = tree_remove(copy->incoming);
    if (e == ERR_OK) e = tree_make(copy->incoming);
    for (unsigned i = 0; i < ARRAY_COUNT(parts) && e == ERR_OK; i++) {
        e = tree_path(path, copy->incoming, parts[i]);
        if (e == ERR_OK) e = tree_make(path);
    }
    return e == ERR_OK ? ERR_OK : disk_failed(copy, copy->incoming);
}

static enum err sync_parts(struct copy *copy)
{
    static const char *const parts[] = {"state", "ids", "archive", "journal"};
    char path[TREE_PATH_MAX];
    enum err e = ERR_OK;
    for (unsigned i = 0; i < ARRAY_COUNT(parts) && e == ERR_OK; i++) {
        e = tree_path(path, copy->incoming, parts[i]);
        if (e == ERR_OK) e = tree_sync_dir(path);
    }
    if (e == ERR_OK) e = tree_sync_dir(copy->incoming);
    return e == ERR_OK ? ERR_OK : disk_failed(copy, copy->incoming);
}

static void give_back(struct copy *copy)
{
    char path[128];
    const struct fetch_reply *reply;
    snprintf(path, sizeof path, "/api/replica/snapshot?number=%" PRIu64, copy->number);
    (void)!fetch_ask(copy->fetch, "DELETE", path, PIECE_MS, &reply); /* else it ends by itself */
}

static enum err call_arrived(struct copy *copy, const char *dir)
{
    char arrived[TREE_PATH_MAX];
    crash_point("copy.before_arrived");
    enum err e = tree_path(arrived, dir, NODE_ARRIVED);
    if (e == ERR_OK) e = tree_remove(arrived);
    if (e == ERR_OK && rename(copy->incoming, arrived) != 0) e = ERR_STORAGE;
    if (e == ERR_OK) e = tree_sync_dir(dir);
    return e == ERR_OK ? ERR_OK : disk_failed(copy, arrived);
}

enum err copy_take(struct fetch *fetch, const char *dir, const char *name, struct effort *effort,
                   struct reason *why)
{
    struct copy copy = {.fetch = fetch, .effort = effort, .why = why};
    atomic_store(&effort->done, 0);
    atomic_store(&effort->total, 0);
    enum err e = tree_path(copy.incoming, dir, NODE_INCOMING);
    if (e != ERR_OK) return disk_failed(&copy, dir);
    e = make_parts(&copy);
    if (e == ERR_OK) e = begin(&copy, name);
    bool begun = e == ERR_OK;
    if (begun) log_line(LOG_INFO, "copying the primary", LOG_KV("files", copy.files.count));
    for (size_t i = 0; i < copy.files.count && e == ERR_OK; i++)
        e = take_file(&copy, i);
    if (e == ERR_OK) e = sync_parts(&copy);
    if (e == ERR_OK) e = call_arrived(&copy, dir);
    if (begun) give_back(&copy);
    tree_list_release(&copy.files);
    return e;
}
