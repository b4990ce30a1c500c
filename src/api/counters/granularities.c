/* granularities.c -- in which granularities a counter is kept. */
#include "api/counters/granularities.h"

#include "api/counters/granularity.h"
#include "core/counter.h"

#define SAID_MAX 8u /* in a sentence; the reply's list has all */

static const int32_t all_of_time = 0;

struct granularities granularities_of_rules(const struct definition *definition)
{
    switch (definition->mode) {
    case MODE_PERSISTENT:
        return (struct granularities){&all_of_time, 1};
    case MODE_SERIES:
        return (struct granularities){definition->granularities, definition->granularities_count};
    case MODE_WINDOWED:
        return (struct granularities){NULL, 0};
    }
    unreachable_state(definition->mode);
}

enum err granularities_of_direct(struct view *view, const struct cell_ref *ref, struct arena *arena,
                                 struct granularities *kept_out)
{
    const struct counter *counter;
    *kept_out = (struct granularities){NULL, 0};
    enum err e = view_counter(view, ref, arena, &counter);
    if (e != ERR_OK || !counter) return e;
    int32_t *items = arena_alloc(arena, (counter->count + 1) * sizeof *items);
    unsigned count = 0;
    for (uint32_t i = 0; i < counter->count; i++)
        if (series_shows(&counter->series[i], ref->now_ms))
            items[count++] = counter->series[i].duration;
    *kept_out = (struct granularities){items, count};
    return ERR_OK;
}

bool granularities_have(const struct granularities *kept, int32_t duration)
{
    for (unsigned i = 0; i < kept->count; i++)
        if (kept->items[i] == duration) return true;
    return false;
}

/* "durationSeconds 0, 60 or bucket month in Europe/Berlin." at the end of a sentence; `that` is the
 * first word where it was said before. */
static void say_list(const struct granularities *kept, const char *that, struct reason *why)
{
    unsigned said = 0;
    for (unsigned i = 0; i < kept->count; i++) {
        if (kept->items[i] < 0 || said == SAID_MAX) continue;
        reason_add(why, "%s%d", said ? ", " : that, (int)kept->items[i]);
        said++;
    }
    for (unsigned i = 0; i < kept->count && kept->items[i] < 0 && said < SAID_MAX; i++) {
        reason_add(why, "%s", said ? " or " : "");
        granularity_say(kept->items[i], why);
        said++;
    }
    reason_add(why, kept->count > SAID_MAX ? ", ..." : ".");
}

bool granularities_allow(const struct definition *definition, int32_t duration, struct reason *why)
{
    struct granularities kept = granularities_of_rules(definition);
    bool window = definition->mode == MODE_WINDOWED;
    if (window ? duration == 0 : granularities_have(&kept, duration)) return true;
    if (window) {
        reason_say(why, "The counter is a window: it is read without durationSeconds.");
    } else {
        reason_say(why, "The counter is not kept with that durationSeconds, only with ");
        say_list(&kept, "", why);
    }
    return false;
}

void granularities_say(const struct granularities *kept, struct reason *why)
{
    reason_say(why, "not found: the counter is kept with ");
    say_list(kept, "durationSeconds ", why);
}

void granularities_add(struct buf *body, const struct granularities *kept)
{
    if (body->failed) return;
    must(body->size && body->data[body->size - 1] == '}');
    body->size--;
    buf_add(body, BYTES(",\"granularities\":["));
    for (unsigned i = 0; i < kept->count; i++) {
        if (i) buf_add_char(body, ',');
        granularity_write(body, kept->items[i]);
    }
    buf_add(body, BYTES("]}"));
}
