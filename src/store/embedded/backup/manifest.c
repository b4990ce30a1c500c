/* manifest.c -- see the header. The file is text, so that an operator can read it and `sort`,
 * `diff` and `awk` work on it, and it is strict, so that nothing is guessed. */
#include "store/embedded/backup/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_WHOLE "tally-backup 1"
#define FIRST_LANES "tally-backup 2"
#define MANIFEST_BYTES_MAX (256u << 20)
#define LINE_MAX_SIZE (TREE_PATH_MAX + 128u)

void manifest_init(struct manifest *manifest, unsigned lanes_count)
{
    must(lanes_count >= 1 && lanes_count <= MANIFEST_LANES_MAX);
    *manifest = (struct manifest){.lanes_count = lanes_count};
    manifest->lanes = must_calloc(lanes_count, sizeof *manifest->lanes);
}

void manifest_release(struct manifest *manifest)
{
    tree_list_release(&manifest->files);
    free(manifest->lanes);
    manifest->lanes = NULL;
}

uint64_t manifest_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->files.count; i++)
        bytes += manifest->files.files[i].size;
    return bytes;
}

uint64_t manifest_changes(const struct manifest *manifest)
{
    uint64_t changes = 0;
    for (unsigned i = 0; i < manifest->lanes_count; i++)
        changes += manifest->lanes[i].sequence;
    return changes;
}

int64_t manifest_moment_ms(const struct manifest *manifest)
{
    int64_t moment_ms = INT64_MIN;
    for (unsigned i = 0; i < manifest->lanes_count; i++)
        if (manifest->lanes[i].moment_ms > moment_ms) moment_ms = manifest->lanes[i].moment_ms;
    return moment_ms;
}

static void encode_lanes(struct buf *text, const struct manifest *manifest)
{
    const struct manifest_lane *lanes = manifest->lanes;
    if (manifest->lanes_count == 1) {
        buf_addf(text, FIRST_WHOLE "\nsequence %" PRIu64 "\nmoment %" PRId64 "\n",
                 lanes[0].sequence, lanes[0].moment_ms);
        return;
    }
    buf_addf(text, FIRST_LANES "\nlanes %u\n", manifest->lanes_count);
    for (unsigned i = 0; i < manifest->lanes_count; i++)
        buf_addf(text, "lane %" PRIu64 " %" PRId64 "\n", lanes[i].sequence, lanes[i].moment_ms);
}

void manifest_encode(struct buf *text, const struct manifest *manifest)
{
    encode_lanes(text, manifest);
    buf_addf(text, "taken %" PRId64 "\ncopied %" PRIu64 "\n", manifest->taken_ms,
             manifest->copied_bytes);
    for (size_t i = 0; i < manifest->files.count; i++) {
        const struct tree_file *file = &manifest->files.files[i];
        buf_addf(text, "file %" PRIu64 " %016" PRIx64 "%016" PRIx64 " %s\n", file->size,
                 file->checksum.high, file->checksum.low, file->path);
    }
    buf_addf(text, "end %016" PRIx64 "\n", hash_checksum(buf_bytes(text)));
}

/* Refuses a path that leads anywhere else: what restore writes is below its directory. */
static bool path_is_plain(const char *path)
{
    if (path[0] == '/' || path[0] == '\0' || strstr(path, "..")) return false;
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ') return false;
    return true;
}

/* Takes WORD and a space off the line. */
static bool take_word(const char **line, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(*line, word, size) != 0 || (*line)[size] != ' ') return false;
    *line += size + 1;
    return true;
}

/* Takes 16 hex digits off the line, as they are written here. */
static bool take_hex(const char **line, uint64_t *value_out)
{
    char digits[17] = "";
    snprintf(digits, sizeof digits, "%s", *line);
    if (strspn(digits, "0123456789abcdef") != 16) return false;
    *value_out = strtoull(digits, NULL, 16);
    *line += 16;
    return true;
}

