/* crash.h -- named places where a test may kill the process, or hold it up.
 *
 * TALLY_CRASH_POINT=name kills it (SIGKILL: no handler, no flush, no exit code of ours) when it
 * passes the place of that name, TALLY_CRASH_POINT=name:3 the third time, name:3@2 the third time
 * in lane 2, where only threads count that have said which lane they work on (must_at). The crash
 * test walks through all names. TALLY_PAUSE_POINT=name:500 makes it stand there for 500 ms each
 * time instead, so that what others do meanwhile is certain to happen. Compiled in always, so that
 * what is tested is what is shipped; unset it costs one branch that never goes the other way. */
#ifndef TALLY_BASE_CRASH_H
#define TALLY_BASE_CRASH_H

#include <stdbool.h>

extern bool crash_armed; /* set before main from the environment: one of the two is asked for */

void crash_pass(const char *name); /* called by crash_point only */

static inline void crash_point(const char *name)
{
    if (__builtin_expect(crash_armed, 0)) crash_pass(name);
}

#endif
