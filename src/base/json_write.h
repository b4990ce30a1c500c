/* json_write.h -- the one way to write JSON: into a buffer, front to back.
 *
 * Example:
 *
 *     static void write_counts(struct buf *body, struct bytes name, const int64_t *counts, int n)
 *     {
 *         json_open(body, JSON_ITEM, '{');
 *         json_add_text(body, JSON_KEY("name"), name);
 *         json_open(body, JSON_KEY("counts"), '[');
 *         for (int i = 0; i < n; i++)
 *             json_add_quoted(body, JSON_ITEM, counts[i]);
 *         json_close(body, ']');
 *         json_close(body, '}');
 *     }
 *
 * Each function puts the comma that its value needs. There is no writer to carry along: whether a
 * comma is due shows in the buffer's last byte, since a complete value never ends in one of those
 * that come before a first one ('{', '[', ':', and the space or line end before a document). So a
 * half written object may be handed to any function that adds to it, may be cut back to a size it
 * had before, and may wait in its buffer for the next part of a long answer.
 *
 * Nothing is checked here but the buffer's ceiling: brackets are the caller's to close, and keys
 * and words are our own text, which needs no escape. */
#ifndef TALLY_BASE_JSON_WRITE_H
#define TALLY_BASE_JSON_WRITE_H

#include "base/bytes.h"
#include "base/err.h"

/* json_key leaves the comma out in front of a first value. The name is a literal without quotes in
 * it. */
#define JSON_KEY(name) BYTES(",\"" name "\":")
/* In place of a key: an element of an array, a document, or the value after json_key_named. */
#define JSON_ITEM BYTES(",")

static inline bool json_is_first(const struct buf *buf)
{
    if (buf->size == 0) return true;
    char last = buf->data[buf->size - 1];
    return last == '{' || last == '[' || last == ':' || last == ' ' || last == '\n';
}

/* The function is inline, so that both lengths are known where the key is a literal. The value must
 * follow. */
static inline void json_key(struct buf *buf, struct bytes key)
{
    if (json_is_first(buf))
        buf_add(buf, bytes_of(key.data + 1, key.size - 1));
    else
        buf_add(buf, key);
}

static inline void json_open(struct buf *buf, struct bytes key, char bracket)
{
    json_key(buf, key);
    buf_add_char(buf, bracket);
}

static inline void json_close(struct buf *buf, char bracket)
{
    buf_add_char(buf, bracket);
}

/* Writes a key that is not ours to choose; its value follows as JSON_ITEM. */
void json_key_named(struct buf *buf, struct bytes name);

/* Text from anywhere, escaped; what is not UTF-8 becomes U+FFFD (buf_add_json). */
void json_add_text(struct buf *buf, struct bytes key, struct bytes text);
/* Text that needs no escape, because it is ours or was checked. */
void json_add_word(struct buf *buf, struct bytes key, struct bytes word);
/* A whole number in quotes, as all those leave that may pass 2^53 (SPEC 3). */
void json_add_quoted(struct buf *buf, struct bytes key, __int128 value);
void json_add_number(struct buf *buf, struct bytes key, int64_t value);
void json_add_bool(struct buf *buf, struct bytes key, bool value);
void json_add_null(struct buf *buf, struct bytes key);
/* A value that is JSON already; `json` has at least one byte. */
void json_add_raw(struct buf *buf, struct bytes key, struct bytes json);

/* The fields `error` and `code` of the object that is open: the one body of every error, alone or
 * as a result among others. `sentence` NULL: the table's. */
void json_add_error(struct buf *buf, enum err e, const char *sentence);

#endif
