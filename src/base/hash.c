/* hash.c -- XXH3 behind our own names. */
#include "base/hash.h"

#include <sys/random.h>
#include <xxhash.h>

#include "base/must.h"

struct hash_secret hash_own;

/* Runs before main, so that no lookup has to ask whether the secret is there. */
__attribute__((constructor)) static void draw_own(void)
{
    must(getrandom(hash_own.bytes, sizeof hash_own.bytes, 0) == sizeof hash_own.bytes);
}

uint64_t hash_keyed(const struct hash_secret *secret, struct bytes bytes)
{
    return XXH3_64bits_withSecret(bytes.data, bytes.size, secret->bytes, sizeof secret->bytes);
}

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

struct checksum_stream *checksum_stream_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    must(state != NULL);
    XXH3_128bits_reset(state);
    return (struct checksum_stream *)state;
}

void checksum_stream_add(struct checksum_stream *stream, struct bytes bytes)
{
    XXH3_128bits_update((XXH3_state_t *)stream, bytes.data, bytes.size);
}

struct checksum checksum_stream_end(struct checksum_stream *stream)
{
    XXH128_hash_t hash = XXH3_128bits_digest((XXH3_state_t *)stream);
    XXH3_freeState((XXH3_state_t *)stream);
    return (struct checksum){hash.low64, hash.high64};
}
