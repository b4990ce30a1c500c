/* test_hash.c -- what counting once rests on: different texts have different fingerprints. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/heap.h"

#define TEXTS 100000u

static struct hash_secret secret_of(unsigned char first)
{
    struct hash_secret secret;
    for (unsigned i = 0; i < sizeof secret.bytes; i++)
        secret.bytes[i] = (unsigned char)(first + i * 37);
    return secret;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static unsigned repeated(uint64_t *values, size_t count)
{
    unsigned found = 0;
    qsort(values, count, sizeof *values, compare_u64);
    for (size_t i = 1; i < count; i++)
        found += values[i] == values[i - 1];
    return found;
}

/* Each half alone would do for as many; by chance it fails once in four thousand million runs, and
 * never here, since the texts and the secret are fixed. */
static void S1_14_texts_that_differ_in_a_byte_never_meet(void **state)
{
    (void)state;
    const struct hash_secret secret = secret_of(1);
    uint64_t *lows = must_calloc(TEXTS, sizeof *lows);
    uint64_t *highs = must_calloc(TEXTS, sizeof *highs);
    for (unsigned i = 0; i < TEXTS; i++) {
        char text[32];
        int size = snprintf(text, sizeof text, "order-%u", i);
        struct fingerprint print = fingerprint_of(&secret, bytes_of(text, (size_t)size));
        lows[i] = print.low;
        highs[i] = print.high;
    }
    assert_int_equal(repeated(lows, TEXTS), 0);
    assert_int_equal(repeated(highs, TEXTS), 0);
    free(lows);
    free(highs);
}

/* So that nobody outside can find two that meet. */
static void a_fingerprint_depends_on_the_secret(void **state)
{
    (void)state;
    const struct hash_secret one = secret_of(1), other = secret_of(2);
    struct fingerprint print = fingerprint_of(&one, BYTES("order-1"));
    assert_true(fingerprint_equal(print, fingerprint_of(&one, BYTES("order-1"))));
    assert_false(fingerprint_equal(print, fingerprint_of(&other, BYTES("order-1"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_14_texts_that_differ_in_a_byte_never_meet),
        cmocka_unit_test(a_fingerprint_depends_on_the_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
