/* errand_internal.h -- what errand.c, which works, and errand_ask.c, which is asked, share. */
#ifndef TALLY_JOBS_ERRAND_INTERNAL_H
#define TALLY_JOBS_ERRAND_INTERNAL_H

#include "store/embedded/backup/backup.h"
#include "jobs/errand.h"

struct errands {
    struct errand_config config;
    char backups[TREE_PATH_MAX]; /* directories */
    char exports[TREE_PATH_MAX];
    char snapshot[TREE_PATH_MAX];
    struct effort effort; /* of what is under way */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t running; /* id; 0: none */
    bool asked;       /* since the thread last looked */
    bool stopped;
};

/* One object of the store, copied into `arena`; size 0 if there is none. */
MUST_USE enum err errand_read(struct errands *errands, struct arena *arena, struct bytes key,
                              struct bytes *value_out);

#endif
