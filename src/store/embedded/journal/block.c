/* block.c -- the bytes of block.h. Integers are varints: an after-image of a cell is some 15 bytes,
 * a cause some 8, and the journal's bytes are the server's write speed. */
#include "store/embedded/journal/block.h"

#include "core/prefetch.h"
#include "core/counter.h"
#include "core/mark.h"

/* Formats 2 and 3 have no running hash inside, and format 2 no exact expiries; else they are the
 * same. */
enum { BODY_FORMAT = 4, BODY_FORMAT_LEAST = 2 };

enum tag {
    TAG_COUNTER = 'N',
    TAG_COUNTER_GONE = 'n',
    TAG_CELL = 'C',
    TAG_CELL_EXPIRING = 'E',
    TAG_CELL_GONE = 'c',
    TAG_WINDOW = 'W',
    TAG_CELL_EXACT = 'X',
    TAG_TENANT = 'T',
    TAG_KEY = 'K',
    TAG_ID = 'I',
    TAG_OBJECT = 'O',
    TAG_DEAD = 'D',
    TAG_DATED = 'U', /* a time, then a cell or key that is not of the block's own time */
};

enum { CAUSE_REFUSED = 0x80 }; /* remembered under a key, but it changed no cell */

static void encode_event(struct buf *buf, const struct op *op)
{
    const struct stored_event stored = event_to_store(op->event);
    buf_add_sized(buf, op->tenant);
    stored_event_encode(buf, &stored);
}

/* Writes which step it is, for which entity and, for a pass, what each counter was and became. */
static void encode_mark(struct buf *buf, const struct mark_change *change)
{
    buf_add_char(buf, (char)change->step);
    buf_add_sized(buf, change->place.key);
    buf_add_varint(buf, change->adjustments_count);
    for (uint32_t i = 0; i < change->adjustments_count; i++) {
        buf_add_signed(buf, change->adjustments[i].before);
        buf_add_signed(buf, change->adjustments[i].after);
    }
}

static bool format_is_known(uint8_t format)
{
    return format >= BODY_FORMAT_LEAST && format <= BODY_FORMAT;
}

static bool has_amount(enum op_kind kind)
{
    return kind != OP_EXPIRE && kind != OP_REMOVE && kind != OP_DEADLINE;
}

static void encode_cause(struct buf *buf, const struct read_set *reads, const struct op *op)
{
    bool refused = op->err != ERR_OK;
    buf_add_char(buf, (char)(op->kind | (refused ? CAUSE_REFUSED : 0)));
    if (refused) return;
    switch (op->kind) {
    case OP_EVENT:
    case OP_IMPORT_EVENT:
        encode_event(buf, op);
        return;
    case OP_REPLAY: /* the event itself lies where it was replayed from */
    case OP_IMPORT_ID:
        return;
    case OP_OBJECT:
        buf_add_sized(buf, op->object->key);
        return;
    case OP_DELETE:
        buf_add_sized(buf, op->counter);
        return;
    case OP_MARK:
        encode_mark(buf, op->mark);
        return;
    default:
        buf_add_varint(buf, reads->cells[op->cell_index].series);
        buf_add_signed(buf, op->bucket);
        if (has_amount(op->kind)) buf_add_varint(buf, (uint64_t)op->amount);
    }
}

/* Prefetches the texts of the events that come next (core/prefetch.h). */
static void prefetch_causes(const struct op *const *causes, uint32_t left)
{
    enum { TEXTS = 4, EVENT = 8 };
    if (left > EVENT && causes[EVENT]->event) prefetch(causes[EVENT]->event, sizeof(struct event));
    if (left <= TEXTS || !causes[TEXTS]->event) return;
    const struct event *event = causes[TEXTS]->event;
    __builtin_prefetch(event->id.data);
    __builtin_prefetch(event->type.data);
    __builtin_prefetch(event->dimensions_json.data);
    __builtin_prefetch(event->payload.data);
}

static void encode_causes(struct buf *buf, const struct write_set *writes)
{
    size_t at = buf->size;
    buf_add_u32(buf, 0);
    for (uint32_t i = 0; i < writes->count; i++) {
        prefetch_causes((const struct op *const *)writes->causes + i, writes->count - i);
        encode_cause(buf, writes->reads, writes->causes[i]);
    }
    if (!buf->failed) put_u32(buf->data + at, (uint32_t)(buf->size - at - sizeof(uint32_t)));
}

static void encode_counters(struct buf *buf, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->counters_count; i++) {
        const struct read_counter *counter = &reads->counters[i];
        if (!counter->changed) continue;
        buf_add_char(buf, counter->value ? TAG_COUNTER : TAG_COUNTER_GONE);
        buf_add_sized(buf, counter->key);
        if (counter->value) counter_encode(buf, counter->value);
    }
}

/* An imported object keeps its time. */
static void encode_date(struct buf *buf, const struct write_set *writes, int64_t time_ms)
{
    if (time_ms == writes->time_ms) return;
    buf_add_char(buf, TAG_DATED);
    buf_add_signed(buf, time_ms);
}

