/* components.c -- schemas.def and base/err.def as the document's components. */
#include "api/openapi/parts.h"
#include "base/err.h"

enum shape_kind { SHAPE_SCALAR, SHAPE_OBJECT, SHAPE_FIELD, SHAPE_FURTHER, SHAPE_UNION };
enum { MAY, NEED };

struct shape {
    enum shape_kind kind;
    const char *name;
    const char *type; /* or the facts of a scalar */
    const char *text;
    int need;
};

static const struct shape shapes[] = {
#define SCALAR(name, facts, text) {SHAPE_SCALAR, #name, facts, text, MAY},
#define OBJECT(name, text) {SHAPE_OBJECT, #name, NULL, text, MAY},
#define FIELD(name, type, need, text) {SHAPE_FIELD, name, type, text, need},
#define FURTHER(type, text) {SHAPE_FURTHER, NULL, type, text, MAY},
#define UNION(name, types, text) {SHAPE_UNION, #name, types, text, MAY},
#define RESPONSE_HEADER(name, type, text)
#include "api/openapi/schemas.def"
#undef SCALAR
#undef OBJECT
#undef FIELD
#undef FURTHER
#undef UNION
#undef RESPONSE_HEADER
};

static const struct {
    const char *name;
    const char *type;
    const char *text;
} headers[] = {
#define SCALAR(name, facts, text)
#define OBJECT(name, text)
#define FIELD(name, type, need, text)
#define FURTHER(type, text)
#define UNION(name, types, text)
#define RESPONSE_HEADER(name, type, text) {name, type, text},
#include "api/openapi/schemas.def"
#undef SCALAR
#undef OBJECT
#undef FIELD
#undef FURTHER
#undef UNION
#undef RESPONSE_HEADER
};

static void write_about(struct doc *doc, const char *text)
{
    if (*text) doc_text(doc, "description", text);
}

/* A field's own sentence stands beside the reference to its type. */
static void write_field(struct doc *doc, const char *key, const struct shape *field)
{
    if (!*field->text) {
        doc_type(doc, key, bytes_str(field->type));
        return;
    }
    doc_open(doc, key, '{');
    doc->flat++;
    doc_text(doc, "description", field->text);
    doc_open(doc, "allOf", '[');
    doc_type(doc, NULL, bytes_str(field->type));
    doc_close(doc, ']');
    doc_close(doc, '}');
    doc->flat--;
}

static void write_required(struct doc *doc, const struct shape *first, const struct shape *end)
{
    doc_open(doc, "required", '[');
    doc->flat++;
    for (const struct shape *field = first; field < end; field++)
        if (field->need == NEED) doc_text(doc, NULL, field->name);
    doc_close(doc, ']');
    doc->flat--;
}

static void write_object(struct doc *doc, const struct shape *object, const struct shape *end)
{
    const struct shape *further = NULL;
    doc_text(doc, "type", "object");
    write_about(doc, object->text);
    doc_open(doc, "properties", '{');
    for (const struct shape *field = object + 1; field < end; field++) {
        if (field->kind == SHAPE_FIELD)
            write_field(doc, field->name, field);
        else
            further = field;
    }
    doc_close(doc, '}');
    write_required(doc, object + 1, end);
    if (further) write_field(doc, "additionalProperties", further);
}

/* Writes one schema and returns the shape after it. */
static const struct shape *write_shape(struct doc *doc, const struct shape *shape)
{
    const struct shape *end = shape + 1;
    while (end < shapes + ARRAY_COUNT(shapes) &&
           (end->kind == SHAPE_FIELD || end->kind == SHAPE_FURTHER))
        end++;
    doc_open(doc, shape->name, '{');
    if (shape->kind == SHAPE_OBJECT) {
        write_object(doc, shape, end);
    } else {
        write_about(doc, shape->text);
        if (shape->kind == SHAPE_SCALAR) doc_facts(doc, shape->type);
        if (shape->kind == SHAPE_UNION) {
            doc_open(doc, "allOf", '[');
            doc_type(doc, NULL, bytes_str(shape->type));
            doc_close(doc, ']');
        }
    }
    doc_close(doc, '}');
    return end;
}

static void write_headers(struct doc *doc)
{
    doc_open(doc, "headers", '{');
    for (unsigned i = 0; i < ARRAY_COUNT(headers); i++) {
        doc_open(doc, headers[i].name, '{');
        doc_text(doc, "description", headers[i].text);
        doc_type(doc, "schema", bytes_str(headers[i].type));
        doc_close(doc, '}');
    }
    doc_close(doc, '}');
}

/* For readers and for the list of errors in docs/http.md. */
static void write_errors(struct doc *doc)
{
    doc_open(doc, "x-errors", '[');
    for (enum err e = ERR_OK + 1; e < ERR_COUNT; e++) {
        doc_open(doc, NULL, '{');
        doc_text(doc, "code", err_code(e));
        char status[] = {(char)('0' + err_status(e) / 100), (char)('0' + err_status(e) / 10 % 10),
                         (char)('0' + err_status(e) % 10), '\0'};
        doc_json(doc, "status", status);
        doc_text(doc, "error", err_sentence(e));
        doc_close(doc, '}');
    }
    doc_close(doc, ']');
}

void openapi_write_components(struct doc *doc)
{
    doc_open(doc, "components", '{');
    doc_json(doc, "securitySchemes",
             "{'bearer':{'type':'http','scheme':'bearer','description':'A JWT whose `sub` is the "
             "tenant, or an API key from the config. Scopes: read, write, admin.'}}");
    write_headers(doc);
    doc_open(doc, "schemas", '{');
    for (const struct shape *shape = shapes; shape < shapes + ARRAY_COUNT(shapes);)
        shape = write_shape(doc, shape);
    doc_close(doc, '}');
    doc_close(doc, '}');
    write_errors(doc);
}
