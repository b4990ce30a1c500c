/* audit.c -- in which order things are looked at, and what is compared with what. */
#include "store/embedded/backup/audit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/embedded/backup/audit_internal.h"

void audit_say(struct audit *audit, enum audit_verdict verdict, const char *what,
               const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (verdict == AUDIT_DAMAGED) audit->damaged = true;
    audit->config->say(audit->config->context, verdict, what, text);
}

static enum err say_error(struct audit *audit, enum audit_verdict verdict, const char *what,
                          enum err e, const struct buf *why)
{
    if (why && why->size)
        audit_say(audit, verdict, what, "%.*s", (int)why->size, why->data);
    else
        audit_say(audit, verdict, what, "%s", e == ERR_STORAGE ? strerror(errno) : err_sentence(e));
    return e;
}

static enum err trouble(struct audit *audit, enum err e, const char *what, const struct buf *why)
{
    return say_error(audit, AUDIT_DAMAGED, what, e, why);
}

/* A store that a server has open changes while it would be read. */
static enum err refuse_in_use(struct audit *audit, const char *dir)
{
    audit_say(audit, AUDIT_REFUSED, "identity",
              "%s is in use by another tally, such as a running server. Stop it first; or make a "
              "backup, which needs no stop, and verify that: `tally backup NAME`, then `tally "
              "verify NAME`",
              dir);
    return ERR_CONFLICT;
}

/* The scope of ids is not ours to know: whichever the store was made with. */
static enum err open_identity(struct audit *audit, const char *dir)
{
    char path[TREE_PATH_MAX];
    char error[1024] = "";
    enum err e = tree_path(path, dir, "IDENTITY");
    if (e != ERR_OK) return e;
    if (access(path, F_OK) != 0) {
        audit_say(audit, AUDIT_REFUSED, "identity", "there is no store in %s", dir);
        return ERR_NOT_FOUND;
    }
    audit->identity = (struct identity){.lock_fd = -1};
    e = identity_open(&audit->identity, dir, error, sizeof error);
    if (e == ERR_INVALID) {
        audit->identity.ids_shared = true;
        e = identity_open(&audit->identity, dir, error, sizeof error);
    }
    if (e == ERR_BUSY) return refuse_in_use(audit, dir);
    if (e == ERR_OK)
        audit_say(audit, AUDIT_GOOD, "identity", "installation %016llx",
                  (unsigned long long)audit->identity.installation);
    else
        audit_say(audit, e == ERR_CORRUPT ? AUDIT_DAMAGED : AUDIT_REFUSED, "identity", "%s", error);
    return e;
}

static void count_bytes(struct audit *audit, const char *dir)
{
    struct tree_list files;
    uint64_t bytes = 0;
    if (tree_list_read(&files, dir) == ERR_OK)
        for (size_t i = 0; i < files.count; i++)
            bytes += files.files[i].size;
    atomic_store(&audit->config->effort->total, bytes);
    tree_list_release(&files);
}

/* -- What the journal adds up to --------------------------------------------------------------- */

/* The newest backup that the journal goes on from: its moment is the end of one of our blocks, and
 * that block was decided when the backup says. A store that was restored from an earlier backup has
 * other blocks under the same numbers. */
struct base {
    struct audit *audit;
    char dir[TREE_PATH_MAX]; /* "": none */
    char name[NAME_SIZE_MAX + 1];
    uint64_t sequence;
    int64_t moment_ms;
    int64_t taken_ms;
    int64_t before_ms; /* only backups that were taken before */
    bool met;
};

static enum err meet_block(void *context, const struct journal_block *block)
{
    struct base *base = context;
    uint64_t last = block->first_sequence + block->count - 1;
    if (last == base->sequence) base->met = block->time_ms == base->moment_ms;
    return ERR_OK;
}

