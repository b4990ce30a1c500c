/* dims.h -- dimensions on their way in and out: which cells of a rule counter a caller means.
 *
 * In a query they are parameters `dim.<key>=<value>`, in a JSON body the object `dimensions`. The
 * rows of a counter have them as canonical JSON at the end of their key (core/event.h). */
#ifndef TALLY_API_COUNTERS_DIMS_H
#define TALLY_API_COUNTERS_DIMS_H

#include "api/params.h"
#include "core/event.h"
#include "core/rules.h"
#include "store/store.h"

struct dims {
    struct dimension *items; /* sorted by key, each key once */
    uint32_t count;
};

/* The dimensions that a query names, in `arena`. */
struct dims dims_from_params(const struct params *params, struct arena *arena);

/* The same from a JSON object; absent or null: none. Strings, integers and booleans by their string
 * form, a null one is not there. ERR_INVALID for anything else. */
MUST_USE enum err dims_from_json(const struct json_value *object, struct arena *arena,
                                 struct dims *dims_out, struct reason *why);

/* Whether the counter keeps exactly this set. */
bool dims_kept(const struct dims *dims, const struct definition *definition);

/* The value of that key; BYTES_NONE if it is not among them. */
struct bytes dims_value(const struct dims *dims, struct bytes key);

/* Canonical JSON, made in `arena`. */
struct bytes dims_json(const struct dims *dims, struct arena *arena);

/* The reference by which a dimension set's cells are read. The caller sets its `duration`. */
struct cell_ref dims_ref(const struct store *store, struct arena *arena, struct bytes tenant,
                         const struct definition *definition, struct bytes json);

/* Whether canonical JSON holds all of `dims`, and perhaps others. */
bool dims_match(struct bytes json, const struct dims *dims);

/* The canonical JSON that a set's rows would have if all values were empty, and whether canonical
 * JSON has the same keys as another. */
struct bytes dims_shape(const struct dimension_set *set, struct arena *arena);
bool dims_same_keys(struct bytes a, struct bytes b);

/* The dimensionKey: SHA-256 of canonical JSON in lower-case hex. */
#define DIMS_KEY_SIZE 65u /* a buffer for one */
void dims_add_key(struct buf *body, struct bytes json);

#endif
