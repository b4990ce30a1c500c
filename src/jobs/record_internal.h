/* record_internal.h -- the members of an export's lines, for record.c, which writes them, and
 * record_read.c. */
#ifndef TALLY_JOBS_RECORD_INTERNAL_H
#define TALLY_JOBS_RECORD_INTERNAL_H

#include "jobs/record.h"

#define PORT_FORMAT 1

enum name {
    KIND,
    FORMAT_NUMBER,
    SEQUENCE,
    MOMENT,
    INSTALLATION,
    ID_SCOPE,
    LANES,
    IDS,
    EVENTS,
    ID_KEY,
    TEXT,
    TENANT,
    COUNTER,
    MODE,
    VALUE,
    DIMENSIONS,
    DURATION,
    BUCKET,
    ADDED,
    SUBBED,
    EXPIRES_AT,
    EXACT,
    WINDOW_START,
    UPDATED_AT,
    STATUS,
    RECONCILE,
    ENTITY,
    PRINT,
    EVENT,
    FIRST_SEEN_AT,
    DIGEST,
    OUTCOME,
    LANE,
    NUMBER,
    ARRIVED_AT,
    EVENT_ID,
    TYPE,
    OCCURRED_AT,
    PAYLOAD,
    FIRST_SEQUENCE,
    LINES,
    CHECKSUM,
    NAMES
};

extern const struct bytes port_names[NAMES];
extern const char *const port_kind_names[];

#endif
