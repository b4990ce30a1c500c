/* json_write.c -- values with the key in front of them. */
#include "base/json_write.h"

void json_key_named(struct buf *buf, struct bytes name)
{
    json_key(buf, JSON_ITEM);
    buf_add_json(buf, name);
    buf_add_char(buf, ':');
}

void json_add_text(struct buf *buf, struct bytes key, struct bytes text)
{
    json_key(buf, key);
    buf_add_json(buf, text);
}

void json_add_word(struct buf *buf, struct bytes key, struct bytes word)
{
    json_open(buf, key, '"');
    buf_add(buf, word);
    buf_add_char(buf, '"');
}

void json_add_quoted(struct buf *buf, struct bytes key, __int128 value)
{
    json_open(buf, key, '"');
    buf_add_i128(buf, value);
    buf_add_char(buf, '"');
}

void json_add_number(struct buf *buf, struct bytes key, int64_t value)
{
    json_key(buf, key);
    buf_add_i64(buf, value);
}

void json_add_bool(struct buf *buf, struct bytes key, bool value)
{
    json_add_raw(buf, key, value ? BYTES("true") : BYTES("false"));
}

void json_add_null(struct buf *buf, struct bytes key)
{
    json_add_raw(buf, key, BYTES("null"));
}

void json_add_raw(struct buf *buf, struct bytes key, struct bytes json)
{
    must(json.size > 0);
    json_key(buf, key);
    buf_add(buf, json);
}

void json_add_error(struct buf *buf, enum err e, const char *sentence)
{
    json_add_text(buf, JSON_KEY("error"), bytes_str(sentence ? sentence : err_sentence(e)));
    json_add_word(buf, JSON_KEY("code"), bytes_str(err_code(e)));
}
