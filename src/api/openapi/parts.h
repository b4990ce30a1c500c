/* parts.h -- the two halves of the document, for openapi.c. */
#ifndef TALLY_API_OPENAPI_PARTS_H
#define TALLY_API_OPENAPI_PARTS_H

#include "api/openapi/write.h"

/* "tags", "paths" */
void openapi_write_calls(struct doc *doc);

/* "components" and "x-errors" */
void openapi_write_components(struct doc *doc);

#endif
