/* disk.h -- the embedded store's disk: simulated files for the journal and the id filters, a real
 * directory for RocksDB, and a camera.
 *
 * A crash can come between any two calls. Code cannot be stopped there and unwound, so the camera
 * takes a picture of the whole disk at the chosen moment; the code runs on in a world that is
 * thrown away, and what comes after the restart goes on from the picture. Moments are the calls
 * that change a simulated file and the crash points of base/crash.h. */
#ifndef TALLY_TESTS_SIM_DISK_H
#define TALLY_TESTS_SIM_DISK_H

#include "dice.h"
#include "store/embedded/io.h"

struct disk;

/* `dir` is emptied and made anew. */
struct disk *disk_new(const char *dir);
void disk_free(struct disk *disk);

const char *disk_dir(const struct disk *disk);
struct io *disk_io(struct disk *disk);

/* Takes a picture at the nth moment from now on (1: the next) and calls `taken`. With `syncs_only`
 * moments are the syncs of journal files: written, and safe only in part. */
void disk_arm(struct disk *disk, unsigned nth, bool syncs_only, void (*taken)(void *context),
              void *context);
/* Takes a picture now, and calls nobody. */
void disk_shoot(struct disk *disk);
/* No picture any more. True: it had been taken; it is kept for disk_crash. */
bool disk_disarm(struct disk *disk);

/* Called before each sync of a journal file. */
void disk_watch(struct disk *disk, void (*syncing)(void *context), void *context);

/* The store is gone. If there is a picture the disk is again as it shows. With `power_cut` what was
 * not synced survives in part; without, only the process died. Takes back all faults. */
void disk_crash(struct disk *disk, bool power_cut, struct dice *dice);

/* Some call, soon, will fail: one chosen by the dice. */
void disk_break(struct disk *disk, struct dice *dice);
/* Reads that were made to fail, since the disk was made. */
uint64_t disk_reads_failed(const struct disk *disk);
/* RocksDB cannot write any file, or can again. */
void disk_state_readonly(bool readonly);
void disk_heal(struct disk *disk);

/* What the store takes for random from here on. */
void disk_seed_random(uint64_t seed);

void remove_tree(const char *path);

#endif
