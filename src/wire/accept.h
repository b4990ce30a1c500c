/* accept.h -- Accept-Encoding: whether a client would rather have its reply gzipped.
 *
 * Example:
 *
 *     static bool wants_gzip(struct bytes value)
 *     {
 *         struct accept accept = {0};
 *         accept_read(&accept, value); // for each line of that name
 *         return accept_gzip(&accept);
 *     }
 *
 * RFC 9110, 12.5.3: codings have weights, `*` stands for those that are not named, and a weight of
 * 0 says never. What is malformed asks for nothing. */
#ifndef TALLY_WIRE_ACCEPT_H
#define TALLY_WIRE_ACCEPT_H

#include "base/bytes.h"

struct accept { /* in thousandths, and 1 more; 0: not named */
    uint16_t gzip;
    uint16_t identity;
    uint16_t any;
};

void accept_read(struct accept *accept, struct bytes value);

/* A client need not name `identity` to get it, so unnamed it is the last choice. */
bool accept_gzip(const struct accept *accept);

#endif
