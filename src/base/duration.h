/* duration.h -- lengths of time as people write them: 500ms, 2s, 1m, 1h, 30d and a bare 0.
 *
 * One number and one unit; no fractions and no sums, so that every value has one reading. */
#ifndef TALLY_BASE_DURATION_H
#define TALLY_BASE_DURATION_H

#include "base/bytes.h"

#define DURATION_TEXT_SIZE 24 /* holds any duration_format, with its NUL */

/* False: not a duration, or more than 63 bits of milliseconds. */
MUST_USE bool duration_parse(struct bytes text, int64_t *ms_out);

/* The shortest exact form, which duration_parse reads back. `ms` is not negative. */
void duration_format(int64_t ms, char text_out[DURATION_TEXT_SIZE]);

#endif
