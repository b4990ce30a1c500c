/* lines.c -- reads in large pieces, hands out lines. */
#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/json.h"

#define READ_SIZE (256u << 10)
#define ROOM_SIZE (LINE_SIZE_MAX + READ_SIZE)
#define GZIP_BUFFER_SIZE (128u << 10)

struct lines {
    int fd;
    gzFile gzip; /* or NULL */
    const atomic_bool *stop;
    off_t file_size; /* 0: unknown */
    off_t taken;     /* bytes read of the file, when it is not compressed */
    char *room;
    size_t begin;   /* where what was not handed out begins */
    size_t end;     /* where what was read ends */
    size_t scanned; /* no line feed before this */
    bool over;      /* nothing more to read */
    bool passing;   /* in the middle of a line that is too long */
    uint64_t number;
    char problem[128];
};

static bool ends_with_gz(const char *file)
{
    size_t size = strlen(file);
    return size > 3 && strcmp(file + size - 3, ".gz") == 0;
}

struct lines *lines_open(const char *file, const atomic_bool *stop)
{
    struct stat about;
    bool input = strcmp(file, "-") == 0;
    int fd = input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        close(fd);
        errno = EISDIR;
        return NULL;
    }
    struct lines *lines = must_calloc(1, sizeof *lines);
    *lines = (struct lines){.fd = fd, .stop = stop};
    if (S_ISREG(about.st_mode)) lines->file_size = about.st_size;
    if (!input && ends_with_gz(file)) {
        lines->gzip = gzdopen(fd, "rb");
        must(lines->gzip);
        gzbuffer(lines->gzip, GZIP_BUFFER_SIZE);
    }
    lines->room = must_calloc(1, ROOM_SIZE + JSON_PADDING);
    return lines;
}

void lines_close(struct lines *lines)
{
    if (!lines) return;
    if (lines->gzip)
        gzclose(lines->gzip);
    else if (lines->fd != STDIN_FILENO)
        close(lines->fd);
    free(lines->room);
    free(lines);
}

uint64_t lines_number(const struct lines *lines)
{
    return lines->number;
}

double lines_share(const struct lines *lines)
{
    if (lines->file_size <= 0) return -1;
    off_t at =
        lines->gzip ? gzoffset(lines->gzip) : lines->taken - (off_t)(lines->end - lines->begin);
    return (double)at / (double)lines->file_size;
}

const char *lines_problem(const struct lines *lines)
{
    return lines->problem;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static enum lines_got fail(struct lines *lines, const char *why)
{
    snprintf(lines->problem, sizeof lines->problem, "%s", why);
    return LINES_FAILED;
}

static enum lines_got read_gzip(struct lines *lines, char *room, size_t size)
{
    int code;
    int got = gzread(lines->gzip, room, (unsigned)size);
    if (got < 0) return fail(lines, gzerror(lines->gzip, &code));
    lines->end += (size_t)got;
    if (got > 0) return LINES_ONE;
    gzerror(lines->gzip, &code);
    if (code == Z_BUF_ERROR) return fail(lines, "the compressed file ends in the middle");
    lines->over = true;
    return LINES_ONE;
}

static enum lines_got read_plain(struct lines *lines, int wait_ms, char *room, size_t size)
{
    struct pollfd wait = {.fd = lines->fd, .events = POLLIN};
    int ready = poll(&wait, 1, wait_ms);
    if (*lines->stop) return LINES_STOPPED;
    if (ready == 0) return LINES_IDLE;
    ssize_t got = read(lines->fd, room, size);
    if (got < 0 && errno == EINTR) return LINES_IDLE;
    if (got < 0) return fail(lines, strerror(errno));
    lines->end += (size_t)got;
    lines->taken += got;
    if (got == 0) lines->over = true;
    return LINES_ONE;
}

/* LINES_ONE: there is more, or `over` says there is not. */
static enum lines_got read_more(struct lines *lines, int wait_ms)
{
    size_t left = lines->end - lines->begin;
    memmove(lines->room, lines->room + lines->begin, left);
    lines->scanned -= lines->begin;
    lines->begin = 0;
    lines->end = left;
    char *room = lines->room + left;
    size_t size = ROOM_SIZE - left;
    if (size > READ_SIZE) size = READ_SIZE;
    return lines->gzip ? read_gzip(lines, room, size) : read_plain(lines, wait_ms, room, size);
}

/* -- Lines ------------------------------------------------------------------------------------- */

static enum lines_got hand_out(struct lines *lines, size_t end, struct bytes *line_out)
{
    *line_out = bytes_of(lines->room + lines->begin, end - lines->begin);
    lines->begin = end < lines->end ? end + 1 : end;
    lines->scanned = lines->begin;
    lines->number++;
    bool was_long = lines->passing || line_out->size > LINE_SIZE_MAX;
    lines->passing = false;
    /* Some editors begin a file with a mark that says it is UTF-8. */
    if (lines->number == 1 && bytes_starts(*line_out, BYTES("\xef\xbb\xbf")))
        *line_out = bytes_of(line_out->data + 3, line_out->size - 3);
    return was_long ? LINES_LONG : LINES_ONE;
}

enum lines_got lines_next(struct lines *lines, int wait_ms, struct bytes *line_out)
{
    for (;;) {
        if (*lines->stop) return LINES_STOPPED;
        char *from = lines->room + lines->scanned;
        char *feed = memchr(from, '\n', lines->end - lines->scanned);
        if (feed) return hand_out(lines, (size_t)(feed - lines->room), line_out);
        lines->scanned = lines->end;
        if (lines->over && lines->begin == lines->end && !lines->passing) return LINES_END;
        if (lines->over) return hand_out(lines, lines->end, line_out);
        if (lines->end - lines->begin > LINE_SIZE_MAX) {
            lines->passing = true;
            lines->begin = lines->end;
        }
        enum lines_got got = read_more(lines, wait_ms);
        if (got != LINES_ONE) return got;
    }
}
