/* resp.c -- framing, reading and writing Redis's protocol. */
#include "wire/resp.h"

#define DIGITS_MAX 18u /* more make no number that any limit allows */

/* -- Framing ----------------------------------------------------------------------------------- */

enum number { NUMBER_WHOLE, NUMBER_MORE, NUMBER_WRONG };

/* Most numbers of a command have one digit or two. */
static inline bool read_short(struct bytes here, size_t *at, uint64_t *value_out)
{
    if (here.size < *at + 4) return false;
    const char *text = here.data + *at;
    unsigned first = (unsigned char)text[0] - '0';
    unsigned second = (unsigned char)text[1] - '0';
    bool two = second <= 9;
    if (first > 9 || text[1 + two] != '\r' || text[2 + two] != '\n') return false;
    *value_out = two ? first * 10 + second : first;
    *at += 3u + two;
    return true;
}

static enum number read_long(struct bytes here, size_t *at, uint64_t *value_out, bool *negative_out)
{
    size_t i = *at;
    uint64_t value = 0;
    *negative_out = i < here.size && here.data[i] == '-';
    if (*negative_out) i++;
    size_t begin = i;
    for (; i < here.size && here.data[i] >= '0' && here.data[i] <= '9'; i++) {
        if (i - begin >= DIGITS_MAX) return NUMBER_WRONG;
        value = value * 10 + (uint64_t)(here.data[i] - '0');
    }
    if (i == here.size) return NUMBER_MORE;
    if (i == begin || here.data[i] != '\r') return NUMBER_WRONG;
    if (i + 1 == here.size) return NUMBER_MORE;
    if (here.data[i + 1] != '\n') return NUMBER_WRONG;
    *at = i + 2;
    *value_out = value;
    return NUMBER_WHOLE;
}

/* Reads `-?digits CRLF` from `*at` on and goes behind it. A number with a sign is below zero,
 * whatever it is. */
static inline enum number read_number(struct bytes here, size_t *at, uint64_t *value_out,
                                      bool *negative_out)
{
    *negative_out = false;
    if (read_short(here, at, value_out)) return NUMBER_WHOLE;
    return read_long(here, at, value_out, negative_out);
}

static void frame_ends(struct resp_frames *frames)
{
    frames->whole = frames->at;
    frames->commands++;
}

static enum fault frame_array(struct resp_frames *frames, struct bytes here,
                              const struct resp_limits *limits, bool *more_out)
{
    uint64_t count;
    bool negative;
    size_t at = frames->at + 1;
    enum number number = read_number(here, &at, &count, &negative);
    *more_out = number == NUMBER_MORE;
    if (*more_out) return FAULT_NONE;
    if (number == NUMBER_WRONG) return FAULT_RESP_ARRAY;
    if (!negative && count > limits->arguments_max)
        return limits->stranger ? FAULT_RESP_STRANGER_ARRAY : FAULT_RESP_ARRAY;
    frames->at = at;
    if (negative || count == 0)
        frames->whole = at; /* no command at all: Redis skips it without a word */
    else
        frames->arguments_left = (uint32_t)count;
    return FAULT_NONE;
}

static enum fault frame_string(struct resp_frames *frames, struct bytes here,
                               const struct resp_limits *limits, bool *more_out)
{
    uint64_t size;
    bool negative;
    frames->got = here.data[frames->at];
    if (frames->got != '$') return FAULT_RESP_EXPECTED;
    size_t at = frames->at + 1;
    enum number number = read_number(here, &at, &size, &negative);
    *more_out = number == NUMBER_MORE;
    if (*more_out) return FAULT_NONE;
    if (number == NUMBER_WRONG || negative) return FAULT_RESP_STRING;
    size_t before = at - frames->whole;
    if (before > limits->bytes_max || size > limits->bytes_max - before)
        return limits->stranger ? FAULT_RESP_STRANGER_STRING : FAULT_RESP_STRING;
    size_t end = at + (size_t)size + 2;
    frames->need = end;
    *more_out = here.size < end;
    if (*more_out) return FAULT_NONE;
    if (here.data[end - 2] != '\r' || here.data[end - 1] != '\n') return FAULT_RESP_STRING;
    frames->need = 0;
    frames->at = end;
    if (--frames->arguments_left == 0) frame_ends(frames);
    return FAULT_NONE;
}

