/* acceptor.h -- the listening socket. Loop 0 accepts for all loops and gives each connection to the
 * one that has fewest: with a few dozen connections the kernel's hashing (SO_REUSEPORT) can leave
 * one core with twice the other's, and they stay that way for as long as the clients stay. */
#ifndef TALLY_WIRE_ACCEPTOR_H
#define TALLY_WIRE_ACCEPTOR_H

#include "wire/worker.h"

/* Binds and listens as the config says and sets `listen_fd` and `port`. */
MUST_USE enum err acceptor_open(struct wire *wire, char *error_out, size_t error_size);
/* Has loop 0 watch the socket, or not. */
void acceptor_watch(struct wire *wire, bool on);
/* Accepts what is there. Out of file descriptors it stops watching until acceptor_watch. */
void acceptor_accept(struct wire *wire);
/* Takes over what loop 0 accepted for this loop. */
void acceptor_arrivals(struct worker *worker);
void acceptor_close(struct wire *wire);

#endif