static bool take_unsigned(const char **line, uint64_t *value_out)
{
    char *end;
    bool padded = **line == '0' && (*line)[1] >= '0' && (*line)[1] <= '9';
    if (**line < '0' || **line > '9' || padded) return false;
    errno = 0;
    *value_out = strtoull(*line, &end, 10);
    *line = end;
    return errno == 0;
}

static bool decode_signed(const char *line, int64_t *value_out)
{
    uint64_t value;
    bool negative = *line == '-';
    if (negative) line++;
    if (!take_unsigned(&line, &value) || *line) return false;
    if (value > (uint64_t)INT64_MAX + negative || (negative && value == 0)) return false;
    *value_out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static bool decode_unsigned(const char *line, uint64_t *value_out)
{
    return take_unsigned(&line, value_out) && *line == '\0';
}

static bool decode_file(const char *line, struct manifest *manifest)
{
    struct tree_file file;
    size_t count = manifest->files.count;
    if (!take_word(&line, "file") || !take_unsigned(&line, &file.size) || *line++ != ' ')
        return false;
    if (!take_hex(&line, &file.checksum.high) || !take_hex(&line, &file.checksum.low)) return false;
    if (*line++ != ' ' || !path_is_plain(line)) return false;
    if (count && strcmp(manifest->files.files[count - 1].path, line) >= 0) return false;
    tree_list_add(&manifest->files, line, file.size);
    manifest->files.files[count].checksum = file.checksum;
    return true;
}

/* What the next line has to be. */
enum line {
    LINE_FIRST,
    LINE_SEQUENCE,
    LINE_MOMENT,
    LINE_LANES,
    LINE_LANE,
    LINE_TAKEN,
    LINE_COPIED,
    LINE_FILE,
};

struct decoding {
    struct manifest *manifest;
    enum line next;
    unsigned lanes; /* how many of them are known */
};

static bool decode_first(const char *line, struct decoding *decoding)
{
    bool whole = strcmp(line, FIRST_WHOLE) == 0;
    if (whole) manifest_init(decoding->manifest, 1);
    decoding->next = whole ? LINE_SEQUENCE : LINE_LANES;
    return whole || strcmp(line, FIRST_LANES) == 0;
}

static bool decode_lanes(const char *line, struct decoding *decoding)
{
    uint64_t count;
    if (!take_word(&line, "lanes") || !decode_unsigned(line, &count)) return false;
    if (count < 2 || count > MANIFEST_LANES_MAX) return false;
    manifest_init(decoding->manifest, (unsigned)count);
    decoding->next = LINE_LANE;
    return true;
}

static bool decode_lane(const char *line, struct decoding *decoding)
{
    struct manifest_lane *lane = &decoding->manifest->lanes[decoding->lanes++];
    bool more = decoding->lanes < decoding->manifest->lanes_count;
    decoding->next = more ? LINE_LANE : LINE_TAKEN;
    return take_word(&line, "lane") && take_unsigned(&line, &lane->sequence) && *line++ == ' ' &&
           decode_signed(line, &lane->moment_ms);
}

static bool decode_line(const char *line, struct decoding *decoding)
{
    struct manifest *manifest = decoding->manifest;
    switch (decoding->next) {
    case LINE_FIRST:
        return decode_first(line, decoding);
    case LINE_SEQUENCE:
        decoding->next = LINE_MOMENT;
        return take_word(&line, "sequence") && decode_unsigned(line, &manifest->lanes[0].sequence);
    case LINE_MOMENT:
        decoding->next = LINE_TAKEN;
        return take_word(&line, "moment") && decode_signed(line, &manifest->lanes[0].moment_ms);
    case LINE_LANES:
        return decode_lanes(line, decoding);
    case LINE_LANE:
        return decode_lane(line, decoding);
    case LINE_TAKEN:
        decoding->next = LINE_COPIED;
        return take_word(&line, "taken") && decode_signed(line, &manifest->taken_ms);
    case LINE_COPIED:
        decoding->next = LINE_FILE;
        return take_word(&line, "copied") && decode_unsigned(line, &manifest->copied_bytes);
    case LINE_FILE:
        return decode_file(line, manifest);
    }
    unreachable_state(decoding->next);
}

/* The lines before the last, each ended by a newline. */
static bool decode_lines(struct bytes text, struct manifest *manifest)
{
    char line[LINE_MAX_SIZE];
    struct decoding decoding = {.manifest = manifest};
    if (text.size == 0 || text.data[text.size - 1] != '\n') return false;
    while (text.size > 0) {
        struct bytes one = bytes_split(&text, '\n');
        if (one.size >= sizeof line || memchr(one.data, '\0', one.size)) return false;
        memcpy(line, one.data, one.size);
        line[one.size] = '\0';
        if (!decode_line(line, &decoding)) return false;
    }
    return decoding.next == LINE_FILE;
}

enum err manifest_decode(struct bytes text, struct manifest *manifest_out)
{
    char end[32];
    *manifest_out = (struct manifest){0};
    const size_t end_size = strlen("end 0123456789abcdef\n");
    if (text.size < end_size) return ERR_CORRUPT;
    struct bytes body = bytes_of(text.data, text.size - end_size);
    snprintf(end, sizeof end, "end %016" PRIx64 "\n", hash_checksum(body));
    if (memcmp(text.data + body.size, end, end_size) != 0) return ERR_CORRUPT;
    if (decode_lines(body, manifest_out)) return ERR_OK;
    manifest_release(manifest_out);
    return ERR_CORRUPT;
}

static enum err write_file(const char *path, struct bytes bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return ERR_STORAGE;
    ssize_t put = write(fd, bytes.data, bytes.size);
    enum err e = put == (ssize_t)bytes.size && fsync(fd) == 0 ? ERR_OK : ERR_STORAGE;
    int error = put >= 0 && put < (ssize_t)bytes.size ? ENOSPC : errno;
    close(fd);
    errno = error;
    return e;
}

/* The text is written under another name first, so that a manifest is there whole or not at all. */
static enum err write_beside(const char *dir, struct bytes text)
{
    char beside[TREE_PATH_MAX];
    char path[TREE_PATH_MAX];
    enum err e = tree_path(beside, dir, MANIFEST_NAME ".new");
    if (e != ERR_OK) return e;
    e = tree_path(path, dir, MANIFEST_NAME);
    if (e != ERR_OK) return e;
    e = write_file(beside, text);
    if (e != ERR_OK) return e;
    return rename(beside, path) == 0 ? tree_sync_dir(dir) : ERR_STORAGE;
}

enum err manifest_write(const char *dir, const struct manifest *manifest)
{
    struct buf text;
    buf_init(&text, MANIFEST_BYTES_MAX);
    manifest_encode(&text, manifest);
    enum err e = text.failed ? ERR_STORAGE : write_beside(dir, buf_bytes(&text));
    buf_release(&text);
    return e;
}

static enum err read_file(const char *path, struct buf *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_STORAGE;
    enum err e = ERR_OK;
    for (;;) {
        char *room = buf_reserve(text, 64u << 10);
        ssize_t got = room ? read(fd, room, 64u << 10) : -1;
        if (got < 0 && room && errno == EINTR) continue;
        if (got < 0) e = room ? ERR_STORAGE : ERR_CORRUPT;
        if (got <= 0) break;
        text->size += (size_t)got;
    }
    close(fd);
    return e;
}

enum err manifest_read(const char *dir, struct manifest *manifest_out)
{
    char path[TREE_PATH_MAX];
    struct buf text;
    enum err e = tree_path(path, dir, MANIFEST_NAME);
    if (e != ERR_OK) return e;
    buf_init(&text, MANIFEST_BYTES_MAX);
    e = read_file(path, &text);
    if (e == ERR_OK) e = manifest_decode(buf_bytes(&text), manifest_out);
    buf_release(&text);
    return e;
}