/* -- Lines of words ---------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static char escaped(char c)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    const char *found = memchr(from, c, sizeof from - 1);
    return found ? to[found - from] : c;
}

/* Takes one byte of a word in double quotes; `*line` stands behind it then. */
static char unescape(struct bytes *line)
{
    const char *at = line->data;
    size_t used = 1;
    char byte = at[0];
    if (byte == '\\' && line->size >= 4 && at[1] == 'x' && hex_digit(at[2]) >= 0 &&
        hex_digit(at[3]) >= 0) {
        byte = (char)(hex_digit(at[2]) * 16 + hex_digit(at[3]));
        used = 4;
    } else if (byte == '\\' && line->size >= 2) {
        byte = escaped(at[1]);
        used = 2;
    }
    *line = bytes_of(at + used, line->size - used);
    return byte;
}

static void skip(struct bytes *line)
{
    *line = bytes_of(line->data + 1, line->size - 1);
}

/* Takes the rest of a quoted word, behind its first quote. `word` NULL: only looks at it. False: it
 * does not end, or what follows its end is no blank. */
static bool take_quoted(struct bytes *line, char quote, char *word, size_t *size)
{
    while (line->size && line->data[0] != quote) {
        char byte = line->data[0];
        if (quote == '"') {
            byte = unescape(line);
        } else {
            if (byte == '\\' && line->size >= 2 && line->data[1] == '\'') skip(line);
            byte = line->data[0];
            skip(line);
        }
        if (word) word[*size] = byte;
        ++*size;
    }
    if (line->size == 0) return false;
    skip(line);
    return line->size == 0 || is_blank(line->data[0]);
}

static void skip_blanks(struct bytes *line)
{
    while (line->size && is_blank(line->data[0]))
        skip(line);
}

/* Takes the next word of a line that begins with one. */
static bool take_word(struct bytes *line, char *word, size_t *size_out)
{
    *size_out = 0;
    while (line->size && !is_blank(line->data[0])) {
        char byte = line->data[0];
        skip(line);
        if (byte == '"' || byte == '\'') return take_quoted(line, byte, word, size_out);
        if (word) word[*size_out] = byte;
        ++*size_out;
    }
    return true;
}

/* How many words a line has. False: a quote is not closed. */
static bool count_words(struct bytes line, uint32_t *count_out)
{
    size_t size;
    *count_out = 0;
    for (skip_blanks(&line); line.size; skip_blanks(&line)) {
        if (!take_word(&line, NULL, &size)) return false;
        ++*count_out;
    }
    return true;
}

/* The line from `at` on, without its end; `*end_out` stands behind that. */
static bool find_line(struct bytes here, size_t at, struct bytes *line_out, size_t *end_out)
{
    const char *end = memchr(here.data + at, '\n', here.size - at);
    if (!end) return false;
    size_t size = (size_t)(end - here.data) - at;
    *end_out = at + size + 1;
    if (size && here.data[at + size - 1] == '\r') size--;
    *line_out = bytes_of(here.data + at, size);
    return true;
}

static enum fault frame_line(struct resp_frames *frames, struct bytes here, bool *more_out)
{
    struct bytes line;
    size_t end;
    uint32_t count;
    *more_out = !find_line(here, frames->at, &line, &end);
    if (*more_out)
        return here.size - frames->at > RESP_LINE_BYTES_MAX ? FAULT_RESP_LINE : FAULT_NONE;
    if (line.size > RESP_LINE_BYTES_MAX) return FAULT_RESP_LINE;
    if (!count_words(line, &count)) return FAULT_RESP_QUOTES;
    frames->at = end;
    if (count > 0)
        frame_ends(frames);
    else
        frames->whole = end;
    return FAULT_NONE;
}

enum fault resp_frame(struct resp_frames *frames, struct bytes here,
                      const struct resp_limits *limits)
{
    enum fault fault = FAULT_NONE;
    bool more = false;
    while (!fault && !more && frames->at < here.size && frames->commands < limits->commands_max) {
        if (frames->arguments_left > 0)
            fault = frame_string(frames, here, limits, &more);
        else if (here.data[frames->at] == '*')
            fault = frame_array(frames, here, limits, &more);
        else
            fault = frame_line(frames, here, &more);
    }
    return fault;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static struct bytes *make_items(struct arena *arena, struct resp_command *command, uint32_t count)
{
    command->count = count;
    command->items =
        count <= RESP_FEW ? command->few : arena_alloc(arena, count * sizeof *command->items);
    return command->items;
}

static void read_array(struct resp_reader *reader, struct arena *arena, uint32_t count,
                       struct resp_command *command)
{
    struct bytes rest = reader->rest;
    struct bytes *items = make_items(arena, command, count);
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = 0;
        bool negative;
        at++; /* the '$' */
        must(read_number(rest, &at, &size, &negative) == NUMBER_WHOLE);
        must(size + 2 <= rest.size - at);
        items[i] = bytes_of(rest.data + at, (size_t)size);
        at += (size_t)size + 2;
    }
    reader->rest = bytes_of(rest.data + at, rest.size - at);
}

