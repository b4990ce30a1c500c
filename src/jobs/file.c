/* file.c -- see the header. */
#include "jobs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/json.h"

#define PATH_SIZE 4096
#define STEP (128u << 10)
#define ZSTD_LEVEL 3

enum packing { PLAIN, GZIP, ZSTD };

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name);
    return size >= strlen(end) && strcmp(name + size - strlen(end), end) == 0;
}

static enum packing packing_of(const char *name)
{
    if (ends_with(name, ".gz")) return GZIP;
    return ends_with(name, ".zst") ? ZSTD : PLAIN;
}

/* -- Writing ----------------------------------------------------------------------------------- */

struct port_writer {
    enum packing packing;
    int fd;
    z_stream gzip;
    ZSTD_CStream *zstd;
    struct buf raw; /* lines not packed yet */
    char *packed;   /* STEP bytes */
    char dir[PATH_SIZE];
    char beside[PATH_SIZE];
    char path[PATH_SIZE];
};

static enum err put(struct port_writer *writer, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = write(writer->fd, data + done, size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ERR_STORAGE;
        done += (size_t)put;
    }
    return ERR_OK;
}

static enum err pack_gzip(struct port_writer *writer, bool end)
{
    enum err e = ERR_OK;
    writer->gzip.next_in = (unsigned char *)writer->raw.data;
    writer->gzip.avail_in = (unsigned)writer->raw.size;
    do {
        writer->gzip.next_out = (unsigned char *)writer->packed;
        writer->gzip.avail_out = STEP;
        int result = deflate(&writer->gzip, end ? Z_FINISH : Z_NO_FLUSH);
        must(result != Z_STREAM_ERROR);
        e = put(writer, writer->packed, STEP - writer->gzip.avail_out);
    } while (e == ERR_OK && writer->gzip.avail_out == 0);
    return e;
}