static bool try_base(void *context, const char *name, const struct manifest *manifest)
{
    struct base *best = context;
    const struct audit *audit = best->audit;
    struct base base = {.sequence = manifest->sequence, .moment_ms = manifest->moment_ms};
    struct journal_extent extent;
    struct buf why;
    char journal[TREE_PATH_MAX];
    if (manifest->sequence <= audit->journal.before || manifest->sequence > audit->journal.last)
        return true;
    if (manifest->taken_ms >= best->before_ms) return true;
    if (tree_path(journal, audit->config->data, "journal") != ERR_OK) return true;
    buf_init(&why, TREE_PATH_MAX);
    enum err e = journal_walk(journal, audit->identity.installation, manifest->sequence - 1,
                              meet_block, &base, &extent, &why);
    buf_release(&why);
    if (e != ERR_OK || !base.met) return true;
    if (tree_path(best->dir, audit->config->backups, name) != ERR_OK) best->dir[0] = '\0';
    snprintf(best->name, sizeof best->name, "%s", name);
    best->taken_ms = manifest->taken_ms;
    return true;
}

static void base_damaged(void *context, const char *sentence)
{
    audit_say(context, AUDIT_DAMAGED, "backup", "%s", sentence);
}

/* All of a backup read again, with a line about each file that is not as it was. */
static enum err check_backup(struct audit *audit, const char *name, const char *what)
{
    struct manifest manifest;
    struct buf why;
    buf_init(&why, 2 * TREE_PATH_MAX);
    enum err e = backup_check(audit->config->backups, name, audit->config->effort, base_damaged,
                              audit, &manifest, &why);
    if (e == ERR_OK) {
        audit_say(audit, AUDIT_GOOD, what, "%s: %zu files, %llu bytes, up to sequence %llu", name,
                  manifest.files.count, (unsigned long long)manifest_bytes(&manifest),
                  (unsigned long long)manifest.sequence);
        manifest_release(&manifest);
    } else if (e == ERR_NOT_FOUND || e == ERR_STORAGE) {
        say_error(audit, AUDIT_REFUSED, what, e, &why);
    } else if (e == ERR_CORRUPT && why.size) {
        trouble(audit, e, what, &why);
    }
    buf_release(&why);
    return e;
}

/* What is damaged is no base: the damage would be taken for the store's. The one before it may do.
 */
static void find_base(struct audit *audit, struct base *base)
{
    enum err e = ERR_CORRUPT;
    for (int64_t before_ms = INT64_MAX; e != ERR_OK; before_ms = base->taken_ms) {
        *base = (struct base){.audit = audit, .before_ms = before_ms};
        if (backup_list(audit->config->backups, try_base, base) != ERR_OK) base->dir[0] = '\0';
        if (!base->dir[0]) return;
        e = check_backup(audit, base->name, "backup");
    }
}

/* What the journal makes of the base, in `then`. */
static enum err lay_out_base(const struct audit *audit, const struct base *base, const char *then,
                             struct buf *why)
{
    const char *from = base->dir[0] ? base->dir : NULL;
    enum err e = from ? scratch_link(from, then, false) : tree_make(then);
    if (e == ERR_OK && !from) {
        char source[TREE_PATH_MAX];
        char target[TREE_PATH_MAX];
        struct checksum checksum;
        e = tree_path(source, audit->config->data, "IDENTITY");
        if (e == ERR_OK) e = tree_path(target, then, "IDENTITY");
        if (e == ERR_OK) e = tree_copy(source, target, &checksum, NULL);
    }
    if (e == ERR_OK) e = scratch_journal(audit, from, audit->config->data, then, why);
    return e == ERR_OK ? scratch_settle(audit, then, why) : e;
}

static enum err balance(struct audit *audit, const char *now)
{
    struct base base;
    char then[TREE_PATH_MAX];
    char since[NAME_SIZE_MAX + 32] = "an empty start";
    struct buf why;
    find_base(audit, &base);
    if (!base.dir[0] && audit->journal.before > 0) {
        audit_say(audit, AUDIT_UNCHECKED, "balance",
                  "whether the state is what the journal adds up to: the journal goes back to "
                  "sequence %llu only, and no backup is as recent as that",
                  (unsigned long long)audit->journal.before + 1);
        return ERR_OK;
    }
    if (base.dir[0]) snprintf(since, sizeof since, "backup %s", base.name);
    buf_init(&why, 2 * TREE_PATH_MAX);
    enum err e = tree_path(then, audit->config->scratch, "then");
    if (e == ERR_OK) e = lay_out_base(audit, &base, then, &why);
    e = e == ERR_OK ? audit_compare(audit, now, then, since) : trouble(audit, e, "balance", &why);
    buf_release(&why);
    return e;
}