static void read_words(struct bytes line, struct arena *arena, uint32_t count,
                       struct resp_command *command)
{
    struct bytes *items = make_items(arena, command, count);
    char *text = arena_alloc(arena, line.size);
    for (uint32_t i = 0; i < count; i++) {
        size_t size;
        skip_blanks(&line);
        must(take_word(&line, text, &size));
        items[i] = bytes_of(text, size);
        text += size;
    }
}

bool resp_next(struct resp_reader *reader, struct arena *arena, struct resp_command *command_out)
{
    while (reader->rest.size > 0) {
        uint64_t value = 0;
        bool negative;
        uint32_t count;
        size_t at = 1;
        struct bytes rest = reader->rest, line;
        if (rest.data[0] == '*') {
            must(read_number(rest, &at, &value, &negative) == NUMBER_WHOLE);
            reader->rest = bytes_of(rest.data + at, rest.size - at);
            if (negative || value == 0) continue;
            read_array(reader, arena, (uint32_t)value, command_out);
            return true;
        }
        must(find_line(rest, 0, &line, &at));
        must(count_words(line, &count));
        reader->rest = bytes_of(rest.data + at, rest.size - at);
        if (count == 0) continue;
        read_words(line, arena, count, command_out);
        return true;
    }
    return false;
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void add_line_end(struct buf *buf)
{
    buf_add(buf, BYTES("\r\n"));
}

static void add_header(struct buf *buf, char kind, uint64_t count)
{
    buf_add_char(buf, kind);
    buf_add_u64(buf, count);
    add_line_end(buf);
}

void resp_add_simple(struct buf *buf, struct bytes text)
{
    buf_add_char(buf, '+');
    buf_add(buf, text);
    add_line_end(buf);
}

void resp_add_error(struct buf *buf, struct bytes text)
{
    buf_add_char(buf, '-');
    for (size_t i = 0; i < text.size; i++)
        buf_add_char(buf, (unsigned char)text.data[i] < 0x20 ? ' ' : text.data[i]);
    add_line_end(buf);
}

void resp_add_integer(struct buf *buf, int64_t value)
{
    buf_add_char(buf, ':');
    buf_add_i64(buf, value);
    add_line_end(buf);
}

void resp_add_bulk(struct buf *buf, struct bytes text)
{
    add_header(buf, '$', text.size);
    buf_add(buf, text);
    add_line_end(buf);
}

void resp_add_bulk_integer(struct buf *buf, int64_t value)
{
    char digits[24];
    struct buf text = {.data = digits, .capacity = sizeof digits, .max = sizeof digits};
    buf_add_i64(&text, value);
    bool two = text.size >= 10;
    char *at = buf_reserve(buf, text.size + 6u + two); /* once for all of it: GET is mostly this */
    if (!at) return;
    *at++ = '$';
    if (two) *at++ = (char)('0' + text.size / 10);
    *at++ = (char)('0' + text.size % 10);
    at = mempcpy(at, "\r\n", 2);
    at = mempcpy(at, digits, text.size);
    memcpy(at, "\r\n", 2);
    buf->size += text.size + 6u + two;
}

void resp_add_null(struct buf *buf, enum resp_version version)
{
    buf_add(buf, version == RESP_3 ? BYTES("_\r\n") : BYTES("$-1\r\n"));
}

void resp_add_array(struct buf *buf, uint64_t count)
{
    add_header(buf, '*', count);
}

void resp_add_map(struct buf *buf, enum resp_version version, uint64_t count)
{
    add_header(buf, version == RESP_3 ? '%' : '*', version == RESP_3 ? count : 2 * count);
}

void resp_add_set(struct buf *buf, enum resp_version version, uint64_t count)
{
    add_header(buf, version == RESP_3 ? '~' : '*', count);
}
