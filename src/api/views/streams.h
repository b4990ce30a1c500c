/* streams.h -- GET /api/stream/{tenant}: what goes on, told as server-sent events while it does.
 *
 * One thread looks after all streams. Several times a second it asks each one whose last words have
 * been written whether there is anything new, and only then is the newest state put together: a
 * slow reader misses states, and never has a backlog. Streams end with the token's exp, with a
 * reload of the keys, with the client, and with the server. */
#ifndef TALLY_API_VIEWS_STREAMS_H
#define TALLY_API_VIEWS_STREAMS_H

#include "base/bytes.h"

struct api;
struct stream;
struct streams;

struct streams *streams_new(struct api *api); /* starts the thread */
void streams_stop(struct streams *streams);   /* lets go of every stream and ends the thread */
void streams_free(struct streams *streams);

/* From the wire, on the loop's thread. */
void streams_drained(struct stream *stream); /* everything said so far is written */
void streams_lost(struct stream *stream);    /* the client is gone */
void streams_ended(struct stream *stream);   /* the last call: the stream is gone after it */

#endif
