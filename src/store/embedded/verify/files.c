/* files.c -- reads every checksum again, file by file, so that a finding names its file. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/embedded/verify/internal.h"
#include "store/embedded/archive/archive.h"
#include "store/embedded/journal/block.h"
#include "store/embedded/ids/filter.h"
#include "store/embedded/ids/run.h"
#include "store/embedded/state/state.h"

/* Hands each plain file of DIR/PART to `check`; returns how many were good. */
typedef bool check_fn(struct verify *verify, const char *dir, const char *name);

static uint64_t each_file(struct verify *verify, const char *root, const char *part,
                          check_fn *check)
{
    char dir[TREE_PATH_MAX];
    uint64_t good = 0;
    if (tree_path(dir, root, part) != ERR_OK) return 0;
    DIR *open_dir = opendir(dir);
    if (!open_dir && errno != ENOENT)
        verify_say(verify, VERIFY_DAMAGED, part, "%s cannot be listed: %s", dir, strerror(errno));
    if (!open_dir) return 0;
    for (struct dirent *entry; (entry = readdir(open_dir));)
        if (entry->d_name[0] != '.') good += check(verify, dir, entry->d_name);
    closedir(open_dir);
    return good;
}

/* -- Journal ----------------------------------------------------------------------------------- */

static void see_counter(void *context, struct bytes key, const struct counter *counter)
{
    (void)context, (void)key, (void)counter;
}
static void see_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    (void)context, (void)series, (void)bucket, (void)cell;
}
static void see_tenant(void *context, struct bytes tenant, int64_t cells)
{
    (void)context, (void)tenant, (void)cells;
}
static void see_key(void *context, struct fingerprint print, const struct key_record *record)
{
    (void)context, (void)print, (void)record;
}
static void see_object(void *context, struct bytes key, struct bytes value)
{
    (void)context, (void)key, (void)value;
}
static void see_dead(void *context, uint64_t series)
{
    (void)context, (void)series;
}

/* The walk has read the block's checksum; this reads what is in it. */
static enum err see_block(void *context, const struct journal_block *block)
{
    struct verify *verify = context;
    static const struct block_visitor visitor = {.counter = see_counter,
                                                 .cell = see_cell,
                                                 .tenant = see_tenant,
                                                 .key = see_key,
                                                 .object = see_object,
                                                 .dead = see_dead};
    struct arena arena;
    arena_init(&arena, 64u << 10);
    enum err e = block_visit(block->body, block->time_ms, &arena, &visitor);
    arena_release(&arena);
    atomic_fetch_add(&verify->config->effort->done, block->body.size);
    if (e == ERR_OK && atomic_load(&verify->config->effort->stop)) e = ERR_BUSY;
    return e;
}

void verify_journal(struct verify *verify, const char *dir)
{
    char path[TREE_PATH_MAX];
    struct reason why;
    reason_clear(&why);
    enum err e = tree_path(path, dir, "journal");
    if (e == ERR_OK)
        e = journal_walk(path, verify->identity.installation, 0, see_block, verify,
                         &verify->journal, &why);
    if (e == ERR_OK)
        verify_say(verify, VERIFY_GOOD, "journal", "%llu files, %llu blocks, up to sequence %llu",
                   (unsigned long long)verify->journal.segments,
                   (unsigned long long)verify->journal.blocks,
                   (unsigned long long)verify->journal.last);
    else if (e != ERR_BUSY)
        verify_say(verify, VERIFY_DAMAGED, "journal", "%s",
                   reason_given(&why) ? why.text : err_sentence(e));
}

/* -- Archive ----------------------------------------------------------------------------------- */

static bool see_event(void *context, const struct stored_event *event)
{
    struct verify *verify = context;
    atomic_fetch_add(&verify->config->effort->done, event->payload.size);
    return true;
}

