/* damage.c -- see the header. A scan that meets the same key every second logs it once. */
#include "store/damage.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"

#define REMEMBERED 64u

static _Atomic uint64_t said[REMEMBERED];

void damage_say(const char *what, struct bytes key, uint32_t count)
{
    uint64_t hash = hash_checksum(key) ^ hash_checksum(bytes_str(what));
    metric_add(METRIC_DAMAGED_VALUES, count);
    if (atomic_exchange(&said[hash % REMEMBERED], hash) == hash) return;
    log_line(LOG_ERROR, "stored bytes do not decode", LOG_KV("what", what), LOG_KV("key", key));
}
