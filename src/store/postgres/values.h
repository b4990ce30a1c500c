/* values.h -- the parameters of one statement, in PostgreSQL's binary form.
 *
 * Example:
 *
 *     static void values_of_cells(struct sql_values *values, int32_t lane,
 *                                 const struct fingerprint *prints, unsigned count)
 *     {
 *         values_reset(values);
 *         values_i32(values, lane);     // $1
 *         values_columns(values, "ul"); // $2 and $3, arrays that grow row by row
 *         for (unsigned i = 0; i < count; i++) {
 *             row_print(values, prints[i]);
 *             row_i64(values, i);
 *         }
 *     }
 *
 * One statement carries a whole batch this way: `unnest($2, $3)` makes a table of the arrays. The
 * memory is kept from one statement to the next. */
#ifndef TALLY_STORE_POSTGRES_VALUES_H
#define TALLY_STORE_POSTGRES_VALUES_H

#include "base/bytes.h"
#include "base/hash.h"

#define VALUES_MAX 16

/* The type of a value, or of the elements of a column. */
#define VALUE_BOOL 'f'
#define VALUE_I32 'i'
#define VALUE_I64 'l'
#define VALUE_BYTES 'b'
#define VALUE_TEXT 't'
#define VALUE_PRINT 'u' /* 16 bytes: a uuid */

struct sql_value {
    char type;
    bool column;
    bool nulls; /* the column has some */
    uint32_t count;
    struct buf data;
};

struct sql_values {
    struct sql_value items[VALUES_MAX];
    unsigned count;
    unsigned first;  /* column */
    unsigned column; /* which is next */
    uint32_t rows;
};

void values_init(struct sql_values *values);
void values_release(struct sql_values *values);
void values_reset(struct sql_values *values);

void values_i32(struct sql_values *values, int32_t value);
void values_i64(struct sql_values *values, int64_t value);
void values_bool(struct sql_values *values, bool value);
void values_bytes(struct sql_values *values, struct bytes value);
void values_text(struct sql_values *values, struct bytes value);
void values_print(struct sql_values *values, struct fingerprint value);

/* Begins as many columns as `types` has letters; the row_ functions then fill them from left to
 * right, row by row. */
void values_columns(struct sql_values *values, const char *types);
void row_i32(struct sql_values *values, int32_t value);
void row_i64(struct sql_values *values, int64_t value);
void row_bool(struct sql_values *values, bool value);
void row_bytes(struct sql_values *values, struct bytes value);
void row_text(struct sql_values *values, struct bytes value);
void row_print(struct sql_values *values, struct fingerprint value);
void row_null(struct sql_values *values);
/* Null for INT64_MIN, which is how "never" and "none" are written in memory. */
void row_time(struct sql_values *values, int64_t value);

/* Bytes of all of them together. */
size_t values_size(const struct sql_values *values);

/* Fills the arrays as libpq wants them, with views that live until the next change. */
void values_bind(struct sql_values *values, const char *values_out[static VALUES_MAX],
                 int lengths_out[static VALUES_MAX]);

#endif
