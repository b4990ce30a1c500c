/* verify.c -- the order in which the parts of a store are read, and what is compared with what. */
#include "store/embedded/verify/verify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/embedded/verify/internal.h"

void verify_say(struct verify *verify, enum verify_verdict verdict, const char *what,
                const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (verdict == VERIFY_DAMAGED) verify->damaged = true;
    verify->config->say(verify->config->context, verdict, what, text);
}

static enum err say_error(struct verify *verify, enum verify_verdict verdict, const char *what,
                          enum err e, const struct reason *why)
{
    if (why && reason_given(why))
        verify_say(verify, verdict, what, "%s", why->text);
    else
        verify_say(verify, verdict, what, "%s",
                   e == ERR_STORAGE ? strerror(errno) : err_sentence(e));
    return e;
}

static enum err trouble(struct verify *verify, enum err e, const char *what,
                        const struct reason *why)
{
    return say_error(verify, VERIFY_DAMAGED, what, e, why);
}

/* A store that a server has open changes while it would be read. */
static enum err refuse_in_use(struct verify *verify, const char *dir)
{
    verify_say(verify, VERIFY_REFUSED, "identity",
               "%s is in use by another tally, such as a running server. Stop it first; or make a "
               "backup, which needs no stop, and verify that: `tally backup NAME`, then `tally "
               "verify NAME`",
               dir);
    return ERR_CONFLICT;
}

static enum err open_identity(struct verify *verify, const char *dir)
{
    struct reason why;
    verify->identity.lock_fd = -1;
    enum err e = identity_read(&verify->identity, dir, &why);
    if (e == ERR_OK) e = identity_lock(&verify->identity, dir, &why);
    if (e == ERR_BUSY) return refuse_in_use(verify, dir);
    if (e == ERR_OK)
        verify_say(verify, VERIFY_GOOD, "identity", "installation %016llx",
                   (unsigned long long)verify->identity.installation);
    else
        verify_say(verify, e == ERR_CORRUPT ? VERIFY_DAMAGED : VERIFY_REFUSED, "identity", "%s",
                   why.text);
    return e;
}

static void count_bytes(struct verify *verify, const char *dir)
{
    struct tree_list files;
    uint64_t bytes = 0;
    if (tree_list_read(&files, dir) == ERR_OK)
        for (size_t i = 0; i < files.count; i++)
            bytes += files.files[i].size;
    atomic_store(&verify->config->effort->total, bytes);
    tree_list_release(&files);
}

/* -- What the journal adds up to --------------------------------------------------------------- */

/* The newest backup that the journal goes on from: its moment is the end of one of our blocks, and
 * that block was decided when the backup says. A store that was restored from an earlier backup has
 * other blocks under the same numbers. */
struct base {
    struct verify *verify;
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
    const struct verify *verify = best->verify;
    const struct manifest_lane *lane = &manifest->lanes[0];
    struct base base = {.sequence = lane->sequence, .moment_ms = lane->moment_ms};
    struct journal_extent extent;
    struct reason why;
    char journal[TREE_PATH_MAX];
    if (lane->sequence <= verify->journal.before || lane->sequence > verify->journal.last)
        return true;
    if (manifest->taken_ms >= best->before_ms) return true;
    if (tree_path(journal, verify->config->data, "journal") != ERR_OK) return true;
    enum err e = journal_walk(journal, verify->identity.installation, lane->sequence - 1,
                              meet_block, &base, &extent, &why);
    if (e != ERR_OK || !base.met) return true;
    if (tree_path(best->dir, verify->config->backups, name) != ERR_OK) best->dir[0] = '\0';
    snprintf(best->name, sizeof best->name, "%s", name);
    best->taken_ms = manifest->taken_ms;
    return true;
}

static void base_damaged(void *context, const char *sentence)
{
    verify_say(context, VERIFY_DAMAGED, "backup", "%s", sentence);
}

/* Reads all of a backup again and says each file that is not as it was. */
static enum err check_backup(struct verify *verify, const char *name, const char *what)
{
    struct manifest manifest;
    struct reason why;
    reason_clear(&why);
    enum err e = backup_check(verify->config->backups, name, verify->config->effort, base_damaged,
                              verify, &manifest, &why);
    if (e == ERR_OK) {
        verify_say(verify, VERIFY_GOOD, what, "%s: %zu files, %llu bytes, up to sequence %llu",
                   name, manifest.files.count, (unsigned long long)manifest_bytes(&manifest),
                   (unsigned long long)manifest_changes(&manifest));
        manifest_release(&manifest);
    } else if (e == ERR_NOT_FOUND || e == ERR_STORAGE) {
        say_error(verify, VERIFY_REFUSED, what, e, &why);
    } else if (e == ERR_CORRUPT && reason_given(&why)) {
        trouble(verify, e, what, &why);
    }
    return e;
}

/* A damaged backup is no base, for its damage would be taken for the store's; the one before it may
 * do. */
static void find_base(struct verify *verify, struct base *base)
{
    enum err e = ERR_CORRUPT;
    for (int64_t before_ms = INT64_MAX; e != ERR_OK; before_ms = base->taken_ms) {
        *base = (struct base){.verify = verify, .before_ms = before_ms};
        if (backup_list(verify->config->backups, try_base, base) != ERR_OK) base->dir[0] = '\0';
        if (!base->dir[0]) return;
        e = check_backup(verify, base->name, "backup");
    }
}

