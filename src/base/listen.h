/* listen.h -- an address and a port in one text, as `listen:` has it. */
#ifndef TALLY_BASE_LISTEN_H
#define TALLY_BASE_LISTEN_H

#include "base/bytes.h"

struct listen {
    char address[48]; /* numeric IPv4 or IPv6, without brackets */
    unsigned port;    /* 0: any free one */
    bool loopback;    /* reachable from this machine only */
};

/* "127.0.0.1:8787", "[::1]:8787" or "localhost:8787" (which is 127.0.0.1). False: none of these;
 * other host names are refused because what they mean can change behind our back. */
MUST_USE bool listen_parse(struct bytes text, struct listen *listen_out);

/* "http://127.0.0.1:8787", with the port that was found where any would do. */
#define LISTEN_URL_SIZE 72
void listen_url(const struct listen *listen, unsigned port, char url_out[LISTEN_URL_SIZE]);

#endif
