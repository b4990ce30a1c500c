/* busiest.h -- which of a tenant's counters change most, seen by reading them twice. */
#ifndef TALLY_CLI_BUSIEST_H
#define TALLY_CLI_BUSIEST_H

#include "cli/client.h"
#include "core/name.h"

#define BUSIEST_WATCHED 200 /* counters looked at, in the order of their names */

struct busiest_row {
    char name[NAME_SIZE_MAX + 1];
    int64_t duration_s; /* the shortest bucket it has */
    double net;
    double added;
    double subbed;
    double rate;     /* changes a second, up or down */
    bool unreadable; /* kept by rules, and only with dimensions: no one number says it */
};

struct busiest {
    struct busiest_row rows[BUSIEST_WATCHED]; /* the busiest first */
    unsigned count;
    bool more; /* there are counters that are not watched */
    double at_s;
};

/* Reads again and compares with what was read before. False: `client->error` says why. */
bool busiest_read(struct busiest *busiest, struct client *client, double now_s);

#endif
