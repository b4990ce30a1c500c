/* size.h -- numbers of bytes as people write them: 4096, 16MiB, 512MB.
 *
 * KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB of 1000, as the standards have it. */
#ifndef TALLY_BASE_SIZE_H
#define TALLY_BASE_SIZE_H

#include "base/bytes.h"

#define SIZE_TEXT_SIZE 24 /* holds any size_format, with its NUL */

/* False: not a size, or past INT64_MAX. */
MUST_USE bool size_parse(struct bytes text, int64_t *size_out);

/* The shortest exact form in powers of 1024, which size_parse reads back. */
void size_format(int64_t size, char text_out[SIZE_TEXT_SIZE]);

#endif
