/* records.c -- encoders and decoders of records.h, in pairs. */
#include "store/embedded/state/records.h"

/* A cell whose expiry is exact is of a format of its own: a program that does not know it refuses
 * it. Others are written as they always were: `tally verify` compares rows by their bytes. */
enum { RECORD_FORMAT = 1, RECORD_FORMAT_EXACT = 2, POSITION_FORMAT = 2 };

static struct reader record_reader(struct bytes value)
{
    struct reader reader = reader_of(value);
    if (read_u8(&reader) != RECORD_FORMAT) reader.failed = true;
    return reader;
}

static enum err record_end(const struct reader *reader)
{
    return reader->failed || reader_left(reader) > 0 ? ERR_CORRUPT : ERR_OK;
}

struct bytes cell_key(char out[CELL_KEY_SIZE], uint64_t series, int64_t bucket)
{
    put_ordered_u64(out, series);
    put_ordered_i64(out + 8, bucket);
    return bytes_of(out, CELL_KEY_SIZE);
}

enum err cell_key_decode(struct bytes key, uint64_t *series_out, int64_t *bucket_out)
{
    if (key.size != CELL_KEY_SIZE) return ERR_CORRUPT;
    *series_out = get_ordered_u64(key.data);
    *bucket_out = get_ordered_i64(key.data + 8);
    return ERR_OK;
}

void cell_record(struct buf *buf, const struct cell *cell)
{
    must(cell->exists);
    buf_add_char(buf, cell->exact ? RECORD_FORMAT_EXACT : RECORD_FORMAT);
    buf_add_signed(buf, cell->added);
    buf_add_signed(buf, cell->subbed);
    buf_add_signed(buf, cell->updated_ms);
    bool expires = cell->expires_ms != TIME_NONE;
    bool window = cell->start_ms != TIME_NONE;
    buf_add_char(buf, (char)(expires | window << 1));
    if (expires) buf_add_signed(buf, cell->expires_ms);
    if (window) buf_add_signed(buf, cell->start_ms);
}

enum err cell_record_decode(struct bytes value, struct cell *cell_out)
{
    struct reader reader = reader_of(value);
    uint8_t format = read_u8(&reader);
    struct cell cell = {.exists = true, .exact = format == RECORD_FORMAT_EXACT};
    if (!cell.exact && format != RECORD_FORMAT) reader.failed = true;
    cell.added = read_signed(&reader);
    cell.subbed = read_signed(&reader);
    cell.updated_ms = read_signed(&reader);
    uint8_t flags = read_u8(&reader);
    cell.expires_ms = flags & 1 ? read_signed(&reader) : TIME_NONE;
    cell.start_ms = flags & 2 ? read_signed(&reader) : TIME_NONE;
    if (cell.exact && cell.expires_ms == TIME_NONE) reader.failed = true;
    if (flags > 3 || cell.subbed < 0 || cell.added < 0) reader.failed = true;
    *cell_out = cell;
    return record_end(&reader);
}

void counter_record(struct buf *buf, const struct counter *counter)
{
    buf_add_char(buf, RECORD_FORMAT);
    counter_encode(buf, counter);
}

enum err counter_record_decode(struct bytes value, struct arena *arena,
                               const struct counter **counter_out)
{
    struct reader reader = record_reader(value);
    *counter_out = counter_decode(&reader, arena);
    return record_end(&reader);
}

struct bytes series_key(char out[SERIES_KEY_SIZE], uint64_t series)
{
    put_ordered_u64(out, series);
    return bytes_of(out, SERIES_KEY_SIZE);
}

void series_record(struct buf *buf, int32_t duration, struct bytes counter_key)
{
    buf_add_char(buf, RECORD_FORMAT);
    buf_add_varint(buf, (uint32_t)duration);
    buf_add_sized(buf, counter_key);
}

enum err series_record_decode(struct bytes value, int32_t *duration_out,
                              struct bytes *counter_key_out)
{
    struct reader reader = record_reader(value);
    uint64_t duration = read_varint(&reader);
    if (duration > UINT32_MAX) reader.failed = true;
    *duration_out = (int32_t)(uint32_t)duration;
    *counter_key_out = read_sized(&reader);
    return record_end(&reader);
}