/* Makes `then` a store of what the journal adds up to from the base. */
static enum err lay_out_base(const struct verify *verify, const struct base *base, const char *then,
                             struct reason *why)
{
    const char *from = base->dir[0] ? base->dir : NULL;
    enum err e = from ? scratch_link(from, then, false) : tree_make(then);
    if (e == ERR_OK && !from) {
        char source[TREE_PATH_MAX];
        char target[TREE_PATH_MAX];
        struct checksum checksum;
        e = tree_path(source, verify->config->data, "IDENTITY");
        if (e == ERR_OK) e = tree_path(target, then, "IDENTITY");
        if (e == ERR_OK) e = tree_copy(source, target, &checksum, NULL);
    }
    if (e == ERR_OK) e = scratch_journal(verify, from, verify->config->data, then, why);
    return e == ERR_OK ? scratch_settle(verify, then, why) : e;
}

static enum err balance(struct verify *verify, const char *now)
{
    struct base base = {0};
    char then[TREE_PATH_MAX];
    char since[NAME_SIZE_MAX + 32] = "an empty start";
    struct reason why;
    find_base(verify, &base);
    if (!base.dir[0] && verify->journal.before > 0) {
        verify_say(verify, VERIFY_UNCHECKED, "balance",
                   "whether the state is what the journal adds up to: the journal goes back to "
                   "sequence %llu only, and no backup is as recent as that",
                   (unsigned long long)verify->journal.before + 1);
        return ERR_OK;
    }
    if (base.dir[0]) snprintf(since, sizeof since, "backup %s", base.name);
    reason_clear(&why);
    enum err e = tree_path(then, verify->config->scratch, "then");
    if (e == ERR_OK) e = lay_out_base(verify, &base, then, &why);
    e = e == ERR_OK ? verify_compare(verify, now, then, since)
                    : trouble(verify, e, "balance", &why);
    return e;
}

/* -- Whole verifications ----------------------------------------------------------------------- */

/* Opens a copy as a server would. */
static enum err recover(struct verify *verify, const char *now)
{
    struct reason why;
    reason_clear(&why);
    enum err e = scratch_settle(verify, now, &why);
    if (e == ERR_OK)
        verify_say(verify, VERIFY_GOOD, "recovery", "it opens");
    else
        trouble(verify, e, "recovery", &why);
    return e;
}

static enum err begin_scratch(struct verify *verify, const char *from, char now[TREE_PATH_MAX])
{
    enum err e = tree_remove(verify->config->scratch);
    if (e == ERR_OK) e = tree_make(verify->config->scratch);
    if (e == ERR_OK) e = tree_path(now, verify->config->scratch, "now");
    if (e == ERR_OK) e = scratch_link(from, now, true);
    return e == ERR_OK ? e : say_error(verify, VERIFY_REFUSED, "scratch", e, NULL);
}

static void verify_parts(struct verify *verify, const char *dir, const char *now)
{
    verify_journal(verify, dir);
    verify_tables(verify, dir);
    verify_ids(verify, dir);
    verify_archive(verify, now);
}

static enum err finish(struct verify *verify, enum err e)
{
    if (tree_remove(verify->config->scratch) != ERR_OK)
        verify_say(verify, VERIFY_UNCHECKED, "scratch", "%s could not be removed: %s",
                   verify->config->scratch, strerror(errno));
    if (e != ERR_OK) return e;
    verify_say(verify, VERIFY_UNCHECKED, "sums",
               "sums of ranges, which are made of the cells, and RocksDB's OPTIONS files");
    return verify->damaged ? ERR_CORRUPT : ERR_OK;
}

enum err verify_store(const struct verify_config *config)
{
    struct verify verify = {.config = config};
    char now[TREE_PATH_MAX];
    count_bytes(&verify, config->data);
    enum err e = open_identity(&verify, config->data);
    if (e != ERR_OK) return e;
    e = begin_scratch(&verify, config->data, now);
    if (e == ERR_OK) verify_parts(&verify, config->data, now);
    if (e == ERR_OK && !verify.damaged) e = recover(&verify, now);
    if (e == ERR_OK && verify.damaged)
        verify_say(&verify, VERIFY_UNCHECKED, "balance",
                   "whether the state is what the journal adds up to, because of the damage");
    else if (e == ERR_OK)
        e = balance(&verify, now);
    if (e == ERR_CORRUPT) e = ERR_OK; /* a finding said so */
    e = finish(&verify, e);
    identity_release(&verify.identity);
    return e;
}

enum err verify_backup(const struct verify_config *config, const char *name)
{
    struct verify verify = {.config = config};
    char dir[TREE_PATH_MAX];
    char now[TREE_PATH_MAX];
    enum err e = check_backup(&verify, name, "manifest");
    if (e != ERR_OK) return e;
    e = tree_path(dir, config->backups, name);
    if (e == ERR_OK) e = begin_scratch(&verify, dir, now);
    if (e == ERR_OK) e = open_identity(&verify, now);
    if (e == ERR_OK) {
        identity_release(&verify.identity); /* the store that is opened takes it */
        verify_parts(&verify, dir, now);
        if (!verify.damaged) e = recover(&verify, now);
    }
    if (e == ERR_OK)
        verify_say(&verify, VERIFY_UNCHECKED, "balance",
                   "whether its state is what the journal added up to: that takes the store's "
                   "journal; verify the store");
    if (e == ERR_CORRUPT) e = ERR_OK;
    return finish(&verify, e);
}
