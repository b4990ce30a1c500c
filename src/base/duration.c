/* duration.c -- a number, a unit, checked multiplication. */
#include "base/duration.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/quantity.h"

static const struct quantity_unit units[] = {
    {"d", 24 * 3600 * INT64_C(1000)},
    {"h", 3600 * INT64_C(1000)},
    {"m", 60 * INT64_C(1000)},
    {"s", 1000},
    {"ms", 1},
};

bool duration_parse(struct bytes text, int64_t *ms_out)
{
    if (bytes_equal(text, BYTES("0"))) {
        *ms_out = 0;
        return true;
    }
    return quantity_parse(text, units, ARRAY_COUNT(units), ms_out);
}

void duration_format(int64_t ms, char text_out[DURATION_TEXT_SIZE])
{
    must(ms >= 0);
    const struct quantity_unit *unit = quantity_fit(ms, units, ARRAY_COUNT(units));
    if (ms == 0)
        snprintf(text_out, DURATION_TEXT_SIZE, "0");
    else
        snprintf(text_out, DURATION_TEXT_SIZE, "%" PRId64 "%s", ms / unit->factor, unit->name);
}
