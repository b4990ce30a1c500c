/* json.h -- a JSON document as C values. The parser behind it is simdjson, which json.cc speaks to
 * in C++.
 *
 * A parsed document is fully validated (syntax, UTF-8, depth), also where nobody looks, and stays
 * valid until the parser's next parse. Strings are unescaped views into the parser's memory, and
 * may contain NUL. Not thread-safe: one parser a thread.
 *
 * Numbers: integers of int64 are exact. simdjson refuses a whole document for an integer past
 * 18446744073709551615 or below -9223372036854775808, or a magnitude no double has (1e999), even in
 * a field that is never picked; json_problem then says it was a number. */
#ifndef TALLY_BASE_JSON_H
#define TALLY_BASE_JSON_H

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
struct bytes { /* as in base/bytes.h, which is C and no C++ */
    const char *data;
    size_t size;
};
extern "C" {
#else
#include "base/bytes.h"
_Static_assert(sizeof(struct bytes) == 16 && offsetof(struct bytes, size) == 8,
               "json.cc sees the same struct bytes");
#endif

#define JSON_PADDING 64   /* readable bytes the parser may look at after the text */
#define JSON_DEPTH_MAX 64 /* arrays and objects inside each other; empty ones count as scalars */

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

/* Only the member of the type is set, and `ref`. */
struct json_value {
    enum json_type type;
    bool boolean;
    int64_t integer;
    struct bytes string;
    uint64_t ref[2]; /* json.cc's own: where it stands in the document */
};

struct json_iter {
    struct json_value value; /* the current element or field value */
    struct bytes key;        /* an object's field's */
    enum json_type over; /* what is walked: JSON_OBJECT, JSON_ARRAY or something without parts */
    uint64_t ref[4];     /* json.cc's own */
};

/* The parser's memory grows with the largest document, to some 14 bytes for each byte of text, for
 * at most `text_bytes_max` of text. What a rare large document needed is given back at the next
 * small one. Otherwise parsing allocates nothing. */
struct json_parser *json_parser_new(size_t text_bytes_max);
void json_parser_free(struct json_parser *parser);

/* False: not one whole JSON document. `text` is followed by JSON_PADDING readable bytes, whose
 * content does not matter. */
bool json_parse(struct json_parser *parser, struct bytes text, struct json_value *root_out);

/* After json_parse was false: why, as the end of a sentence ("a string is not closed"). */
const char *json_problem(const struct json_parser *parser);

/* Picks `names_count` fields of an object in one pass; of repeated keys the last wins. Fields that
 * are not there come out as JSON_ABSENT; so do all of them if `object` is not an object. Says how
 * many fields have another name. */
size_t json_pick(const struct json_value *object, const struct bytes *names, size_t names_count,
                 struct json_value *values_out);

/* for (json_each(&value, &iter); json_next(&iter);) ... over an array's elements or an object's
 * fields (repeated keys appear each time). Other values have none. */
void json_each(const struct json_value *container, struct json_iter *iter);
bool json_next(struct json_iter *iter);

/* The value as JSON text without white space between its parts, good until the parser's next
 * json_text or json_parse. Fields keep their order, repeated keys too. Integers are exact; other
 * numbers are the shortest text that reads as the same double, and never one that reads as an
 * integer (1.0 stays 1.0). Strings are escaped only where JSON demands it. The same value always
 * gives the same text, and the text of that text is itself. The text of JSON_ABSENT is empty.
 * `value` comes from this parser's last parse. */
struct bytes json_text(struct json_parser *parser, const struct json_value *value);

/* The value as it was written in the text that was parsed, which is still there, but for white
 * space between its parts. Good until the parser's next json_text, json_source or json_parse. Asked
 * for in the order of the document it takes no longer than the document is; `value` comes from this
 * parser's last parse. */
struct bytes json_source(struct json_parser *parser, const struct json_value *value);

#ifdef __cplusplus
}
#endif

#endif
