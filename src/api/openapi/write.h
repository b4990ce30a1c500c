/* write.h -- JSON with indentation, and the types of openapi.def as JSON Schema.
 *
 * Example:
 *
 *     static void write_info(struct doc *doc)
 *     {
 *         doc_open(doc, "info", '{');
 *         doc_text(doc, "title", "tally");
 *         doc_close(doc, '}');
 *     }
 *
 * A NULL key writes an element of an array. */
#ifndef TALLY_API_OPENAPI_WRITE_H
#define TALLY_API_OPENAPI_WRITE_H

#include "base/bytes.h"

struct doc {
    struct buf *out;
    unsigned depth;
    unsigned flat; /* above 0: all on one line */
    bool more;     /* something stands before this in the same object or array */
};

void doc_open(struct doc *doc, const char *key, char bracket);
void doc_close(struct doc *doc, char bracket);
void doc_text(struct doc *doc, const char *key, const char *text);
void doc_bool(struct doc *doc, const char *key, bool value);

/* JSON as the tables write it, with ' for " and \' for one inside a string. */
void doc_facts(struct doc *doc, const char *facts); /* the members of an object */
void doc_json(struct doc *doc, const char *key, const char *json);

/* A type (openapi.def says how they are written) as a schema. */
void doc_type(struct doc *doc, const char *key, struct bytes type);

#endif
