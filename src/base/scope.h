/* scope.h -- what a token may do. */
#ifndef TALLY_BASE_SCOPE_H
#define TALLY_BASE_SCOPE_H

#include "base/bytes.h"

enum scope {
    SCOPE_READ = 1,
    SCOPE_WRITE = 2,
    SCOPE_ADMIN = 4,   /* implies read and write, and acts for any tenant */
    SCOPE_REPLICA = 8, /* follows the whole store, with all tenants; no other scope implies it */
};

#define SCOPE_DEFAULT (SCOPE_READ | SCOPE_WRITE)

/* The bits of space-separated words. Words it does not know give nothing; `unknown_out`, unless
 * NULL, is the first of them, or BYTES_NONE. */
unsigned scope_parse(struct bytes words, struct bytes *unknown_out);

/* The words of the bits: "read write", "admin replica", "". */
const char *scope_text(unsigned scopes);

#endif
