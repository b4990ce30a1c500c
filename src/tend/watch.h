/* watch.h -- looks at the clocks, and proposes the note of what the next life must know of them.
 *
 * Asking for the time is what makes the timekeeper look (commit/timekeeper.h). While no batch and
 * no read asks, this caretaker does. */
#ifndef TALLY_TEND_WATCH_H
#define TALLY_TEND_WATCH_H

#include "tend/care.h"

struct care *watch_make(uint32_t budget);
void watch_end(struct care *care);
enum care_next watch_step(struct care *care);

#endif
