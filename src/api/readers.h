/* readers.h -- a small pool of threads for reads that may touch the disk.
 *
 * Bounded, and fair: tenants take turns, so one tenant's long scans delay another's read by at
 * most one of them for each thread. */
#ifndef TALLY_API_READERS_H
#define TALLY_API_READERS_H

#include "base/bytes.h"
#include "base/err.h"

struct readers;

/* Embedded in whatever is to be read; belongs to the pool from push until `run` is called. */
struct read_task {
    struct bytes tenant;
    void (*run)(void *context);
    void *context;
    struct read_task *next;
};

struct readers *readers_new(unsigned threads, unsigned tasks_max);
void readers_free(struct readers *readers); /* runs what is queued, then ends the threads */

/* ERR_BUSY: the queue, or the tenant's share of it, is full. */
MUST_USE enum err readers_push(struct readers *readers, struct read_task *task);

#endif
