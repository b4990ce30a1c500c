/* follow.h -- the follower's side: one thread that asks the primary for what comes next, and
 * installs it.
 *
 *             answer with blocks, or none              position_lost
 *   ASKING  <-------------------------------> ASKING ----------------> COPYING ---> ARRIVED
 *      \____ no answer, or refused: asks again after a pause ____/        \__ tried again __/
 *
 * (1) Each question says what is on disk here, so whatever dies on either side, the next question
 *     goes on from there.
 * (2) Nothing is installed that is not exactly what the primary's history has next: hashes are
 *     worked out here, over the bytes that came. What is wrong with an answer is logged, and the
 *     store stays as it is.
 * (3) While a snapshot is copied the old state is served; once it has arrived, `arrived` is told,
 *     and the store is opened anew by the caller. */
#ifndef TALLY_REPLICA_FOLLOW_H
#define TALLY_REPLICA_FOLLOW_H

#include "commit/timekeeper.h"
#include "store/store.h"

struct follow;

struct follow_config {
    const char *url;
    const char *token;
    const char *name; /* how the primary shall call this follower: A-Z a-z 0-9 . : - _ */
    const char *dir;  /* the data directory */
    const struct clock *machine;
    struct store *store;
    struct timekeeper *keeper;        /* is given the primary's time; may be NULL */
    enum err (*rules)(void *context); /* the store's rules have changed: go by them */
    void (*arrived)(void *context);
    void *context;
};

/* All that is pointed to outlives it. */
struct follow *follow_new(const struct follow_config *config);
void follow_start(struct follow *follow);
void follow_stop(struct follow *follow); /* waits for a question under way, a second at most */
void follow_free(struct follow *follow);

struct follow_state {
    uint64_t sequence; /* on disk here */
    uint64_t last;     /* the primary's, as of its last answer */
    int64_t lag_ms;    /* how old the newest state is that is surely here whole */
    bool connected;    /* the last question was answered */
    bool copying;
};
/* Any thread. */
void follow_state(struct follow *follow, struct follow_state *state_out);

/* Before there is a store: copies the primary's into the directory, however often it has to be
 * tried, and says on the log how it goes. ERR_BUSY: `*stop` was set; ERR_CONFLICT: the primary
 * refuses for good. */
MUST_USE enum err follow_begin(const struct follow_config *config, const atomic_bool *stop,
                               struct reason *why);

#endif
