/* busiest.h -- which of a tenant's counters change most. The server knows; where fewer change than
 * there is room for, the others follow by their names. */
#ifndef TALLY_CLI_BUSIEST_H
#define TALLY_CLI_BUSIEST_H

#include "cli/client.h"
#include "core/name.h"

#define BUSIEST_SHOWN 200 /* at most: more than a page has rows */

struct busiest_row {
    char name[NAME_SIZE_MAX + 1];
    int64_t duration_s; /* the bucket that changes, or the shortest it has */
    double net;
    double rate;     /* changes a second, up or down */
    bool unreadable; /* kept by rules, and only with dimensions: no one number says what it holds */
};

struct busiest {
    struct busiest_row rows[BUSIEST_SHOWN]; /* the busiest first */
    unsigned count;
    bool more; /* there are counters that are not here: none of them changes more */
};

/* Asks again: what changed since a few seconds ago, or since it was first asked. False:
 * `client->error` says why. */
bool busiest_read(struct busiest *busiest, struct client *client);

#endif
