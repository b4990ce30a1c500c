/* outcome.h -- what an idempotency key remembers, as bytes.
 *
 * A single op's outcome is its error and, where the reply shows one, the triple. A bundle's (a
 * batch under one key) is the bundle's error, the failing op and every op's outcome. A repeat is
 * answered from these alone, so they hold all that the first reply said. */
#ifndef TALLY_CORE_OUTCOME_H
#define TALLY_CORE_OUTCOME_H

#include "base/codec.h"
#include "core/op.h"

/* Only these are remembered; anything else may be retried and judged anew (SPEC 5). */
bool outcome_is_final(enum err e);

void outcome_encode_op(struct buf *buf, const struct op *op);
void outcome_encode_bundle(struct buf *buf, const struct bundle *bundle);

/* Fill `err`, `after` and, for a bundle, `err`, `failed_index` and each op's outcome. False: the
 * bytes are not an outcome of such an op, or of a bundle with as many ops. */
MUST_USE bool outcome_decode_op(struct bytes bytes, struct op *op);
MUST_USE bool outcome_decode_bundle(struct bytes bytes, struct bundle *bundle);

/* Whether the bytes are an outcome of any op or any bundle. */
bool outcome_is_any(struct bytes bytes);

#endif
