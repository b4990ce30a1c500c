/* readers.h -- a small pool of threads for reads that may touch the disk.
 *
 * The pool is bounded and fair: tenants take turns. A task that has much to do does a part of it,
 * says that there is more, and waits for its tenant's next turn. Within one tenant, tasks that have
 * not begun and the oldest task that has begun take turns too. So a short read waits only for parts
 * of the tenant's long ones, and long ones end one after the other instead of all being half
 * done.
 *
 * A task that only looks at a few values of a store may say so. Those that are next then look
 * together (view_gather), and run afterwards, each with what it saw. */
#ifndef TALLY_API_READERS_H
#define TALLY_API_READERS_H

#include "base/bytes.h"
#include "base/err.h"
#include "store/view.h"

struct readers;

/* A part of the caller's own struct. It belongs to the pool from readers_push until `run` has
 * returned false, and may be gone then. */
struct read_task {
    struct bytes tenant;
    bool (*run)(void *context); /* a part of the work; true: there is more */
    void *context;
    struct view_reading look; /* before `run`; `read` NULL: there is none */
    unsigned values;          /* that `look` asks for, about */
    bool looked;              /* `look` was run. This and what follows is zero before */
    bool begun;               /* these two are the pool's own */
    struct read_task *next;
};

/* `name` is the threads'. */
struct readers *readers_new(const char *name, unsigned threads, unsigned tasks_max);
void readers_free(struct readers *readers); /* runs what is queued, then ends the threads */

/* ERR_BUSY: the queue, or the tenant's share of it, is full. */
MUST_USE enum err readers_push(struct readers *readers, struct read_task *task);

#endif
