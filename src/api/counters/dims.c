/* dims.c -- dimensions on their way in and out. */
#include "api/counters/dims.h"

#include <openssl/sha.h>

#include "core/name.h"

#define PREFIX BYTES("dim.")
#define JSON_SIZE_MAX (8 * EVENT_SIZE_MAX) /* no row has more, so more finds no row */

struct dims dims_from_params(const struct params *params, struct arena *arena)
{
    struct dims dims = {arena_alloc(arena, (params->count + 1) * sizeof *dims.items), 0};
    for (unsigned i = 0; i < params->count; i++) {
        struct param param = params->items[i];
        if (!bytes_starts(param.name, PREFIX)) continue;
        param.name = bytes_of(param.name.data + PREFIX.size, param.name.size - PREFIX.size);
        dims.items[dims.count++] = (struct dimension){param.name, param.value};
    }
    dims.count = dimensions_sort(dims.items, dims.count);
    return dims;
}

enum err dims_from_json(const struct json_value *object, struct arena *arena, struct dims *dims_out,
                        struct reason *why)
{
    struct json_iter iter;
    *dims_out = (struct dims){NULL, 0};
    if (object->type == JSON_ABSENT || object->type == JSON_NULL) return ERR_OK;
    if (object->type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "dimensions must be an object.");
    dims_out->items = arena_alloc(arena, EVENT_DIMENSIONS_MAX * sizeof *dims_out->items);
    for (json_each(object, &iter); json_next(&iter);) {
        if (dims_out->count == EVENT_DIMENSIONS_MAX)
            return reason_err(why, ERR_INVALID, "dimensions must have at most 64 keys.");
        struct dimension *dimension = &dims_out->items[dims_out->count++];
        dimension->key = arena_copy(arena, iter.key);
        if (!dimension_value(&iter.value, arena, &dimension->value))
            return reason_err(why, ERR_INVALID,
                              "A dimension must be a string, an integer, a boolean or null.");
    }
    dims_out->count = dimensions_sort(dims_out->items, dims_out->count);
    return ERR_OK;
}

bool dims_kept(const struct dims *dims, const struct definition *definition)
{
    struct bytes keys[RULES_DIMENSIONS_MAX];
    if (dims->count > RULES_DIMENSIONS_MAX) return false;
    for (uint32_t i = 0; i < dims->count; i++)
        keys[i] = dims->items[i].key;
    return definition_set(definition, keys, dims->count) >= 0;
}

struct bytes dims_value(const struct dims *dims, struct bytes key)
{
    for (uint32_t i = 0; i < dims->count; i++)
        if (bytes_equal(dims->items[i].key, key)) return dims->items[i].value;
    return BYTES_NONE;
}

struct bytes dims_json(const struct dims *dims, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, JSON_SIZE_MAX);
    dimensions_write(&buf, dims->items, dims->count);
    struct bytes json = arena_copy(arena, buf_bytes(&buf));
    buf_release(&buf);
    return json;
}

struct cell_ref dims_ref(const struct store *store, struct arena *arena, struct bytes tenant,
                         const struct definition *definition, struct bytes json)
{
    struct bytes key = rule_key(arena, tenant, definition->name, definition->generation, json);
    return (struct cell_ref){.counter = key, .print = fingerprint_of(&store->secret, key)};
}

/* Steps over a string with its quotes; SIZE_MAX if there is none. */
static size_t skip_string(struct bytes json, size_t at)
{
    if (at >= json.size || json.data[at] != '"') return SIZE_MAX;
    for (at++; at < json.size; at++) {
        if (json.data[at] == '"') return at + 1;
        if (json.data[at] == '\\') at++;
    }
    return SIZE_MAX;
}

/* The next "key":"value" as it stands, `*at` being where it begins. False: no more. */
static bool next_pair(struct bytes json, size_t *at, struct bytes *pair_out)
{
    size_t begin = *at;
    size_t middle = skip_string(json, begin);
    if (middle == SIZE_MAX || middle >= json.size || json.data[middle] != ':') return false;
    size_t end = skip_string(json, middle + 1);
    if (end == SIZE_MAX) return false;
    *pair_out = bytes_of(json.data + begin, end - begin);
    *at = end + 1; /* over ',' or '}' */
    return true;
}

static bool has_pair(struct bytes json, struct bytes pair)
{
    struct bytes one;
    for (size_t at = 1; next_pair(json, &at, &one);)
        if (bytes_equal(one, pair)) return true;
    return false;
}

/* Escaped text is compared with escaped text: canonical JSON has one spelling for each string. */
bool dims_match(struct bytes json, const struct dims *dims)
{
    struct buf pair;
    bool match = true;
    buf_init(&pair, JSON_SIZE_MAX);
    for (uint32_t i = 0; i < dims->count && match; i++) {
        buf_reset(&pair);
        dimensions_write(&pair, &dims->items[i], 1);
        match = !pair.failed && has_pair(json, bytes_of(pair.data + 1, pair.size - 2));
    }
    buf_release(&pair);
    return match;
}

struct bytes dims_shape(const struct dimension_set *set, struct arena *arena)
{
    struct dimension items[RULES_DIMENSIONS_MAX];
    must(set->count <= RULES_DIMENSIONS_MAX);
    for (unsigned i = 0; i < set->count; i++)
        items[i] = (struct dimension){set->sources[i].name, BYTES("")};
    return dims_json(&(struct dims){items, set->count}, arena);
}

bool dims_same_keys(struct bytes a, struct bytes b)
{
    struct bytes pair_a;
    struct bytes pair_b;
    size_t at_a = 1;
    size_t at_b = 1;
    while (next_pair(a, &at_a, &pair_a)) {
        if (!next_pair(b, &at_b, &pair_b)) return false;
        size_t size = skip_string(pair_a, 0);
        if (size != skip_string(pair_b, 0)) return false;
        if (memcmp(pair_a.data, pair_b.data, size) != 0) return false;
    }
    return !next_pair(b, &at_b, &pair_b);
}

void dims_add_key(struct buf *body, struct bytes json)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)json.data, json.size, digest);
    for (unsigned i = 0; i < sizeof digest; i++)
        buf_addf(body, "%02x", digest[i]);
}
