/* hash.c -- XXH3 behind two names. */
#include "base/hash.h"

#include <xxhash.h>

struct fingerprint fingerprint_of(const struct hash_secret *secret, struct bytes bytes)
{
    XXH128_hash_t hash =
        XXH3_128bits_withSecret(bytes.data, bytes.size, secret->bytes, sizeof secret->bytes);
    return (struct fingerprint){hash.low64, hash.high64};
}

uint64_t hash_checksum(struct bytes bytes)
{
    return XXH3_64bits(bytes.data, bytes.size);
}
