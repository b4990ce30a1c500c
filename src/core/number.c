/* number.c -- 64-bit integers as text, exactly. */
#include "core/number.h"

/* Counts downward from zero, because the negative side has the one value more. */
static bool digits_parse(struct bytes digits, int64_t *negative_out)
{
    int64_t value = 0;
    for (size_t i = 0; i < digits.size; i++) {
        int digit = digits.data[i] - '0';
        if (digit < 0 || digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, digit, &value)) return false;
    }
    *negative_out = value;
    return digits.size > 0;
}

bool number_parse(struct bytes text, int64_t *value_out)
{
    if (text.size == 0) return false;
    bool minus = text.data[0] == '-';
    int64_t negative;
    if (!digits_parse(bytes_of(text.data + minus, text.size - minus), &negative)) return false;
    if (minus) {
        *value_out = negative;
        return true;
    }
    if (negative == INT64_MIN) return false;
    *value_out = -negative;
    return true;
}
