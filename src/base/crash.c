/* crash.c -- counts how often the chosen place is passed and dies there; waits at another. */
#include "base/crash.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/must.h"

bool crash_armed;

#define ANY_LANE ULONG_MAX

/* NAME, NAME:NUMBER or NAME:NUMBER@LANE, from the environment. */
struct crash_place {
    const char *name; /* NULL: none */
    size_t name_size;
    unsigned long number;
    unsigned long lane;
};

static struct crash_place crash_place;
static struct crash_place pause_place;
static atomic_ulong crash_left; /* passes still to go; any thread may pass */

static void place_parse(struct crash_place *place, const char *variable)
{
    const char *text = getenv(variable);
    if (!text || !*text) return;
    const char *colon = strchr(text, ':');
    char *end = NULL;
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 1;
    place->name = text;
    place->name_size = colon ? (size_t)(colon - text) : strlen(text);
    place->number = number ? number : 1;
    place->lane = end && *end == '@' ? strtoul(end + 1, NULL, 10) : ANY_LANE;
    crash_armed = true;
}

/* Runs before main, because no thread runs yet and no module has to remember to call it. */
__attribute__((constructor)) static void crash_parse(void)
{
    place_parse(&crash_place, "TALLY_CRASH_POINT");
    place_parse(&pause_place, "TALLY_PAUSE_POINT");
    crash_left = crash_place.number;
}

static bool is_at(const struct crash_place *place, const char *name)
{
    return place->name && strlen(name) == place->name_size &&
           memcmp(name, place->name, place->name_size) == 0 &&
           (place->lane == ANY_LANE || (must_at && must_at->lane == place->lane));
}

void crash_pass(const char *name)
{
    if (is_at(&pause_place, name)) {
        const struct timespec time = {.tv_sec = (time_t)(pause_place.number / 1000),
                                      .tv_nsec = (long)(pause_place.number % 1000) * 1000000};
        nanosleep(&time, NULL);
    }
    if (is_at(&crash_place, name) && atomic_fetch_sub(&crash_left, 1) == 1) raise(SIGKILL);
}
