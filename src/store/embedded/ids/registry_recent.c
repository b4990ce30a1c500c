/* registry_recent.c -- open addressing with linear probing over an array in order of arrival.
 *
 * Entries and outcomes leave at the front and come at the back. Both arrays slide down when half
 * of them is gone; numbers and offsets count from the beginning of time, so nothing that points
 * into them has to change. */
#include "store/embedded/ids/registry_recent.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "store/embedded/state/registry_record.h"

#define RECENT_SLOTS_MIN 16u
#define RECENT_HUGE_PAGE (2u << 20)
#define RECENT_EMPTY 0u /* tag of an unused slot */

/* Outcomes are a few KiB at most; entries of one table are numbered in 32 bits. */
#define RECENT_COUNT_MAX (1ull << 31)

static uint32_t recent_tag(struct fingerprint print)
{
    uint32_t tag = (uint32_t)(print.low >> 32);
    return tag == RECENT_EMPTY ? 1 : tag;
}

static size_t recent_home(const struct recent *recent, struct fingerprint print)
{
    return (size_t)hash_mix(print.low) & (recent->slot_count - 1);
}

/* Slots are looked up at random: large pages spare the address translation a miss of its own. */
static struct recent_slot *recent_slots_new(size_t count)
{
    struct recent_slot *slots = must_calloc(count, sizeof *slots);
    uintptr_t from = ((uintptr_t)slots + RECENT_HUGE_PAGE - 1) & -(uintptr_t)RECENT_HUGE_PAGE;
    uintptr_t to = (uintptr_t)(slots + count);
    if (from < to) madvise((void *)from, to - from, MADV_HUGEPAGE);
    return slots;
}

void recent_init(struct recent *recent, size_t expected)
{
    *recent = (struct recent){.sequence_min = UINT64_MAX, .slot_count = RECENT_SLOTS_MIN};
    while (recent->slot_count < 2 * expected)
        recent->slot_count *= 2;
    recent->slots = recent_slots_new(recent->slot_count);
}

void recent_release(struct recent *recent)
{
    free(recent->entries);
    free(recent->slots);
    free(recent->outcomes);
    *recent = (struct recent){0};
}

void recent_reset(struct recent *recent)
{
    memset(recent->slots, 0, recent->slot_count * sizeof *recent->slots);
    recent->slots_used = 0;
    recent->first = recent->count = 0;
    recent->outcomes_size = 0;
    recent->sequence_min = UINT64_MAX;
}

static struct recent_entry *recent_entry_at(const struct recent *recent, struct recent_slot slot)
{
    return &recent->entries[(uint32_t)(slot.number - (uint32_t)recent->entries_base)];
}

/* A record that was taken out leaves its slot behind until the next rehash. */
static bool recent_is_there(const struct recent *recent, struct recent_slot slot)
{
    return slot.number - (uint32_t)(recent->entries_base + recent->first) < recent_size(recent);
}

/* The slot of `print`, or the empty one where it would go. */
static struct recent_slot *recent_slot_of(const struct recent *recent, struct fingerprint print)
{
    uint32_t tag = recent_tag(print);
    for (size_t i = recent_home(recent, print);; i++) {
        struct recent_slot *slot = &recent->slots[i & (recent->slot_count - 1)];
        if (slot->tag == RECENT_EMPTY) return slot;
        if (slot->tag == tag && recent_is_there(recent, *slot) &&
            fingerprint_equal(recent_entry_at(recent, *slot)->print, print))
            return slot;
    }
}

const struct recent_entry *recent_find(const struct recent *recent, struct fingerprint print)
{
    struct recent_slot *slot = recent_slot_of(recent, print);
    return slot->tag == RECENT_EMPTY ? NULL : recent_entry_at(recent, *slot);
}

void recent_prefetch(const struct recent *recent, struct fingerprint print)
{
    __builtin_prefetch(&recent->slots[recent_home(recent, print)], 1);
}

static uint64_t recent_add_outcome(struct recent *recent, struct bytes outcome)
{
    if (recent->outcomes_capacity - recent->outcomes_size < outcome.size) {
        size_t capacity = 2 * recent->outcomes_capacity + outcome.size + 1024;
        recent->outcomes = must_realloc(recent->outcomes, capacity);
        recent->outcomes_capacity = capacity;
    }
    uint64_t at = recent->outcomes_base + recent->outcomes_size;
    if (outcome.size) memcpy(recent->outcomes + recent->outcomes_size, outcome.data, outcome.size);
    recent->outcomes_size += outcome.size;
    return at;
}

