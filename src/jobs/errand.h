/* errand.h -- long pieces of work that an operator asks for: backups, exports, imports.
 *
 *   waiting -> running -> done
 *                 \-> failed
 *
 * They are done one after the other, in the order they were asked for (runner.h). An errand is an
 * object in the store, so a 202 is a promise: after a crash or a stop it begins again, an import
 * where it was. What is under way shows how far it is.
 *
 * What they make and take lies in `ops.dir`: backups/NAME and exports/NAME. Names are never paths:
 * 1 to 255 of the name alphabet, without a leading dot.
 *
 * Where nodes share a store any of them can be asked. The one that leads the first lane does the
 * errand, with the files of its own `ops.dir`; its name then stands in the record. When it dies,
 * the one that leads next takes the errand over with files of its own: an export begins anew there,
 * an import goes on if the export lies there too, and fails with a sentence if not. One that does
 * not know yet that it leads no more finds out with its next commit: the record, or how far a lane
 * is, is not what it left there. */
#ifndef TALLY_JOBS_ERRAND_H
#define TALLY_JOBS_ERRAND_H

#include "base/reason.h"
#include "commit/lanes.h"
#include "store/embedded/embedded.h"
#include "store/embedded/lanes_dir.h"
#include "jobs/runner.h"

struct errand_config {
    struct caretaker with; /* the first lane's: its store has the records */
    const struct lanes *lanes;
    /* As the stores were opened, and where each lane lies; NULL: they are of another kind. */
    const struct embedded_config *embedded;
    const struct lanes_dir *dirs;
    bool ids_shared;  /* event ids are unique over all tenants */
    const char *node; /* who this process is among those that share the store; NULL: the only one */
    const char *ops_dir;
    struct runner *runner; /* gets the steps, and is woken when an errand is asked for */
    /* Puts the rules into force anew, after an import brought definitions. */
    enum err (*refresh)(void *context, struct buf *why_out);
    void *refresh_context;
};

struct errands;

struct errands *errands_new(const struct errand_config *config);
void errands_free(struct errands *errands);

struct errand_ask {
    enum job_kind kind;
    struct bytes name; /* size 0: named after the time, for a backup or an export */
    bool ids;          /* whether an export has ids, */
    bool events;       /* and events */
};

/* Any thread. `id_out` and `name_out` get the errand's id and name. ERR_INVALID: the name is not
 * valid, or this store cannot; ERR_CONFLICT: the name is taken; ERR_NOT_FOUND: there is no such
 * export; ERR_DATABASE_BACKUP: a backup is not this store's to make; ERR_BUSY: too
 * many are waiting; ERR_STORAGE. `why_out` may get a sentence. */
MUST_USE enum err errand_ask(struct errands *errands, const struct errand_ask *ask,
                             struct buf *id_out, struct buf *name_out, struct reason *why_out);

/* Any thread. Writes the errand as a JSON object. ERR_NOT_FOUND: no errand has that id. */
MUST_USE enum err errand_describe(struct errands *errands, struct bytes id, struct buf *json_out);

#define ERRAND_NEXT_SIZE_MAX (NAME_SIZE_MAX + 32)

/* Which page of the list is wanted. */
struct errand_page {
    enum job_kind kind;
    struct bytes after; /* a `next` of before, or whatever a caller takes for one; or none */
    uint64_t limit;
};

/* Any thread. Lists backups, oldest first, or exports, by name, as JSON objects with commas
 * between. `next_out` says where the next page begins; empty: this was the last. */
MUST_USE enum err errand_list(struct errands *errands, const struct errand_page *page,
                              struct buf *json_out, struct buf *next_out);
/* Any thread. Removes a backup or an export. ERR_NOT_FOUND; ERR_CONFLICT: it is in use. */
MUST_USE enum err errand_remove(struct errands *errands, enum job_kind kind, struct bytes name);

#endif
