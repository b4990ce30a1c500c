/* pace.c -- see the header. */
#include "commit/pace.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

#define LINGER_NS_MIN (5 * US)   /* less than this is not worth asking the kernel for */
#define LINGER_NS_MAX (500 * US) /* on a slow disk too */
#define HELP_SYNC_NS_MAX (1 * MS)
#define READS_ABOUT_NS (100 * MS) /* where one client has read lately, it or another will again */
#define FEW_OPS 2u
#define COLLECTED_OPS_MAX 256u
#define PACKED_HERE_BYTES (16u << 10)

_Static_assert(PACE_SMALL_OPS < PACE_ENOUGH_OPS, "under load deciding and syncing overlap");
_Static_assert(PACE_CARE_OPS <= PACE_ENOUGH_OPS, "a caretaker's bundle is a batch at most");
_Static_assert(PACE_TENANT_OPS < PACE_ENOUGH_OPS, "tenants share a batch");
_Static_assert(COLLECTED_OPS_MAX < PACE_ENOUGH_OPS, "a net thread reads on beside the deciding");

const struct look_limits pace_commit_look = {
    .busy_max = FEW_OPS, .look_ns = 100 * US, .crowded_ns = 20 * MS};
const struct look_limits pace_net_look = {
    .busy_max = FEW_OPS, .look_ns = 400 * US, .crowded_ns = 20 * MS};

uint32_t pace_urgent_ops(uint32_t batch_ops, bool batched_wait, bool owes)
{
    bool halved = batched_wait && (batch_ops > 1 || owes);
    return halved ? batch_ops / 2 : batch_ops;
}

bool pace_is_small(uint32_t small_ops, uint32_t ops)
{
    return ops < small_ops;
}

bool pace_turn_waits(uint32_t small_ops, uint32_t waiting_ops, uint64_t in_flight)
{
    return in_flight > 0 && pace_is_small(small_ops, waiting_ops);
}

bool pace_turn_syncs(uint32_t small_ops, uint32_t ops, uint64_t in_flight)
{
    return in_flight == 1 && pace_is_small(small_ops, ops);
}

bool pace_may_help(uint64_t in_flight, int64_t sync_ns)
{
    return in_flight == 0 && sync_ns < HELP_SYNC_NS_MAX;
}

bool pace_spares_reads(int64_t since_read_ns, uint32_t turn_ops)
{
    return since_read_ns < READS_ABOUT_NS && turn_ops > FEW_OPS;
}

bool pace_pushes_early(uint32_t collected_ops)
{
    return collected_ops >= COLLECTED_OPS_MAX;
}

void pace_synced(struct pace_linger *linger, int64_t sync_ns, uint32_t expected_ops)
{
    linger->sync_ns = sync_ns;
    linger->expected_ops = expected_ops;
}

int64_t pace_linger_ns(struct pace_linger *linger)
{
    int64_t most_ns = linger->sync_ns < LINGER_NS_MAX ? linger->sync_ns : LINGER_NS_MAX;
    if (linger->expected_ops < 2 || most_ns == 0) return 0;
    if (linger->linger_ns < LINGER_NS_MIN) linger->linger_ns = LINGER_NS_MIN;
    if (linger->linger_ns > most_ns) linger->linger_ns = most_ns;
    return linger->linger_ns;
}

void pace_lingered(struct pace_linger *linger, uint32_t waiting_ops)
{
    bool came = waiting_ops >= linger->expected_ops / 2 + 1;
    linger->linger_ns = came ? linger->linger_ns * 2 : linger->linger_ns / 2;
    linger->expected_ops = 0;
}

bool pace_turn_is_near(uint32_t waiting_ops, bool begun, bool syncs_itself, int64_t gap_ns)
{
    return waiting_ops > 0 || begun || (syncs_itself && gap_ns < PACE_HOLD_NS);
}

bool pace_packs_here(size_t reply_bytes)
{
    return reply_bytes <= PACKED_HERE_BYTES;
}

int64_t pace_care_pause_ns(bool presses)
{
    return presses ? 1 * MS : 20 * MS;
}
