/* hash.h -- keyed fingerprints, and hashes for tables.
 *
 * 128 bits of XXH3 under a per-installation random secret: nobody outside can construct two names
 * that meet, and by chance it does not happen. The secret is part of the store's IDENTITY, because
 * fingerprints are written to disk. */
#ifndef TALLY_BASE_HASH_H
#define TALLY_BASE_HASH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

#define HASH_SECRET_SIZE 192 /* XXH3 asks for at least 136 */

struct fingerprint {
    uint64_t low;
    uint64_t high;
};

struct hash_secret {
    unsigned char bytes[HASH_SECRET_SIZE];
};

static inline bool fingerprint_equal(struct fingerprint a, struct fingerprint b)
{
    return a.low == b.low && a.high == b.high;
}

struct fingerprint fingerprint_of(const struct hash_secret *secret, struct bytes bytes);

/* The unkeyed checksum of a file that is read piece by piece. checksum_stream_end frees the
 * stream. */
struct checksum {
    uint64_t low;
    uint64_t high;
};
struct checksum_stream;
struct checksum_stream *checksum_stream_new(void);
void checksum_stream_add(struct checksum_stream *stream, struct bytes bytes);
struct checksum checksum_stream_end(struct checksum_stream *stream);

static inline bool checksum_equal(struct checksum a, struct checksum b)
{
    return a.low == b.low && a.high == b.high;
}

/* A keyed hash is for tables in memory whose keys a client chooses: without a key, a client can
 * find thousands of keys that meet in one chain. `hash_own` is a secret of this process, drawn
 * before main; nothing made with it may be stored or compared with another process's. */
extern struct hash_secret hash_own;
uint64_t hash_keyed(const struct hash_secret *secret, struct bytes bytes);

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The keyed hash of two numbers; it takes two multiplications. */
static inline uint64_t hash_keyed_pair(const struct hash_secret *secret, uint64_t a, uint64_t b)
{
    uint64_t keys[4];
    memcpy(keys, secret->bytes, sizeof keys);
    return hash_fold(hash_fold(a ^ keys[0], b ^ keys[1]) ^ keys[2], keys[3] | 1);
}

/* An unkeyed hash is for checksums and for tables in memory over values that no client chooses. */
uint64_t hash_checksum(struct bytes bytes);
static inline uint64_t hash_mix(uint64_t value)
{
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93u;
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93u;
    return value ^ (value >> 32);
}

#endif
