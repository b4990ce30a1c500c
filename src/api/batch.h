/* batch.h -- what a batch request keeps between reading it and answering it. */
#ifndef TALLY_API_BATCH_H
#define TALLY_API_BATCH_H

#include <stdint.h>

struct call;

/* A malformed op and what is wrong with it, in order of index. */
struct bad_op {
    uint32_t index;
    const char *why;
    struct bad_op *next;
};

struct batch_plan {
    struct bad_op *bad;
    struct bad_op **bad_end;
};

/* Appends {"results":[...]} for a decided job: every op, or with errors_only the refused ones with
 * their index. */
void batch_results(struct call *call);

#endif
