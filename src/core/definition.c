/* definition.c -- what the store keeps of a definition (rules.h).
 *
 *   version(1) flags(1) name mode group limit window trailing-bucket keep generation since
 *   granularities: count, each    sets: count, each: count, names    entity: count, names
 *
 * Integers are varints, texts have their size before them. Modes are stored by numbers of their
 * own, not by their place in the enum. */
#include "core/name.h"
#include "core/rules.h"

#define DEFINITION_VERSION 1
#define PAYLOAD_PREFIX BYTES("payload.")

enum {
    FLAG_FLOOR = 1,
    FLAG_TRAILING = 2,
    FLAG_ADJUSTED = 4,
    FLAG_FROZEN = 8,
    FLAGS_ALL = FLAG_FLOOR | FLAG_TRAILING | FLAG_ADJUSTED | FLAG_FROZEN,
};

/* Number on disk = index. Append only. */
static const enum counter_mode stored_modes[] = {MODE_PERSISTENT, MODE_WINDOWED, MODE_SERIES};

static void encode_mode(struct buf *buf, enum counter_mode mode)
{
    for (size_t i = 0; i < ARRAY_COUNT(stored_modes); i++) {
        if (stored_modes[i] != mode) continue;
        buf_add_varint(buf, i);
        return;
    }
    unreachable_state(mode);
}

static enum counter_mode decode_mode(struct reader *reader)
{
    uint64_t number = read_varint(reader);
    if (number < ARRAY_COUNT(stored_modes)) return stored_modes[number];
    reader->failed = true;
    return MODE_PERSISTENT;
}

static char flags_of(const struct definition *definition)
{
    return (char)((definition->floor_at_zero ? FLAG_FLOOR : 0) |
                  (definition->trailing ? FLAG_TRAILING : 0) |
                  (definition->adjusted ? FLAG_ADJUSTED : 0) |
                  (definition->frozen ? FLAG_FROZEN : 0));
}

static void encode_sources(struct buf *buf, const struct source *sources, unsigned count)
{
    buf_add_varint(buf, count);
    for (unsigned i = 0; i < count; i++)
        buf_add_sized(buf, sources[i].name);
}

void definition_encode(struct buf *buf, const struct definition *definition)
{
    buf_add_char(buf, DEFINITION_VERSION);
    buf_add_char(buf, flags_of(definition));
    buf_add_sized(buf, definition->name);
    encode_mode(buf, definition->mode);
    buf_add_sized(buf, definition->group);
    buf_add_signed(buf, definition->limit);
    buf_add_signed(buf, definition->window_ms);
    buf_add_signed(buf, definition->trailing_seconds);
    buf_add_signed(buf, definition->keep_ms);
    buf_add_varint(buf, definition->generation);
    buf_add_varint(buf, definition->since);
    buf_add_varint(buf, definition->granularities_count);
    for (unsigned i = 0; i < definition->granularities_count; i++)
        buf_add_signed(buf, definition->granularities[i]);
    buf_add_varint(buf, definition->sets_count);
    for (unsigned i = 0; i < definition->sets_count; i++)
        encode_sources(buf, definition->sets[i].sources, definition->sets[i].count);
    encode_sources(buf, definition->entity, definition->entity_count);
}

struct bytes definition_bytes(struct arena *arena, const struct definition *definition)
{
    struct buf buf;
    buf_init(&buf, SIZE_MAX / 2);
    definition_encode(&buf, definition);
    struct bytes bytes = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return bytes;
}

/* A number from `min` to `max`; 0 and a failed reader if it is not. */
static int64_t read_between(struct reader *reader, int64_t min, int64_t max)
{
    int64_t number = read_signed(reader);
    if (number >= min && number <= max) return number;
    reader->failed = true;
    return 0;
}

static uint64_t read_at_most(struct reader *reader, uint64_t max)
{
    uint64_t number = read_varint(reader);
    if (number <= max) return number;
    reader->failed = true;
    return 0;
}

/* A stored source is not counted by, but a payload's path must not look like a dimension. */
static void source_fill(struct source *source, struct bytes name, struct arena *arena)
{
    *source = (struct source){.name = name, .payload = bytes_starts(name, PAYLOAD_PREFIX)};
    if (!source->payload) return;
    struct bytes rest = bytes_of(name.data + PAYLOAD_PREFIX.size, name.size - PAYLOAD_PREFIX.size);
    source->parts = arena_alloc(arena, RULES_PATH_MAX * sizeof *source->parts);
    while (rest.data && source->parts_count < RULES_PATH_MAX)
        source->parts[source->parts_count++] = bytes_split(&rest, '.');
}

