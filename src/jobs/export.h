/* export.h -- everything that views show, as the lines of an export.
 *
 *     exporter_open(&exporter, &request, ..)   the file and its header
 *     exporter_lane(exporter, view, ..)        each lane in turn, as of its moment
 *     exporter_close(exporter, ..)             the last line, and the file's name
 *
 * A lane is shown by a view that stands still, a snapshot's or one moment of a store, so any kind
 * of store will do. Its definitions stand before the cells that are of them; what an earlier lane
 * defined is not defined again. */
#ifndef TALLY_JOBS_EXPORT_H
#define TALLY_JOBS_EXPORT_H

#include "base/reason.h"
#include "base/tree.h"
#include "jobs/record.h"
#include "store/view.h"

struct exporter;

struct export_request {
    const char *dir; /* holds exports */
    const char *name;
    struct port_record header; /* its lanes stay the caller's until the exporter is closed */
};

/* Errors here and below: ERR_STORAGE, ERR_CORRUPT with a sentence in `why_out`; ERR_BUSY: told to
 * stop. exporter_close is due in any case. */
MUST_USE enum err exporter_open(struct exporter **exporter_out,
                                const struct export_request *request, struct effort *effort,
                                struct reason *why_out);
/* ERR_CONFLICT: it has a counter of an earlier lane's in another mode. */
MUST_USE enum err exporter_lane(struct exporter *exporter, struct view *view,
                                struct reason *why_out);
/* `e` is the outcome of all before it: with an error nothing is left of the file. Returns it, or
 * the error of the file's end; `*lines_out` is how many were written. */
MUST_USE enum err exporter_close(struct exporter *exporter, enum err e, uint64_t *lines_out,
                                 struct reason *why_out);

#endif
