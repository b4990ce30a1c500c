/* clock.c -- see postgres_clock. */
#include "store/postgres/internal.h"

#define ROUND_MS_MAX 1000
#define NEVER_HEARD INT64_MIN

static int64_t wall_ms(void *context)
{
    struct database *database = context;
    return clock_boot_ms(database->config.clock) + atomic_load(&database->ahead_ms);
}

static int64_t mono_ns(void *context)
{
    return clock_mono_ns(((struct database *)context)->config.clock);
}

static int64_t boot_ms(void *context)
{
    return clock_boot_ms(((struct database *)context)->config.clock);
}

static bool synchronised(void *context)
{
    (void)context;
    return false;
}

void database_clock_init(struct database *database)
{
    atomic_init(&database->ahead_ms, NEVER_HEARD);
    database->clock = (struct clock){.wall_ms = wall_ms,
                                     .mono_ns = mono_ns,
                                     .boot_ms = boot_ms,
                                     .synchronised = synchronised,
                                     .context = database};
}

void database_clock_heard(struct database *database, int64_t now_ms, int64_t asked_boot_ms)
{
    int64_t heard_ms = clock_boot_ms(database->config.clock);
    bool first = atomic_load(&database->ahead_ms) == NEVER_HEARD;
    if (first || heard_ms - asked_boot_ms <= ROUND_MS_MAX)
        atomic_store(&database->ahead_ms, now_ms - heard_ms);
}

const struct clock *postgres_clock(struct database *database)
{
    must(atomic_load(&database->ahead_ms) != NEVER_HEARD);
    return &database->clock;
}
