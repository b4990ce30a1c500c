/* name.c -- tenant ids and counter names, and the keys made of them. */
#include "core/name.h"

#include "base/codec.h"

#define NAME_BYTES                              \
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, \
             ['a' ... 'z'] = true, ['_'] = true, ['.'] = true, ['~'] = true, ['-'] = true

static const bool name_byte[256] = {NAME_BYTES};
static const bool counter_byte[256] = {NAME_BYTES, [':'] = true};

static bool is_of_bytes(struct bytes name, const bool allowed[256])
{
    if (name.size < 1 || name.size > NAME_SIZE_MAX) return false;
    const unsigned char *at = (const unsigned char *)name.data;
    const unsigned char *end = at + name.size;
    bool good = true;
    for (; end - at >= 4; at += 4) /* a branch for four bytes instead of one for each */
        good &= allowed[at[0]] & allowed[at[1]] & allowed[at[2]] & allowed[at[3]];
    for (; at < end; at++)
        good &= allowed[*at];
    return good;
}

bool name_valid(struct bytes name)
{
    return is_of_bytes(name, name_byte);
}

bool counter_name_valid(struct bytes name)
{
    return is_of_bytes(name, counter_byte);
}

struct bytes counter_key_prefix(char out[static COUNTER_KEY_SIZE_MAX], struct bytes tenant,
                                struct bytes prefix)
{
    must(tenant.size >= 1 && tenant.size <= NAME_SIZE_MAX);
    must(prefix.size <= NAME_SIZE_MAX);
    char *at = mempcpy(out, tenant.data, tenant.size);
    *at++ = '\0';
    *at++ = COUNTER_KIND_DIRECT;
    if (prefix.size) at = mempcpy(at, prefix.data, prefix.size);
    return bytes_of(out, (size_t)(at - out));
}

struct bytes counter_key(char out[static COUNTER_KEY_SIZE_MAX], struct bytes tenant,
                         struct bytes name)
{
    must(name.size >= 1);
    struct bytes key = counter_key_prefix(out, tenant, name);
    out[key.size] = '\0';
    return bytes_of(out, key.size + 1);
}

struct bytes counter_key_name(struct bytes key)
{
    struct bytes rest = key;
    bytes_split(&rest, '\0');
    must(rest.size > 2);
    if (rest.data[0] != COUNTER_KIND_DIRECT) return BYTES_NONE;
    must(rest.data[rest.size - 1] == '\0');
    return bytes_of(rest.data + 1, rest.size - 2);
}

/* Tenant, kind and name; `*rest_out` is what follows the name's NUL. */
static bool split(struct bytes key, struct bytes *tenant_out, char *kind_out,
                  struct bytes *name_out, struct bytes *rest_out)
{
    struct bytes rest = key;
    struct bytes tenant = bytes_split(&rest, '\0');
    if (!name_valid(tenant)) return false;
    if (rest.size < 1 || rest.data[0] < 'a' || rest.data[0] > 'z') return false;
    char kind = rest.data[0];

    rest = bytes_of(rest.data + 1, rest.size - 1);
    struct bytes name = bytes_split(&rest, '\0');
    if (!rest.data || !counter_name_valid(name)) return false;

    *tenant_out = tenant;
    *kind_out = kind;
    *name_out = name;
    *rest_out = rest;
    return true;
}

struct bytes rule_key_prefix(struct arena *arena, struct bytes tenant, struct bytes name,
                             uint32_t generation)
{
    return rule_key(arena, tenant, name, generation, BYTES_NONE);
}

struct bytes rule_key(struct arena *arena, struct bytes tenant, struct bytes name,
                      uint32_t generation, struct bytes dimensions_json)
{
    size_t size = tenant.size + 2 + name.size + 1 + sizeof generation + dimensions_json.size;
    char *out = arena_alloc(arena, size);
    char *at = mempcpy(out, tenant.data, tenant.size);
    *at++ = '\0';
    *at++ = COUNTER_KIND_RULE;
    at = mempcpy(at, name.data, name.size);
    *at++ = '\0';
    put_ordered_u32(at, generation);
    if (dimensions_json.size)
        memcpy(at + sizeof generation, dimensions_json.data, dimensions_json.size);
    return bytes_of(out, size);
}

bool rule_key_split(struct bytes key, struct bytes *tenant_out, struct bytes *name_out,
                    uint32_t *generation_out, struct bytes *dimensions_json_out)
{
    char kind;
    struct bytes rest;
    if (!split(key, tenant_out, &kind, name_out, &rest)) return false;
    if (kind != COUNTER_KIND_RULE || rest.size < sizeof(uint32_t)) return false;
    *generation_out = get_ordered_u32(rest.data);
    *dimensions_json_out = bytes_of(rest.data + sizeof(uint32_t), rest.size - sizeof(uint32_t));
    return true;
}

bool counter_key_split(struct bytes key, struct bytes *tenant_out, char *kind_out,
                       struct bytes *name_out)
{
    struct bytes rest;
    if (!split(key, tenant_out, kind_out, name_out, &rest)) return false;
    return *kind_out == COUNTER_KIND_RULE ? rest.size >= sizeof(uint32_t) : rest.size == 0;
}