static void recent_fill(struct recent *recent, struct recent_entry *entry, struct fingerprint print,
                        const struct key_record *record)
{
    must(record->outcome.size <= UINT32_MAX);
    *entry = (struct recent_entry){
        .print = print,
        .sequence = record->sequence,
        .first_seen_ms = record->first_seen_ms,
        .digest = record->digest,
        .outcome_at = recent_add_outcome(recent, record->outcome),
        .outcome_size = (uint32_t)record->outcome.size,
        .event = record->event,
    };
    if (record->sequence < recent->sequence_min) recent->sequence_min = record->sequence;
}

static struct recent_entry *recent_append(struct recent *recent)
{
    if (recent->count == recent->capacity) {
        must(recent->count < RECENT_COUNT_MAX);
        recent->capacity = recent->capacity ? 2 * recent->capacity : RECENT_SLOTS_MIN;
        recent->entries = must_realloc(recent->entries, recent->capacity * sizeof *recent->entries);
    }
    return &recent->entries[recent->count++];
}

/* Makes the slot that of entries[index], the newest record of its id. */
static void recent_take_slot(struct recent *recent, struct recent_slot *slot,
                             struct fingerprint print, size_t index)
{
    if (slot->tag == RECENT_EMPTY) recent->slots_used++;
    slot->tag = recent_tag(print);
    slot->number = (uint32_t)(recent->entries_base + index);
}

/* Puts only what is there into the new slots, as many as it needs. */
static void recent_rehash(struct recent *recent)
{
    size_t slot_count = recent->slot_count;
    while (slot_count < 4 * (recent_size(recent) + 1))
        slot_count *= 2;
    if (slot_count == recent->slot_count) {
        memset(recent->slots, 0, slot_count * sizeof *recent->slots);
    } else {
        free(recent->slots);
        recent->slots = recent_slots_new(slot_count);
        recent->slot_count = slot_count;
    }
    recent->slots_used = 0;
    for (size_t i = recent->first; i < recent->count; i++) {
        struct fingerprint print = recent->entries[i].print;
        recent_take_slot(recent, recent_slot_of(recent, print), print, i);
    }
}

static struct recent_slot *recent_slot_for(struct recent *recent, struct fingerprint print)
{
    if (2 * (recent->slots_used + 1) > recent->slot_count) recent_rehash(recent);
    return recent_slot_of(recent, print);
}

static void recent_add_at(struct recent *recent, struct recent_slot *slot, struct fingerprint print,
                          const struct key_record *record)
{
    recent_fill(recent, recent_append(recent), print, record);
    recent_take_slot(recent, slot, print, recent->count - 1);
}

void recent_add(struct recent *recent, struct fingerprint print, const struct key_record *record)
{
    recent_add_at(recent, recent_slot_for(recent, print), print, record);
}

void recent_put(struct recent *recent, struct fingerprint print, const struct key_record *record)
{
    struct recent_slot *slot = recent_slot_for(recent, print);
    if (slot->tag == RECENT_EMPTY)
        recent_add_at(recent, slot, print, record);
    else
        recent_fill(recent, recent_entry_at(recent, *slot), print, record);
}

const struct recent_entry *recent_oldest(const struct recent *recent)
{
    return recent->first < recent->count ? &recent->entries[recent->first] : NULL;
}

/* Each byte moves once for each byte that left before it: the cost of leaving is constant. */
static void recent_slide(struct recent *recent)
{
    if (recent->first * 2 < recent->count) return;
    size_t left = recent_size(recent);
    uint64_t outcomes_at = left ? recent->entries[recent->first].outcome_at
                                : recent->outcomes_base + recent->outcomes_size;
    size_t outcomes_gone = (size_t)(outcomes_at - recent->outcomes_base);
    size_t outcomes_left = recent->outcomes_size - outcomes_gone;
    if (left)
        memmove(recent->entries, recent->entries + recent->first, left * sizeof *recent->entries);
    if (outcomes_left) memmove(recent->outcomes, recent->outcomes + outcomes_gone, outcomes_left);
    recent->entries_base += recent->first;
    recent->first = 0;
    recent->count = left;
    recent->outcomes_base = outcomes_at;
    recent->outcomes_size = outcomes_left;
}

void recent_remove_oldest(struct recent *recent)
{
    must(recent->first < recent->count);
    recent->first++;
    recent_slide(recent);
}

void recent_record(const struct recent *recent, const struct recent_entry *entry,
                   struct key_record *record_out)
{
    *record_out = (struct key_record){
        .sequence = entry->sequence,
        .first_seen_ms = entry->first_seen_ms,
        .digest = entry->digest,
        .event = entry->event,
        .exists = true,
    };
    if (entry->outcome_size == 0) return;
    size_t at = (size_t)(entry->outcome_at - recent->outcomes_base);
    record_out->outcome = bytes_of(recent->outcomes + at, entry->outcome_size);
}
