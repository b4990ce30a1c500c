/* tools.c -- libtally's small tools: growing text, errors, values, times, keys. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* -- Text -------------------------------------------------------------------------------------- */

static bool text_grow(struct text *text, size_t size)
{
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity - text->size <= size)
        if (__builtin_mul_overflow(capacity, 2, &capacity)) return false;
    char *data = realloc(text->data, capacity);
    if (!data) return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

/* One byte more than is said is always there, for the NUL. */
void text_add(struct text *text, const char *data, size_t size)
{
    if (text->failed) return;
    if (text->capacity - text->size <= size && !text_grow(text, size)) {
        text->failed = true;
        return;
    }
    if (size) memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void text_add_str(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

/* What may stand in a path segment and in a query without being encoded (RFC 3986). */
static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.~-", c));
}

static size_t escape_char(char c, char out[4])
{
    if (!unreserved(c)) return (size_t)snprintf(out, 4, "%%%02X", (unsigned char)c);
    out[0] = c;
    return 1;
}

void text_add_escaped(struct text *text, const char *string)
{
    char out[4];
    for (; *string; string++)
        text_add(text, out, escape_char(*string, out));
}

void text_reset(struct text *text)
{
    text->size = 0;
    text->failed = false;
    if (text->data) text->data[0] = '\0';
}

void text_release(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

bool tally_escape(const char *text, char *out, size_t out_size)
{
    char piece[4];
    for (; *text; text++) {
        size_t size = escape_char(*text, piece);
        if (out_size <= size) return false;
        memcpy(out, piece, size);
        out += size;
        out_size -= size;
    }
    if (out_size == 0) return false;
    *out = '\0';
    return true;
}

/* -- Errors ------------------------------------------------------------------------------------ */

enum tally_end fail(struct tally_error *error, enum tally_end end, const char *code,
                    const char *format, ...)
{
    va_list args;
    if (!error) return end;
    *error = (struct tally_error){0};
    snprintf(error->code, sizeof error->code, "%s", code);
    va_start(args, format);
    vsnprintf(error->sentence, sizeof error->sentence, format, args);
    va_end(args);
    return end;
}

enum tally_end fail_argument(struct tally_error *error, const char *sentence)
{
    return fail(error, TALLY_INVALID, "invalid_argument", "%s", sentence);
}

enum tally_end fail_memory(struct tally_error *error)
{
    return fail(error, TALLY_INVALID, "out_of_memory", "There is not enough memory.");
}

enum tally_end fail_reply(struct tally_error *error)
{
    return fail(error, TALLY_UNKNOWN, "bad_reply",
                "The reply is not what tally would say. Is this the right address?");
}

void error_read(struct tally_error *error, int status, json_t *body)
{
    if (!error) return;
    const char *code = json_string_value(json_object_get(body, "code"));
    const char *sentence = json_string_value(json_object_get(body, "error"));
    *error = (struct tally_error){.status = status};
    snprintf(error->code, sizeof error->code, "%s", code ? code : "http_error");
    if (sentence)
        snprintf(error->sentence, sizeof error->sentence, "%s", sentence);
    else
        snprintf(error->sentence, sizeof error->sentence,
                 "The server answered with status %d and no reason.", status);
}

/* -- Values, times, keys ----------------------------------------------------------------------- */

bool read_i64(json_t *object, const char *field, int64_t *value_out)
{
    json_t *value = json_object_get(object, field);
    if (json_is_integer(value)) {
        *value_out = json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    int used = 0;
    long long number;
    if (!text || sscanf(text, "%lld%n", &number, &used) != 1 || text[used]) return false;
    char again[32]; /* sscanf saturates: only what reads back the same was in range */
    snprintf(again, sizeof again, "%lld", number);
    *value_out = number;
    return strcmp(again, text) == 0;
}

bool read_triple(json_t *object, struct tally_value *value_out)
{
    return read_i64(object, "net", &value_out->net) &&
           read_i64(object, "added", &value_out->added) &&
           read_i64(object, "subbed", &value_out->subbed);
}

void tally_time(int64_t epoch_ms, char out[TALLY_TIME_SIZE])
{
    int64_t ms = epoch_ms % 1000;
    if (ms < 0) ms += 1000;
    time_t seconds = (time_t)((epoch_ms - ms) / 1000);
    struct tm tm;
    char date[TALLY_TIME_SIZE - 8] = "";
    if (gmtime_r(&seconds, &tm)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, TALLY_TIME_SIZE, "%s.%03dZ", date, (int)ms);
}

void tally_random_key(char out[TALLY_KEY_SIZE])
{
    unsigned char random[(TALLY_KEY_SIZE - 1) / 2];
    /* Up to 256 bytes it neither fails nor is cut short once the kernel's pool is filled. */
    while (getentropy(random, sizeof random) != 0) {
    }
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
}
