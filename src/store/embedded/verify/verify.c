/* verify.c -- the order in which the parts of a store are read, and what is compared with what. */
#include "store/embedded/verify/verify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/embedded/lanes_dir.h"
#include "store/embedded/verify/internal.h"

/* The scratch directory has the name EMBEDDED_SNAPSHOT in a data directory, so that opening the
 * store removes what a killed verification left. */
#define VERIFY_SCRATCH "snapshot"
#define BACKUP_SCRATCH ".verifying"

void verify_say(struct verify *verify, enum verify_verdict verdict, const char *what,
                const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (verdict == VERIFY_DAMAGED) verify->damaged = true;
    const struct verify_finding finding = {
        .verdict = verdict, .lane = verify->lane, .what = what, .text = text};
    verify->config->say(verify->config->context, &finding);
}

enum err verify_say_error(struct verify *verify, enum verify_verdict verdict, const char *what,
                          enum err e, const struct reason *why)
{
    if (why && reason_given(why))
        verify_say(verify, verdict, what, "%s", why->text);
    else
        verify_say(verify, verdict, what, "%s",
                   e == ERR_STORAGE ? strerror(errno) : err_sentence(e));
    return e;
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

static enum err say_identity(struct verify *verify, enum err e, const struct reason *why)
{
    if (e != ERR_OK)
        return verify_say_error(verify, e == ERR_CORRUPT ? VERIFY_DAMAGED : VERIFY_REFUSED,
                                "identity", e, why);
    char lanes[32] = "";
    if (verify->identity.lanes > 1)
        snprintf(lanes, sizeof lanes, ", %u lanes", verify->identity.lanes);
    verify_say(verify, VERIFY_GOOD, "identity", "installation %016llx%s",
               (unsigned long long)verify->identity.installation, lanes);
    return ERR_OK;
}

static enum err open_identity(struct verify *verify)
{
    struct reason why;
    enum err e = identity_read(&verify->identity, verify->dir, &why);
    if (e == ERR_OK) e = identity_lock(&verify->identity, verify->dir, &why);
    return e == ERR_BUSY ? refuse_in_use(verify, verify->dir) : say_identity(verify, e, &why);
}

/* Checks that each lane is the one it lies as. */
static enum err expect_lane(struct verify *lane, const struct verify *root, const char *dir)
{
    struct reason why;
    const struct identity_wish wish = {.ids_shared = root->identity.ids_shared,
                                       .lanes = root->identity.lanes,
                                       .lane = (unsigned)lane->lane,
                                       .installation = root->identity.installation};
    enum err e = identity_read(&lane->identity, dir, &why);
    if (e == ERR_OK) e = identity_expect(&lane->identity, dir, &wish, &why);
    if (e == ERR_NOT_FOUND) {
        e = ERR_CORRUPT;
        reason_say(&why, "%s is missing", dir);
    }
    return e == ERR_OK ? e : say_identity(lane, e, &why);
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

static void base_damaged(void *context, const char *sentence)
{
    verify_say(context, VERIFY_DAMAGED, "backup", "%s", sentence);
}

enum err verify_check_backup(struct verify *verify, const char *name, const char *what)
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
        verify_say_error(verify, VERIFY_REFUSED, what, e, &why);
    } else if (e == ERR_CORRUPT && reason_given(&why)) {
        verify_say_error(verify, VERIFY_DAMAGED, what, e, &why);
    }
    return e;
}

/* -- One store --------------------------------------------------------------------------------- */

/* Opens a copy as a server would. */
static enum err recover(struct verify *verify, const char *now)
{
    struct reason why;
    reason_clear(&why);
    enum err e = scratch_settle(verify, now, &why);
    if (e != ERR_OK) return verify_say_error(verify, VERIFY_DAMAGED, "recovery", e, &why);
    verify_say(verify, VERIFY_GOOD, "recovery", "it opens");
    return ERR_OK;
}

static enum err begin_scratch(struct verify *verify, char now[TREE_PATH_MAX])
{
    enum err e = tree_remove(verify->scratch);
    if (e == ERR_OK) e = tree_make(verify->scratch);
    if (e == ERR_OK) e = tree_path(now, verify->scratch, "now");
    if (e == ERR_OK) e = scratch_link(verify->dir, now, true);
    return e == ERR_OK ? e : verify_say_error(verify, VERIFY_REFUSED, "scratch", e, NULL);
}

static void verify_parts(struct verify *verify, const char *now)
{
    verify_journal(verify, verify->dir);
    verify_tables(verify, verify->dir);
    verify_ids(verify, verify->dir);
    verify_archive(verify, now);
}

/* Removes the scratch. ERR_CORRUPT where a finding has told of damage. */
static enum err end_scratch(struct verify *verify, enum err e)
{
    if (tree_remove(verify->scratch) != ERR_OK)
        verify_say(verify, VERIFY_UNCHECKED, "scratch", "%s could not be removed: %s",
                   verify->scratch, strerror(errno));
    if (e == ERR_OK && verify->damaged) e = ERR_CORRUPT;
    return e;
}

static enum err verify_data(struct verify *verify)
{
    char now[TREE_PATH_MAX];
    enum err e = begin_scratch(verify, now);
    if (e == ERR_OK) verify_parts(verify, now);
    if (e == ERR_OK && !verify->damaged) e = recover(verify, now);
    if (e == ERR_OK && verify->damaged)
        verify_say(verify, VERIFY_UNCHECKED, "balance",
                   "whether the state is what the journal adds up to, because of the damage");
    else if (e == ERR_OK)
        e = verify_balance(verify, now);
    return end_scratch(verify, e);
}

