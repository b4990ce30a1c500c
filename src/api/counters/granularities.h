/* granularities.h -- in which granularities a counter is kept: an error says so where a client asks
 * for another.
 *
 * To answer zero or a bare "not found" would look right and not be: the counts are there, in
 * buckets of another length (SPEC 5, 7). */
#ifndef TALLY_API_COUNTERS_GRANULARITIES_H
#define TALLY_API_COUNTERS_GRANULARITIES_H

#include "api/params.h"
#include "core/rules.h"
#include "store/store.h"

struct granularities {
    const int32_t *items; /* durations in seconds, ascending for direct counters */
    unsigned count;
};

/* Those of a counter kept by rules; a windowed one has none. */
struct granularities granularities_of_rules(const struct definition *definition);

/* Those of a direct counter, in `arena`. None: there is no such counter. May read the disk. */
MUST_USE enum err granularities_of_direct(struct view *view, const struct cell_ref *ref,
                                          struct arena *arena, struct granularities *kept_out);

bool granularities_have(const struct granularities *kept, int32_t duration);

/* Whether a rule counter can be read so; a window is read with 0. If not, `why` says what can be.
 */
bool granularities_allow(const struct definition *definition, int32_t duration, struct reason *why);

/* Why a direct counter's bucket is not found. */
void granularities_say(const struct granularities *kept, struct reason *why);

/* Puts "granularities":[..] last into the JSON object that `body` ends with. */
void granularities_add(struct buf *body, const struct granularities *kept);

#endif
