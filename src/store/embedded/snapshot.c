/* snapshot.c -- the store as of one moment, in a directory beside it, while commits go on.
 *
 *   checkpoint -> hard links of the files of state, ids and archive -> the moment -> journal
 *
 * What the links hold is at most what was durable when the moment was taken, and the copied journal
 * brings it exactly there: after-images are absolute (law 4 of checkpoint.c). So opening the
 * directory, which is plain recovery, gives the state after batch `position` and before the next.
 *
 * The thread that tends waits while links are made, for its files must not change under them;
 * commits and reads do not. The journal's part is copied afterwards, under a pin. Nothing of a
 * snapshot need survive a crash: what is left of one is removed at the next opening. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "store/backup/tree.h"
#include "store/embedded/internal.h"
#include "store/embedded/journal_copy.h"

struct snapshot {
    struct embedded *embedded;
    const char *dir;
    struct store_position applied; /* as the linked state has it */
    struct store_position moment;
    uint64_t from; /* the journal is copied after this sequence */
    uint64_t epoch;
    struct journal_copy copy;
};

static enum err snapshot_part(const struct snapshot *snapshot, const char *name,
                              char path[TREE_PATH_MAX])
{
    enum err e = tree_path(path, snapshot->dir, name);
    return e != ERR_OK || mkdir(path, 0700) == 0 ? e : ERR_STORAGE;
}

struct linking {
    const char *from;
    const char *to;
    enum err err;
};

/* What is being written has another name: it is not part of the store yet. */
static bool is_whole(const char *name)
{
    size_t size = strlen(name);
    return size < 4 || strcmp(name + size - 4, ".tmp") != 0;
}

static void link_file(void *context, const char *name)
{
    struct linking *linking = context;
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    if (linking->err != ERR_OK || !is_whole(name)) return;
    linking->err = tree_path(from, linking->from, name);
    if (linking->err == ERR_OK) linking->err = tree_path(to, linking->to, name);
    if (linking->err == ERR_OK && link(from, to) != 0) linking->err = ERR_STORAGE;
}

/* A directory of files that are replaced or removed, but never changed. */
static enum err link_part(const struct snapshot *snapshot, const char *part)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    enum err e = tree_path(from, snapshot->embedded->config.dir, part);
    if (e == ERR_OK) e = snapshot_part(snapshot, part, to);
    if (e != ERR_OK) return e;
    struct linking linking = {.from = from, .to = to};
    int result = io_system.ops->list(&io_system, from, link_file, &linking);
    return result < 0 ? ERR_STORAGE : linking.err;
}

/* A copy: it is small, and nothing keeps its file from being written to. */
static enum err copy_file(const struct snapshot *snapshot, const char *name)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    struct checksum checksum;
    enum err e = tree_path(from, snapshot->embedded->config.dir, name);
    if (e == ERR_OK) e = tree_path(to, snapshot->dir, name);
    if (e == ERR_OK) e = tree_remove(to);
    return e == ERR_OK ? tree_copy(from, to, &checksum, NULL) : e;
}

/* A state in trouble, or a disk that has no room for write-back, still has what is durable: the
 * snapshot then has more journal. */
static enum err settle_state(struct embedded *embedded)
{
    if (embedded->state_failed) return ERR_STORAGE;
    bool behind = atomic_load(&embedded->durable_sequence) != embedded->applied.last_sequence;
    return behind && checkpoint_has_room(embedded) ? checkpoint_run(embedded) : ERR_OK;
}

static enum err link_files(struct snapshot *snapshot)
{
    char path[TREE_PATH_MAX];
    struct embedded *embedded = snapshot->embedded;
    enum err e = settle_state(embedded);
    if (e != ERR_OK) return e;
    if (mkdir(snapshot->dir, 0700) != 0) return ERR_STORAGE;
    e = tree_path(path, snapshot->dir, "state");
    if (e == ERR_OK) e = state_checkpoint(embedded->state, path);
    /* RocksDB's checkpoints are databases of their own; the files of ids name the one they go with.
     */
    if (e == ERR_OK) e = copy_file(snapshot, "state/IDENTITY");
    if (e == ERR_OK) e = link_part(snapshot, "ids");
    if (e == ERR_OK) e = link_part(snapshot, "archive");
    if (e == ERR_OK) e = copy_file(snapshot, "IDENTITY");
    return e;
}

/* Under `tending`: neither `applied` nor the archive moves, and nothing is trimmed. */
static enum err take_moment(struct snapshot *snapshot)
{
    struct embedded *embedded = snapshot->embedded;
    enum err e = link_files(snapshot);
    if (e != ERR_OK) return e;
    uint64_t archived = atomic_load(&embedded->archived);
    snapshot->applied = embedded->applied;
    snapshot->from =
        archived < snapshot->applied.last_sequence ? archived : snapshot->applied.last_sequence;
    snapshot->epoch = journal_epoch(embedded->journal) + 1;
    pthread_mutex_lock(&embedded->pipeline);
    snapshot->moment = embedded->durable;
    pthread_mutex_unlock(&embedded->pipeline);
    atomic_store(&embedded->pinned, snapshot->from);
    return ERR_OK;
}

/* ERR_BUSY ends the scan: the moment is reached. */
static enum err copy_block(void *context, const struct journal_block *block)
{
    struct snapshot *snapshot = context;
    if (block->first_sequence > snapshot->moment.last_sequence) return ERR_BUSY;
    return journal_copy_add(&snapshot->copy, block);
}

static enum err copy_journal(struct snapshot *snapshot)
{
    struct embedded *embedded = snapshot->embedded;
    char path[TREE_PATH_MAX];
    enum err e = snapshot_part(snapshot, "journal", path);
    if (e != ERR_OK) return e;
    journal_copy_begin(&snapshot->copy, path, embedded->identity.installation, snapshot->epoch);
    e = journal_scan(embedded->journal, snapshot->from + 1, copy_block, snapshot);
    if (e == ERR_BUSY) e = ERR_OK;
    enum err ended = journal_copy_end(&snapshot->copy, &snapshot->applied);
    if (snapshot->copy.error) errno = snapshot->copy.error;
    return e == ERR_OK ? ended : e;
}

enum err embedded_snapshot(struct store *store, const char *dir,
                           struct store_position *position_out)
{
    struct embedded *embedded = embedded_of(store);
    struct snapshot snapshot = {.embedded = embedded, .dir = dir};
    must(atomic_load(&embedded->pinned) == UINT64_MAX); /* one at a time */
    pthread_mutex_lock(&embedded->tending);
    enum err e = take_moment(&snapshot);
    pthread_mutex_unlock(&embedded->tending);
    crash_point("snapshot.before_journal");
    if (e == ERR_OK) e = copy_journal(&snapshot);
    atomic_store(&embedded->pinned, UINT64_MAX);
    *position_out = snapshot.moment;
    return e;
}
