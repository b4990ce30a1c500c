/* headers.c -- header lines as attributes. */
#include "api/events/headers.h"

#include "wire/exchange.h"

#define PREFIX_SIZE 3 /* "ce-" */

/* `name` without its prefix, in lower case, or false: no attribute may be called that. */
static bool read_name(struct bytes name, struct arena *arena, struct bytes *name_out)
{
    size_t size = name.size - PREFIX_SIZE;
    char *text = arena_alloc(arena, size + 1);
    for (size_t i = 0; i < size; i++) {
        char c = name.data[PREFIX_SIZE + i];
        if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) return false;
        text[i] = c;
    }
    *name_out = bytes_of(text, size);
    return size > 0;
}

/* Takes a value out of its quotes (RFC 9110, 5.6.4), if it has any; `out` has room for all of it.
 * False: they do not close where the value ends. */
static bool unquote(struct bytes value, char *out, size_t *size_out)
{
    size_t size = 0, at = 1;
    *size_out = value.size;
    if (value.size) memcpy(out, value.data, value.size);
    if (value.size == 0 || value.data[0] != '"') return true;
    while (at < value.size && value.data[at] != '"') {
        if (value.data[at] == '\\' && ++at == value.size) return false;
        out[size++] = value.data[at++];
    }
    *size_out = size;
    return at + 1 == value.size;
}

static bool read_value(struct bytes value, struct arena *arena, struct bytes *value_out)
{
    char *text = arena_alloc(arena, value.size + 1);
    size_t size;
    if (!unquote(value, text, &size)) return false;
    if (!percent_decode(bytes_of(text, size), false, text, &size)) return false;
    *value_out = bytes_of(text, size);
    return bytes_is_utf8(*value_out);
}

static enum err add_attribute(struct event_attributes *attributes, struct bytes name,
                              struct bytes value, struct arena *arena, struct reason *why)
{
    struct event_attribute *attribute = &attributes->items[attributes->count];
    if (attributes->count == EVENT_ATTRIBUTES_MAX)
        return reason_err(why, ERR_INVALID, "The event has too many attributes in its headers.");
    if (!read_name(name, arena, &attribute->name))
        return reason_err(why, ERR_INVALID,
                          "An attribute's header must be ce- and a name of a-z and 0-9.");
    if (bytes_equal(attribute->name, BYTES("data")))
        return reason_err(why, ERR_INVALID, "ce-data is no attribute: the body is the data.");
    if (event_attributes_get(attributes, attribute->name).data)
        return reason_err(why, ERR_INVALID, "An attribute's header may be there once.");
    if (!read_value(value, arena, &attribute->value))
        return reason_err(why, ERR_INVALID,
                          "An attribute's header must be UTF-8, percent-encoded as a URL is.");
    attributes->count++;
    return ERR_OK;
}

enum err event_attributes_read(struct bytes fields, struct arena *arena,
                               struct event_attributes *attributes_out, struct reason *why)
{
    struct bytes name, value;
    attributes_out->count = 0;
    while (request_field_next(&fields, &name, &value)) {
        if (name.size < PREFIX_SIZE) continue;
        if (!bytes_equal_nocase(bytes_of(name.data, PREFIX_SIZE), BYTES("ce-"))) continue;
        enum err e = add_attribute(attributes_out, name, value, arena, why);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

struct bytes event_attributes_get(const struct event_attributes *attributes, struct bytes name)
{
    for (unsigned i = 0; i < attributes->count; i++)
        if (bytes_equal(attributes->items[i].name, name)) return attributes->items[i].value;
    return BYTES_NONE;
}
