/* err.h -- errors are values from one table, base/err.def. */
#ifndef TALLY_BASE_ERR_H
#define TALLY_BASE_ERR_H

enum err {
#define ERR(name, status, code, sentence) ERR_##name,
#include "base/err.def"
#undef ERR
    ERR_COUNT
};

int err_status(enum err e);           /* the HTTP status */
const char *err_code(enum err e);     /* stable_snake_case */
const char *err_sentence(enum err e); /* what a person reads */

#endif
