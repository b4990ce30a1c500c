/* counter.c -- small sorted arrays of series. */
#include "core/counter.h"

const struct series *counter_find(const struct counter *counter, int32_t duration)
{
    uint32_t low = 0;
    uint32_t high = counter ? counter->count : 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (counter->series[middle].duration < duration)
            low = middle + 1;
        else
            high = middle;
    }
    if (!counter || low == counter->count || counter->series[low].duration != duration) return NULL;
    return &counter->series[low];
}

int64_t counter_cells(const struct counter *counter)
{
    int64_t cells = 0;
    for (uint32_t i = 0; counter && i < counter->count; i++)
        cells += counter->series[i].cells;
    return cells;
}

struct counter *counter_copy(struct arena *arena, const struct counter *counter)
{
    if (!counter) return NULL;
    struct counter *copy = arena_alloc(arena, counter_size(counter->count));
    memcpy(copy, counter, counter_size(counter->count));
    return copy;
}

struct counter *counter_with(struct arena *arena, const struct counter *counter,
                             struct series series)
{
    uint32_t old = counter ? counter->count : 0;
    struct counter *copy = arena_alloc(arena, counter_size(old + 1));
    uint32_t at = 0;
    while (at < old && counter->series[at].duration < series.duration) {
        copy->series[at] = counter->series[at];
        at++;
    }
    copy->series[at] = series;
    for (uint32_t i = at; i < old; i++)
        copy->series[i + 1] = counter->series[i];
    copy->count = old + 1;
    return copy;
}

struct counter *counter_without(struct arena *arena, const struct counter *counter,
                                int32_t duration)
{
    must(counter_find(counter, duration) != NULL);
    if (counter->count == 1) return NULL;
    struct counter *copy = arena_alloc(arena, counter_size(counter->count - 1));
    copy->count = 0;
    for (uint32_t i = 0; i < counter->count; i++)
        if (counter->series[i].duration != duration)
            copy->series[copy->count++] = counter->series[i];
    return copy;
}

/* Beside the number of cells, which has 63 bits: the time of an end follows. Series without one are
 * written as they were before there were any. */
#define HAS_UNTIL (1ull << 63)

void counter_encode(struct buf *buf, const struct counter *counter)
{
    buf_add_varint(buf, counter->count);
    for (uint32_t i = 0; i < counter->count; i++) {
        buf_add_varint(buf, counter->series[i].id);
        uint64_t until = counter->series[i].until_ms ? HAS_UNTIL : 0;
        buf_add_varint(buf, (uint64_t)counter->series[i].cells | until);
        buf_add_varint(buf, (uint32_t)counter->series[i].duration);
        if (until) buf_add_signed(buf, counter->series[i].until_ms);
    }
}

struct counter *counter_decode(struct reader *reader, struct arena *arena)
{
    uint64_t count = read_varint(reader);
    if (count == 0 || count > reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    struct counter *counter = arena_alloc(arena, counter_size((uint32_t)count));
    counter->count = (uint32_t)count;
    int64_t last = INT64_MIN;
    for (uint32_t i = 0; i < counter->count; i++) {
        uint64_t id = read_varint(reader);
        uint64_t cells = read_varint(reader);
        uint64_t duration = read_varint(reader);
        int64_t until_ms = 0;
        if (cells & HAS_UNTIL) {
            cells &= ~HAS_UNTIL;
            until_ms = read_signed(reader);
            if (until_ms == 0) reader->failed = true;
        }
        int32_t granularity = (int32_t)(uint32_t)duration;
        if (duration > UINT32_MAX || granularity <= last || id == 0) reader->failed = true;
        last = granularity;
        counter->series[i] = (struct series){id, (int64_t)cells, granularity, until_ms};
    }
    return reader->failed ? NULL : counter;
}
