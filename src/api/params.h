/* params.h -- values on their way in: paths, queries, JSON fields, cursors.
 *
 * An endpoint says what it takes in a small table, and one call reads the query or the JSON object
 * into as many values, or says in one sentence what is wrong with the first that is not right.
 *
 * Example:
 *
 *     enum { DURATION, AMOUNT, EXPIRES, CHANGE_FIELDS };
 *     static const struct field change_fields[] = {
 *         [DURATION] = {BYTES("durationSeconds"), FIELD_I64, .required = true, .max = INT32_MAX},
 *         [AMOUNT] = {BYTES("amount"), FIELD_I64, .min = 1, .max = INT64_MAX, .fallback = 1},
 *         [EXPIRES] = {BYTES("expiresAt"), FIELD_TIME, .fallback = TIME_NONE},
 *     };
 *
 *     static enum err amount_read(const struct params *params, int64_t *amount_out,
 *                                 struct reason *why)
 *     {
 *         struct field_value values[CHANGE_FIELDS];
 *         enum err e = fields_from_params(params, change_fields, CHANGE_FIELDS, values, why);
 *         if (e == ERR_OK) *amount_out = values[AMOUNT].integer;
 *         return e;
 *     }
 *
 * All errors are ERR_INVALID. Sentences contain nothing of what the caller sent, but for
 * unknown.h's. */
#ifndef TALLY_API_PARAMS_H
#define TALLY_API_PARAMS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/reason.h"

#define PARAMS_MAX 64
#define FIELDS_MAX 16 /* in a table, which has at least one */
#define PAGE_LIMIT_DEFAULT 100
#define PAGE_LIMIT_MAX 10000

/* -- Fields ------------------------------------------------------------------------------------ */

enum field_type {
    FIELD_I64,    /* -> integer; a JSON integer or a decimal string from min to max (A-18) */
    FIELD_TIME,   /* -> integer, in ms; ISO 8601 or an epoch number (A-19) */
    FIELD_BOOL,   /* -> integer 0 or 1; true or false, in a query the word */
    FIELD_CHOICE, /* -> integer, the index in `choices` */
    FIELD_TEXT,   /* -> text of min to max bytes */
    FIELD_NAME,   /* -> text that is a valid counter name */
    FIELD_KEY,    /* -> text that is a valid idempotency key: 1 to 255 of printable ASCII */
};

struct field {
    struct bytes name;
    enum field_type type;
    bool required;
    int64_t min;
    int64_t max;
    int64_t fallback;           /* the integer of an absent field */
    const char *const *choices; /* for FIELD_CHOICE, ended by NULL */
};

/* For a table: {FIELD_PAGE_LIMIT}. */
#define FIELD_PAGE_LIMIT \
    BYTES("limit"), FIELD_I64, .min = 1, .max = PAGE_LIMIT_MAX, .fallback = PAGE_LIMIT_DEFAULT

struct field_value {
    bool present;      /* false: absent or null; integer is then the fallback, text is none */
    int64_t integer;   /* FIELD_I64, FIELD_TIME, FIELD_BOOL, FIELD_CHOICE */
    struct bytes text; /* FIELD_TEXT, FIELD_NAME, FIELD_KEY: borrows from where it was read */
};

struct params;

/* Each function reads `count` fields in the table's order; the first field that is missing or wrong
 * decides the sentence. `picked` has the values that json_pick found by the fields' names; a null
 * is an absent field. Names that no table has are refused by unknown.h. `values_out` is to be used
 * only after ERR_OK. */
MUST_USE enum err fields_from_picked(const struct json_value *picked, const struct field *fields,
                                     unsigned count, struct field_value *values_out,
                                     struct reason *why);
MUST_USE enum err fields_from_params(const struct params *params, const struct field *fields,
                                     unsigned count, struct field_value *values_out,
                                     struct reason *why);

/* One field of either kind, for values that were picked by other means. `text` with data NULL is
 * an absent parameter. */
MUST_USE enum err field_from_json(const struct json_value *value, const struct field *field,
                                  struct field_value *value_out, struct reason *why);
MUST_USE enum err field_from_text(struct bytes text, const struct field *field,
                                  struct field_value *value_out, struct reason *why);

/* 1 to 255 of printable ASCII, the space included: what an Idempotency-Key may be. */
MUST_USE bool key_valid(struct bytes key);

/* -- Queries ----------------------------------------------------------------------------------- */

struct param {
    struct bytes name;
    struct bytes value;
};

/* Decoded and unique: of a repeated name the last value stands, as with JSON keys. A name without
 * '=' has the empty value. To see all (dim.* for one), walk `items`. */
struct params {
    unsigned count;
    struct param *items;
};

/* Takes `query` as sent, without the '?'. Everything in `params_out` lives in `arena`. Refused: a
 * '%' not followed by two hex digits, what is not UTF-8 then, and more than PARAMS_MAX names. */
MUST_USE enum err params_parse(struct bytes query, struct arena *arena, struct params *params_out,
                               struct reason *why);

/* BYTES_NONE if there is no such parameter; an empty one has data. */
struct bytes params_get(const struct params *params, struct bytes name);

/* The cursor in parameter `after`, decoded into `arena`; BYTES_NONE if absent or empty. What the
 * bytes mean is the endpoint's to check: a caller may send any. */
MUST_USE enum err params_cursor(const struct params *params, struct arena *arena,
                                struct bytes *raw_out, struct reason *why);

/* The bucket around a time that came in `field` (core/bucket.h). ERR_INVALID: it begins before the
 * year 0001, so no request could name it. ERR_OLD_TZDATA: its zone is not known here. */
MUST_USE enum err params_bucket(int64_t time_ms, int32_t duration, const char *field,
                                int64_t *start_out, struct reason *why);

/* -- Paths and encodings ------------------------------------------------------------------------
 */

/* Decodes %XX once, and '+' to a space if asked: for queries, not for paths. `out` has room for
 * text.size bytes and may be the text itself. False: a malformed '%' sequence. */
MUST_USE bool percent_decode(struct bytes text, bool plus_is_space, char *out, size_t *size_out);

/* Cuts the raw path at each '/', before any decoding, so that %2F never separates. Nothing
 * is tidied: "//x" has an empty first segment, "." and ".." are segments like others. False: no
 * leading '/', or more than `max` segments. */
MUST_USE bool path_split(struct bytes path, struct bytes *segments_out, unsigned max,
                         unsigned *count_out);

/* Cursors travel as unpadded base64url. Each byte string has exactly one spelling, and decoding
 * refuses all others. */
void cursor_encode(struct buf *buf, struct bytes raw);
MUST_USE bool cursor_decode(struct bytes text, struct arena *arena, struct bytes *raw_out);

#endif
