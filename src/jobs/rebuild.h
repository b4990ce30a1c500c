/* rebuild.h -- recounts a rule counter from the retained events, beside the old cells.
 *
 *   waiting -> running -> done
 *                 \-> failed
 *
 * A job is an object in the store. Running, it replays the retained events of all tenants, in order
 * of arrival, into the cells of a new generation, a chunk a commit; each commit also moves the
 * job's position, so a crash resumes where it was. The last chunk is replayed with nothing else
 * under way and, in the same commit, makes the new generation the counter's: readers see the old
 * cells or the new ones, never a mixture, and no event falls between. The old cells are garbage
 * then.
 *
 * With an export to begin with, its cells of the counter are put there first, and the events after
 * its moment follow.
 *
 * Rules that change meanwhile start it anew, into another generation.
 *
 * Each lane counts its own events into a generation of its own: the job has one number and a record
 * in every lane, which moves and ends by itself. The first lane gives the number and gets its
 * record first; a lane that a crash left without one gets it at the next start. */
#ifndef TALLY_JOBS_REBUILD_H
#define TALLY_JOBS_REBUILD_H

#include "commit/lanes.h"
#include "jobs/runner.h"

struct rebuilds;

/* `lanes` live on, and only the caretaker of each is used. `exports` is the directory of exports;
 * it lives on too. `runner` gets the steps, and is woken when a rebuild is asked for; NULL: the
 * caller makes them. */
struct rebuilds *rebuilds_new(const struct lanes *lanes, const char *exports,
                              struct runner *runner);
void rebuilds_free(struct rebuilds *rebuilds);

struct rebuild_wish {
    struct bytes counter;
    bool force;
    struct bytes from; /* name of an export to begin with; size 0: none */
};

/* Any thread. Asks for a rebuild; `id_out` gets the job's id. ERR_NOT_FOUND: no such rule counter.
 * ERR_HISTORY: events it counted are gone, or its value came from elsewhere too; `force` does it
 * all the same, and `from` needs only the events after the export. ERR_INVALID: no such export of
 * this installation, as `why_out` says. ERR_STORAGE. */
MUST_USE enum err rebuild_ask(struct rebuilds *rebuilds, const struct rebuild_wish *wish,
                              struct buf *id_out, struct reason *why_out);

/* Any thread. Writes the job as a JSON object. ERR_NOT_FOUND. */
MUST_USE enum err rebuild_describe(struct rebuilds *rebuilds, struct bytes id,
                                   struct buf *json_out);

/* Any thread. Forgets a counter that is no longer in the config: its name is free at once, its
 * cells and states are removed behind. ERR_NOT_FOUND; ERR_MANAGED: it still is in the config. */
MUST_USE enum err rebuild_forget(struct rebuilds *rebuilds, struct bytes counter);

/* Makes one chunk of each lane's oldest job that is not done. For one thread, which waits for the
 * commits it makes. */
enum desk_next rebuild_step(struct rebuilds *rebuilds);

#endif