/* One file holds the run of sequences that its name says. */
static bool check_archive_file(struct verify *verify, const char *dir, const char *name)
{
    uint64_t first;
    uint64_t last;
    uint64_t next = 0;
    (void)dir;
    if (!archive_is_file(name, &first, &last)) return false;
    const struct event_query query = {.after = first - 1,
                                      .upto = last,
                                      .arrived_from = INT64_MIN,
                                      .events = true,
                                      .duplicates = true,
                                      .budget = SIZE_MAX};
    enum err e = archive_read(verify->archive, &query, see_event, verify, &next);
    if (e != ERR_OK)
        verify_say(verify, VERIFY_DAMAGED, "archive", "archive/%s: %s", name, err_sentence(e));
    return e == ERR_OK;
}

void verify_archive(struct verify *verify, const char *dir)
{
    char path[TREE_PATH_MAX];
    struct reason why;
    if (tree_path(path, dir, "archive") != ERR_OK || access(path, F_OK) != 0) return;
    const struct archive_config config = {
        .dir = path, .io = &io_system, .installation = verify->identity.installation};
    if (archive_open(&verify->archive, &config, &why) != ERR_OK) {
        verify_say(verify, VERIFY_DAMAGED, "archive", "%s", why.text);
        return;
    }
    bool damaged = verify->damaged;
    uint64_t good = each_file(verify, dir, "archive", check_archive_file);
    if (verify->damaged == damaged)
        verify_say(verify, VERIFY_GOOD, "archive", "%llu files of retained events",
                   (unsigned long long)good);
    archive_close(verify->archive);
}

/* -- Ids and tables ---------------------------------------------------------------------------- */

/* Reads a run of event ids page by page. ERR_NOT_FOUND: the file is not a run. */
static enum err read_ids(struct verify *verify, const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    uint64_t first;
    uint64_t last;
    struct id_run run;
    struct id_cursor cursor;
    struct id_entry entry;
    if (!id_run_name_parse(name, &first, &last)) return ERR_NOT_FOUND;
    enum err e = tree_path(path, dir, "../state");
    const struct id_files files = {
        .io = &io_system, .dir = dir, .identity = state_identity_of(path)};
    if (e == ERR_OK) e = id_run_open(&run, &files, first, last);
    if (e != ERR_OK) return e;
    id_cursor_init(&cursor, &run);
    while (e == ERR_OK) {
        e = id_cursor_next(&cursor, &entry);
        atomic_fetch_add(&verify->config->effort->done, sizeof entry);
    }
    id_cursor_release(&cursor);
    id_run_close(&run);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool check_ids(struct verify *verify, const char *dir, const char *name)
{
    const struct filter_files files = {.dir = dir, .io = &io_system};
    enum err e = filter_file_check(&files, name);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        verify_say(verify, VERIFY_DAMAGED, "ids",
                   "ids/%s is damaged; remove it and the next start makes it anew", name);
    if (e != ERR_NOT_FOUND) return e == ERR_OK;
    e = read_ids(verify, dir, name);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        verify_say(verify, VERIFY_DAMAGED, "ids", "ids/%s: %s", name, err_sentence(e));
    return e == ERR_OK;
}

void verify_ids(struct verify *verify, const char *dir)
{
    bool damaged = verify->damaged;
    uint64_t good = each_file(verify, dir, "ids", check_ids);
    if (verify->damaged == damaged)
        verify_say(verify, VERIFY_GOOD, "ids", "%llu files", (unsigned long long)good);
}

static bool check_table(struct verify *verify, const char *dir, const char *name)
{
    char path[TREE_PATH_MAX];
    struct reason why;
    size_t size = strlen(name);
    if (size < 4 || strcmp(name + size - 4, ".sst") != 0) return false;
    if (tree_path(path, dir, name) != ERR_OK) return false;
    bool good = state_table_check(path, &why);
    if (!good && state_table_is_litter(dir, name)) return false;
    if (!good) verify_say(verify, VERIFY_DAMAGED, "state", "state/%s: %s", name, why.text);
    return good;
}

void verify_tables(struct verify *verify, const char *dir)
{
    bool damaged = verify->damaged;
    uint64_t good = each_file(verify, dir, "state", check_table);
    if (verify->damaged == damaged)
        verify_say(verify, VERIFY_GOOD, "state", "%llu tables", (unsigned long long)good);
}