static void encode_cell(struct buf *buf, const struct write_set *writes,
                        const struct read_cell *cell)
{
    const struct cell *value = &cell->value;
    if (value->exists) encode_date(buf, writes, value->updated_ms);
    bool expiring = value->exists && value->expires_ms != TIME_NONE;
    bool window = expiring && value->start_ms != TIME_NONE;
    buf_add_char(buf, !value->exists ? TAG_CELL_GONE
                      : window       ? TAG_WINDOW
                      : value->exact ? TAG_CELL_EXACT
                      : expiring     ? TAG_CELL_EXPIRING
                                     : TAG_CELL);
    buf_add_varint(buf, cell->series);
    buf_add_signed(buf, cell->bucket);
    if (!value->exists) return;
    buf_add_signed(buf, value->added);
    buf_add_signed(buf, value->subbed);
    if (expiring) buf_add_signed(buf, value->expires_ms);
    if (window) buf_add_signed(buf, value->start_ms);
}

static void encode_tenants(struct buf *buf, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->tenants_count; i++) {
        if (!reads->tenants[i].changed) continue;
        buf_add_char(buf, TAG_TENANT);
        buf_add_sized(buf, reads->tenants[i].tenant);
        buf_add_varint(buf, (uint64_t)reads->tenants[i].cells);
    }
}

static void encode_key(struct buf *buf, const struct write_set *writes, const struct read_key *key)
{
    encode_date(buf, writes, key->value.first_seen_ms);
    buf_add_char(buf, key->value.event ? TAG_ID : TAG_KEY);
    buf_add_fixed64(buf, key->print.low);
    buf_add_fixed64(buf, key->print.high);
    buf_add_varint(buf, key->value.sequence);
    if (key->value.event)
        buf_add_u32(buf, (uint32_t)key->value.digest);
    else
        buf_add_fixed64(buf, key->value.digest);
    buf_add_sized(buf, key->value.outcome);
}

static void encode_objects(struct buf *buf, const struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        if (!reads->objects[i].changed) continue;
        buf_add_char(buf, TAG_OBJECT);
        buf_add_sized(buf, reads->objects[i].key);
        buf_add_sized(buf, reads->objects[i].value);
    }
}

uint64_t block_hash(uint64_t before, const struct journal_block *block)
{
    const uint64_t parts[] = {before,
                              block->first_sequence,
                              block->count,
                              (uint64_t)block->time_ms,
                              block->next_series,
                              hash_checksum(block->body)};
    return hash_checksum(bytes_of(parts, sizeof parts));
}

bool block_before(const struct journal_block *block, uint64_t *before_out)
{
    struct reader reader = reader_of(block->body);
    bool has = read_u8(&reader) == BODY_FORMAT;
    *before_out = has ? read_fixed64(&reader) : 0;
    return has && !reader.failed;
}

/* The head of a body, up to its causes, of whatever format. */
static struct reader read_head(struct bytes body)
{
    struct reader reader = reader_of(body);
    uint8_t format = read_u8(&reader);
    if (format == BODY_FORMAT) read_fixed64(&reader);
    if (!format_is_known(format)) reader.failed = true;
    return reader;
}

void block_encode(struct buf *buf, const struct write_set *writes, uint64_t before)
{
    const struct read_set *reads = writes->reads;
    buf_add_char(buf, BODY_FORMAT);
    buf_add_fixed64(buf, before);
    encode_causes(buf, writes);
    encode_counters(buf, reads);
    for (uint32_t i = 0; i < reads->cells_count; i++)
        if (reads->cells[i].changed) encode_cell(buf, writes, &reads->cells[i]);
    encode_tenants(buf, reads);
    for (uint32_t i = 0; i < reads->keys_count; i++)
        if (reads->keys[i].changed) encode_key(buf, writes, &reads->keys[i]);
    encode_objects(buf, reads);
    for (uint32_t i = 0; i < writes->dead_count; i++) {
        buf_add_char(buf, TAG_DEAD);
        buf_add_varint(buf, writes->dead[i]);
    }
}

static void visit_counter(struct reader *reader, struct arena *arena, bool gone,
                          const struct block_visitor *visitor)
{
    struct bytes key = read_sized(reader);
    const struct counter *counter = gone ? NULL : counter_decode(reader, arena);
    if (!reader->failed) visitor->counter(visitor->context, key, counter);
}

static void visit_cell(struct reader *reader, enum tag tag, int64_t time_ms,
                       const struct block_visitor *visitor)
{
    uint64_t series = read_varint(reader);
    int64_t bucket = read_signed(reader);
    struct cell cell = {.expires_ms = TIME_NONE, .start_ms = TIME_NONE};
    if (tag != TAG_CELL_GONE) {
        cell.exists = true;
        cell.updated_ms = time_ms;
        cell.added = read_signed(reader);
        cell.subbed = read_signed(reader);
        if (cell.subbed < 0 || cell.added < 0) reader->failed = true;
    }
    cell.exact = tag == TAG_CELL_EXACT;
    if (cell.exact || tag == TAG_CELL_EXPIRING || tag == TAG_WINDOW)
        cell.expires_ms = read_signed(reader);
    if (tag == TAG_WINDOW) cell.start_ms = read_signed(reader);
    if (!reader->failed) visitor->cell(visitor->context, series, bucket, &cell);
}

