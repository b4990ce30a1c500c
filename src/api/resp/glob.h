/* glob.h -- patterns as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what is meant as
 * it is. */
#ifndef TALLY_API_RESP_GLOB_H
#define TALLY_API_RESP_GLOB_H

#include "base/bytes.h"

/* Takes as long as the two are, multiplied, at most. */
bool glob_match(struct bytes pattern, struct bytes text);

/* What every text that matches begins with, as far as the pattern says so by itself. */
struct bytes glob_prefix(struct bytes pattern);

#endif