static enum err pack_zstd(struct port_writer *writer, bool end)
{
    ZSTD_inBuffer in = {writer->raw.data, writer->raw.size, 0};
    for (;;) {
        ZSTD_outBuffer out = {writer->packed, STEP, 0};
        size_t left =
            ZSTD_compressStream2(writer->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        must(!ZSTD_isError(left));
        enum err e = put(writer, writer->packed, out.pos);
        if (e != ERR_OK) return e;
        if (end ? left == 0 : in.pos == in.size) return ERR_OK;
    }
}

static enum err pack(struct port_writer *writer, bool end)
{
    enum err e = writer->packing == GZIP   ? pack_gzip(writer, end)
                 : writer->packing == ZSTD ? pack_zstd(writer, end)
                                           : put(writer, writer->raw.data, writer->raw.size);
    buf_reset(&writer->raw);
    return e;
}

static void start_packing(struct port_writer *writer)
{
    if (writer->packing == GZIP) {
        int result = deflateInit2(&writer->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                                  Z_DEFAULT_STRATEGY);
        must(result == Z_OK);
    }
    if (writer->packing != ZSTD) return;
    writer->zstd = ZSTD_createCStream();
    must(writer->zstd != NULL);
    ZSTD_initCStream(writer->zstd, ZSTD_LEVEL);
}

enum err port_writer_open(struct port_writer **writer_out, const char *dir, const char *name)
{
    struct port_writer *writer = must_calloc(1, sizeof *writer);
    writer->packing = packing_of(name);
    snprintf(writer->dir, PATH_SIZE, "%s", dir);
    int need = snprintf(writer->path, PATH_SIZE, "%s/%s", dir, name);
    int beside = snprintf(writer->beside, PATH_SIZE, "%s/.making-%s", dir, name);
    bool fits = need > 0 && need < PATH_SIZE && beside > 0 && beside < PATH_SIZE;
    writer->fd = fits ? open(writer->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (!fits) errno = ENAMETOOLONG;
    if (writer->fd < 0) {
        free(writer);
        return ERR_STORAGE;
    }
    writer->packed = must_alloc(STEP);
    buf_init(&writer->raw, PORT_LINE_MAX + 2 * STEP);
    start_packing(writer);
    *writer_out = writer;
    return ERR_OK;
}

enum err port_writer_line(struct port_writer *writer, struct bytes line)
{
    must(line.size <= PORT_LINE_MAX);
    buf_add(&writer->raw, line);
    buf_add_char(&writer->raw, '\n');
    must(!writer->raw.failed);
    return writer->raw.size < STEP ? ERR_OK : pack(writer, false);
}

static enum err name_file(struct port_writer *writer)
{
    if (fsync(writer->fd) != 0 || rename(writer->beside, writer->path) != 0) return ERR_STORAGE;
    int fd = open(writer->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ERR_STORAGE;
    enum err e = fsync(fd) == 0 ? ERR_OK : ERR_STORAGE;
    close(fd);
    return e;
}

enum err port_writer_close(struct port_writer *writer, bool keep)
{
    enum err e = keep ? pack(writer, true) : ERR_OK;
    if (e == ERR_OK && keep) e = name_file(writer);
    int error = errno;
    if (e != ERR_OK || !keep) unlink(writer->beside);
    close(writer->fd);
    if (writer->packing == GZIP) deflateEnd(&writer->gzip);
    ZSTD_freeCStream(writer->zstd);
    buf_release(&writer->raw);
    free(writer->packed);
    free(writer);
    errno = error;
    return e;
}

/* -- Reading ----------------------------------------------------------------------------------- */

struct port_reader {
    enum packing packing;
    int fd;
    uint64_t size;
    uint64_t offset;
    z_stream gzip;
    ZSTD_DStream *zstd;
    char *packed; /* STEP bytes */
    size_t packed_at;
    size_t packed_size;
    struct buf raw; /* unpacked; lines from `raw_at` on are to be given */
    size_t raw_at;
    bool whole; /* the last packed frame is at its end */
};

enum err port_reader_open(struct port_reader **reader_out, const char *dir, const char *name)
{
    char path[PATH_SIZE];
    struct stat file;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? ERR_NOT_FOUND : ERR_STORAGE;
    struct port_reader *reader = must_calloc(1, sizeof *reader);
    reader->packing = packing_of(name);
    reader->fd = fd;
    reader->size = fstat(fd, &file) == 0 ? (uint64_t)file.st_size : 0;
    reader->packed = must_alloc(STEP);
    reader->whole = true;
    buf_init(&reader->raw, PORT_LINE_MAX + 2 * STEP + JSON_PADDING);
    if (reader->packing == GZIP) must(inflateInit2(&reader->gzip, 15 + 16) == Z_OK);
    if (reader->packing == ZSTD) {
        reader->zstd = ZSTD_createDStream();
        must(reader->zstd != NULL);
    }
    *reader_out = reader;
    return ERR_OK;
}

void port_reader_close(struct port_reader *reader)
{
    if (!reader) return;
    close(reader->fd);
    if (reader->packing == GZIP) inflateEnd(&reader->gzip);
    ZSTD_freeDStream(reader->zstd);
    buf_release(&reader->raw);
    free(reader->packed);
    free(reader);
}

uint64_t port_reader_offset(struct port_reader *reader)
{
    return reader->offset;
}

uint64_t port_reader_size(struct port_reader *reader)
{
    return reader->size;
}

/* Reads more packed bytes. ERR_NOT_FOUND: there are none. */
static enum err fetch(struct port_reader *reader)
{
    for (;;) {
        ssize_t got = read(reader->fd, reader->packed, STEP);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ERR_STORAGE;
        reader->packed_at = 0;
        reader->packed_size = (size_t)got;
        reader->offset += (uint64_t)got;
        return got ? ERR_OK : ERR_NOT_FOUND;
    }
}

static enum err unpack_gzip(struct port_reader *reader, char *room, size_t *got_out)
{
    z_stream *gzip = &reader->gzip;
    gzip->next_in = (unsigned char *)reader->packed + reader->packed_at;
    gzip->avail_in = (unsigned)(reader->packed_size - reader->packed_at);
    gzip->next_out = (unsigned char *)room;
    gzip->avail_out = STEP;
    int result = inflate(gzip, Z_NO_FLUSH);
    reader->packed_at = reader->packed_size - gzip->avail_in;
    *got_out = STEP - gzip->avail_out;
    reader->whole = result == Z_STREAM_END;
    if (reader->whole) inflateReset(gzip); /* another member may follow */
    return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? ERR_OK : ERR_CORRUPT;
}

static enum err unpack_zstd(struct port_reader *reader, char *room, size_t *got_out)
{
    ZSTD_inBuffer in = {reader->packed, reader->packed_size, reader->packed_at};
    ZSTD_outBuffer out = {room, STEP, 0};
    size_t left = ZSTD_decompressStream(reader->zstd, &out, &in);
    if (ZSTD_isError(left)) return ERR_CORRUPT;
    reader->packed_at = in.pos;
    *got_out = out.pos;
    reader->whole = left == 0;
    return ERR_OK;
}

/* Unpacks more bytes. ERR_NOT_FOUND: the file is at its end. */
static enum err unpack(struct port_reader *reader)
{
    size_t got = 0;
    enum err e = ERR_OK;
    while (got == 0) {
        if (reader->packed_at == reader->packed_size) e = fetch(reader);
        if (e == ERR_NOT_FOUND && !reader->whole) return ERR_CORRUPT;
        char *room = e == ERR_OK ? buf_reserve(&reader->raw, STEP + JSON_PADDING) : NULL;
        if (e != ERR_OK || !room) return e == ERR_OK ? ERR_CORRUPT : e;
        if (reader->packing == GZIP) {
            e = unpack_gzip(reader, room, &got);
        } else if (reader->packing == ZSTD) {
            e = unpack_zstd(reader, room, &got);
        } else {
            got = reader->packed_size - reader->packed_at;
            memcpy(room, reader->packed + reader->packed_at, got);
            reader->packed_at = reader->packed_size;
        }
        if (e != ERR_OK) return e;
        reader->raw.size += got;
    }
    return ERR_OK;
}

enum err port_reader_line(struct port_reader *reader, struct bytes *line_out)
{
    struct buf *raw = &reader->raw;
    size_t looked = reader->raw_at;
    for (;;) {
        char *end =
            raw->size > looked ? memchr(raw->data + looked, '\n', raw->size - looked) : NULL;
        if (end) {
            *line_out =
                bytes_of(raw->data + reader->raw_at, (size_t)(end - raw->data) - reader->raw_at);
            reader->raw_at = (size_t)(end - raw->data) + 1;
            return ERR_OK;
        }
        if (raw->size - reader->raw_at > PORT_LINE_MAX) return ERR_CORRUPT;
        raw->size -= reader->raw_at;
        if (raw->size) memmove(raw->data, raw->data + reader->raw_at, raw->size);
        reader->raw_at = 0;
        looked = raw->size;
        enum err e = unpack(reader);
        if (e == ERR_NOT_FOUND && raw->size) return ERR_CORRUPT; /* the last line has no end */
        if (e != ERR_OK) return e;
    }
}
