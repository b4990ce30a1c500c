/* values.c -- see the header. */
#include "store/postgres/values.h"

#include "base/codec.h"

#define VALUE_BYTES_MAX (64u << 20) /* a batch is bounded far below this */
#define HEADER_SIZE 20              /* before the elements of an array */

/* What PostgreSQL calls each type of element. */
static uint32_t type_oid(char type)
{
    switch (type) {
    case VALUE_BOOL:
        return 16;
    case VALUE_BYTES:
        return 17;
    case VALUE_I64:
        return 20;
    case VALUE_I32:
        return 23;
    case VALUE_TEXT:
        return 25;
    case VALUE_PRINT:
        return 2950;
    default:
        unreachable_state(type);
    }
}

void values_init(struct sql_values *values)
{
    *values = (struct sql_values){0};
    for (unsigned i = 0; i < VALUES_MAX; i++)
        buf_init(&values->items[i].data, VALUE_BYTES_MAX);
}

void values_release(struct sql_values *values)
{
    for (unsigned i = 0; i < VALUES_MAX; i++)
        buf_release(&values->items[i].data);
}

void values_reset(struct sql_values *values)
{
    values->count = values->first = values->column = 0;
    values->rows = 0;
}

static struct sql_value *value_new(struct sql_values *values, char type, bool column)
{
    must(values->count < VALUES_MAX);
    struct sql_value *value = &values->items[values->count++];
    value->type = type;
    value->column = column;
    value->nulls = false;
    value->count = 0;
    buf_reset(&value->data);
    return value;
}

static void add_u32(struct buf *buf, uint32_t value)
{
    char bytes[sizeof value];
    put_ordered_u32(bytes, value);
    buf_add(buf, bytes_of(bytes, sizeof bytes));
}

static void add_u64(struct buf *buf, uint64_t value)
{
    char bytes[sizeof value];
    put_ordered_u64(bytes, value);
    buf_add(buf, bytes_of(bytes, sizeof bytes));
}

static void add_print(struct buf *buf, struct fingerprint print)
{
    add_u64(buf, print.high);
    add_u64(buf, print.low);
}

/* -- Single values ----------------------------------------------------------------------------- */

void values_i32(struct sql_values *values, int32_t value)
{
    add_u32(&value_new(values, VALUE_I32, false)->data, (uint32_t)value);
}

void values_i64(struct sql_values *values, int64_t value)
{
    add_u64(&value_new(values, VALUE_I64, false)->data, (uint64_t)value);
}

void values_bool(struct sql_values *values, bool value)
{
    buf_add_char(&value_new(values, VALUE_BOOL, false)->data, value);
}

void values_bytes(struct sql_values *values, struct bytes value)
{
    buf_add(&value_new(values, VALUE_BYTES, false)->data, value);
}

void values_text(struct sql_values *values, struct bytes value)
{
    buf_add(&value_new(values, VALUE_TEXT, false)->data, value);
}

void values_print(struct sql_values *values, struct fingerprint value)
{
    add_print(&value_new(values, VALUE_PRINT, false)->data, value);
}

/* -- Columns ----------------------------------------------------------------------------------- */

void values_columns(struct sql_values *values, const char *types)
{
    values->first = values->count;
    for (; *types; types++) {
        struct sql_value *value = value_new(values, *types, true);
        value->data.size = 0;
        must(buf_reserve(&value->data, HEADER_SIZE) != NULL);
        value->data.size = HEADER_SIZE; /* filled in by values_bind */
    }
}

/* The element's place, behind its size. */
static struct buf *element(struct sql_values *values, char type, uint32_t size)
{
    struct sql_value *value = &values->items[values->first + values->column];
    must(value->column);
    must(value->type == type);
    if (values->column == 0) values->rows++;
    values->column = values->first + values->column + 1 < values->count ? values->column + 1 : 0;
    value->count++;
    add_u32(&value->data, size);
    return &value->data;
}

void row_i32(struct sql_values *values, int32_t value)
{
    add_u32(element(values, VALUE_I32, sizeof value), (uint32_t)value);
}

void row_i64(struct sql_values *values, int64_t value)
{
    add_u64(element(values, VALUE_I64, sizeof value), (uint64_t)value);
}

void row_bool(struct sql_values *values, bool value)
{
    buf_add_char(element(values, VALUE_BOOL, 1), value);
}

void row_bytes(struct sql_values *values, struct bytes value)
{
    buf_add(element(values, VALUE_BYTES, (uint32_t)value.size), value);
}

void row_text(struct sql_values *values, struct bytes value)
{
    buf_add(element(values, VALUE_TEXT, (uint32_t)value.size), value);
}

void row_print(struct sql_values *values, struct fingerprint value)
{
    add_print(element(values, VALUE_PRINT, sizeof value), value);
}

void row_null(struct sql_values *values)
{
    struct sql_value *value = &values->items[values->first + values->column];
    value->nulls = true;
    (void)element(values, value->type, UINT32_MAX);
}

void row_time(struct sql_values *values, int64_t value)
{
    if (value == INT64_MIN)
        row_null(values);
    else
        row_i64(values, value);
}

/* -- To libpq ---------------------------------------------------------------------------------- */

size_t values_size(const struct sql_values *values)
{
    size_t size = 0;
    for (unsigned i = 0; i < values->count; i++)
        size += values->items[i].data.size;
    return size;
}

static void write_header(struct sql_value *value)
{
    char *at = value->data.data;
    put_ordered_u32(at, 1); /* dimensions */
    put_ordered_u32(at + 4, value->nulls);
    put_ordered_u32(at + 8, type_oid(value->type));
    put_ordered_u32(at + 12, value->count);
    put_ordered_u32(at + 16, 1); /* counted from */
}

void values_bind(struct sql_values *values, const char *values_out[static VALUES_MAX],
                 int lengths_out[static VALUES_MAX])
{
    must(values->column == 0); /* the last row is whole */
    for (unsigned i = 0; i < values->count; i++) {
        struct sql_value *value = &values->items[i];
        must(!value->data.failed);
        if (value->column) write_header(value);
        values_out[i] = value->data.data ? value->data.data : "";
        lengths_out[i] = (int)value->data.size;
    }
}
