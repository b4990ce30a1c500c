/* json_flat.h -- small JSON objects of plain values, read in one pass and without a document.
 *
 * The body of most requests is such an object: {"durationSeconds":60,"timestamp":"2026-..."}.
 * A parser made for documents spends more time on its tables than on those bytes. What is not plain
 * (escapes, bytes beyond ASCII, fractions, 19 digits, nested values) is left to json.h, and so is
 * everything that is not JSON: this one never refuses, it only says that it does not know. */
#ifndef TALLY_BASE_JSON_FLAT_H
#define TALLY_BASE_JSON_FLAT_H

#include "base/json.h"

/* True: `text` is one JSON object of no other fields, and `values_out` is what json_parse and
 * json_pick would have given; strings are views into `text`. False: nothing is known, ask them. */
bool json_flat_pick(struct bytes text, const struct bytes *names, size_t names_count,
                    struct json_value *values_out);

#endif
