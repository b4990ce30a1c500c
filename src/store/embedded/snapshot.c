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
#include "base/tree.h"
#include "store/embedded/internal.h"
#include "store/embedded/journal/copy.h"

struct snapshot {
    struct embedded *embedded;
    const char *dir;
    struct reason *why;            /* which step failed, at which file, for which reason */
    struct store_position applied; /* as the linked state has it */
    struct store_position moment;
    uint64_t from; /* the journal is copied after this sequence */
    uint64_t epoch;
    struct journal_copy copy;
};

static enum err failed(const struct snapshot *snapshot, const char *path, const char *what,
                       const char *reason)
{
    reason_say(snapshot->why, "%s cannot be %s: %s", path, what, reason);
    return ERR_STORAGE;
}

/* Says which names a path was to be made of that is too long. */
static enum err path_of(const struct snapshot *snapshot, const char *dir, const char *name,
                        char path[TREE_PATH_MAX])
{
    if (tree_path(path, dir, name) == ERR_OK) return ERR_OK;
    return failed(snapshot, name, "named", strerror(errno));
}

static enum err make_dir(const struct snapshot *snapshot, const char *path)
{
    return mkdir(path, 0700) == 0 ? ERR_OK : failed(snapshot, path, "made", strerror(errno));
}

static enum err make_part(const struct snapshot *snapshot, const char *name,
                          char path[TREE_PATH_MAX])
{
    enum err e = path_of(snapshot, snapshot->dir, name, path);
    return e == ERR_OK ? make_dir(snapshot, path) : e;
}

struct linking {
    const struct snapshot *snapshot;
    const char *from;
    const char *to;
    enum err err;
};

/* A file that is being written has another name: it is not part of the store yet. */
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
    linking->err = path_of(linking->snapshot, linking->from, name, from);
    if (linking->err == ERR_OK) linking->err = path_of(linking->snapshot, linking->to, name, to);
    if (linking->err == ERR_OK && link(from, to) != 0)
        linking->err = failed(linking->snapshot, from, "linked", strerror(errno));
}

/* Links a directory of files that are replaced or removed, but never changed. */
static enum err link_part(const struct snapshot *snapshot, const char *part)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    enum err e = path_of(snapshot, snapshot->embedded->config.dir, part, from);
    if (e == ERR_OK) e = make_part(snapshot, part, to);
    if (e != ERR_OK) return e;
    struct linking linking = {.snapshot = snapshot, .from = from, .to = to};
    int result = io_system.ops->list(&io_system, from, link_file, &linking);
    return result < 0 ? failed(snapshot, from, "listed", strerror(-result)) : linking.err;
}

/* The file is copied: it is small, and nothing keeps it from being written to. */
static enum err copy_file(const struct snapshot *snapshot, const char *name)
{
    char from[TREE_PATH_MAX];
    char to[TREE_PATH_MAX];
    struct checksum checksum;
    enum err e = path_of(snapshot, snapshot->embedded->config.dir, name, from);
    if (e == ERR_OK) e = path_of(snapshot, snapshot->dir, name, to);
    if (e != ERR_OK) return e;
    e = tree_remove(to);
    if (e == ERR_OK) e = tree_copy(from, to, &checksum, NULL);
    return e == ERR_OK ? e : failed(snapshot, from, "copied", strerror(errno));
}

static enum err link_state(const struct snapshot *snapshot)
{
    char path[TREE_PATH_MAX];
    struct state *state = snapshot->embedded->state;
    enum err e = path_of(snapshot, snapshot->dir, "state", path);
    if (e != ERR_OK || state_checkpoint(state, path) == ERR_OK) return e;
    return failed(snapshot, path, "made of the state's files", state_error(state));
}

/* A state in trouble, or a disk that has no room for write-back, still has what is durable: the
 * snapshot then has more journal. */
