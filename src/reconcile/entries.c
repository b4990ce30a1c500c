/* entries.c -- one truth for each entry of the config, kept across scans and reloads. */
#include <stdlib.h>

#include "reconcile/reconciler_internal.h"

#define DOWN_NS_MIN INT64_C(1000000000)
#define DOWN_DOUBLINGS_MAX 6 /* up to a minute */

static struct entry *entry_make(struct reconciler *reconciler, const struct reconcile *reconcile,
                                uint64_t digest)
{
    struct entry *entry = must_calloc(1, sizeof *entry);
    char *name = must_calloc(1, reconcile->name.size);
    memcpy(name, reconcile->name.data, reconcile->name.size);
    entry->name = bytes_of(name, reconcile->name.size);
    entry->digest = digest;
    entry->oldest_ms = INT64_MAX;
    entry->truth = reconciler->config.open(reconciler->config.open_context, reconcile);
    entry->next = reconciler->entries;
    reconciler->entries = entry;
    return entry;
}

struct entry *entry_hold(struct reconciler *reconciler, const struct reconcile *reconcile)
{
    uint64_t digest = reconcile_digest(reconcile);
    struct entry *entry = reconciler->entries;
    while (entry && (entry->digest != digest || !bytes_equal(entry->name, reconcile->name)))
        entry = entry->next;
    if (!entry) entry = entry_make(reconciler, reconcile, digest);
    entry->users++;
    return entry;
}

void entry_give(struct entry *entry)
{
    must(entry->users > 0);
    entry->users--;
}

static bool is_in_force(const struct rules *rules, const struct entry *entry)
{
    const struct reconcile *reconcile = rules ? reconcile_find(rules, entry->name) : NULL;
    return reconcile && reconcile_digest(reconcile) == entry->digest;
}

void entries_trim(struct reconciler *reconciler, const struct rules *rules)
{
    struct entry **at = &reconciler->entries;
    while (*at) {
        struct entry *entry = *at;
        if (entry->users > 0 || is_in_force(rules, entry)) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->truth->ops->free(entry->truth);
        free((char *)entry->name.data);
        free(entry);
    }
}

void entry_down(struct entry *entry, int64_t now_ns)
{
    /* Passes that were under way together fail together: that is one time down. */
    if (now_ns < entry->down_until_ns) return;
    unsigned doublings = entry->downs < DOWN_DOUBLINGS_MAX ? entry->downs : DOWN_DOUBLINGS_MAX;
    entry->downs++;
    entry->down_until_ns = now_ns + (DOWN_NS_MIN << doublings);
}

void entry_up(struct entry *entry)
{
    entry->downs = 0;
    entry->down_until_ns = 0;
}
