/* resume.h -- how far an ingest or an import from Redis got: a note in the user's state directory.
 *
 * A note only saves time: what is sent again counts once anyway. It stands in
 * $XDG_STATE_HOME/tally (default ~/.local/state/tally) and goes when the work is complete. */
#ifndef TALLY_CLI_RESUME_H
#define TALLY_CLI_RESUME_H

#include "base/bytes.h"

#define RESUME_PATH_SIZE 4096

struct resume {
    char path[RESUME_PATH_SIZE]; /* "": there is no place for notes */
    uint64_t line;               /* lines up to this one are dealt with */
    uint64_t digest;             /* the text of those lines, to see that they are still the same */
    uint64_t applied;
    uint64_t duplicates;
    uint64_t rejected;
};

/* The note of this work: the server, the tenant and the file. All zeros if there is none. */
void resume_load(struct resume *resume, struct bytes identity);

/* Replaces the note in one step. A disk that is full only costs the note. */
void resume_save(const struct resume *resume);
void resume_remove(const struct resume *resume);

#endif
