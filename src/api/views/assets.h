/* assets.h -- the dashboard's files, compiled in. web/build.mjs makes the table. */
#ifndef TALLY_API_VIEWS_ASSETS_H
#define TALLY_API_VIEWS_ASSETS_H

#include "base/bytes.h"

struct asset {
    const char *name;
    const char *content_type;
    bool lasting; /* its name has its content's hash in it, so it never changes */
    bool gzip;
    struct bytes body;
};

extern const struct asset assets[];
extern const unsigned assets_count;

#endif
