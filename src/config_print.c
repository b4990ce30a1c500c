/* config_print.c -- settings as YAML: what is in force, and the manual. */
#include "settings.h"

static const char manual_head[] =
    "# tally.yaml -- every setting there is, with its default.\n"
    "#\n"
    "# A file need hold only what differs. Each setting can also be given on the command line\n"
    "# (--set limits.queueOps=1000) or in the environment (TALLY_LIMITS_QUEUEOPS=1000). Later ones\n"
    "# win: default, file, environment, --set, flags. Durations: 500ms, 30s, 5m, 1h, 30d. Sizes:\n"
    "# 4096, 64KiB, 16MiB, 1GiB, or in powers of 1000: kB, MB, GB.\n"
    "#\n"
    "# Check a file with `tally check-config FILE`. This text is what `tally help settings` prints.\n";

/* Writes "section:" where a new one starts, then the indented name of the setting. */
static void write_name(struct buf *buf, const struct setting *setting, struct bytes *section)
{
    struct bytes rest = bytes_str(setting->path);
    struct bytes first = bytes_split(&rest, '.');
    if (!rest.data) {
        buf_addf(buf, "%s: ", setting->path);
        return;
    }
    if (!bytes_equal(first, *section)) buf_addf(buf, "%.*s:\n", (int)first.size, first.data);
    *section = first;
    buf_addf(buf, "  %.*s: ", (int)rest.size, rest.data);
}

void config_write(const struct config *config, struct buf *buf)
{
    struct bytes section = BYTES_NONE;
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        write_name(buf, &settings[i], &section);
        setting_show(&settings[i], config, buf);
        buf_add_char(buf, '\n');
    }
}

static bool section_starts(unsigned index)
{
    struct bytes path = bytes_str(settings[index].path);
    struct bytes section = bytes_split(&path, '.');
    if (!path.data) return index == 0;
    return index == 0 || !bytes_starts(bytes_str(settings[index - 1].path), section);
}

static void write_default(struct buf *buf, const struct setting *setting)
{
    bool quoted = setting->kind == SETTING_TEXT || setting->kind == SETTING_SECRET ||
                  setting->kind == SETTING_LISTEN;
    if (quoted)
        buf_add_json(buf, bytes_str(setting->standard));
    else
        buf_add(buf, bytes_str(setting->standard));
}

/* The comment stands in a column of its own after the value, as people write such files. */
#define COMMENT_COLUMN 34

void config_write_manual(struct buf *buf)
{
    struct bytes section = BYTES_NONE;
    buf_add(buf, bytes_str(manual_head));
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        if (section_starts(i)) buf_add_char(buf, '\n');
        struct buf line;
        buf_init(&line, 8192);
        write_name(&line, &settings[i], &section);
        write_default(&line, &settings[i]);
        const char *newline = memrchr(line.data, '\n', line.size);
        size_t column = line.size - (newline ? (size_t)(newline + 1 - line.data) : 0);
        buf_add(buf, buf_bytes(&line));
        buf_release(&line);
        int pad = column < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - column) : 1;
        buf_addf(buf, "%*s# %s\n", pad, "", settings[i].sentence);
    }
}
