/* object.c -- keys and values of the objects that are no counters. */
#include "core/object.h"

#define STATE_SIZE_MAX (1u << 20)

struct bytes object_key(struct arena *arena, char kind, struct bytes name)
{
    char *key = arena_alloc(arena, 1 + name.size);
    key[0] = kind;
    if (name.size) memcpy(key + 1, name.data, name.size);
    return bytes_of(key, 1 + name.size);
}

struct bytes object_state_key(struct arena *arena, struct bytes tenant, struct bytes counter,
                              uint32_t generation, struct bytes entity)
{
    size_t size = 1 + tenant.size + 1 + counter.size + 1 + sizeof generation + entity.size;
    char *key = arena_alloc(arena, size);
    char *at = key;
    *at++ = OBJECT_STATE;
    at = mempcpy(at, tenant.data, tenant.size);
    *at++ = '\0';
    at = mempcpy(at, counter.data, counter.size);
    *at++ = '\0';
    put_ordered_u32(at, generation);
    if (entity.size) memcpy(at + sizeof generation, entity.data, entity.size);
    return bytes_of(key, size);
}

bool object_state_split(struct bytes key, struct bytes *counter_out, uint32_t *generation_out)
{
    if (key.size == 0 || key.data[0] != OBJECT_STATE) return false;
    struct bytes rest = bytes_of(key.data + 1, key.size - 1);
    bytes_split(&rest, '\0');
    if (!rest.data) return false;
    *counter_out = bytes_split(&rest, '\0');
    if (!rest.data || rest.size < sizeof *generation_out) return false;
    *generation_out = get_ordered_u32(rest.data);
    return true;
}

struct bytes object_garbage_key(struct arena *arena, struct bytes counter, uint32_t generation)
{
    char name[sizeof generation + NAME_SIZE_MAX];
    must(counter.size <= NAME_SIZE_MAX);
    put_ordered_u32(name, generation);
    if (counter.size) memcpy(name + sizeof generation, counter.data, counter.size);
    return object_key(arena, OBJECT_GARBAGE, bytes_of(name, sizeof generation + counter.size));
}

bool object_garbage_split(struct bytes key, struct bytes *counter_out, uint32_t *generation_out)
{
    size_t head = 1 + sizeof *generation_out;
    if (key.size < head || key.data[0] != OBJECT_GARBAGE) return false;
    *generation_out = get_ordered_u32(key.data + 1);
    *counter_out = bytes_of(key.data + head, key.size - head);
    return true;
}

struct bytes object_state_encode(struct arena *arena, const struct bytes *sets, unsigned count)
{
    struct buf buf;
    buf_init(&buf, STATE_SIZE_MAX);
    buf_add_varint(&buf, count);
    for (unsigned i = 0; i < count; i++)
        buf_add_sized(&buf, sets[i]);
    must(!buf.failed);
    struct bytes value = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return value;
}

bool object_state_decode(struct bytes value, struct bytes sets_out[static RULES_SETS_MAX],
                         unsigned *count_out)
{
    struct reader reader = reader_of(value);
    uint64_t count = read_varint(&reader);
    if (reader.failed || count > RULES_SETS_MAX) return false;
    for (uint64_t i = 0; i < count; i++)
        sets_out[i] = read_sized(&reader);
    *count_out = (unsigned)count;
    return !reader.failed && reader_left(&reader) == 0;
}

/* The time comes first, in a fixed size: so a row without a status is not an absent object. */
struct bytes usage_row_encode(struct arena *arena, const struct usage_row *row)
{
    size_t size = sizeof(uint64_t) + row->status.size;
    char *value = arena_alloc(arena, size);
    put_u64(value, (uint64_t)row->updated_ms);
    if (row->status.size) memcpy(value + sizeof(uint64_t), row->status.data, row->status.size);
    return bytes_of(value, size);
}

bool usage_row_decode(struct bytes value, struct usage_row *row_out)
{
    if (value.size < sizeof(uint64_t)) return false;
    row_out->updated_ms = (int64_t)get_u64(value.data);
    row_out->status = bytes_of(value.data + sizeof(uint64_t), value.size - sizeof(uint64_t));
    return true;
}

#define CLOCK_RECORD_SIZE (6 * sizeof(uint64_t))

struct bytes clock_record_encode(struct arena *arena, const struct clock_record *record)
{
    char *value = arena_alloc(arena, CLOCK_RECORD_SIZE);
    put_u64(value, record->resets);
    put_u64(value + 8, (uint64_t)record->moment.held_ms);
    put_u64(value + 16, (uint64_t)record->moment.since_ms);
    put_u64(value + 24, (uint64_t)record->moment.back_ms);
    put_u64(value + 32, (uint64_t)record->moment.back_since_ms);
    put_u64(value + 40, (uint64_t)record->moment.now_ms);
    return bytes_of(value, CLOCK_RECORD_SIZE);
}

bool clock_record_decode(struct bytes value, struct clock_record *record_out)
{
    if (value.size != CLOCK_RECORD_SIZE) return false;
    record_out->resets = get_u64(value.data);
    record_out->moment = (struct moment){.held_ms = (int64_t)get_u64(value.data + 8),
                                         .since_ms = (int64_t)get_u64(value.data + 16),
                                         .back_ms = (int64_t)get_u64(value.data + 24),
                                         .back_since_ms = (int64_t)get_u64(value.data + 32),
                                         .now_ms = (int64_t)get_u64(value.data + 40)};
    return record_out->moment.held_ms >= 0 && record_out->moment.back_ms >= 0;
}

struct bytes object_number(struct arena *arena, uint64_t number)
{
    char *value = arena_alloc(arena, sizeof number);
    put_u64(value, number);
    return bytes_of(value, sizeof number);
}

bool object_number_decode(struct bytes value, uint64_t *number_out)
{
    if (value.size != sizeof *number_out) return false;
    *number_out = get_u64(value.data);
    return true;
}
