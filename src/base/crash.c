/* crash.c -- counts how often the chosen place is passed and dies there. */
#include "base/crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool crash_armed;

static const char *crash_name;
static size_t crash_name_size;
static atomic_ulong crash_left = 1; /* passes still to go; any thread may pass */

/* Before main, because no thread runs yet and no module has to remember to call it. */
__attribute__((constructor)) static void crash_parse(void)
{
    const char *text = getenv("TALLY_CRASH_POINT");
    if (!text || !*text) return;
    const char *colon = strchr(text, ':');
    unsigned long nth = colon ? strtoul(colon + 1, NULL, 10) : 1;
    crash_name = text;
    crash_name_size = colon ? (size_t)(colon - text) : strlen(text);
    crash_left = nth ? nth : 1;
    crash_armed = true;
}

void crash_pass(const char *name)
{
    if (strlen(name) != crash_name_size || memcmp(name, crash_name, crash_name_size) != 0) return;
    if (atomic_fetch_sub(&crash_left, 1) == 1) raise(SIGKILL);
}
