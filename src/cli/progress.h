/* progress.h -- how far long work is, on stderr.
 *
 * On a terminal it is one line that changes and never wraps: a bar as wide as there is room for,
 * the share, the time left, the caller's words; on a narrow one without the bar, then without
 * the time. Elsewhere it is a plain line now and then, so that a log stays short. The caller may
 * call progress_show as often as it likes; that draws at most ten times a second (a line every
 * ten seconds elsewhere). */
#ifndef TALLY_CLI_PROGRESS_H
#define TALLY_CLI_PROGRESS_H

#include <stdio.h>

#include "base/bytes.h"

struct progress {
    const char *label;
    FILE *out;
    bool quiet; /* say nothing at all */
    bool terminal;
    bool drawn; /* there is a line to be cleared */
    int64_t began_ns;
    int64_t shown_ns;
    double began_share; /* what was done before, so that the time left is about the rest */
};

void progress_begin(struct progress *progress, const char *label);

/* `share` goes from 0 to 1, or is below 0 if it is not known. */
void progress_show(struct progress *progress, double share, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Leaves the terminal's line empty, so that something else can be printed. */
void progress_clear(struct progress *progress);

/* 1234567 as "1,234,567". */
#define PROGRESS_COUNT_SIZE 32
const char *progress_count(uint64_t count, char text_out[PROGRESS_COUNT_SIZE]);

/* Seconds as "45 s", "3 min 20 s" or "2 h 5 min". */
#define PROGRESS_TIME_SIZE 32
const char *progress_time(double seconds, char text_out[PROGRESS_TIME_SIZE]);

#endif
