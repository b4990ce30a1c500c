/* backup.h -- backups: directories of files under `ops.dir`/backups, each whole by itself.
 *
 *   DIR/NAME/MANIFEST                          what is in it (manifest.h)
 *   DIR/NAME/IDENTITY state/ ids/ archive/ journal/: a store as a snapshot of it was (store.h)
 *   DIR/NAME/IDENTITY lane-000/ lane-001/ ..           several lanes, each of them so (lanes_dir.h)
 *   DIR/.making-NAME  DIR/.removing-NAME       rubbish of a crash
 *
 * (1) A backup has its name only once everything in it is synced. Before, and while it is being
 *     removed, its directory is called something that no name can be.
 * (2) A file that an earlier backup has, by path, size and checksum, is linked and not copied: so
 *     backups share what has not changed, and any of them can be removed without the others.
 * (3) Only a file that was read again a moment ago and is as it was is linked: a backup is never
 *     made of damage that was there before it. Damage that comes later to a shared file is damage
 *     to all that share it: `backup_check` finds it.
 *
 * Errors come with a sentence in `why_out`, unless a function says otherwise. */
#ifndef TALLY_STORE_EMBEDDED_BACKUP_BACKUP_H
#define TALLY_STORE_EMBEDDED_BACKUP_BACKUP_H

#include "base/reason.h"
#include "store/embedded/backup/manifest.h"
#include "store/store.h"

struct backup_lane {
    const char *snapshot; /* the directory to copy */
    struct store_position position;
};

struct backup_request {
    const char *dir;  /* holds all backups; made if it is not there */
    const char *name; /* has passed backup_name_valid */
    const char *data; /* where the lanes lie: their common IDENTITY is copied from there */
    const struct backup_lane *lanes;
    unsigned lanes_count;
    int64_t taken_ms;
};

/* A file's name has 255 bytes at most. Some of them go in front while a backup is made or
 * removed. */
#define BACKUP_NAME_MAX 240u

/* True for a name (core/name.h) that does not begin with a dot and is not longer than that. */
bool backup_name_valid(struct bytes name);
bool backup_exists(const char *dir, const char *name);

/* The manifest of the backup of that name, for the caller to release after ERR_OK. The name is then
 * durable: the process that gave it may have been killed before it synced the directory, and a
 * backup must not be called done while a power cut can take it away. ERR_NOT_FOUND, ERR_CORRUPT,
 * ERR_STORAGE. */
MUST_USE enum err backup_find(const char *dir, const char *name, struct manifest *manifest_out);

/* Makes a backup. ERR_STORAGE, or ERR_BUSY when told to stop; nothing is left of it then. After
 * ERR_OK `why_out` may have a warning: the backup is whole, but an earlier one was found
 * damaged. */
MUST_USE enum err backup_make(const struct backup_request *request, struct effort *effort,
                              struct reason *why_out);

/* Reads every file of a backup again and tells `damage` of each that is not as it was, by a
 * sentence that names it. ERR_CORRUPT: there was such a file, or its manifest is damaged;
 * ERR_NOT_FOUND: there is no backup of that name. `why_out` has a sentence unless `damage` had all.
 * `manifest_out` is for the caller to release after ERR_OK. */
typedef void backup_damage_fn(void *context, const char *sentence);
MUST_USE enum err backup_check(const char *dir, const char *name, struct effort *effort,
                               backup_damage_fn *damage, void *context,
                               struct manifest *manifest_out, struct reason *why_out);

/* Lays a backup out as a data directory that is empty or not there, checking every byte on the way,
 * and says how many lanes it has. A failure leaves the directory empty; a crash leaves one that
 * refuses to open (RESTORING) and can be removed. */
MUST_USE enum err backup_restore(const char *dir, const char *name, const char *data,
                                 struct effort *effort, unsigned *lanes_out,
                                 struct reason *why_out);

/* The first makes the directories in which the files of so many lanes lie, in a backup as in a data
 * directory, where they are not there. The second makes all names in them durable. */
MUST_USE enum err backup_parts_make(const char *dir, unsigned lanes);
MUST_USE enum err backup_parts_sync(const char *dir, unsigned lanes);

MUST_USE enum err backup_remove(const char *dir, const char *name);
/* Removes what crashes left behind, once it is durably rubbish: a power cut may take back the name
 * that a backup was given in order to remove it, and it must then have all of its files. */
void backup_tidy(const char *dir);

/* Visits every whole backup, oldest moment first; one that does not check is left out. Stops when
 * `visit` returns false. ERR_OK also where there is no directory yet. */
typedef bool backup_visit_fn(void *context, const char *name, const struct manifest *manifest);
MUST_USE enum err backup_list(const char *dir, backup_visit_fn *visit, void *context);

/* "there is no backup NAME in DIR", and which there are. */
void backup_say_missing(const char *dir, const char *name, struct reason *why_out);

#endif
