/* io_sim.h -- a disk in memory that forgets, fails and runs full when told to.
 *
 * Each file has what a program reads now and what would survive a power cut; a write changes the
 * first, a sync carries it over to the second. Names are the same: creating, renaming and unlinking
 * are safe only after sync_dir. One directory, whatever path it is called by; one thread.
 *
 *     struct io_sim *sim = io_sim_new();
 *     ...use io_sim_io(sim)...
 *     io_sim_crash(sim, seed);     the power is cut: unsynced things survive in part, by the seed
 *     io_sim_kill(sim);            only the process died: nothing is lost but open descriptors */
#ifndef TALLY_TESTS_SUPPORT_IO_SIM_H
#define TALLY_TESTS_SUPPORT_IO_SIM_H

#include "store/embedded/io.h"

/* What a call that is made to fail has done nevertheless. */
enum io_sim_loss {
    IO_SIM_LOST,   /* nothing; after a sync, what was not safe reads as before it was written */
    IO_SIM_KEPT,   /* everything, only the answer is wrong */
    IO_SIM_CACHED, /* nothing; after a sync, what was not safe can be read and is still not safe */
};
#define IO_SIM_LOSSES 3

struct io_sim;

struct io_sim *io_sim_new(void);
void io_sim_free(struct io_sim *sim);
/* Another disk that holds the same, faults and open descriptors included. */
struct io_sim *io_sim_copy(const struct io_sim *sim);
struct io *io_sim_io(struct io_sim *sim);

/* Of every unsynced 4 KiB: the old or the new content, or each of its 512-byte sectors one or the
 * other. Of every unsynced growth: the old or the new size. Of every unsynced change of a name:
 * done or not done. Closes all descriptors and takes back all faults. */
void io_sim_crash(struct io_sim *sim, uint64_t seed);
void io_sim_kill(struct io_sim *sim);

/* Makes the nth call from now on that changes something (1: the next) fail, once. */
void io_sim_fail(struct io_sim *sim, uint64_t nth, int error_number, enum io_sim_loss loss);
/* As if the process were killed before the nth call from now on that changes something: that one
 * and all later ones do nothing and fail, so that code which cannot be stopped there changes no
 * more. */
void io_sim_stop(struct io_sim *sim, uint64_t nth);
/* As io_sim_fail, counting only syncs of files. */
void io_sim_fail_sync(struct io_sim *sim, uint64_t nth, enum io_sim_loss loss);
/* The same for reads. */
void io_sim_fail_read(struct io_sim *sim, uint64_t nth, int error_number);
/* Files may hold this many bytes in all, then ENOSPC. */
void io_sim_room(struct io_sim *sim, uint64_t bytes);
void io_sim_heal(struct io_sim *sim); /* no faults, no limit */

uint64_t io_sim_bytes(const struct io_sim *sim); /* in files that have a name */
uint64_t io_sim_calls(const struct io_sim *sim); /* that changed something, since the start */
uint64_t io_sim_reads_failed(const struct io_sim *sim); /* since the start */

/* The damage a disk does by itself: turns the bits of `mask` in one byte, now and for good. */
void io_sim_damage(struct io_sim *sim, const char *name, uint64_t offset, unsigned char mask);
/* The nth name (from 0) in sorted order with that prefix, NULL if there are fewer. */
const char *io_sim_name(struct io_sim *sim, const char *prefix, unsigned nth);
/* What a program reads of the file now; NULL if there is none. */
const unsigned char *io_sim_content(struct io_sim *sim, const char *name, uint64_t *size_out);

#endif
