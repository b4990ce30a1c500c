/* import.h -- the lines of an export become changes of lanes: proposals that the commit thread
 * decides like all others.
 *
 *     importer_open(&importer, ...)           reads the whole file: a damaged one changes nothing
 *     import_definitions(importer, lane, ..)  counters that rules keep, or once kept, in each lane
 *     importer_seek(importer, lines)          what an earlier run has done
 *     importer_fill(importer, ..)             the next lines, a round of them
 *     import_commit(importer, lane, ..)       one commit of one lane; with it goes an op of the
 *                                             caller's that says how far the lane got
 *
 * (1) What names a tenant goes into its tenant's lane. An id is a fingerprint, which does not show
 *     its tenant: it goes into every lane, where only its tenant's lane can be asked for it.
 * (2) Each lane has a position of its own: all lines up to it that concern the lane are in it. So
 *     a crash resumes at the least of them, and no lane takes a line twice.
 * (3) A cell is put as the export has it, whatever stood there, so importing twice is importing
 *     once.
 * (4) Rule counters that are not in this server's config become frozen ones. Counters that got
 *     imported cells say so in their definition: their value is more than their history. */
#ifndef TALLY_JOBS_IMPORT_H
#define TALLY_JOBS_IMPORT_H

#include "base/reason.h"
#include "base/tree.h"
#include "commit/propose.h"
#include "jobs/record.h"

struct importer;

/* ERR_NOT_FOUND: no such export; ERR_CORRUPT: `why_out` names the line; ERR_STORAGE; ERR_BUSY: told
 * to stop. */
MUST_USE enum err importer_open(struct importer **importer_out, const char *dir, const char *name,
                                struct effort *effort, struct reason *why_out);
void importer_close(struct importer *importer); /* may be NULL */
const struct port_record *importer_header(const struct importer *importer);
uint64_t importer_lines(const struct importer *importer); /* before the last */

/* The next round begins with the line after `lines`. */
MUST_USE enum err importer_seek(struct importer *importer, uint64_t lines);
/* Reads the next round, in place of the one before. */
MUST_USE enum err importer_fill(struct importer *importer, struct reason *why_out);
uint64_t importer_filled(const struct importer *importer); /* lines up to the round's end */
bool importer_has_ended(const struct importer *importer);  /* true: no round follows */

/* How much of the export's history a lane has (import_history.h). */
struct import_history {
    uint64_t from;    /* the installation that it is of, */
    unsigned count;   /* and how many lanes that has */
    bool own;         /* it is this one */
    bool stored;      /* the lane has said before what it took */
    uint64_t *taken;  /* the last sequence taken of each of those lanes; NULL: none is */
    uint64_t *taking; /* the same with the commit under way */
};

/* A lane that takes its part. The caller sets it up and keeps it. */
struct import_lane {
    const struct caretaker *with;
    unsigned index;  /* which lane it is */
    unsigned count;  /* how many lanes there are */
    bool ids_shared; /* event ids are unique over all tenants */
    uint64_t position;
    struct import_history history;
    struct bytes only;        /* the one rule counter that is taken; size 0: everything */
    uint32_t only_generation; /* where its cells go */
};

/* `*changed_out`: rules have to be put in force anew. ERR_CONFLICT: a counter is of another mode
 * here. ERR_BUSY: the store is in trouble; try again. */
MUST_USE enum err import_definitions(struct importer *importer, const struct import_lane *lane,
                                     bool *changed_out, struct reason *why_out);

/* From here on the lane takes only the cells and states of one rule counter, and they go into cells
 * of this generation: for a rebuild that begins with an export. ERR_NOT_FOUND: the export does not
 * know it; ERR_CONFLICT: as something of another mode. */
MUST_USE enum err import_only(const struct importer *importer, struct import_lane *lane,
                              struct bytes counter, enum counter_mode mode, uint32_t generation);

/* Makes the op that notes that `lines` lines are done, in `arena`. */
typedef struct op import_mark_fn(void *context, struct arena *arena, uint64_t lines);

/* Makes one commit of what the round has for the lane, for a caller that holds the lane's
 * `enacting`. If it went well, `position` is moved, to `importer_filled` once nothing is left.
 * ERR_CELL_LIMIT and the like come with a sentence; ERR_BUSY: the store is in trouble, and the
 * import is to begin again where the lane says it is. */
MUST_USE enum err import_commit(struct importer *importer, struct import_lane *lane,
                                import_mark_fn *mark, void *context, struct reason *why_out);
/* Makes a commit that takes nothing and says how far the lane is, and what it has of the export's
 * history (import_history.h). */
MUST_USE enum err import_note(struct importer *importer, struct import_lane *lane,
                              uint64_t position, import_mark_fn *mark, void *context,
                              struct reason *why_out);
/* True if the round has lines for the lane that are not in it yet. */
bool import_has_part(const struct importer *importer, const struct import_lane *lane);

#endif
