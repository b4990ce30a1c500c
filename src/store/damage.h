/* damage.h -- saying that stored bytes do not decode.
 *
 * The bytes have passed the checksums of their files, so a bug wrote them, or another program did.
 * What needs them is refused (ERR_CORRUPT) or goes on without. Either way it is said here: counted
 * each time, and logged when it is another key than the ones met before. Any thread may call. */
#ifndef TALLY_STORE_DAMAGE_H
#define TALLY_STORE_DAMAGE_H

#include "base/bytes.h"

/* `what` names the kind of value, for people. `key` is the stored key, or the tenant whose value it
 * is; where `count` values are damaged it is that of the first. */
void damage_say(const char *what, struct bytes key, uint32_t count);

#endif
