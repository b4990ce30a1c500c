/* manual.c -- takes help texts apart. */
#include "cli/manual.h"

#include <stdlib.h>

#define HELP_SIZE_MAX (256u << 10)
#define MORE_INDENT 10u

/* Commands print to stdout, so for a moment stdout is a buffer in memory. */
void manual_read(const struct cli_command *command, struct buf *text_out)
{
    char *data = NULL;
    size_t size = 0;
    char name[64], flag[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    char *arguments[] = {name, flag, NULL};
    FILE *screen = stdout;
    stdout = open_memstream(&data, &size);
    must(stdout);
    int code = command->run(2, arguments);
    must(fclose(stdout) == 0);
    stdout = screen;
    must(code == EXIT_GOOD);
    buf_init(text_out, HELP_SIZE_MAX);
    buf_add(text_out, bytes_of(data, size));
    must(!text_out->failed);
    free(data);
}

static struct bytes after(struct bytes text, size_t size)
{
    return bytes_of(text.data + size, text.size - size);
}

static struct bytes trimmed(struct bytes text)
{
    while (text.size && text.data[0] == ' ')
        text = after(text, 1);
    return text;
}

static size_t indent_of(struct bytes line)
{
    return line.size - trimmed(line).size;
}

/* Returns where two spaces stand after each other, or the end. */
static size_t gap_at(struct bytes text)
{
    const char *gap = memmem(text.data, text.size, "  ", 2);
    return gap ? (size_t)(gap - text.data) : text.size;
}

/* Reads "--key KEY   text", "--json   text", "bash   text". False: no description is beside it. */
static bool read_item(struct bytes line, struct manual_line *out)
{
    size_t head_size = gap_at(line);
    struct bytes head = bytes_of(line.data, head_size);
    struct bytes value = head;
    struct bytes name = bytes_split(&value, ' ');
    bool option = name.size > 1 && name.data[0] == '-';
    bool word = name.size && name.data[0] >= 'a' && name.data[0] <= 'z';
    if (head_size == line.size || (!option && !word)) return false;
    out->kind = MANUAL_ITEM;
    out->name = name;
    out->value = value;
    out->text = trimmed(after(line, head_size));
    return true;
}

static void read_line(struct bytes line, enum manual_kind before, struct manual_line *out)
{
    static const struct bytes usage = BYTES("usage: ");
    size_t indent = indent_of(line);
    *out = (struct manual_line){.kind = MANUAL_PARAGRAPH, .text = line};
    if (line.size == 0) {
        out->kind = MANUAL_EMPTY;
    } else if (bytes_starts(line, usage)) {
        out->kind = MANUAL_USAGE;
        out->text = after(line, usage.size);
    } else if (before == MANUAL_USAGE) {
        out->kind = MANUAL_USAGE;
        out->text = indent >= usage.size ? after(line, usage.size) : trimmed(line);
    } else if ((before == MANUAL_ITEM || before == MANUAL_MORE) && indent >= MORE_INDENT) {
        out->kind = MANUAL_MORE;
        out->text = trimmed(line);
    } else if (indent > 0 && !(indent == 2 && read_item(trimmed(line), out))) {
        out->kind = MANUAL_VERBATIM;
    }
}

bool manual_next(struct bytes *rest, struct manual_line *line)
{
    if (rest->size == 0) return false;
    enum manual_kind before = line->text.data ? line->kind : MANUAL_EMPTY;
    struct bytes text = bytes_split(rest, '\n');
    read_line(text, before, line);
    if (!line->text.data) line->text = BYTES("");
    return true;
}

struct bytes manual_brief(const struct manual_line *line)
{
    static const struct bytes ends[] = {BYTES("; "), BYTES(" ("), BYTES(": ")};
    struct bytes brief = line->text;
    for (unsigned i = 0; i < ARRAY_COUNT(ends); i++) {
        const char *end = memmem(brief.data, brief.size, ends[i].data, ends[i].size);
        if (end) brief.size = (size_t)(end - brief.data);
    }
    return brief;
}