struct bytes expiry_key(char out[EXPIRY_KEY_SIZE], int64_t expires_ms, uint64_t series,
                        int64_t bucket)
{
    put_ordered_i64(out, expires_ms);
    put_ordered_u64(out + 8, series);
    put_ordered_i64(out + 16, bucket);
    return bytes_of(out, EXPIRY_KEY_SIZE);
}

enum err expiry_key_decode(struct bytes key, int64_t *expires_out, uint64_t *series_out,
                           int64_t *bucket_out)
{
    if (key.size != EXPIRY_KEY_SIZE) return ERR_CORRUPT;
    *expires_out = get_ordered_i64(key.data);
    *series_out = get_ordered_u64(key.data + 8);
    *bucket_out = get_ordered_i64(key.data + 16);
    return ERR_OK;
}

struct bytes node_key(char out[NODE_KEY_SIZE], uint64_t series, uint8_t level, int64_t index)
{
    put_ordered_u64(out, series);
    out[8] = (char)level;
    put_ordered_i64(out + 9, index);
    return bytes_of(out, NODE_KEY_SIZE);
}

static void add_wide(struct buf *buf, __int128 value)
{
    must(value >= 0);
    buf_add_varint(buf, (uint64_t)value);
    buf_add_varint(buf, (uint64_t)(value >> 64));
}

static __int128 read_wide(struct reader *reader)
{
    uint64_t low = read_varint(reader);
    uint64_t high = read_varint(reader);
    if (high > INT64_MAX) reader->failed = true;
    return (__int128)((unsigned __int128)high << 64 | low);
}

void node_record(struct buf *buf, const struct range_sum *sum)
{
    buf_add_char(buf, RECORD_FORMAT);
    add_wide(buf, sum->added);
    add_wide(buf, sum->subbed);
}

enum err node_record_decode(struct bytes value, struct range_sum *sum_out)
{
    struct reader reader = record_reader(value);
    sum_out->added = read_wide(&reader);
    sum_out->subbed = read_wide(&reader);
    return record_end(&reader);
}

/* No series has the id 0, so the marks stand together before all nodes. */
struct bytes mark_key(char out[MARK_KEY_SIZE], uint64_t series)
{
    put_ordered_u64(out, 0);
    put_ordered_u64(out + 8, series);
    return bytes_of(out, MARK_KEY_SIZE);
}

enum err mark_key_decode(struct bytes key, uint64_t *series_out)
{
    if (key.size != MARK_KEY_SIZE || get_ordered_u64(key.data) != 0) return ERR_CORRUPT;
    *series_out = get_ordered_u64(key.data + 8);
    return ERR_OK;
}

void mark_record(struct buf *buf, int32_t duration)
{
    buf_add_char(buf, RECORD_FORMAT);
    buf_add_varint(buf, (uint64_t)duration);
}

enum err mark_record_decode(struct bytes value, int32_t *duration_out)
{
    struct reader reader = record_reader(value);
    uint64_t duration = read_varint(&reader);
    if (duration == 0 || duration > INT32_MAX) reader.failed = true;
    *duration_out = (int32_t)duration;
    return record_end(&reader);
}

void tenant_record(struct buf *buf, int64_t cells)
{
    buf_add_char(buf, RECORD_FORMAT);
    buf_add_signed(buf, cells);
}

enum err tenant_record_decode(struct bytes value, int64_t *cells_out)
{
    struct reader reader = record_reader(value);
    *cells_out = read_signed(&reader);
    if (*cells_out < 0) reader.failed = true;
    return record_end(&reader);
}

void position_record(struct buf *buf, const struct store_position *position)
{
    buf_add_char(buf, POSITION_FORMAT);
    buf_add_varint(buf, position->last_sequence);
    buf_add_varint(buf, position->next_series);
    buf_add_signed(buf, position->time_ms);
    buf_add_fixed64(buf, position->hash);
}

enum err position_record_decode(struct bytes value, struct store_position *position_out)
{
    struct reader reader = reader_of(value);
    uint8_t format = read_u8(&reader);
    if (format != RECORD_FORMAT && format != POSITION_FORMAT) reader.failed = true;
    position_out->last_sequence = read_varint(&reader);
    position_out->next_series = read_varint(&reader);
    position_out->time_ms = read_signed(&reader);
    position_out->hash = format == POSITION_FORMAT ? read_fixed64(&reader) : 0;
    return record_end(&reader);
}
