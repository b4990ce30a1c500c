/* unknown.h -- names that a call does not know, and which of those it knows was probably meant.
 *
 * A typo must never count (SPEC 3). A call names the fields and parameters it takes in one place, a
 * table of fields or openapi.def; every other name is refused with ERR_UNKNOWN_FIELD and a sentence
 * such as
 *
 *     Unknown field "amout": did you mean "amount"?
 *
 * `minSequence` is known everywhere, fields that begin with "x-" and parameters that begin with '_'
 * are ignored. These functions are for requests in which other names than the known ones were
 * found. */
#ifndef TALLY_API_UNKNOWN_H
#define TALLY_API_UNKNOWN_H

#include "api/params.h"

struct known {
    const struct bytes *names;
    unsigned count;
    uint32_t elsewhere; /* bit i: names[i] belongs to another kind of object. Here it is known only
                           as null: typed clients send all members of a type. */
    bool dimensions;    /* dim.<key> too, in a query */
};

/* True: there is an unknown name, and the sentence names the first. A value that is no object has
 * no fields. */
bool unknown_field(const struct json_value *object, const struct known *known, struct reason *why);
bool unknown_param(const struct params *params, const struct known *known, struct reason *why);

/* The parameters that a route takes in its query, from openapi.def. */
const struct known *known_params(unsigned route_index);

/* Whether the route takes a body. In the body of one that does not, every field is unknown. */
bool known_body(unsigned route_index);

#endif
