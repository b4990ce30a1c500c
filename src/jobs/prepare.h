/* prepare.h -- what an export says of itself, and an empty data directory that has the id key of an
 * export, so that the ids in it mean something there. Offline. */
#ifndef TALLY_JOBS_PREPARE_H
#define TALLY_JOBS_PREPARE_H

#include "base/reason.h"
#include "jobs/record.h"

/* Reads the first line of an export in `dir`. ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORAGE, with a
 * sentence in `why`. */
MUST_USE enum err port_header(const char *dir, const char *name, struct arena *arena,
                              struct port_record *header_out, struct reason *why);

/* Makes `data` an empty store of `lanes` lanes that has the id key of the export in `dir`, however
 * many lanes that is of. ERR_CONFLICT: `data` is not empty, or the export has no ids, or ids that
 * need one lane; ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORAGE; `why_out` has a sentence. */
MUST_USE enum err import_prepare(const char *dir, const char *name, const char *data,
                                 unsigned lanes, struct reason *why_out);

#endif
