/* outcome.c -- errors are stored by stable numbers of their own, not by their place in err.def,
 * which may be reordered. */
#include "core/outcome.h"

/* Number on disk = index + 1. Append only. */
static const enum err stored_errs[] = {
    ERR_OK,           ERR_NEGATIVE,          ERR_LIMIT,         ERR_OVERFLOW,
    ERR_INVALID,      ERR_CELL_LIMIT,        ERR_MANAGED,       ERR_NOT_FOUND,
    ERR_KEY_CONFLICT, ERR_GRANULARITY_LIMIT, ERR_UNKNOWN_FIELD,
};

bool outcome_is_final(enum err e)
{
    return e == ERR_OK || e == ERR_NEGATIVE || e == ERR_LIMIT || e == ERR_OVERFLOW;
}

static void encode_err(struct buf *buf, enum err e)
{
    for (size_t i = 0; i < ARRAY_COUNT(stored_errs); i++) {
        if (stored_errs[i] != e) continue;
        buf_add_varint(buf, i + 1);
        return;
    }
    unreachable_state(e);
}

static enum err decode_err(struct reader *reader)
{
    uint64_t number = read_varint(reader);
    if (number >= 1 && number <= ARRAY_COUNT(stored_errs)) return stored_errs[number - 1];
    reader->failed = true;
    return ERR_CORRUPT;
}

static bool has_triple(enum err e)
{
    return e == ERR_OK || e == ERR_LIMIT;
}

void outcome_encode_op(struct buf *buf, const struct op *op)
{
    encode_err(buf, op->err);
    if (!has_triple(op->err)) return;
    buf_add_signed(buf, op->after.added);
    buf_add_signed(buf, op->after.subbed);
}

static void decode_op(struct reader *reader, struct op *op)
{
    op->err = decode_err(reader);
    if (!has_triple(op->err)) return;
    int64_t added = read_signed(reader);
    int64_t subbed = read_signed(reader);
    int64_t net;
    if (__builtin_sub_overflow(added, subbed, &net)) reader->failed = true;
    op->after = (struct triple){net, added, subbed};
}

void outcome_encode_bundle(struct buf *buf, const struct bundle *bundle)
{
    encode_err(buf, bundle->err);
    buf_add_varint(buf, bundle->failed_index);
    buf_add_varint(buf, bundle->count);
    for (uint32_t i = 0; i < bundle->count; i++)
        outcome_encode_op(buf, &bundle->ops[i]);
}

bool outcome_decode_op(struct bytes bytes, struct op *op)
{
    struct reader reader = reader_of(bytes);
    decode_op(&reader, op);
    return !reader.failed && reader_left(&reader) == 0;
}

bool outcome_decode_bundle(struct bytes bytes, struct bundle *bundle)
{
    struct reader reader = reader_of(bytes);
    bundle->err = decode_err(&reader);
    bundle->failed_index = (uint32_t)read_varint(&reader);
    if (read_varint(&reader) != bundle->count) reader.failed = true;
    for (uint32_t i = 0; i < bundle->count && !reader.failed; i++)
        decode_op(&reader, &bundle->ops[i]);
    return !reader.failed && reader_left(&reader) == 0;
}

static bool is_of_some_bundle(struct bytes bytes)
{
    struct reader reader = reader_of(bytes);
    struct op op;
    (void)decode_err(&reader);
    (void)read_varint(&reader); /* the failing op's index */
    uint64_t count = read_varint(&reader);
    for (uint64_t i = 0; i < count && !reader.failed; i++)
        decode_op(&reader, &op);
    return !reader.failed && reader_left(&reader) == 0;
}

bool outcome_is_any(struct bytes bytes)
{
    struct op op;
    return outcome_decode_op(bytes, &op) || is_of_some_bundle(bytes);
}
