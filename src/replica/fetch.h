/* fetch.h -- asking the primary over HTTP, with libcurl. For one thread. */
#ifndef TALLY_REPLICA_FETCH_H
#define TALLY_REPLICA_FETCH_H

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/reason.h"

struct fetch;

struct fetch_reply {
    int status;        /* HTTP's */
    struct buf body;   /* valid until the next question */
    char code[64];     /* an error's, "position_lost"; "" where it is none of tally's */
    struct reason why; /* its sentence */
};

/* `url` has no path. Once `*stop` is set questions end soon, with ERR_BUSY. Both outlive it. */
struct fetch *fetch_new(const char *url, const char *token, const atomic_bool *stop);
void fetch_free(struct fetch *fetch);

/* Asks `method` for a path with its query, and reads the answer, which may have `body_max` bytes.
 * ERR_OK: there is one, whatever its status; ERR_STORAGE: there is none, `reply->why` says why;
 * ERR_BUSY: told to stop. */
MUST_USE enum err fetch_ask(struct fetch *fetch, const char *method, const char *path,
                            int64_t timeout_ms, const struct fetch_reply **reply_out);

#endif
