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

/* The low bits choose the slot of a table. What steps by a power of two is what buckets do. */
static void pairs_meet_in_a_slot_as_rarely_as_chance_has_it(void **state)
{
    (void)state;
    enum { SLOTS = 4096 };
    const struct hash_secret secret = secret_of(1);
    for (unsigned shift = 0; shift < 52; shift++) {
        unsigned slots[SLOTS] = {0}, most = 0;
        for (uint64_t i = 0; i < SLOTS; i++) {
            unsigned count = ++slots[hash_keyed_pair(&secret, 7, i << shift) % SLOTS];
            if (count > most) most = count;
        }
        assert_true(most <= 12);
    }
}

static unsigned meetings(const struct hash_secret *secret, const uint64_t *numbers, unsigned count)
{
    unsigned met = 0;
    for (unsigned i = 1; i < count; i++)
        met += hash_keyed_pair(secret, 7, numbers[i]) % 4096 ==
               hash_keyed_pair(secret, 7, numbers[0]) % 4096;
    return met;
}

/* Numbers that meet under one secret were chosen in vain under another. */
static void pairs_that_meet_under_one_secret_do_not_under_another(void **state)
{
    (void)state;
    const struct hash_secret one = secret_of(1), other = secret_of(2);
    uint64_t numbers[256] = {0};
    unsigned found = 1;
    for (uint64_t number = 1; found < ARRAY_COUNT(numbers); number++) {
        numbers[found] = number;
        found += hash_keyed_pair(&one, 7, number) % 4096 == hash_keyed_pair(&one, 7, 0) % 4096;
    }
    assert_int_equal(meetings(&one, numbers, found), found - 1);
    assert_true(meetings(&other, numbers, found) <= 4);
}

static void a_text_has_another_hash_under_another_secret(void **state)
{
    (void)state;
    const struct hash_secret one = secret_of(1), other = secret_of(2);
    assert_true(hash_keyed(&one, BYTES("acme")) == hash_keyed(&one, BYTES("acme")));
    assert_true(hash_keyed(&one, BYTES("acme")) != hash_keyed(&other, BYTES("acme")));
    assert_true(hash_keyed(&one, BYTES("acme")) != hash_checksum(BYTES("acme")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_14_texts_that_differ_in_a_byte_never_meet),
        cmocka_unit_test(a_fingerprint_depends_on_the_secret),
        cmocka_unit_test(pairs_meet_in_a_slot_as_rarely_as_chance_has_it),
        cmocka_unit_test(pairs_that_meet_under_one_secret_do_not_under_another),
        cmocka_unit_test(a_text_has_another_hash_under_another_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
