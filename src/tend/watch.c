/* watch.c -- one note at a time. */
#include "tend/watch.h"

#include <stdlib.h>

#include "base/table.h"

struct watch {
    struct care care;
    struct timekeeper_note note;
};

struct care *watch_make(uint32_t budget)
{
    struct watch *watch = must_calloc(1, sizeof *watch);
    (void)budget;
    return &watch->care;
}

void watch_end(struct care *care)
{
    free(CONTAINER_OF(care, struct watch, care));
}

static void note_done(struct bundle *bundle)
{
    struct watch *watch = CONTAINER_OF(bundle->owner, struct watch, care);
    timekeeper_noted(&watch->note);
    care_answered(&watch->care);
}

enum care_next watch_step(struct care *care)
{
    struct watch *watch = CONTAINER_OF(care, struct watch, care);
    struct timekeeper *keeper = care->lane->keeper;
    if (!keeper) return CARE_RESTS;
    clock_moment(care->lane->clock);
    if (!timekeeper_wants_note(keeper)) return CARE_RESTS;
    if (!timekeeper_note(keeper, &watch->note, false)) return CARE_RESTS;
    watch->note.bundle.done = note_done;
    if (care_propose(care, &watch->note.bundle) != ERR_OK) timekeeper_noted(&watch->note);
    return CARE_RESTS;
}
