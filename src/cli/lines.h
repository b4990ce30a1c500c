/* lines.h -- the lines of a file, of a gzip file (by its ending) or of standard input, one by one.
 *
 * A line is a view that is good until the next call, without its line feed, and followed by
 * JSON_PADDING readable bytes. Numbers begin at 1. */
#ifndef TALLY_CLI_LINES_H
#define TALLY_CLI_LINES_H

#include <stdatomic.h>

#include "base/bytes.h"

#define LINE_SIZE_MAX (1u << 20)

struct lines;

enum lines_got {
    LINES_ONE,
    LINES_LONG, /* a line over LINE_SIZE_MAX was passed over; `lines_number` says which */
    LINES_IDLE, /* nothing came for `wait_ms`; only from pipes and terminals */
    LINES_END,
    LINES_STOPPED, /* `stop` became true */
    LINES_FAILED,  /* lines_problem says why */
};

/* "-" is standard input. NULL: it cannot be opened; errno says why. `stop` may become true at any
 * time, in a signal handler for example. */
struct lines *lines_open(const char *file, const atomic_bool *stop);
void lines_close(struct lines *lines);

enum lines_got lines_next(struct lines *lines, int wait_ms, struct bytes *line_out);
uint64_t lines_number(const struct lines *lines); /* the last line's */
double lines_share(const struct lines *lines);    /* what was read of the file, from 0 to 1;
                                                   * below 0: unknown */
const char *lines_problem(const struct lines *lines);

#endif
