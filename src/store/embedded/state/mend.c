/* mend.c -- see the header.
 *
 * The MANIFEST is a log of RocksDB's: blocks of 32 KiB, in them records that never cross a block.
 *
 *   0  u32  CRC-32C of type and payload, rotated and shifted by a constant
 *   4  u16  size of the payload
 *   6  u8   type: whole, first, middle or last piece
 *   7       payload
 *
 * A block's last bytes are left empty if no header fits in them. */
#include "store/embedded/state/mend.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "base/tree.h"

#define BLOCK_SIZE 32768u
#define HEAD_SIZE 7u
#define TYPE_MAX 4u
#define SECTOR_SIZE 512u
#define LOST_BYTES 16u             /* zeros at a sector's end that no record has there by chance */
#define TORN_MAX (64u << 10)       /* an append names a few files */
#define MANIFEST_MAX (1024u << 20) /* RocksDB begins a new one before */
#define MEND_PATH_MAX 4096

static uint32_t crc32c(const unsigned char *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
    }
    return ~crc;
}

/* Size of the record at `at`, which has `left` bytes to the end of its block; 0: none that checks.
 */
static size_t record_size(const unsigned char *at, size_t left)
{
    uint32_t crc;
    if (left < HEAD_SIZE) return 0;
    memcpy(&crc, at, sizeof crc);
    size_t size = at[4] | (size_t)at[5] << 8;
    if (at[6] == 0 || at[6] > TYPE_MAX || HEAD_SIZE + size > left) return 0;
    uint32_t real = crc32c(at + 6, size + 1);
    return crc == ((real >> 15 | real << 17) + 0xa282ead8u) ? HEAD_SIZE + size : 0;
}

/* Where the records that check end. */
static size_t good_end(const unsigned char *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t left = BLOCK_SIZE - at % BLOCK_SIZE;
        size_t step = left < HEAD_SIZE ? left : 0;
        if (!step) step = record_size(data + at, left < size - at ? left : size - at);
        if (!step || step > size - at) return at;
        at += step;
    }
    return size;
}

/* The file that CURRENT names. */
static bool manifest_path(const char *dir, char path[MEND_PATH_MAX])
{
    char name[64] = "";
    snprintf(path, MEND_PATH_MAX, "%s/CURRENT", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, name, sizeof name - 1);
    close(fd);
    if (got <= 0 || strncmp(name, "MANIFEST-", 9) != 0) return false;
    name[strcspn(name, "\n")] = '\0';
    int need = snprintf(path, MEND_PATH_MAX, "%s/%s", dir, name);
    return !strchr(name, '/') && need < MEND_PATH_MAX;
}

/* Where a record that checks begins after `from`; `size`: nowhere. A bad record does not say where
 * the next one begins, so every place is tried. */
static size_t next_good(const unsigned char *data, size_t from, size_t size)
{
    for (size_t at = from + 1; at < size; at++) {
        size_t left = BLOCK_SIZE - at % BLOCK_SIZE;
        if (record_size(data + at, left < size - at ? left : size - at)) return at;
    }
    return size;
}

/* Whether a sector ends between `from` and `to` that did not reach the disk: what was never written
 * reads as zeros, and a sector is written from its beginning. */
static bool lost_sector(const unsigned char *data, size_t from, size_t to)
{
    for (size_t end = (from / SECTOR_SIZE + 1) * SECTOR_SIZE; end <= to; end += SECTOR_SIZE) {
        size_t first = end - from > LOST_BYTES ? end - LOST_BYTES : from;
        while (first < end && data[first] == 0)
            first++;
        if (first == end) return true;
    }
    return false;
}

struct manifest_file {
    char path[MEND_PATH_MAX];
    int fd;
    unsigned char *data;
    size_t size;
    size_t end; /* where the records that check end */
};

static bool read_manifest(struct manifest_file *file, const char *dir)
{
    struct stat status;
    *file = (struct manifest_file){.fd = -1};
    if (!manifest_path(dir, file->path)) return false;
    file->fd = open(file->path, O_RDWR | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &status) != 0) return false;
    if (status.st_size <= 0 || status.st_size >= MANIFEST_MAX) return false;
    file->size = (size_t)status.st_size;
    file->data = must_alloc(file->size);
    if (pread(file->fd, file->data, file->size, 0) != (ssize_t)file->size) return false;
    file->end = good_end(file->data, file->size);
    return true;
}

/* Whether the end is a torn append; `why_out` says what it is otherwise. */
static bool is_torn(const struct manifest_file *file, struct reason *why_out)
{
    if (file->end == file->size) return false;
    bool near = file->end > 0 && file->size - file->end <= TORN_MAX;
    size_t good = near ? next_good(file->data, file->end, file->size) : file->size;
    if (near && (good == file->size || lost_sector(file->data, file->end, good))) return true;
    reason_say(why_out, "%s is damaged at byte %zu of %zu%s", file->path, file->end, file->size,
               near ? ", and good records follow: no write that a power cut tore, so nothing of it "
                      "was changed; restore a backup"
                    : ", more than one write that a power cut tore, so nothing of it was changed; "
                      "restore a backup");
    return false;
}

static bool write_torn(const struct manifest_file *file, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    size_t size = file->size - file->end;
    bool kept = write(fd, file->data + file->end, size) == (ssize_t)size && fsync(fd) == 0;
    close(fd);
    return kept;
}

/* The torn end is durable under another name before it is cut. RocksDB leaves such names alone. */
static bool cut(const struct manifest_file *file, const char *dir)
{
    char torn[MEND_PATH_MAX + 32];
    snprintf(torn, sizeof torn, "%s.torn-%zu", file->path, file->end);
    if (!write_torn(file, torn) || tree_sync_dir(dir) != ERR_OK) return false;
    if (ftruncate(file->fd, (off_t)file->end) != 0 || fsync(file->fd) != 0) return false;
    log_line(LOG_WARN, "the end of the state's list of files was torn and is cut off",
             LOG_KV("file", (const char *)file->path),
             LOG_KV("bytes", (uint64_t)(file->size - file->end)),
             LOG_KV("kept", (const char *)torn));
    return true;
}

bool state_mend(const char *dir, struct reason *why_out)
{
    struct manifest_file file;
    reason_clear(why_out);
    bool mended = read_manifest(&file, dir) && is_torn(&file, why_out) && cut(&file, dir);
    if (file.fd >= 0) close(file.fd);
    free(file.data);
    return mended;
}

void state_mend_leftovers(const char *dir)
{
    DIR *open_dir = opendir(dir);
    if (!open_dir) return;
    for (struct dirent *entry; (entry = readdir(open_dir));) {
        if (strncmp(entry->d_name, STATE_INGEST_PREFIX, strlen(STATE_INGEST_PREFIX)) == 0)
            unlinkat(dirfd(open_dir), entry->d_name, 0);
    }
    closedir(open_dir);
}
