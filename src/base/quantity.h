/* quantity.h -- what durations and sizes have in common: digits, then a unit from a table. */
#ifndef TALLY_BASE_QUANTITY_H
#define TALLY_BASE_QUANTITY_H

#include "base/bytes.h"

struct quantity_unit {
    const char *name;
    int64_t factor;
};

/* Plain decimal digits, nothing else. False also past INT64_MAX. */
MUST_USE bool quantity_digits(struct bytes text, int64_t *value_out);

/* Digits and exactly one of the units' names. */
MUST_USE bool quantity_parse(struct bytes text, const struct quantity_unit *units, size_t count,
                             int64_t *value_out);

/* The first unit that divides `value`; the table goes from large to small and ends with 1. */
const struct quantity_unit *quantity_fit(int64_t value, const struct quantity_unit *units,
                                         size_t count);

#endif
