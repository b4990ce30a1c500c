/* number.h -- 64-bit integers as text, exactly. */
#ifndef TALLY_CORE_NUMBER_H
#define TALLY_CORE_NUMBER_H

#include "base/bytes.h"

/* An optional '-' and digits, nothing else: no plus, space, point or exponent. Leading
 * zeros are harmless. False also for values outside int64; nothing is ever rounded. */
MUST_USE bool number_parse(struct bytes text, int64_t *value_out);

#endif
