/* write.c -- JSON with indentation, and types as JSON Schema. */
#include "api/openapi/write.h"

static void new_line(struct doc *doc)
{
    if (doc->flat) return;
    buf_add_char(doc->out, '\n');
    for (unsigned i = 0; i < doc->depth; i++)
        buf_add_char(doc->out, ' ');
}

static void begin(struct doc *doc, const char *key)
{
    if (doc->more) buf_add(doc->out, doc->flat ? BYTES(", ") : BYTES(","));
    doc->more = true;
    if (doc->depth) new_line(doc);
    if (!key) return;
    buf_add_json(doc->out, bytes_str(key));
    buf_add(doc->out, BYTES(": "));
}

void doc_open(struct doc *doc, const char *key, char bracket)
{
    begin(doc, key);
    buf_add_char(doc->out, bracket);
    doc->depth++;
    doc->more = false;
}

void doc_close(struct doc *doc, char bracket)
{
    doc->depth--;
    if (doc->more) new_line(doc);
    buf_add_char(doc->out, bracket);
    doc->more = true;
}

void doc_text(struct doc *doc, const char *key, const char *text)
{
    begin(doc, key);
    buf_add_json(doc->out, bytes_str(text));
}

void doc_bool(struct doc *doc, const char *key, bool value)
{
    begin(doc, key);
    buf_add(doc->out, value ? BYTES("true") : BYTES("false"));
}

static void add_unquoted(struct buf *out, const char *json)
{
    for (const char *at = json; *at; at++) {
        if (at[0] == '\\' && at[1] == '\'') {
            buf_add(out, BYTES("\\\""));
            at++;
        } else {
            buf_add_char(out, *at == '\'' ? '"' : *at);
        }
    }
}

void doc_facts(struct doc *doc, const char *facts)
{
    begin(doc, NULL);
    add_unquoted(doc->out, facts);
}

void doc_json(struct doc *doc, const char *key, const char *json)
{
    begin(doc, key);
    add_unquoted(doc->out, json);
}

static bool ends_with(struct bytes text, struct bytes end)
{
    return text.size > end.size &&
           memcmp(text.data + text.size - end.size, end.data, end.size) == 0;
}

static void write_union(struct doc *doc, struct bytes types)
{
    doc_open(doc, "anyOf", '[');
    while (types.data)
        doc_type(doc, NULL, bytes_split(&types, '|'));
    doc_close(doc, ']');
}

static void write_name(struct doc *doc, struct bytes name)
{
    begin(doc, name.data[0] >= 'A' && name.data[0] <= 'Z' ? "$ref" : "type");
    buf_add_char(doc->out, '"');
    if (name.data[0] >= 'A' && name.data[0] <= 'Z')
        buf_add(doc->out, BYTES("#/components/schemas/"));
    buf_add(doc->out, name);
    buf_add_char(doc->out, '"');
}

static void write_nullable(struct doc *doc, struct bytes type)
{
    doc_open(doc, "anyOf", '[');
    doc_type(doc, NULL, type);
    doc_type(doc, NULL, BYTES("null"));
    doc_close(doc, ']');
}

void doc_type(struct doc *doc, const char *key, struct bytes type)
{
    static const struct bytes map = BYTES("map ");
    doc_open(doc, key, '{');
    doc->flat++;
    if (memchr(type.data, '|', type.size)) {
        write_union(doc, type);
    } else if (ends_with(type, BYTES("?"))) {
        write_nullable(doc, bytes_of(type.data, type.size - 1));
    } else if (ends_with(type, BYTES("[]"))) {
        doc_text(doc, "type", "array");
        doc_type(doc, "items", bytes_of(type.data, type.size - 2));
    } else if (bytes_starts(type, map)) {
        doc_text(doc, "type", "object");
        doc_type(doc, "additionalProperties", bytes_of(type.data + map.size, type.size - map.size));
    } else if (!bytes_equal(type, BYTES("any"))) {
        write_name(doc, type);
    }
    doc_close(doc, '}');
    doc->flat--;
}
