/* balance.c -- makes the store anew, from a backup or from nothing and all that the journal has
 * after it, and compares the state with that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/embedded/lanes_dir.h"
#include "store/embedded/verify/internal.h"

/* -- Backups as a base ------------------------------------------------------------------------- */

static unsigned lanes_of(const struct verify *verify)
{
    return verify->identity.lanes;
}

static unsigned lane_of(const struct verify *verify)
{
    return verify->identity.lane;
}

/* Where this lane lies in a backup. */
static enum err lane_path(const struct verify *verify, const char *name, char out[TREE_PATH_MAX])
{
    char backup[TREE_PATH_MAX];
    enum err e = tree_path(backup, verify->config->backups, name);
    return e == ERR_OK ? lanes_dir_path(out, backup, lanes_of(verify), lane_of(verify)) : e;
}

/* Checks a backup once: what another lane found is not said twice. */
static enum err check_once(struct verify *verify, const char *name)
{
    struct checked_backup *checked = verify->checked->first;
    while (checked && strcmp(checked->name, name) != 0)
        checked = checked->next;
    if (checked) return checked->err;
    checked = must_calloc(1, sizeof *checked);
    snprintf(checked->name, sizeof checked->name, "%s", name);
    checked->err = verify_check_backup(verify, name, "backup");
    checked->next = verify->checked->first;
    verify->checked->first = checked;
    return checked->err;
}

void checked_backups_release(struct checked_backups *checked)
{
    while (checked->first) {
        struct checked_backup *next = checked->first->next;
        free(checked->first);
        checked->first = next;
    }
}

/* The newest backup that the journal goes on from: its moment is the end of one of the journal's
 * blocks, and that block was decided when the backup says. A store that was restored from an
 * earlier backup has other blocks under the same numbers. */
struct base {
    struct verify *verify;
    char dir[TREE_PATH_MAX]; /* "": there is no base */
    char name[NAME_SIZE_MAX + 1];
    uint64_t sequence;
    int64_t moment_ms;
    int64_t taken_ms;
    int64_t before_ms; /* only backups that were taken before this are looked at */
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
    if (manifest->lanes_count != lanes_of(verify)) return true;
    const struct manifest_lane *lane = &manifest->lanes[lane_of(verify)];
    struct base base = {.sequence = lane->sequence, .moment_ms = lane->moment_ms};
    struct journal_extent extent;
    struct reason why;
    char journal[TREE_PATH_MAX];
    if (lane->sequence <= verify->journal.before || lane->sequence > verify->journal.last)
        return true;
    if (manifest->taken_ms >= best->before_ms) return true;
    if (tree_path(journal, verify->dir, "journal") != ERR_OK) return true;
    enum err e = journal_walk(journal, verify->identity.installation, lane->sequence - 1,
                              meet_block, &base, &extent, &why);
    if (e != ERR_OK || !base.met) return true;
    if (lane_path(verify, name, best->dir) != ERR_OK) best->dir[0] = '\0';
    snprintf(best->name, sizeof best->name, "%s", name);
    best->taken_ms = manifest->taken_ms;
    return true;
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
        e = check_once(verify, base->name);
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
        e = tree_path(source, verify->dir, "IDENTITY");
        if (e == ERR_OK) e = tree_path(target, then, "IDENTITY");
        if (e == ERR_OK) e = tree_copy(source, target, &checksum, NULL);
    }
    if (e == ERR_OK) e = scratch_journal(verify, from, verify->dir, then, why);
    return e == ERR_OK ? scratch_settle(verify, then, why) : e;
}

enum err verify_balance(struct verify *verify, const char *now)
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
    enum err e = tree_path(then, verify->scratch, "then");
    if (e == ERR_OK) e = lay_out_base(verify, &base, then, &why);
    e = e == ERR_OK ? verify_compare(verify, now, then, since)
                    : verify_say_error(verify, VERIFY_DAMAGED, "balance", e, &why);
    return e;
}
