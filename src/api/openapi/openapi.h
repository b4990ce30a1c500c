/* openapi.h -- the HTTP API describes itself: OpenAPI 3.1, made from the route table (route.c), the
 * calls (openapi.def), their shapes (schemas.def) and the errors (base/err.def). */
#ifndef TALLY_API_OPENAPI_OPENAPI_H
#define TALLY_API_OPENAPI_OPENAPI_H

#include "base/bytes.h"

/* The whole document, indented. It is made by the first call, and lives as long as the process. */
struct bytes openapi_text(void);

#endif
