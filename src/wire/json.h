/* json.h -- a JSON document as C values. The parser behind it is simdjson; json.cc is the only
 * C++ in the tree.
 *
 * A parsed document is fully validated (syntax, UTF-8, depth) and stays valid until the parser's
 * next parse. Strings are unescaped views into the parser's memory. Not thread-safe: one parser a
 * thread. */
#ifndef TALLY_WIRE_JSON_H
#define TALLY_WIRE_JSON_H

#include "base/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define JSON_PADDING 64 /* readable bytes the parser may look at after the text */

struct json_parser;

enum json_type {
    JSON_ABSENT, /* not in the object */
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,    /* fits int64 */
    JSON_NUMBER, /* any other number: fraction, exponent, too large */
    JSON_STRING,
    JSON_OBJECT,
    JSON_ARRAY,
};

struct json_value {
    enum json_type type;
    bool boolean;
    int64_t integer;
    struct bytes string;
    uint64_t ref[2]; /* json.cc's own, for objects and arrays */
};

struct json_iter {
    struct json_value value; /* the current element or field value */
    struct bytes key;        /* of an object's field */
    uint64_t ref[4];
};

struct json_parser *json_parser_new(size_t text_bytes_max);
void json_parser_free(struct json_parser *parser);

/* False: not one whole JSON document. `text` is followed by JSON_PADDING readable bytes, whose
 * content does not matter. */
bool json_parse(struct json_parser *parser, struct bytes text, struct json_value *root_out);

/* Picks `names_count` fields of an object in one pass; of repeated keys the last wins. Fields that
 * are not there come out as JSON_ABSENT. */
void json_pick(const struct json_value *object, const struct bytes *names, size_t names_count,
               struct json_value *values_out);

/* for (json_each(&value, &iter); json_next(&iter);) ... over an array's elements or an object's
 * fields (repeated keys appear each time). */
void json_each(const struct json_value *container, struct json_iter *iter);
bool json_next(struct json_iter *iter);

#ifdef __cplusplus
}
#endif

#endif
