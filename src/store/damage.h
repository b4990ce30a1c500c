/* damage.h -- saying that stored bytes do not decode.
 *
 * They have passed the checksums of their files, so a bug wrote them or somebody else did. Whoever
 * needs them is refused (ERR_CORRUPT) or goes on without; either way it is said here: counted each
 * time, and logged when it is another key than the ones met before. Any thread. */
#ifndef TALLY_STORE_DAMAGE_H
#define TALLY_STORE_DAMAGE_H

#include "base/bytes.h"

/* `what` names the kind of value, for people. `key` is the stored one, or whose value it is; of
 * `count` values it is the first one's. */
void damage_say(const char *what, struct bytes key, uint32_t count);

#endif
