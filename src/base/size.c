/* size.c -- the units of size.h. */
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/quantity.h"

static const struct quantity_unit binary[] = {
    {"TiB", INT64_C(1) << 40},
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", INT64_C(1) << 10},
    {"", 1},
};
static const struct quantity_unit decimal[] = {
    {"TB", INT64_C(1000000000000)},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"kB", 1000},
    {"KB", 1000},
    {"B", 1},
};

bool size_parse(struct bytes text, int64_t *size_out)
{
    return quantity_parse(text, binary, ARRAY_COUNT(binary), size_out) ||
           quantity_parse(text, decimal, ARRAY_COUNT(decimal), size_out);
}

void size_format(int64_t size, char text_out[SIZE_TEXT_SIZE])
{
    must(size >= 0);
    const struct quantity_unit *unit = quantity_fit(size, binary, ARRAY_COUNT(binary));
    snprintf(text_out, SIZE_TEXT_SIZE, "%" PRId64 "%s", size / unit->factor, unit->name);
}
