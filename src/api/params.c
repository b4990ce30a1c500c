/* params.c -- values on their way in: paths, queries, JSON fields, cursors.
 *
 * Whatever a client sends ends here as a checked value or as ERR_INVALID with a sentence. Text and
 * JSON meet in text_read, so that a decimal string means the same in a query and in a body. */
#include "api/params.h"

#include <inttypes.h>

#include "core/bucket.h"
#include "core/name.h"
#include "core/number.h"
#include "core/timefmt.h"

/* -- Fields ------------------------------------------------------------------------------------ */

bool key_valid(struct bytes key)
{
    if (key.size < 1 || key.size > NAME_SIZE_MAX) return false;
    for (size_t i = 0; i < key.size; i++)
        if (key.data[i] < 0x20 || key.data[i] > 0x7e) return false;
    return true;
}

static bool in_bounds(int64_t value, const struct field *field)
{
    return value >= field->min && value <= field->max;
}

static bool choice_find(struct bytes text, const char *const *choices, int64_t *index_out)
{
    for (int64_t i = 0; choices[i]; i++) {
        if (!bytes_equal(text, bytes_str(choices[i]))) continue;
        *index_out = i;
        return true;
    }
    return false;
}

static bool bool_parse(struct bytes text, int64_t *value_out)
{
    *value_out = bytes_equal(text, BYTES("true"));
    return *value_out || bytes_equal(text, BYTES("false"));
}

static bool text_read(struct bytes text, const struct field *field, struct field_value *out)
{
    out->text = text;
    switch (field->type) {
    case FIELD_I64:
        return number_parse(text, &out->integer) && in_bounds(out->integer, field);
    case FIELD_TIME:
        return time_parse(text, &out->integer);
    case FIELD_BOOL:
        return bool_parse(text, &out->integer);
    case FIELD_CHOICE:
        return choice_find(text, field->choices, &out->integer);
    case FIELD_TEXT:
        return in_bounds((int64_t)text.size, field);
    case FIELD_NAME:
        return counter_name_valid(text);
    case FIELD_KEY:
        return key_valid(text);
    }
    unreachable_state(field->type);
}

static bool json_read(const struct json_value *value, const struct field *field,
                      struct field_value *out)
{
    switch (value->type) {
    case JSON_INT:
        out->integer = value->integer;
        if (field->type == FIELD_TIME) return time_from_epoch(value->integer, &out->integer);
        return field->type == FIELD_I64 && in_bounds(out->integer, field);
    case JSON_BOOL:
        out->integer = value->boolean;
        return field->type == FIELD_BOOL;
    default:
        return false;
    }
}

static void choices_say(const char *const *choices, struct reason *why)
{
    if (choices[1]) reason_add(why, "one of ");
    for (size_t i = 0; choices[i]; i++)
        reason_add(why, "%s%s", choices[i], choices[i + 1] ? ", " : ".");
}

/* 1739548800.5 or 1.7e12: other languages' clocks give such epochs. */
static bool is_fraction(struct bytes text)
{
    size_t digits = text.size && text.data[0] == '-';
    size_t i = digits;
    while (i < text.size && text.data[i] >= '0' && text.data[i] <= '9')
        i++;
    if (i == digits || i == text.size) return false;
    return text.data[i] == '.' || text.data[i] == 'e' || text.data[i] == 'E';
}

static enum err complain_fraction(const struct field *field, struct reason *why)
{
    reason_say(why,
               "%.*s must be a whole epoch number, without fraction or exponent: send "
               "milliseconds (1739548800500) or ISO 8601.",
               (int)field->name.size, field->name.data);
    return ERR_INVALID;
}

