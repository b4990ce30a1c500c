/* errand_internal.h -- what errand.c, which works, errand_ask.c, which is asked, and the kinds of
 * errands share. */
#ifndef TALLY_JOBS_ERRAND_INTERNAL_H
#define TALLY_JOBS_ERRAND_INTERNAL_H

#include "store/embedded/backup/backup.h"
#include "jobs/errand.h"

struct errands {
    struct errand_config config;
    char backups[TREE_PATH_MAX]; /* directories */
    char exports[TREE_PATH_MAX];
    struct effort effort;     /* how far the errand under way is */
    _Atomic uint64_t running; /* id; 0: none */
};

/* Copies one object of the store into `arena`; size 0 if there is none. */
MUST_USE enum err errand_read(struct errands *errands, struct arena *arena, struct bytes key,
                              struct bytes *value_out);

/* Whether this process has a file of that name, a backup or an export. */
bool errand_file_exists(const struct errands *errands, enum job_kind kind, struct bytes name);

/* errand_backup.c */

/* Makes the backup that `job` asks for, of all lanes, and notes in the job what is in it. ERR_OK
 * too where it was made before a crash. */
MUST_USE enum err errand_backup(struct errands *errands, struct job_record *job,
                                struct reason *why);

/* errand_export.c, errand_import.c: they note in the job what they did. */
MUST_USE enum err errand_export(struct errands *errands, struct job_record *job,
                                struct reason *why);
MUST_USE enum err errand_import(struct errands *errands, struct job_record *job,
                                struct reason *why);

/* Takes a snapshot of one lane, in a directory of that lane's, whose path is `dir_out`. */
MUST_USE enum err errand_snapshot(struct errands *errands, unsigned lane,
                                  char dir_out[TREE_PATH_MAX], struct store_position *position_out,
                                  struct reason *why);
void errand_drop_snapshots(struct errands *errands);
/* Makes what is written to `ops.dir` from now on leave room on the disk of a lane that
 * lies there too. */
void errand_keep_room(struct errands *errands);

#endif
