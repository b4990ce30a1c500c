/* prepare.h -- what an export says of itself, and an empty data directory that can take its ids and
 * events: it has the key that the ids were made with, and its own numbers begin above the export's.
 * Offline. The schema of a store in PostgreSQL is made in serve/database.c. */
#ifndef TALLY_JOBS_PREPARE_H
#define TALLY_JOBS_PREPARE_H

#include "base/reason.h"
#include "jobs/record.h"

/* Reads the first line of an export in `dir`. ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORAGE, with a
 * sentence in `why`. */
MUST_USE enum err port_header(const char *dir, const char *name, struct arena *arena,
                              struct port_record *header_out, struct reason *why);

/* Whether an empty store of `lanes` lanes can be made for the export of which `header` is the first
 * line, and need be: ERR_CONFLICT, with a sentence, if not. */
MUST_USE enum err import_prepare_check(const struct port_record *header, const char *name,
                                       unsigned lanes, struct reason *why);

/* Makes `data` an empty store of `lanes` lanes that can take the export in `dir`, however many
 * lanes that is of. ERR_CONFLICT: `data` is not empty, or the export has neither ids nor events, or
 * ids that need one lane; ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORAGE; `why_out` has a sentence. */
MUST_USE enum err import_prepare(const char *dir, const char *name, const char *data,
                                 unsigned lanes, struct reason *why_out);

#endif