/* Says what the field should have been. */
static enum err complain(const struct field *field, struct reason *why)
{
    reason_say(why, "%.*s must be ", (int)field->name.size, field->name.data);
    switch (field->type) {
    case FIELD_I64:
        reason_add(why, "an integer from %" PRId64 " to %" PRId64 ".", field->min, field->max);
        break;
    case FIELD_TIME:
        reason_add(why, "an ISO 8601 time or an epoch number, in the years 0001 to 9999.");
        break;
    case FIELD_BOOL:
        reason_add(why, "true or false.");
        break;
    case FIELD_CHOICE:
        choices_say(field->choices, why);
        break;
    case FIELD_TEXT:
        reason_add(why, "text of %" PRId64 " to %" PRId64 " bytes.", field->min, field->max);
        break;
    case FIELD_NAME:
        reason_add(why, "1 to 255 of the characters A-Z a-z 0-9 _ . ~ - and :.");
        break;
    case FIELD_KEY:
        reason_add(why, "1 to 255 printable ASCII characters.");
        break;
    }
    return ERR_INVALID;
}

static enum err absent(const struct field *field, struct field_value *out, struct reason *why)
{
    *out = (struct field_value){.integer = field->fallback};
    if (!field->required) return ERR_OK;
    reason_say(why, "%.*s is required.", (int)field->name.size, field->name.data);
    return ERR_INVALID;
}

enum err field_from_text(struct bytes text, const struct field *field,
                         struct field_value *value_out, struct reason *why)
{
    if (!text.data) return absent(field, value_out, why);
    *value_out = (struct field_value){.present = true};
    if (text_read(text, field, value_out)) return ERR_OK;
    bool fraction = field->type == FIELD_TIME && is_fraction(text);
    return fraction ? complain_fraction(field, why) : complain(field, why);
}

enum err field_from_json(const struct json_value *value, const struct field *field,
                         struct field_value *value_out, struct reason *why)
{
    if (value->type == JSON_ABSENT || value->type == JSON_NULL)
        return absent(field, value_out, why);
    *value_out = (struct field_value){.present = true};
    if (value->type == JSON_STRING && field->type != FIELD_BOOL)
        return field_from_text(value->string, field, value_out, why);
    if (json_read(value, field, value_out)) return ERR_OK;
    bool fraction = field->type == FIELD_TIME && value->type == JSON_NUMBER;
    return fraction ? complain_fraction(field, why) : complain(field, why);
}

enum err fields_from_picked(const struct json_value *picked, const struct field *fields,
                            unsigned count, struct field_value *values_out, struct reason *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = field_from_json(&picked[i], &fields[i], &values_out[i], why);
    return e;
}

enum err fields_from_params(const struct params *params, const struct field *fields, unsigned count,
                            struct field_value *values_out, struct reason *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = field_from_text(params_get(params, fields[i].name), &fields[i], &values_out[i], why);
    return e;
}

/* -- Queries ----------------------------------------------------------------------------------- */

static struct param *params_find(const struct params *params, struct bytes name)
{
    for (unsigned i = 0; i < params->count; i++)
        if (bytes_equal(params->items[i].name, name)) return &params->items[i];
    return NULL;
}

struct bytes params_get(const struct params *params, struct bytes name)
{
    const struct param *param = params_find(params, name);
    return param ? param->value : BYTES_NONE;
}

/* Decodes in place: `text` is a part of the arena's copy of the query. */
static bool decode_here(char *copy, const char *copy_of, struct bytes *text)
{
    char *at = copy + (text->data - copy_of);
    if (!percent_decode(*text, true, at, &text->size)) return false;
    text->data = at;
    return true;
}

static unsigned count_pieces(struct bytes query)
{
    unsigned count = 1;
    for (size_t i = 0; i < query.size; i++)
        count += query.data[i] == '&';
    return count;
}

enum err params_parse(struct bytes query, struct arena *arena, struct params *params_out,
                      struct reason *why)
{
    *params_out = (struct params){0};
    if (query.size == 0) return ERR_OK;
    unsigned pieces = count_pieces(query);
    unsigned room = pieces < PARAMS_MAX ? pieces : PARAMS_MAX;
    params_out->items = arena_alloc(arena, room * sizeof(struct param));
    char *copy = arena_alloc(arena, query.size);

