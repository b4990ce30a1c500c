/* accept.c -- weights of codings. */
#include "wire/accept.h"

#define WEIGHT_ONE 1000u

/* Reads `0.5` as 500: a 0 or a 1, and up to three digits behind a point. Anything else is 0. */
static unsigned weight_of(struct bytes text)
{
    unsigned weight = 0, digit = WEIGHT_ONE;
    if (text.size == 0 || text.size > 5 || (text.size > 1 && text.data[1] != '.')) return 0;
    for (size_t i = 0; i < text.size; i++) {
        if (i == 1) continue;
        if (text.data[i] < '0' || text.data[i] > '9') return 0;
        weight += (unsigned)(text.data[i] - '0') * digit;
        digit /= 10;
    }
    return weight > WEIGHT_ONE ? 0 : weight;
}

static unsigned weight_read(struct bytes parameters)
{
    struct bytes value = bytes_trim(parameters);
    if (!parameters.data) return WEIGHT_ONE;
    struct bytes name = bytes_split(&value, '=');
    return bytes_equal_nocase(name, BYTES("q")) ? weight_of(value) : 0;
}

void accept_read(struct accept *accept, struct bytes value)
{
    while (value.data) {
        struct bytes rest = bytes_split(&value, ',');
        struct bytes coding = bytes_trim(bytes_split(&rest, ';'));
        uint16_t weight = (uint16_t)(weight_read(rest) + 1);
        if (bytes_equal_nocase(coding, BYTES("gzip")) ||
            bytes_equal_nocase(coding, BYTES("x-gzip")))
            accept->gzip = weight;
        else if (bytes_equal_nocase(coding, BYTES("identity")))
            accept->identity = weight;
        else if (bytes_equal(coding, BYTES("*")))
            accept->any = weight;
    }
}

bool accept_gzip(const struct accept *accept)
{
    unsigned gzip = accept->gzip ? accept->gzip : accept->any;
    unsigned identity = accept->identity ? accept->identity : accept->any;
    return gzip > 1 && gzip >= identity;
}
