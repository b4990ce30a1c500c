/* import.h -- the lines of an export become changes of a store: proposals that the commit thread
 * decides like all others.
 *
 *     importer_open(&importer, ...)        reads the whole file once: a damaged one changes nothing
 *     import_definitions(importer, ...)    counters that rules keep, or once kept
 *     import_skip(importer, lines)         what an earlier run has done
 *     import_chunk(importer, ..., &more)   one commit; with it goes an op of the caller's that says
 *                                          how far it got, so a crash resumes exactly
 *
 * A cell is put as the export has it, whatever stood there, so importing twice is importing once.
 * Rule counters that are not in this store's config become frozen ones. Counters that got imported
 * cells say so in their definition: their value is more than their history. */
#ifndef TALLY_JOBS_IMPORT_H
#define TALLY_JOBS_IMPORT_H

#include "base/reason.h"
#include "commit/propose.h"
#include "jobs/record.h"
#include "base/tree.h"

struct importer;

/* ERR_NOT_FOUND: no such export; ERR_CORRUPT: `why_out` names the line; ERR_STORAGE; ERR_BUSY: told
 * to stop. */
MUST_USE enum err importer_open(struct importer **importer_out, const struct caretaker *config,
                                const char *dir, const char *name, struct effort *effort,
                                struct reason *why_out);
void importer_close(struct importer *importer); /* may be NULL */
const struct port_record *importer_header(const struct importer *importer);
uint64_t importer_lines(const struct importer *importer); /* before the last */

/* `*changed_out`: rules have to be put in force anew. ERR_CONFLICT: a counter is of another mode
 * here. ERR_BUSY: the store is in trouble; try again. */
MUST_USE enum err import_definitions(struct importer *importer, bool *changed_out,
                                     struct reason *why_out);

/* The next line is the one after `lines`. */
MUST_USE enum err import_skip(struct importer *importer, uint64_t lines);

/* From here on only the cells and states of one rule counter are taken, and they go into cells of
 * this generation: for a rebuild that begins with an export. ERR_NOT_FOUND: the export does not
 * know it; ERR_CONFLICT: as something of another mode. */
MUST_USE enum err import_only(struct importer *importer, struct bytes counter,
                              enum counter_mode mode, uint32_t generation);

/* Makes the op that notes that `lines` lines are done, in `arena`. */
typedef struct op import_mark_fn(void *context, struct arena *arena, uint64_t lines);

/* Makes one commit of the next lines: ERR_OK and `*more_out`, or what stopped it. ERR_CELL_LIMIT
 * and the like come with a sentence; ERR_BUSY: the store is in trouble, and the import is to begin
 * again where the store says it is. */
MUST_USE enum err import_chunk(struct importer *importer, import_mark_fn *mark, void *context,
                               bool *more_out, struct reason *why_out);
/* The same for a caller that holds `enacting`. */
MUST_USE enum err import_chunk_held(struct importer *importer, import_mark_fn *mark, void *context,
                                    bool *more_out, struct reason *why_out);
uint64_t import_position(const struct importer *importer); /* lines taken */

#endif
