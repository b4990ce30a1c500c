/* name.h -- tenant ids and counter names, and the keys made of them.
 *
 * A key is tenant, NUL, kind, name, NUL (core/op.h). A valid name holds no NUL, so keys are
 * unambiguous, and memcmp orders them by tenant, then kind, then name. */
#ifndef TALLY_CORE_NAME_H
#define TALLY_CORE_NAME_H

#include "base/arena.h"
#include "base/bytes.h"
#include "core/op.h"

/* 1 to 255 of A-Z a-z 0-9 _ . ~ - (A-24). Case counts. */
MUST_USE bool name_valid(struct bytes name);

/* The same and `:`, which keys of Redis are made of: what a counter may be called (SPEC 14). */
MUST_USE bool counter_name_valid(struct bytes name);

/* Writes the key of a direct counter and returns it as a view of `out`. `tenant` and `name` have
 * passed name_valid. */
struct bytes counter_key(char out[static COUNTER_KEY_SIZE_MAX], struct bytes tenant,
                         struct bytes name);

/* The name in a direct counter's key; BYTES_NONE: it is another kind's. For keys that were made
 * here, and for each op of a batch: nothing is checked again (counter_key_split does). */
struct bytes counter_key_name(struct bytes key);

/* What the keys of all direct counters of `tenant` whose name starts with `prefix` start with.
 * `tenant` is valid; `prefix` is empty or valid. */
struct bytes counter_key_prefix(char out[static COUNTER_KEY_SIZE_MAX], struct bytes tenant,
                                struct bytes prefix);

/* The key of one dimension set of a rule counter: tenant, NUL, 'r', name, NUL, generation (4 bytes,
 * big-endian), canonical JSON of the dimensions. Made in `arena`. */
struct bytes rule_key(struct arena *arena, struct bytes tenant, struct bytes name,
                      uint32_t generation, struct bytes dimensions_json);

/* What the keys of all its dimension sets start with. */
struct bytes rule_key_prefix(struct arena *arena, struct bytes tenant, struct bytes name,
                             uint32_t generation);

/* The bytes by which an op on a rule counter may outweigh one on a direct counter in a journal
 * block: its key stands there as the cause's and as the after-image's. */
static inline size_t rule_key_weight(struct bytes key)
{
    return 2 * key.size;
}

/* Takes the key of a rule counter apart. False: it is none. */
MUST_USE bool rule_key_split(struct bytes key, struct bytes *tenant_out, struct bytes *name_out,
                             uint32_t *generation_out, struct bytes *dimensions_json_out);

/* Takes a key apart into views of it. False: these bytes are not a key, whatever their source. The
 * kind is some lower-case letter; which ones it knows is the caller's to say. */
MUST_USE bool counter_key_split(struct bytes key, struct bytes *tenant_out, char *kind_out,
                                struct bytes *name_out);

#endif