static void visit_tenant(struct reader *reader, const struct block_visitor *visitor)
{
    struct bytes tenant = read_sized(reader);
    uint64_t cells = read_varint(reader);
    if (cells > INT64_MAX) reader->failed = true;
    if (!reader->failed) visitor->tenant(visitor->context, tenant, (int64_t)cells);
}

static void visit_key(struct reader *reader, enum tag tag, int64_t time_ms,
                      const struct block_visitor *visitor)
{
    struct fingerprint print;
    print.low = read_fixed64(reader);
    print.high = read_fixed64(reader);
    struct key_record record = {.exists = true, .event = tag == TAG_ID, .first_seen_ms = time_ms};
    record.sequence = read_varint(reader);
    record.digest = record.event ? read_u32(reader) : read_fixed64(reader);
    record.outcome = read_sized(reader);
    if (!reader->failed) visitor->key(visitor->context, print, &record);
}

static void visit_object(struct reader *reader, const struct block_visitor *visitor)
{
    struct bytes key = read_sized(reader);
    struct bytes value = read_sized(reader);
    if (!reader->failed) visitor->object(visitor->context, key, value);
}

static void visit_dead(struct reader *reader, const struct block_visitor *visitor)
{
    uint64_t series = read_varint(reader);
    if (!reader->failed) visitor->dead(visitor->context, series);
}

enum err block_visit(struct bytes body, int64_t time_ms, struct arena *arena,
                     const struct block_visitor *visitor)
{
    struct reader reader = read_head(body);
    read_bytes(&reader, read_u32(&reader));
    while (!reader.failed && reader_left(&reader) > 0) {
        enum tag tag = read_u8(&reader);
        int64_t date_ms = time_ms;
        if (tag == TAG_DATED) {
            date_ms = read_signed(&reader);
            tag = read_u8(&reader);
        }
        switch (tag) {
        case TAG_COUNTER:
        case TAG_COUNTER_GONE:
            visit_counter(&reader, arena, tag == TAG_COUNTER_GONE, visitor);
            break;
        case TAG_CELL:
        case TAG_CELL_EXPIRING:
        case TAG_CELL_EXACT:
        case TAG_CELL_GONE:
        case TAG_WINDOW:
            visit_cell(&reader, tag, date_ms, visitor);
            break;
        case TAG_TENANT:
            visit_tenant(&reader, visitor);
            break;
        case TAG_KEY:
        case TAG_ID:
            visit_key(&reader, tag, date_ms, visitor);
            break;
        case TAG_OBJECT:
            visit_object(&reader, visitor);
            break;
        case TAG_DEAD:
            visit_dead(&reader, visitor);
            break;
        default:
            reader.failed = true;
        }
    }
    return reader.failed ? ERR_CORRUPT : ERR_OK;
}

static void skip_mark(struct reader *reader)
{
    read_u8(reader);
    read_sized(reader);
    uint64_t count = read_varint(reader);
    for (uint64_t i = 0; i < 2 * count && !reader->failed; i++)
        read_signed(reader);
}

/* Steps over a cause that is no event. */
static void skip_cause(struct reader *reader, enum op_kind kind)
{
    switch (kind) {
    case OP_MARK:
        skip_mark(reader);
        return;
    case OP_REPLAY:
    case OP_IMPORT_ID:
        return;
    case OP_OBJECT:
    case OP_DELETE:
        read_sized(reader);
        return;
    case OP_INCREMENT:
    case OP_DECREMENT:
    case OP_SET:
    case OP_EXPIRE:
    case OP_IMPORT:
    case OP_READ: /* the first of a bundle that changed nothing and is remembered */
    case OP_REMOVE:
    case OP_DEADLINE:
    case OP_MOVE:
        read_varint(reader);
        read_signed(reader);
        if (has_amount(kind)) read_varint(reader);
        return;
    default:
        reader->failed = true;
    }
}

enum err block_events(const struct journal_block *block, store_event_fn *visit, void *context,
                      bool *stopped_out)
{
    struct reader reader = read_head(block->body);
    *stopped_out = false;
    struct reader causes = reader_of(read_bytes(&reader, read_u32(&reader)));
    if (reader.failed) return ERR_CORRUPT;
    for (uint32_t i = 0; i < block->count && !causes.failed; i++) {
        uint8_t kind = read_u8(&causes);
        if (kind & CAUSE_REFUSED) continue;
        if (kind != OP_EVENT && kind != OP_IMPORT_EVENT) {
            skip_cause(&causes, kind);
            continue;
        }
        struct stored_event event = {0};
        struct bytes tenant = read_sized(&causes);
        stored_event_decode(&causes, &event);
        if (causes.failed) break;
        event.tenant = tenant;
        event.sequence = block->first_sequence + i;
        if (event.origin == 0) event.arrived_ms = block->time_ms;
        *stopped_out = !visit(context, &event);
        if (*stopped_out) return ERR_OK;
    }
    return causes.failed ? ERR_CORRUPT : ERR_OK;
}