    struct bytes rest = query;
    while (rest.data) {
        struct bytes value = bytes_split(&rest, '&');
        if (value.size == 0) continue;
        struct bytes name = bytes_split(&value, '=');
        if (!value.data) value = bytes_of(name.data + name.size, 0);
        if (!decode_here(copy, query.data, &name) || !decode_here(copy, query.data, &value))
            return reason_err(why, ERR_INVALID,
                              "The query has a '%%' without two hex digits after it.");
        if (!bytes_is_utf8(name) || !bytes_is_utf8(value))
            return reason_err(why, ERR_INVALID, "The query must be UTF-8.");

        struct param *param = params_find(params_out, name);
        if (!param && params_out->count == PARAMS_MAX)
            return reason_err(why, ERR_INVALID, "The query has too many parameters.");
        if (!param) param = &params_out->items[params_out->count++];
        *param = (struct param){name, value};
    }
    return ERR_OK;
}

enum err params_cursor(const struct params *params, struct arena *arena, struct bytes *raw_out,
                       struct reason *why)
{
    *raw_out = BYTES_NONE;
    struct bytes text = params_get(params, BYTES("after"));
    if (text.size == 0) return ERR_OK;
    if (cursor_decode(text, arena, raw_out)) return ERR_OK;
    return reason_err(why, ERR_INVALID, "after must be the next of an earlier reply.");
}

enum err params_bucket(int64_t time_ms, int32_t duration, const char *field, int64_t *start_out,
                       struct reason *why)
{
    if (!bucket_around(time_ms, duration, start_out)) return ERR_OLD_TZDATA;
    if (bucket_has_name(*start_out, duration)) return ERR_OK;
    return reason_err(
        why, ERR_INVALID,
        "%s lies in a bucket that begins before the year 0001, with that durationSeconds.", field);
}

/* -- Paths and encodings ------------------------------------------------------------------------
 */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Most texts have nothing to be decoded. */
static bool is_plain(struct bytes text, bool plus_is_space)
{
    return text.size > 0 && !memchr(text.data, '%', text.size) &&
           !(plus_is_space && memchr(text.data, '+', text.size));
}

bool percent_decode(struct bytes text, bool plus_is_space, char *out, size_t *size_out)
{
    size_t size = 0;
    if (is_plain(text, plus_is_space)) {
        memmove(out, text.data, text.size); /* often the same place */
        *size_out = text.size;
        return true;
    }
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '+' && plus_is_space) c = ' ';
        if (c == '%') {
            if (text.size - i < 3) return false;
            int high = hex_value(text.data[i + 1]);
            int low = hex_value(text.data[i + 2]);
            if (high < 0 || low < 0) return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        out[size++] = c;
    }
    *size_out = size;
    return true;
}

bool path_split(struct bytes path, struct bytes *segments_out, unsigned max, unsigned *count_out)
{
    if (path.size == 0 || path.data[0] != '/') return false;
    struct bytes rest = bytes_of(path.data + 1, path.size - 1);
    unsigned count = 0;
    while (rest.data) {
        if (count == max) return false;
        segments_out[count++] = bytes_split(&rest, '/');
    }
    *count_out = count;
    return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void cursor_encode(struct buf *buf, struct bytes raw)
{
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < raw.size; i++) {
        bits = bits << 8 | (unsigned char)raw.data[i];
        for (have += 8; have >= 6; have -= 6)
            buf_add_char(buf, base64_digits[bits >> (have - 6) & 63]);
    }
    if (have) buf_add_char(buf, base64_digits[bits << (6 - have) & 63]);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool cursor_decode(struct bytes text, struct arena *arena, struct bytes *raw_out)
{
    char *raw = arena_alloc(arena, text.size + 1);
    size_t size = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text.size; i++) {
        int value = base64_value(text.data[i]);
        if (value < 0) return false;
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        raw[size++] = (char)(bits >> have);
    }
    /* A lone last digit, or bits left over that are not zero, would be a second spelling. */
    if (have >= 6 || (bits & ((1u << have) - 1))) return false;
    *raw_out = bytes_of(raw, size);
    return true;
}
