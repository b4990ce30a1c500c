/* manifest.h -- what a backup consists of: the file that makes a directory a backup.
 *
 *   tally-backup 1
 *   sequence 1234                                  the last change that is in it
 *   moment 1763407800000                           when that was decided, batch time
 *   taken 1763407800123                            when the backup was asked for, wall clock
 *   copied 52428800                                bytes that are not shared with an earlier one
 *   file 4096 <128 bits in hex> state/000012.sst   and so on, sorted
 *   end <64 bits in hex>                           checksum of all lines before
 *
 * With several lanes, each of which has a moment of its own:
 *
 *   tally-backup 2
 *   lanes 4
 *   lane 1234 1763407800000                        sequence and moment of lane 0, and so on
 *   taken, copied, file, end                       as above; file .. lane-000/state/000012.sst
 *
 * One value more is another number in the first line, and 1 and 2 are read for ever. What of it is
 * shown is chosen in jobs/errand_ask.c (add_backup); tests/unit/test_port.c has its tests.
 *
 * It is written last. A directory without one, or with one that does not check, is no backup. */
#ifndef TALLY_STORE_EMBEDDED_BACKUP_MANIFEST_H
#define TALLY_STORE_EMBEDDED_BACKUP_MANIFEST_H

#include "base/tree.h"

#define MANIFEST_NAME "MANIFEST"
#define MANIFEST_LANES_MAX 1024u

/* How far a lane goes. */
struct manifest_lane {
    uint64_t sequence;
    int64_t moment_ms;
};

struct manifest {
    unsigned lanes_count; /* at least 1 */
    struct manifest_lane *lanes;
    int64_t taken_ms;
    uint64_t copied_bytes;
    struct tree_list files;
};

/* Makes an empty one of so many lanes; manifest_release is due. */
void manifest_init(struct manifest *manifest, unsigned lanes_count);
void manifest_release(struct manifest *manifest);
uint64_t manifest_bytes(const struct manifest *manifest); /* all its files' */
/* Changes that are in it: sequences have no gaps, so one lane's last is how many there were. */
uint64_t manifest_changes(const struct manifest *manifest);
/* When the last of them was decided. */
int64_t manifest_moment_ms(const struct manifest *manifest);

void manifest_encode(struct buf *text, const struct manifest *manifest);
/* ERR_CORRUPT: manifest_encode did not write that. Release it only after ERR_OK. */
MUST_USE enum err manifest_decode(struct bytes text, struct manifest *manifest_out);

/* Writes DIR/MANIFEST beside its place, synced, and renames it there. */
MUST_USE enum err manifest_write(const char *dir, const struct manifest *manifest);
/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORAGE. */
MUST_USE enum err manifest_read(const char *dir, struct manifest *manifest_out);

#endif
