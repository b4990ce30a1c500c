/* json_flat.c -- one pass over the bytes; every doubt ends it. */
#include "base/json_flat.h"

#define DIGITS_MAX 18 /* any number of so many fits an int64 */

struct flat_cursor {
    const char *at;
    const char *end;
};

static inline void skip_space(struct flat_cursor *in)
{
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

static inline bool take(struct flat_cursor *in, char byte)
{
    if (in->at == in->end || *in->at != byte) return false;
    in->at++;
    return true;
}

/* Printable ASCII that needs no escape. Unsigned: whether a char is signed is the machine's choice,
 * and bytes from 0x80 on may not be UTF-8. */
static inline bool is_plain(char byte)
{
    unsigned char value = (unsigned char)byte;
    return value >= 0x20 && value < 0x80 && value != '"' && value != '\\';
}

static inline bool take_string(struct flat_cursor *in, struct bytes *out)
{
    if (!take(in, '"')) return false;
    const char *start = in->at;
    while (in->at < in->end && is_plain(*in->at))
        in->at++;
    *out = bytes_of(start, (size_t)(in->at - start));
    return take(in, '"');
}

/* Takes the digits only. A number that goes on after them (1.5, 1e3, 012) ends the attempt in the
 * caller, which expects a comma or the object's end there. */
static inline bool take_integer(struct flat_cursor *in, int64_t *out)
{
    bool negative = take(in, '-');
    const char *start = in->at;
    int64_t value = 0;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && in->at - start < DIGITS_MAX)
        value = value * 10 + (*in->at++ - '0');
    *out = negative ? -value : value;
    return in->at > start && (*start != '0' || in->at == start + 1);
}

static inline bool take_value(struct flat_cursor *in, struct json_value *out)
{
    if (in->at == in->end) return false;
    if (*in->at == '"') {
        out->type = JSON_STRING;
        return take_string(in, &out->string);
    }
    out->type = JSON_INT;
    return take_integer(in, &out->integer);
}

/* Fields mostly come in the order in which they are asked for: the search begins after the name
 * that matched last. */
static size_t name_find(const struct bytes *names, size_t count, size_t from, struct bytes key)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = from + i < count ? from + i : from + i - count;
        if (bytes_equal(names[at], key)) return at;
    }
    return count;
}

static bool take_fields(struct flat_cursor *in, const struct bytes *names, size_t count,
                        struct json_value *values_out)
{
    size_t from = 0;
    do {
        struct bytes key;
        struct json_value value;
        skip_space(in);
        if (!take_string(in, &key)) return false;
        skip_space(in);
        if (!take(in, ':')) return false;
        skip_space(in);
        if (!take_value(in, &value)) return false;
        skip_space(in);
        size_t index = name_find(names, count, from, key);
        if (index == count) return false;
        values_out[index] = value;
        from = index + 1;
    } while (take(in, ','));
    return take(in, '}');
}

bool json_flat_pick(struct bytes text, const struct bytes *names, size_t names_count,
                    struct json_value *values_out)
{
    struct flat_cursor in = {text.data, text.data + text.size};
    for (size_t i = 0; i < names_count; i++)
        values_out[i].type = JSON_ABSENT;
    skip_space(&in);
    if (!take(&in, '{') || !take_fields(&in, names, names_count, values_out)) return false;
    skip_space(&in);
    return in.at == in.end;
}
