/* shipment.c -- see the header. */
#include "replica/shipment.h"

#include "core/timefmt.h"

enum { AT_FORMAT = 8, AT_LAST = 12, AT_MOMENT = 20, HEAD_SIZE = AT_MOMENT + 5 * 8 };

static const char magic[AT_FORMAT + 1] = "tallyrpl";

void shipment_begin(struct buf *buf, const struct shipment_head *head)
{
    must(buf->size == 0);
    if (!buf_reserve(buf, HEAD_SIZE)) return;
    memcpy(buf->data, magic, AT_FORMAT);
    put_u32(buf->data + AT_FORMAT, SHIPMENT_FORMAT);
    buf->size = HEAD_SIZE;
    shipment_settle(buf, head);
}

void shipment_settle(struct buf *buf, const struct shipment_head *head)
{
    if (buf->failed) return;
    must(buf->size >= HEAD_SIZE);
    put_u64(buf->data + AT_LAST, head->last);
    const int64_t times[] = {head->moment.now_ms, head->moment.held_ms, head->moment.since_ms,
                             head->moment.back_ms, head->moment.back_since_ms};
    for (unsigned i = 0; i < ARRAY_COUNT(times); i++)
        put_u64(buf->data + AT_MOMENT + 8 * i, (uint64_t)times[i]);
}

void shipment_add(struct buf *buf, const struct journal_block *block, uint64_t hash)
{
    buf_add_fixed64(buf, block->first_sequence);
    buf_add_u32(buf, block->count);
    buf_add_fixed64(buf, (uint64_t)block->time_ms);
    buf_add_fixed64(buf, block->next_series);
    buf_add_u32(buf, (uint32_t)block->body.size);
    buf_add(buf, block->body);
    buf_add_fixed64(buf, hash);
}

static bool is_time(int64_t ms)
{
    return ms >= TIME_MS_MIN && ms <= TIME_MS_MAX;
}

/* The follower reckons with them, and so must have none that a primary cannot have. */
static bool is_moment(const struct moment *moment)
{
    bool held = moment->held_ms == HELD_ALL || is_time(moment->held_ms);
    return held && is_time(moment->now_ms) && is_time(moment->since_ms) &&
           is_time(moment->back_ms) && is_time(moment->back_since_ms);
}

enum err shipment_read(struct bytes bytes, struct shipment_head *head_out,
                       struct reader *reader_out, uint32_t *format_out)
{
    *format_out = 0;
    if (bytes.size < HEAD_SIZE || memcmp(bytes.data, magic, AT_FORMAT) != 0) return ERR_CORRUPT;
    *format_out = get_u32(bytes.data + AT_FORMAT);
    if (*format_out != SHIPMENT_FORMAT) return ERR_INVALID;
    int64_t times[5];
    for (unsigned i = 0; i < ARRAY_COUNT(times); i++)
        times[i] = (int64_t)get_u64(bytes.data + AT_MOMENT + 8 * i);
    *head_out = (struct shipment_head){.last = get_u64(bytes.data + AT_LAST),
                                       .moment = {.now_ms = times[0],
                                                  .held_ms = times[1],
                                                  .since_ms = times[2],
                                                  .back_ms = times[3],
                                                  .back_since_ms = times[4]}};
    if (!is_moment(&head_out->moment)) return ERR_CORRUPT;
    *reader_out = reader_of(bytes_of(bytes.data + HEAD_SIZE, bytes.size - HEAD_SIZE));
    return ERR_OK;
}

enum err shipment_next(struct reader *reader, struct shipment_block *block_out)
{
    if (reader_left(reader) == 0) return reader->failed ? ERR_CORRUPT : ERR_NOT_FOUND;
    struct journal_block *block = &block_out->block;
    *block = (struct journal_block){.first_sequence = read_fixed64(reader)};
    block->count = read_u32(reader);
    block->time_ms = (int64_t)read_fixed64(reader);
    block->next_series = read_fixed64(reader);
    block->body = read_bytes(reader, read_u32(reader));
    block_out->hash = read_fixed64(reader);
    return reader->failed ? ERR_CORRUPT : ERR_OK;
}