/* Verifies a copy of a backup: the backup's own directory is not written to, not even for a
 * lock. */
static enum err verify_copy(struct verify *verify)
{
    char now[TREE_PATH_MAX];
    enum err e = begin_scratch(verify, now);
    if (e == ERR_OK) verify_parts(verify, now);
    if (e == ERR_OK && !verify->damaged) e = recover(verify, now);
    return end_scratch(verify, e);
}

/* -- Whole verifications ----------------------------------------------------------------------- */

static void verify_init(struct verify *verify, const struct verify_config *config,
                        struct checked_backups *checked)
{
    *verify = (struct verify){
        .config = config, .lane = -1, .checked = checked, .identity = {.lock_fd = -1}};
}

/* Makes ready lane `index` of the directory that `root` reads; `scratch` NULL: one in the lane. */
static enum err lane_init(struct verify *lane, const struct verify *root, unsigned index,
                          const char *scratch)
{
    verify_init(lane, root->config, root->checked);
    lane->lane = (int)index;
    enum err e = lanes_dir_path(lane->dir, root->dir, root->identity.lanes, index);
    if (e == ERR_OK && !scratch) e = tree_path(lane->scratch, lane->dir, VERIFY_SCRATCH);
    if (scratch) snprintf(lane->scratch, sizeof lane->scratch, "%s", scratch);
    if (e == ERR_OK) return expect_lane(lane, root, lane->dir);
    return verify_say_error(lane, VERIFY_REFUSED, "identity", e, NULL);
}

static enum err verify_lane(struct verify *lane)
{
    struct reason why;
    enum err e = identity_lock(&lane->identity, lane->dir, &why);
    if (e == ERR_BUSY) return refuse_in_use(lane, lane->dir);
    if (e != ERR_OK) return say_identity(lane, e, &why);
    e = verify_data(lane);
    identity_release(&lane->identity);
    return e;
}

/* Goes through the lanes; what is wrong with one keeps none of the others from being read. */
static enum err each_lane(struct verify *root, const char *scratch,
                          enum err (*visit)(struct verify *lane))
{
    enum err first = ERR_OK;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < root->identity.lanes && e != ERR_BUSY; i++) {
        struct verify lane;
        e = lane_init(&lane, root, i, scratch);
        if (e == ERR_OK) e = visit(&lane);
        root->damaged |= e == ERR_CORRUPT;
        if (e != ERR_OK && e != ERR_CORRUPT && first == ERR_OK) first = e;
    }
    if (first != ERR_OK) return first;
    return root->damaged ? ERR_CORRUPT : ERR_OK;
}

static void say_alone(struct verify *verify)
{
    const struct store_identity *identity = &verify->identity;
    if (identity->lanes > 1)
        verify_say(verify, VERIFY_UNCHECKED, "lanes",
                   "the others: this is lane %u of %u; verify the directory above it",
                   identity->lane, identity->lanes);
}

static void say_unchecked(struct verify *verify, enum err e)
{
    if (e == ERR_OK || e == ERR_CORRUPT)
        verify_say(verify, VERIFY_UNCHECKED, "sums",
                   "sums of ranges, which are made of the cells, and RocksDB's OPTIONS files");
}

static enum err verify_opened(struct verify *root)
{
    if (root->identity.lane == IDENTITY_ROOT) return each_lane(root, NULL, verify_lane);
    enum err e = tree_path(root->scratch, root->dir, VERIFY_SCRATCH);
    if (e != ERR_OK) return verify_say_error(root, VERIFY_REFUSED, "scratch", e, NULL);
    e = verify_data(root);
    say_alone(root);
    return e;
}

enum err verify_store(const struct verify_config *config)
{
    struct verify root;
    struct checked_backups checked = {NULL};
    verify_init(&root, config, &checked);
    snprintf(root.dir, sizeof root.dir, "%s", config->data);
    count_bytes(&root, config->data);
    enum err e = open_identity(&root);
    if (e != ERR_OK) return e;
    e = verify_opened(&root);
    say_unchecked(&root, e);
    identity_release(&root.identity);
    checked_backups_release(&checked);
    return e;
}

static enum err verify_backup_dir(struct verify *root)
{
    struct reason why;
    enum err e = identity_read(&root->identity, root->dir, &why);
    e = say_identity(root, e, &why);
    if (e == ERR_OK && root->identity.lane == IDENTITY_ROOT)
        e = each_lane(root, root->scratch, verify_copy);
    else if (e == ERR_OK)
        e = verify_copy(root);
    if (e == ERR_OK || e == ERR_CORRUPT)
        verify_say(root, VERIFY_UNCHECKED, "balance",
                   "whether its state is what the journal added up to: that takes the store's "
                   "journal; verify the store");
    say_unchecked(root, e);
    return e;
}

enum err verify_backup(const struct verify_config *config, const char *name)
{
    struct verify root;
    verify_init(&root, config, NULL);
    enum err e = verify_check_backup(&root, name, "manifest");
    if (e != ERR_OK) return e;
    e = tree_path(root.dir, config->backups, name);
    if (e == ERR_OK) e = tree_path(root.scratch, config->backups, BACKUP_SCRATCH);
    if (e != ERR_OK) return verify_say_error(&root, VERIFY_REFUSED, "scratch", e, NULL);
    return verify_backup_dir(&root);
}
