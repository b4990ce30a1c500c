/* acceptor.h -- the listening sockets. Loop 0 accepts for all loops and gives connections to the
 * one that has fewest: with a few dozen connections the kernel's hashing (SO_REUSEPORT) can leave
 * one core with twice the other's, and they stay that way for as long as the clients stay. */
#ifndef TALLY_WIRE_ACCEPTOR_H
#define TALLY_WIRE_ACCEPTOR_H

#include "wire/worker.h"

/* Says what is spoken on each; `http` is the handler of that protocol. */
void acceptor_init(struct wire *wire, const struct wire_handler *http);
/* Binds and listens as the config says and sets `fd` and `port` of the listeners. */
MUST_USE enum err acceptor_open(struct wire *wire, char *error_out, size_t error_size);
/* Has loop 0 watch the sockets. */
void acceptor_watch_all(struct wire *wire);
/* Accepts what is there. Out of file descriptors it stops watching until acceptor_watch_all. */
void acceptor_accept(struct wire_listener *listener);
/* Takes over what loop 0 accepted for this loop. */
void acceptor_arrivals(struct worker *worker);
void acceptor_close(struct wire *wire);

#endif
