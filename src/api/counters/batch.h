/* batch.h -- what a request of many ops or events keeps between reading it and answering it. */
#ifndef TALLY_API_COUNTERS_BATCH_H
#define TALLY_API_COUNTERS_BATCH_H

#include "api/params.h"
#include "wire/exchange.h"

struct call;

/* An op that is malformed, or on a counter that rules keep, and what is wrong with it, in order of
 * index. */
struct bad_op {
    uint32_t index;
    const char *why;
    struct bad_op *next;
};

struct batch_plan {
    struct bad_op *bad;
    struct bad_op **bad_end;
    size_t why_bytes; /* all reasons together */
};

/* In the request's arena, which also keeps a copy of each reason. */
struct batch_plan *batch_plan_new(struct arena *arena);
void batch_plan_refuse(struct batch_plan *plan, uint32_t index, struct arena *arena,
                       const struct reason *why);

/* What the results of so many ops take as JSON at most, beside ids. */
size_t batch_reply_bytes(const struct batch_plan *plan, uint32_t count);

/* ?results=errors. False after refusing. */
bool batch_options(struct call *call, enum request_verdict *verdict_out);

/* Appends {"results":[...]} for a decided bundle: every op, or with errors_only the refused ones
 * with their index. */
void batch_results(struct call *call);

#endif