/* -- Whole audits ------------------------------------------------------------------------------ */

/* Opens a copy as a server would. */
static enum err recover(struct audit *audit, const char *now)
{
    struct buf why;
    buf_init(&why, 2 * TREE_PATH_MAX);
    enum err e = scratch_settle(audit, now, &why);
    if (e == ERR_OK)
        audit_say(audit, AUDIT_GOOD, "recovery", "it opens");
    else
        trouble(audit, e, "recovery", &why);
    buf_release(&why);
    return e;
}

static enum err begin_scratch(struct audit *audit, const char *from, char now[TREE_PATH_MAX])
{
    enum err e = tree_remove(audit->config->scratch);
    if (e == ERR_OK) e = tree_make(audit->config->scratch);
    if (e == ERR_OK) e = tree_path(now, audit->config->scratch, "now");
    if (e == ERR_OK) e = scratch_link(from, now, true);
    return e == ERR_OK ? e : say_error(audit, AUDIT_REFUSED, "scratch", e, NULL);
}

static void audit_parts(struct audit *audit, const char *dir, const char *now)
{
    audit_journal(audit, dir);
    audit_tables(audit, dir);
    audit_ids(audit, dir);
    audit_archive(audit, now);
}

static enum err finish(struct audit *audit, enum err e)
{
    if (tree_remove(audit->config->scratch) != ERR_OK)
        audit_say(audit, AUDIT_UNCHECKED, "scratch", "%s could not be removed: %s",
                  audit->config->scratch, strerror(errno));
    if (e != ERR_OK) return e;
    audit_say(audit, AUDIT_UNCHECKED, "sums",
              "sums of ranges, which are made of the cells, and RocksDB's OPTIONS files");
    return audit->damaged ? ERR_CORRUPT : ERR_OK;
}

enum err audit_store(const struct audit_config *config)
{
    struct audit audit = {.config = config};
    char now[TREE_PATH_MAX];
    count_bytes(&audit, config->data);
    enum err e = open_identity(&audit, config->data);
    if (e != ERR_OK) return e;
    e = begin_scratch(&audit, config->data, now);
    if (e == ERR_OK) audit_parts(&audit, config->data, now);
    if (e == ERR_OK && !audit.damaged) e = recover(&audit, now);
    if (e == ERR_OK && audit.damaged)
        audit_say(&audit, AUDIT_UNCHECKED, "balance",
                  "whether the state is what the journal adds up to, because of the damage");
    else if (e == ERR_OK)
        e = balance(&audit, now);
    if (e == ERR_CORRUPT) e = ERR_OK; /* it was said */
    e = finish(&audit, e);
    identity_release(&audit.identity);
    return e;
}

enum err audit_backup(const struct audit_config *config, const char *name)
{
    struct audit audit = {.config = config};
    char dir[TREE_PATH_MAX];
    char now[TREE_PATH_MAX];
    enum err e = check_backup(&audit, name, "manifest");
    if (e != ERR_OK) return e;
    e = tree_path(dir, config->backups, name);
    if (e == ERR_OK) e = begin_scratch(&audit, dir, now);
    if (e == ERR_OK) e = open_identity(&audit, now);
    if (e == ERR_OK) {
        identity_release(&audit.identity); /* the store that is opened takes it */
        audit_parts(&audit, dir, now);
        if (!audit.damaged) e = recover(&audit, now);
    }
    if (e == ERR_OK)
        audit_say(&audit, AUDIT_UNCHECKED, "balance",
                  "whether its state is what the journal added up to: that takes the store's "
                  "journal; verify the store");
    if (e == ERR_CORRUPT) e = ERR_OK;
    return finish(&audit, e);
}
