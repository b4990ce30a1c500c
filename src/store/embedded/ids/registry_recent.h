/* registry_recent.h -- key records in memory: a table to find them, in the order they came.
 *
 * The registry holds what is staged in one of these, taking the oldest out as it becomes durable,
 * and what is published in others, which are sorted and written back whole. Outcomes lie in one
 * block of bytes; a table that is reset keeps its memory, so a steady state allocates nothing.
 *
 * Not locked: the registry's lock is around it. */
#ifndef TALLY_STORE_EMBEDDED_IDS_REGISTRY_RECENT_H
#define TALLY_STORE_EMBEDDED_IDS_REGISTRY_RECENT_H

#include "base/hash.h"
#include "store/store.h"

struct recent_entry {
    struct fingerprint print;
    uint64_t sequence;
    int64_t first_seen_ms;
    uint64_t digest;
    uint64_t outcome_at; /* counted from the first outcome ever taken in */
    uint32_t outcome_size;
    bool event;
};

struct recent_slot {
    uint32_t tag;
    uint32_t number; /* the entry's, modulo 2^32; see `used` for empty ones */
};

struct recent {
    struct recent_entry *entries; /* those from `first` to below `count` are there */
    size_t first;
    size_t count;
    size_t capacity;
    uint64_t entries_base; /* number of entries[0] */
    struct recent_slot *slots;
    size_t slot_count; /* a power of two; at most half are used, some of them by records that have
                        * left */
    size_t slots_used;
    char *outcomes;
    size_t outcomes_size;
    size_t outcomes_capacity;
    uint64_t outcomes_base; /* where outcomes[0] is, counted as `outcome_at` is */
    uint64_t sequence_min;  /* the lowest of all records since the reset; UINT64_MAX: none */
};

/* Room for `expected` records from the start; more are taken. */
void recent_init(struct recent *recent, size_t expected);
void recent_release(struct recent *recent);
void recent_reset(struct recent *recent);

static inline size_t recent_size(const struct recent *recent)
{
    return recent->count - recent->first;
}

/* The newest record of `print`, or NULL. Valid until the table is next changed. */
const struct recent_entry *recent_find(const struct recent *recent, struct fingerprint print);

/* A hint that `print` is about to be looked up or put. */
void recent_prefetch(const struct recent *recent, struct fingerprint print);

/* Copies the record. `add` keeps an older record of the same id behind the new one, `put` replaces
 * it. */
void recent_add(struct recent *recent, struct fingerprint print, const struct key_record *record);
void recent_put(struct recent *recent, struct fingerprint print, const struct key_record *record);

/* recent_oldest returns the oldest record, or NULL. recent_remove_oldest takes it out of a table
 * that was filled by add alone. */
const struct recent_entry *recent_oldest(const struct recent *recent);
void recent_remove_oldest(struct recent *recent);

/* `outcome` borrows from the table. */
void recent_record(const struct recent *recent, const struct recent_entry *entry,
                   struct key_record *record_out);

/* The entries in the order of keys, as indexes from `first`; only for a table filled by put.
 * The caller frees it. */
MUST_USE uint32_t *recent_sort(const struct recent *recent);

#endif
