/* uuid.c -- see the header. */
#include "base/uuid.h"

/* Where in the text the two digits of each byte stand. */
static const unsigned char places[UUID_SIZE] = {0,  2,  4,  6,  9,  11, 14, 16,
                                                19, 21, 24, 26, 28, 30, 32, 34};
static const unsigned char dashes[] = {8, 13, 18, 23};

/* A table, because digits and letters of a random id come in no order a branch could foresee. */
#define IS_DIGIT 16u
static const unsigned char digit_of[256] = {
    ['0'] = 16, ['1'] = 17, ['2'] = 18, ['3'] = 19, ['4'] = 20, ['5'] = 21, ['6'] = 22, ['7'] = 23,
    ['8'] = 24, ['9'] = 25, ['a'] = 26, ['b'] = 27, ['c'] = 28, ['d'] = 29, ['e'] = 30, ['f'] = 31,
};

bool uuid_read(const char text[UUID_TEXT_SIZE], unsigned char uuid_out[UUID_SIZE])
{
    const unsigned char *from = (const unsigned char *)text;
    unsigned all = IS_DIGIT;
    for (unsigned i = 0; i < ARRAY_COUNT(dashes); i++)
        if (from[dashes[i]] != '-') return false;
    for (unsigned i = 0; i < UUID_SIZE; i++) {
        unsigned high = digit_of[from[places[i]]], low = digit_of[from[places[i] + 1]];
        all &= high & low;
        uuid_out[i] = (unsigned char)(high << 4 | (low & 15));
    }
    return all != 0;
}

void uuid_write(const unsigned char uuid[UUID_SIZE], char text_out[UUID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < ARRAY_COUNT(dashes); i++)
        text_out[dashes[i]] = '-';
    for (unsigned i = 0; i < UUID_SIZE; i++) {
        text_out[places[i]] = digits[uuid[i] >> 4];
        text_out[places[i] + 1] = digits[uuid[i] & 15];
    }
}