static unsigned decode_sources(struct reader *reader, struct arena *arena,
                               struct source **sources_out)
{
    unsigned count = (unsigned)read_at_most(reader, RULES_DIMENSIONS_MAX);
    struct source *sources = arena_zalloc(arena, count * sizeof *sources);
    for (unsigned i = 0; i < count && !reader->failed; i++) {
        struct bytes name = read_sized(reader);
        if (name.size == 0) reader->failed = true;
        if (i && bytes_compare(sources[i - 1].name, name) >= 0) reader->failed = true;
        if (!reader->failed) source_fill(&sources[i], arena_copy(arena, name), arena);
    }
    *sources_out = sources;
    return count;
}

static void decode_sets(struct reader *reader, struct arena *arena, struct definition *definition)
{
    definition->sets_count = (unsigned)read_at_most(reader, RULES_SETS_MAX);
    definition->sets = arena_zalloc(arena, definition->sets_count * sizeof *definition->sets);
    for (unsigned i = 0; i < definition->sets_count && !reader->failed; i++) {
        struct dimension_set *set = &definition->sets[i];
        set->count = decode_sources(reader, arena, &set->sources);
    }
}

static void decode_granularities(struct reader *reader, struct arena *arena,
                                 struct definition *definition)
{
    unsigned count = (unsigned)read_at_most(reader, RULES_GRANULARITIES_MAX);
    int32_t *seconds = arena_zalloc(arena, count * sizeof *seconds);
    for (unsigned i = 0; i < count && !reader->failed; i++) {
        int64_t above = i ? seconds[i - 1] + INT64_C(1) : INT32_MIN;
        seconds[i] = (int32_t)read_between(reader, above, INT32_MAX);
    }
    definition->granularities = seconds;
    definition->granularities_count = count;
}

static void decode_flags(struct reader *reader, struct definition *definition)
{
    uint8_t flags = read_u8(reader);
    if (flags & ~FLAGS_ALL) reader->failed = true;
    definition->floor_at_zero = flags & FLAG_FLOOR;
    definition->trailing = flags & FLAG_TRAILING;
    definition->adjusted = flags & FLAG_ADJUSTED;
    definition->frozen = flags & FLAG_FROZEN;
}

static void decode_fields(struct reader *reader, struct arena *arena, struct definition *definition)
{
    decode_flags(reader, definition);
    definition->name = arena_copy(arena, read_sized(reader));
    definition->mode = decode_mode(reader);
    definition->group = arena_copy(arena, read_sized(reader));
    definition->limit = read_between(reader, LIMIT_NONE, INT64_MAX);
    definition->window_ms = read_between(reader, 0, INT64_MAX);
    definition->trailing_seconds = (int32_t)read_between(reader, 0, INT32_MAX);
    definition->keep_ms = read_between(reader, 0, INT64_MAX);
    definition->generation = (uint32_t)read_at_most(reader, UINT32_MAX);
    definition->since = read_varint(reader);
    decode_granularities(reader, arena, definition);
    decode_sets(reader, arena, definition);
    definition->entity_count = decode_sources(reader, arena, &definition->entity);
}

/* True if the definition has what its mode cannot do without. */
static bool mode_complete(const struct definition *definition)
{
    if (definition->mode == MODE_WINDOWED && definition->window_ms == 0) return false;
    if (definition->mode == MODE_SERIES && definition->granularities_count == 0) return false;
    return !definition->trailing || definition->trailing_seconds > 0;
}

enum err definition_decode(struct bytes bytes, struct arena *arena,
                           struct definition *definition_out)
{
    *definition_out = (struct definition){0};
    struct reader reader = reader_of(bytes);
    if (read_u8(&reader) != DEFINITION_VERSION) return ERR_CORRUPT;
    decode_fields(&reader, arena, definition_out);
    if (reader.failed || reader_left(&reader)) return ERR_CORRUPT;
    if (!counter_name_valid(definition_out->name) || !mode_complete(definition_out))
        return ERR_CORRUPT;
    return ERR_OK;
}
