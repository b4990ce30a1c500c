/* bytes.h -- views that borrow, and buffers born with a ceiling.
 *
 * `struct bytes` is passed by value and owns nothing. `struct buf` owns its memory, grows up to
 * `max` and then remembers that it failed: append freely, check `failed` once at the end. */
#ifndef TALLY_BASE_BYTES_H
#define TALLY_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/must.h"

struct bytes {
    const char *data;
    size_t size;
};

#define BYTES(literal) ((struct bytes){"" literal, sizeof(literal) - 1})
#define BYTES_NONE ((struct bytes){NULL, 0})

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){data, size};
}

static inline struct bytes bytes_str(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool bytes_starts(struct bytes text, struct bytes prefix)
{
    return text.size >= prefix.size && bytes_equal(bytes_of(text.data, prefix.size), prefix);
}

/* True for whole, shortest-form UTF-8 without surrogates. */
bool bytes_is_utf8(struct bytes text);

/* Orders as memcmp does; where one text begins with the other, the shorter one comes first. */
int bytes_compare(struct bytes a, struct bytes b);

/* Takes a time that depends on the sizes only: for secrets. */
bool bytes_equal_secret(struct bytes a, struct bytes b);

/* Folds ASCII letters, for header names and tokens are compared without case. */
bool bytes_equal_nocase(struct bytes a, struct bytes b);

/* Splits at the first `separator`: returns the part before it and leaves the part after it in
 * `*rest`. Without a separator all of it is returned and `*rest` becomes BYTES_NONE. */
struct bytes bytes_split(struct bytes *rest, char separator);

/* The text without the spaces and tabs around it. */
struct bytes bytes_trim(struct bytes text);

struct buf {
    char *data;
    size_t size;
    size_t capacity;
    size_t max;  /* never grows past this */
    bool failed; /* an append did not fit; the content is not to be used */
};

void buf_init(struct buf *buf, size_t bytes_max);
void buf_release(struct buf *buf);
void buf_fit(struct buf *buf);   /* gives back what it has not filled */
void buf_reset(struct buf *buf); /* empties, keeps the memory, forgets a failure */

/* Makes room for `size` more bytes and returns where they go, or NULL once failed. The caller
 * writes there and then adds what it wrote to `buf->size`. */
char *buf_reserve_more(struct buf *buf, size_t size); /* where there may be no room yet */
static inline char *buf_reserve(struct buf *buf, size_t size)
{
    if (buf->failed || buf->capacity - buf->size < size) return buf_reserve_more(buf, size);
    return buf->data + buf->size;
}

static inline void buf_add(struct buf *buf, struct bytes bytes)
{
    if (bytes.size == 0) return;
    char *at = buf_reserve(buf, bytes.size);
    if (!at) return;
    memcpy(at, bytes.data, bytes.size);
    buf->size += bytes.size;
}

static inline void buf_add_char(struct buf *buf, char byte)
{
    char *at = buf_reserve(buf, 1);
    if (!at) return;
    *at = byte;
    buf->size++;
}

void buf_add_i64(struct buf *buf, int64_t value);
void buf_add_u64(struct buf *buf, uint64_t value);
void buf_add_i128(struct buf *buf, __int128 value);
void buf_addf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so the
 * output is valid JSON whatever came in. */
void buf_add_json(struct buf *buf, struct bytes text);

static inline struct bytes buf_bytes(const struct buf *buf)
{
    return (struct bytes){buf->data, buf->size};
}

#endif
