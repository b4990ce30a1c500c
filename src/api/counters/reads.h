/* reads.h -- a read as a plan: what to look up, kept in the call until a reader runs it. */
#ifndef TALLY_API_COUNTERS_READS_H
#define TALLY_API_COUNTERS_READS_H

#include <stdio.h>

#include "api/counters/dims.h"
#include "api/counters/granularities.h"
#include "api/params.h"
#include "store/store.h"

struct call;

enum read_kind { READ_GET, READ_SUM, READ_SERIES };

/* How far a range that is read in parts has come; all zero: not begun. */
struct read_walk {
    bool begun;
    uint64_t series; /* when it began; another one at the end: it was deleted, and all is in vain */
    int64_t from;    /* where the next part begins */
    size_t start;    /* where the answer begins in the body */
    struct range_sum sum;
    int64_t count; /* buckets written */
    int64_t next;  /* the bucket that a filled series shows next */
    struct range_newer newer;
    struct arena_mark before; /* what `newer` holds was asked for behind it */
};

struct read_plan {
    enum read_kind kind;
    const struct definition *definition; /* NULL: a direct counter */
    struct moment moment;                /* what a window is judged by */
    struct cell_ref ref;
    int64_t from; /* bucket starts; `get` has only this one */
    int64_t to;
    int64_t limit;
    bool fill;        /* show absent buckets as zeros */
    bool absent;      /* memory knows that there is no such bucket: a reader is only to say why */
    struct cell cell; /* what `get` saw, */
    enum err seen;    /* if it did */
    struct arena *arena;
    struct granularities kept; /* what an error is to show, if `why` was said of them */
    struct read_walk walk;
};

/* Says which counter a plan whose `kind` is set is about: the rules' one of that name, or else the
 * direct one, which has no dimensions. ERR_UNKNOWN_DIMENSIONS, ERR_NOT_A_SERIES. */
MUST_USE enum err read_plan_address(struct read_plan *plan, struct call *call, struct bytes name,
                                    const struct dims *dims);

/* The parameters that such a plan takes, the same in a query string and in a JSON object. */
const struct field *read_fields(const struct read_plan *plan, unsigned *count_out);

/* All that a read of that kind can take, whatever the counter. */
const struct field *read_fields_known(enum read_kind kind, unsigned *count_out);

/* Completes it from the values of read_fields. ERR_INVALID, or ERR_GRANULARITY with `kept`. */
MUST_USE enum err read_plan_fill(struct read_plan *plan, const struct field_value *values,
                                 struct reason *why);

/* Looks up what such a plan's answer begins with, for call_look; 0 or 1 value. */
unsigned read_values(const struct read_plan *plan);
void read_look(struct read_plan *plan, struct view *moment);

/* Appends the answer's fields, without braces, or a part of them: then `call->more` is set, and it
 * is to be called again. What it visits is added to `call->cells`. On an error what was appended is
 * worthless, and `*why_out` may have a better sentence than the table's, of ERR_NOT_FOUND with
 * `kept`. May read the disk. */
MUST_USE enum err read_answer(struct call *call, struct read_plan *plan, const char **why_out);

/* Puts `kept` into the error that `body` ends with, where the error is about it. */
void read_show_kept(const struct read_plan *plan, enum err e, const char *why, struct buf *body);

#endif
