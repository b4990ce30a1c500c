/* scratch.c -- stores made of links to another's files, so that opening them changes nothing that
 * matters.
 *
 * RocksDB's tables, journal segments, runs of ids and archive files are only ever read once they
 * are written, so links will do; the few files that are written again (CURRENT, MANIFEST) are
 * copied. The journal makes no spares here, or it might make one of a linked segment. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/embedded/verify/internal.h"
#include "store/embedded/embedded.h"
#include "store/embedded/journal/copy.h"

#define SCRATCH_CACHE_BYTES (64u << 20)
#define SCRATCH_SEGMENT_BYTES (1u << 20) /* nothing is appended */
#define NEVER_MS (INT64_C(1) << 40)

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name);
    return size >= strlen(end) && strcmp(name + size - strlen(end), end) == 0;
}

static bool is_written_once(const char *name)
{
    return ends_with(name, ".sst") || ends_with(name, ".seg") || ends_with(name, ".tally") ||
           strncmp(name, "ids-", 4) == 0;
}

/* Locks, and files that are being made, mean nothing outside of their own store. */
static bool is_left_out(const char *name)
{
    return name[0] == '.' || strcmp(name, "LOCK") == 0 || ends_with(name, ".tmp") ||
           strncmp(name, "spare-", 6) == 0 || strncmp(name, "making-", 7) == 0 ||
           strncmp(name, "ingest-", 7) == 0;
}

static enum err take(const char *from, const char *to, const char *name)
{
    char source[TREE_PATH_MAX];
    char target[TREE_PATH_MAX];
    struct checksum checksum;
    enum err e = tree_path(source, from, name);
    if (e == ERR_OK) e = tree_path(target, to, name);
    if (e != ERR_OK) return e;
    if (is_written_once(name) && link(source, target) == 0) return ERR_OK;
    return tree_copy(source, target, &checksum, NULL);
}

static enum err take_part(const char *from_root, const char *to_root, const char *part)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    enum err e = tree_path(from, from_root, part);
    if (e == ERR_OK) e = tree_path(to, to_root, part);
    if (e == ERR_OK && mkdir(to, 0700) != 0) e = ERR_STORAGE;
    if (e != ERR_OK) return e;
    DIR *open_dir = opendir(from);
    if (!open_dir) return errno == ENOENT ? ERR_OK : ERR_STORAGE;
    for (struct dirent *entry; e == ERR_OK && (entry = readdir(open_dir));)
        if (!is_left_out(entry->d_name)) e = take(from, to, entry->d_name);
    closedir(open_dir);
    return e;
}

enum err scratch_link(const char *from, const char *to, bool journal)
{
    if (mkdir(to, 0700) != 0) return ERR_STORAGE;
    enum err e = take(from, to, "IDENTITY");
    if (e == ERR_OK) e = take_part(from, to, "state");
    if (e == ERR_OK) e = take_part(from, to, "ids");
    if (e == ERR_OK) e = take_part(from, to, "archive");
    if (e == ERR_OK && journal) e = take_part(from, to, "journal");
    return e;
}

enum err scratch_settle(const struct verify *verify, const char *dir, struct reason *why_out)
{
    struct store *store;
    const struct embedded_config config = {
        .dir = dir,
        .clock = verify->config->clock,
        .cache_bytes = SCRATCH_CACHE_BYTES,
        .segment_bytes = SCRATCH_SEGMENT_BYTES,
        .keep_bytes = UINT64_MAX,
        .keep_ms = NEVER_MS,
        .checkpoint_ms = NEVER_MS,
        .checkpoint_bytes = UINT64_MAX,
        .ids_shared = verify->identity.ids_shared,
        .lanes = verify->identity.lanes,
        .lane = verify->identity.lane,
        .archive_ms = NEVER_MS,
        .key_keep_ms = verify->config->key_keep_ms,
    };
    enum err e = embedded_open(&store, &config, why_out);
    if (e == ERR_OK) store_close(store);
    return e;
}

static enum err add_block(void *context, const struct journal_block *block)
{
    return journal_copy_add(context, block);
}

enum err scratch_journal(const struct verify *verify, const char *base, const char *more,
                         const char *to, struct reason *why_out)
{
    char from[TREE_PATH_MAX];
    char path[TREE_PATH_MAX];
    struct journal_copy copy;
    struct journal_extent extent = {0};
    enum err e = tree_path(path, to, "journal");
    if (e == ERR_OK && mkdir(path, 0700) != 0) e = ERR_STORAGE;
    if (e != ERR_OK) return e;
    journal_copy_begin(&copy, path, verify->identity.installation, verify->journal.epoch + 1);
    if (base) e = tree_path(from, base, "journal");
    if (e == ERR_OK && base)
        e = journal_walk(from, verify->identity.installation, 0, add_block, &copy, &extent,
                         why_out);
    if (e == ERR_OK) e = tree_path(from, more, "journal");
    uint64_t last = extent.last;
    if (e == ERR_OK)
        e = journal_walk(from, verify->identity.installation, last, add_block, &copy, &extent,
                         why_out);
    const struct store_position after = {.last_sequence = last};
    enum err ended = journal_copy_end(&copy, &after);
    return e == ERR_OK ? ended : e;
}
