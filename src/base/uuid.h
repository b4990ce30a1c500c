/* uuid.h -- UUIDs as the 16 bytes they are and as text, digits in lower case with four dashes. */
#ifndef TALLY_BASE_UUID_H
#define TALLY_BASE_UUID_H

#include "base/bytes.h"

#define UUID_SIZE 16u
#define UUID_TEXT_SIZE 36u

/* False: not a UUID as `uuid_write` has it. */
MUST_USE bool uuid_read(const char text[UUID_TEXT_SIZE], unsigned char uuid_out[UUID_SIZE]);
void uuid_write(const unsigned char uuid[UUID_SIZE], char text_out[UUID_TEXT_SIZE]);

#endif
