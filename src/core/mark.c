/* mark.c -- bytes of the rows of the dirty queue, and which row a change marks.
 *
 *   key    'q' reconcile NUL tenant NUL canonical JSON of the entity's dimensions
 *   value  format(1) pending(1) version(8) marked(8) cause(8) updated(8) retry(8) failures(4)
 *   key    'n' tenant        value  the number of its rows
 */
#include "core/mark.h"

#include "core/event.h"
#include "core/name.h"
#include "core/object.h"
#include "core/reconcile.h"

enum { MARK_FORMAT = 1 };

#define WEIGHT_OBJECT 64u
#define WEIGHT_ADJUSTMENT 136u /* a counter, a cell and a tenant's number of cells */

struct bytes mark_encode(struct arena *arena, const struct mark *mark)
{
    char *value = arena_alloc(arena, MARK_SIZE);
    value[0] = MARK_FORMAT;
    value[1] = mark->pending;
    put_u64(value + 2, mark->version);
    put_u64(value + 10, (uint64_t)mark->marked_ms);
    put_u64(value + 18, (uint64_t)mark->cause_ms);
    put_u64(value + 26, (uint64_t)mark->updated_ms);
    put_u64(value + 34, (uint64_t)mark->retry_ms);
    put_u32(value + 42, mark->failures);
    return bytes_of(value, MARK_SIZE);
}

bool mark_decode(struct bytes value, struct mark *mark_out)
{
    *mark_out = (struct mark){.updated_ms = TIME_NONE, .retry_ms = TIME_NONE};
    if (value.size == 0) return true;
    if (value.size != MARK_SIZE || value.data[0] != MARK_FORMAT) return false;
    if (value.data[1] != 0 && value.data[1] != 1) return false;
    mark_out->pending = value.data[1];
    mark_out->version = get_u64(value.data + 2);
    mark_out->marked_ms = (int64_t)get_u64(value.data + 10);
    mark_out->cause_ms = (int64_t)get_u64(value.data + 18);
    mark_out->updated_ms = (int64_t)get_u64(value.data + 26);
    mark_out->retry_ms = (int64_t)get_u64(value.data + 34);
    mark_out->failures = get_u32(value.data + 42);
    return mark_out->version > 0;
}

static struct bytes join(struct arena *arena, struct bytes reconcile, struct bytes tenant,
                         struct bytes rest)
{
    size_t size = 1 + reconcile.size + 1 + tenant.size + 1 + rest.size;
    char *key = arena_alloc(arena, size);
    char *at = key;
    *at++ = OBJECT_MARK;
    at = mempcpy(at, reconcile.data, reconcile.size);
    *at++ = '\0';
    if (tenant.size) at = mempcpy(at, tenant.data, tenant.size);
    *at++ = '\0';
    if (rest.size) memcpy(at, rest.data, rest.size);
    return bytes_of(key, size);
}

struct bytes mark_row_key(struct arena *arena, struct bytes reconcile, struct bytes tenant,
                          struct bytes entity_json)
{
    must(entity_json.size > 0);
    return join(arena, reconcile, tenant, entity_json);
}

struct bytes mark_prefix(struct arena *arena, struct bytes reconcile, struct bytes tenant)
{
    struct bytes prefix = join(arena, reconcile, tenant, BYTES_NONE);
    return tenant.size ? prefix : bytes_of(prefix.data, prefix.size - 1);
}

bool mark_key_split(struct bytes key, struct bytes *reconcile_out, struct bytes *tenant_out,
                    struct bytes *entity_json_out)
{
    if (key.size == 0 || key.data[0] != OBJECT_MARK) return false;
    struct bytes rest = bytes_of(key.data + 1, key.size - 1);
    *reconcile_out = bytes_split(&rest, '\0');
    *tenant_out = bytes_split(&rest, '\0');
    *entity_json_out = rest;
    return name_valid(*reconcile_out) && name_valid(*tenant_out) && rest.size > 0;
}

struct bytes mark_count_key(struct arena *arena, struct bytes tenant)
{
    return object_key(arena, OBJECT_MARKS, tenant);
}

struct mark_place mark_place_of(struct arena *arena, const struct hash_secret *secret,
                                struct bytes reconcile, struct bytes tenant,
                                struct bytes entity_json)
{
    struct mark_place place = {.key = mark_row_key(arena, reconcile, tenant, entity_json),
                               .count_key = mark_count_key(arena, tenant)};
    place.print = fingerprint_of(secret, place.key);
    place.count_print = fingerprint_of(secret, place.count_key);
    return place;
}

/* The end of the JSON string that begins at `at`, after its closing quote; NULL: there is none. */
static const char *string_end(const char *at, const char *end)
{
    if (at == end || *at++ != '"') return NULL;
    for (; at < end && *at != '"'; at++)
        if (*at == '\\' && ++at == end) return NULL;
    return at < end ? at + 1 : NULL;
}

/* Whether canonical JSON has exactly these keys, which are sorted as it is. A key with characters
 * that JSON escapes is written first, so that it can be compared. */
static bool has_keys(struct bytes json, const struct dimension_set *set)
{
    const char *at = json.data, *end = json.data + json.size;
    for (unsigned i = 0; i < set->count; i++) {
        char text[6 * 255 + 8];
        struct buf key = {.data = text, .capacity = sizeof text, .max = sizeof text};
        const struct dimension pair = {.key = set->sources[i].name, .value = BYTES("")};
        dimensions_write(&key, &pair, 1); /* {"key":""} */
        size_t size = key.size - 5;       /* "key" */
        if (key.failed || (size_t)(end - at) < size + 2) return false;
        if (*at++ != (i == 0 ? '{' : ',') || memcmp(at, text + 1, size) != 0) return false;
        at += size;
        if (*at++ != ':') return false;
        at = string_end(at, end);
        if (!at) return false;
    }
    if (set->count == 0) return bytes_equal(json, BYTES("{}"));
    return end - at == 1 && *at == '}';
}

bool mark_is_entity(struct bytes dimensions_json, const struct reconcile *reconcile)
{
    return has_keys(dimensions_json, &reconcile->entity);
}

struct mark_place *mark_of_set(struct arena *arena, const struct hash_secret *secret,
                               const struct definition *definition, struct bytes tenant,
                               struct bytes dimensions_json)
{
    if (definition->reconciles_count == 0) return NULL;
    const struct reconcile *reconcile = reconcile_of(definition, tenant);
    if (!reconcile || !has_keys(dimensions_json, &reconcile->entity)) return NULL;
    struct mark_place *place = arena_alloc(arena, sizeof *place);
    *place = mark_place_of(arena, secret, reconcile->name, tenant, dimensions_json);
    return place;
}

size_t mark_weight(const struct mark_change *change)
{
    size_t weight = 2 * change->place.key.size + MARK_SIZE + change->place.count_key.size +
                    sizeof(uint64_t) + 2 * WEIGHT_OBJECT;
    for (uint32_t i = 0; i < change->adjustments_count; i++)
        weight += 2 * change->adjustments[i].key.size + WEIGHT_ADJUSTMENT;
    return weight;
}
