/* crash.h -- named places where a test may kill the process.
 *
 * TALLY_CRASH_POINT=name kills it (SIGKILL: no handler, no flush, no exit code of ours) when it
 * passes the place of that name, TALLY_CRASH_POINT=name:3 the third time. The crash test walks
 * through all names. Compiled in always, so that what is tested is what is shipped; unset it costs
 * one branch that never goes the other way. */
#ifndef TALLY_BASE_CRASH_H
#define TALLY_BASE_CRASH_H

#include <stdbool.h>

extern bool crash_armed; /* set before main from the environment */

void crash_pass(const char *name); /* of crash_point only */

static inline void crash_point(const char *name)
{
    if (__builtin_expect(crash_armed, 0)) crash_pass(name);
}

#endif
