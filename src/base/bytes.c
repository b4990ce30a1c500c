/* bytes.c -- growing buffers and the text that goes into them. */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BUF_LEAST 128u
#define BUF_LARGE (1u << 20)

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order) return order;
    return a.size < b.size ? -1 : a.size > b.size;
}

/* Compares eight bytes at a time; the empty asm keeps the compiler from leaving the loop early. */
bool bytes_equal_secret(struct bytes a, struct bytes b)
{
    if (a.size != b.size) return false;
    uint64_t difference = 0;
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= a.size; at += sizeof(uint64_t)) {
        uint64_t left;
        uint64_t right;
        memcpy(&left, a.data + at, sizeof left);
        memcpy(&right, b.data + at, sizeof right);
        difference |= left ^ right;
        __asm__("" : "+r"(difference));
    }
    for (; at < a.size; at++)
        difference |= (unsigned char)(a.data[at] ^ b.data[at]);
    return difference == 0;
}

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool bytes_equal_nocase(struct bytes a, struct bytes b)
{
    if (a.size != b.size) return false;
    for (size_t i = 0; i < a.size; i++)
        if (fold(a.data[i]) != fold(b.data[i])) return false;
    return true;
}

struct bytes bytes_split(struct bytes *rest, char separator)
{
    struct bytes whole = *rest;
    const char *at = whole.size ? memchr(whole.data, separator, whole.size) : NULL;
    if (!at) {
        *rest = BYTES_NONE;
        return whole;
    }
    size_t before = (size_t)(at - whole.data);
    *rest = bytes_of(at + 1, whole.size - before - 1);
    return bytes_of(whole.data, before);
}

struct bytes bytes_trim(struct bytes text)
{
    while (text.size && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

void buf_init(struct buf *buf, size_t bytes_max)
{
    *buf = (struct buf){.max = bytes_max};
}

void buf_release(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_reset(struct buf *buf)
{
    buf->size = 0;
    buf->failed = false;
}

void buf_fit(struct buf *buf)
{
    if (buf->capacity == buf->size) return;
    if (buf->size == 0) {
        buf_release(buf);
        return;
    }
    buf->data = must_realloc(buf->data, buf->size);
    buf->capacity = buf->size;
}

/* A small buffer doubles. A large one grows by a quarter, so that little of it stays unused; the
 * kernel moves its pages instead of copying them. */
static size_t buf_next_capacity(size_t capacity)
{
    return capacity < BUF_LARGE ? 2 * capacity : capacity + capacity / 4;
}

static bool buf_grow(struct buf *buf, size_t size)
{
    if (size > buf->max || buf->size > buf->max - size) {
        buf->failed = true;
        return false;
    }
    size_t want = buf->capacity ? buf->capacity : BUF_LEAST;
    while (want < buf->size + size)
        want = buf_next_capacity(want);
    if (want > buf->max) want = buf->max;
    buf->data = must_realloc(buf->data, want);
    buf->capacity = want;
    return true;
}

char *buf_reserve_more(struct buf *buf, size_t size)
{
    if (buf->failed) return NULL;
    if (buf->capacity - buf->size < size && !buf_grow(buf, size)) return NULL;
    return buf->data + buf->size;
}

/* Writes two digits at a time: the division takes longer than all the rest. */
void buf_add_u64(struct buf *buf, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof digits;
    for (; value >= 100; value /= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (value % 100), 2);
    }
    if (value >= 10) digits[--at] = (char)('0' + value % 10);
    digits[--at] = (char)('0' + (value >= 10 ? value / 10 : value));
    buf_add(buf, bytes_of(digits + at, sizeof digits - at));
}

void buf_add_i64(struct buf *buf, int64_t value)
{
    if (value < 0) buf_add_char(buf, '-');
    buf_add_u64(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void buf_add_i128(struct buf *buf, __int128 value)
{
    if (value >= INT64_MIN && value <= INT64_MAX) {
        buf_add_i64(buf, (int64_t)value);
        return;
    }
    char digits[40];
    size_t at = sizeof digits;
    unsigned __int128 left = value < 0 ? 0 - (unsigned __int128)value : (unsigned __int128)value;
    for (; left; left /= 10)
        digits[--at] = (char)('0' + (int)(left % 10));
    if (value < 0) digits[--at] = '-';
    buf_add(buf, bytes_of(digits + at, sizeof digits - at));
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *at = need >= 0 ? buf_reserve(buf, (size_t)need + 1) : NULL;
    if (at) {
        vsnprintf(at, (size_t)need + 1, format, again);
        buf->size += (size_t)need;
    }
    va_end(again);
}

/* Length of the UTF-8 sequence at `at`, or 0 if it is not one (overlong, surrogate, cut short). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80) return 1;
    size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < length) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (at[0] == 0xe0 && at[1] < 0xa0) return 0;
    if (at[0] == 0xed && at[1] > 0x9f) return 0;
    if (at[0] == 0xf0 && at[1] < 0x90) return 0;
    if (at[0] == 0xf4 && at[1] > 0x8f) return 0;
    return length;
}

/* How many bytes from `at` on are ASCII for sure, looked at by eight. */
static size_t ascii_length(const unsigned char *at, size_t left)
{
    size_t length = 0;
    for (uint64_t eight; left - length >= sizeof eight; length += sizeof eight) {
        memcpy(&eight, at + length, sizeof eight);
        if (eight & 0x8080808080808080u) break;
    }
    return length;
}

bool bytes_is_utf8(struct bytes text)
{
    const unsigned char *data = (const unsigned char *)text.data;
    for (size_t i = ascii_length(data, text.size); i < text.size;) {
        size_t length = utf8_length(data + i, text.size - i);
        if (length == 0) return false;
        i += length;
    }
    return true;
}

static void buf_add_json_ascii(struct buf *buf, unsigned char c)
{
    if (c == '"' || c == '\\') {
        buf_add_char(buf, '\\');
        buf_add_char(buf, (char)c);
    } else if (c == '\n') {
        buf_add(buf, BYTES("\\n"));
    } else if (c < 0x20) {
        buf_addf(buf, "\\u%04x", c);
    } else {
        buf_add_char(buf, (char)c);
    }
}

void buf_add_json(struct buf *buf, struct bytes text)
{
    const unsigned char *data = (const unsigned char *)text.data;
    buf_add_char(buf, '"');
    for (size_t i = 0; i < text.size;) {
        size_t length = utf8_length(data + i, text.size - i);
        if (length == 1)
            buf_add_json_ascii(buf, data[i]);
        else if (length)
            buf_add(buf, bytes_of(data + i, length));
        else
            buf_add(buf, BYTES("\xef\xbf\xbd"));
        i += length ? length : 1;
    }
    buf_add_char(buf, '"');
}