static enum err settle_state(const struct snapshot *snapshot)
{
    struct embedded *embedded = snapshot->embedded;
    const char *dir = embedded->config.dir;
    if (embedded->state_failed)
        return failed(snapshot, dir, "linked", "its state waits to be opened again after an error");
    bool behind = atomic_load(&embedded->durable_sequence) != embedded->applied.last_sequence;
    if (!behind || !checkpoint_has_room(embedded)) return ERR_OK;
    if (checkpoint_run(embedded) == ERR_OK) return ERR_OK;
    return failed(snapshot, dir, "written back", state_error(embedded->state));
}

static enum err link_files(const struct snapshot *snapshot)
{
    enum err e = settle_state(snapshot);
    if (e == ERR_OK) e = make_dir(snapshot, snapshot->dir);
    if (e == ERR_OK) e = link_state(snapshot);
    /* RocksDB's checkpoints are databases of their own; the files of ids name the one they go with.
     */
    if (e == ERR_OK) e = copy_file(snapshot, "state/IDENTITY");
    crash_point("snapshot.between_links");
    if (e == ERR_OK) e = link_part(snapshot, "ids");
    if (e == ERR_OK) e = link_part(snapshot, "archive");
    if (e == ERR_OK) e = copy_file(snapshot, "IDENTITY");
    return e;
}

/* The last batch that is shown whole. The state's files may hold half of one that was being shown
 * while they were linked: with `visible` it is shown to its end, and that is the moment. */
static struct store_position shown_position(struct embedded *embedded)
{
    pthread_rwlock_rdlock(&embedded->visible);
    pthread_mutex_lock(&embedded->pipeline);
    struct store_position position = embedded->durable;
    pthread_mutex_unlock(&embedded->pipeline);
    pthread_rwlock_unlock(&embedded->visible);
    return position;
}

/* `tending` is held: neither `applied` nor the archive moves, and nothing is trimmed. */
static enum err take_moment(struct snapshot *snapshot)
{
    struct embedded *embedded = snapshot->embedded;
    enum err e = link_files(snapshot);
    if (e != ERR_OK) return e;
    crash_point("snapshot.before_moment");
    uint64_t archived = atomic_load(&embedded->archived);
    snapshot->applied = embedded->applied;
    snapshot->from =
        archived < snapshot->applied.last_sequence ? archived : snapshot->applied.last_sequence;
    snapshot->epoch = journal_epoch(embedded->journal) + 1;
    snapshot->moment = shown_position(embedded);
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
    enum err e = make_part(snapshot, "journal", path);
    if (e != ERR_OK) return e;
    journal_copy_begin(&snapshot->copy, path, embedded->identity.installation, snapshot->epoch);
    e = journal_scan(embedded->journal, snapshot->from + 1, copy_block, snapshot);
    if (e == ERR_BUSY) e = ERR_OK;
    enum err ended = journal_copy_end(&snapshot->copy, &snapshot->applied);
    if (snapshot->copy.error)
        return failed(snapshot, path, "written", strerror(snapshot->copy.error));
    if (e != ERR_OK) return failed(snapshot, "the journal", "read", err_sentence(e));
    if (ended == ERR_OK && snapshot->copy.end.sequence != snapshot->moment.last_sequence)
        return failed(snapshot, "the journal", "copied",
                      "it does not end at the snapshot's moment");
    return ended;
}

enum err embedded_snapshot(struct store *store, const char *dir,
                           struct store_position *position_out, struct reason *why_out)
{
    struct embedded *embedded = embedded_of(store);
    struct snapshot snapshot = {.embedded = embedded, .dir = dir, .why = why_out};
    pthread_mutex_lock(&embedded->snapshotting);
    must(atomic_load(&embedded->pinned) == UINT64_MAX);
    pthread_mutex_lock(&embedded->tending);
    enum err e = take_moment(&snapshot);
    pthread_mutex_unlock(&embedded->tending);
    crash_point("snapshot.before_journal");
    if (e == ERR_OK) e = copy_journal(&snapshot);
    atomic_store(&embedded->pinned, UINT64_MAX);
    pthread_mutex_unlock(&embedded->snapshotting);
    *position_out = snapshot.moment;
    return e;
}
