/* quantity.c -- digits and units, with every step checked for overflow. */
#include "base/quantity.h"

static size_t digits_count(struct bytes text)
{
    size_t count = 0;
    while (count < text.size && text.data[count] >= '0' && text.data[count] <= '9')
        count++;
    return count;
}

bool quantity_digits(struct bytes text, int64_t *value_out)
{
    if (text.size == 0 || digits_count(text) != text.size) return false;
    int64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, text.data[i] - '0', &value)) return false;
    }
    *value_out = value;
    return true;
}

bool quantity_parse(struct bytes text, const struct quantity_unit *units, size_t count,
                    int64_t *value_out)
{
    size_t digits = digits_count(text);
    struct bytes name = bytes_of(text.data + digits, text.size - digits);
    int64_t number;
    if (!quantity_digits(bytes_of(text.data, digits), &number)) return false;
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_str(units[i].name)))
            return !__builtin_mul_overflow(number, units[i].factor, value_out);
    return false;
}

const struct quantity_unit *quantity_fit(int64_t value, const struct quantity_unit *units,
                                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (value >= units[i].factor && value % units[i].factor == 0) return &units[i];
    return &units[count - 1];
}
