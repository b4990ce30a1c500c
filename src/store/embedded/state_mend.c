/* state_mend.c -- see the header.
 *
 * The MANIFEST is a log of RocksDB's: blocks of 32 KiB, in them records that never cross a block.
 *
 *   0  u32  CRC-32C of type and payload, rotated and shifted by a constant
 *   4  u16  size of the payload
 *   6  u8   type: whole, first, middle or last piece
 *   7       payload
 *
 * A block's last bytes are left empty if no header fits in them. */
#include "store/embedded/state_mend.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"

#define BLOCK_SIZE 32768u
#define HEAD_SIZE 7u
#define TYPE_MAX 4u
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

static size_t end_of(int fd, size_t size)
{
    unsigned char *data = must_alloc(size);
    ssize_t got = pread(fd, data, size, 0);
    size_t end = got == (ssize_t)size ? good_end(data, size) : size;
    free(data);
    return end;
}

bool state_mend(const char *dir)
{
    char path[MEND_PATH_MAX];
    struct stat file;
    if (!manifest_path(dir, path)) return false;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    bool known = fstat(fd, &file) == 0 && file.st_size > 0 && file.st_size < MANIFEST_MAX;
    size_t size = known ? (size_t)file.st_size : 0;
    size_t end = known ? end_of(fd, size) : 0;
    bool torn = end > 0 && end < size && size - end <= TORN_MAX;
    bool mended = torn && ftruncate(fd, (off_t)end) == 0 && fsync(fd) == 0;
    close(fd);
    if (mended)
        log_line(LOG_WARN, "the end of the state's list of files was torn and is cut off",
                 LOG_KV("file", (const char *)path), LOG_KV("bytes", (uint64_t)(size - end)));
    return mended;
}
