/* sequence_set.h -- which events of a lane an export has: a set of growing sequences.
 *
 * A hundred million events in a row take some 12 MB, few events among many other changes two bytes
 * each: each 65536 sequences are a page, which lists its members or, once they are many, has a bit
 * for each of them. */
#ifndef TALLY_JOBS_SEQUENCE_SET_H
#define TALLY_JOBS_SEQUENCE_SET_H

#include "base/bytes.h"

struct sequence_page;

/* All zero is an empty set. */
struct sequence_set {
    struct sequence_page *pages; /* in order */
    size_t count;
    size_t capacity;
};

void sequence_set_release(struct sequence_set *set); /* empty again */

/* `sequence` is above all members. */
void sequence_set_add(struct sequence_set *set, uint64_t sequence);
bool sequence_set_has(const struct sequence_set *set, uint64_t sequence);

#endif
