/* ingest.h -- a file's lines on their way to the server: one thread reads and reports, others send.
 *
 *     lines -> fill -> [ring of parcels] -> senders -> server
 *                              |
 *                              +--> harvest, in the file's order: totals, rejections, the note
 *
 * With one sender the server gets the lines in order. The note (resume.h) moves only past lines
 * whose outcome is known, so the work can stop for any reason and goes on there. */
#ifndef TALLY_CLI_INGEST_H
#define TALLY_CLI_INGEST_H

#include "cli/client.h"
#include "cli/lines.h"
#include "cli/parcel.h"
#include "cli/progress.h"
#include "cli/resume.h"

struct ingest_config {
    const char *file;
    const struct client_flags *client;
    unsigned senders;
    unsigned lines_each; /* in one parcel, at most */
    unsigned give_up_ms; /* how long one parcel may keep failing */
    atomic_bool *stop;   /* becomes true when the work is to end early */
};

struct ingest_totals {
    uint64_t lines; /* dealt with, those of an earlier run included */
    uint64_t applied;
    uint64_t duplicates;
    uint64_t rejected;
    uint64_t lines_now; /* this run's alone */
    double seconds;
};

/* EXIT_FAILED after saying why if it ended early. `resume` says where to begin and is kept up to
 * date; `rules` say what the lines are. */
MUST_USE int ingest_run(const struct ingest_config *config, struct parcel_rules *rules,
                        struct resume *resume, struct ingest_totals *totals_out);

#endif
