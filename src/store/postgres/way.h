/* way.h -- where a read goes: to a standby that has come far enough, else to the primary.
 *
 * way_begin, then way_ask for each statement, then way_end. Who sends statements of more than one
 * read together uses the pieces of way_ask: way_take, way_send_position, way_goes_on.
 *
 * A view without an age is the primary's. One with an age goes to the standby, if there is one:
 *
 * (1) The standby says how far it is in the same round as the answer and before it, so what it
 *     answers is at least as new. Nothing is taken from it that is older than the age allows, also
 *     where a pooler leads each round to another standby.
 * (2) It has STANDBY_WAIT_MS to come so far, from the beginning of the way on. One that has not, or
 *     that fails in any manner (the database ends a standby's reads that hold its replay up), is
 *     passed over: this statement and the rest of what the age stands for go to the primary. Where
 *     it was late for one read no other read waits for it, until it has come as far as that.
 * (3) `age->reached` is then what every answer so far contains at least. */
#ifndef TALLY_STORE_POSTGRES_WAY_H
#define TALLY_STORE_POSTGRES_WAY_H

#include "store/postgres/pool.h"
#include "store/view.h"

#define STANDBY_WAIT_MS 50

struct database;
struct lane_store;

struct way {
    struct lane_store *lane;
    struct view_age *age; /* NULL: the newest */
    struct link *link;    /* NULL: none yet */
    struct pool *pool;    /* which that link is of */
    int64_t until_ns;     /* for the standby to come far enough */
    uint64_t known;       /* what was acknowledged when the way began */
    bool renewed;         /* a link to the primary was stale once */
    enum err heard;       /* whether the standby is far enough: see way_hear_position */
};

void way_begin(struct way *way, struct view *view);
void way_end(struct way *way);

/* The one place where it is decided where a read goes. Waits for the standby as law (2) says; what
 * is asked on a link of a standby's pool still begins with way_send_position. */
struct pool *way_choose(struct way *way);
/* Whether its link is, or was, one to the standby. */
bool way_is_standby(const struct way *way);
/* Notes that what the primary answers now is at least so new. */
void way_note_primary(struct way *way);

/* Makes sure that there is a link, on the pool that is chosen then. ERR_STORAGE. */
MUST_USE enum err way_take(struct way *way);

/* What comes first in a round on a standby: queues the question how far it is, and begins the
 * round; hears the answer, for which there is no more time than law (2) leaves. ERR_BUSY: it is not
 * far enough (any more). ERR_STORAGE. */
void way_send_position(struct way *way);
MUST_USE enum err way_hear_position(struct way *way);

/* After a failure: true if the same is to be asked again, elsewhere or on a new link. */
MUST_USE bool way_goes_on(struct way *way, enum err e);

/* Counts a statement of a reader's that was answered. */
void way_count(const struct way *way);

/* One statement, whose parameters begin with the lane. The caller clears the result.
 * ERR_STORAGE. */
MUST_USE enum err way_ask(struct way *way, enum sql_name name, struct sql_values *values,
                          PGresult **result_out);

/* One statement on the standby, in the name of several ways for which way_choose chose it. ERR_OK:
 * the answer counts for those whose `heard` is ERR_OK. Otherwise it counts for none, and all of
 * them go to the primary. The caller clears the result. */
MUST_USE enum err way_ask_together(struct way *ways, unsigned count, enum sql_name name,
                                   struct sql_values *values, PGresult **result_out);

/* How far the lane of that row is, of what SQL_REACHED said. False: it is not one of this
 * installation's, or is of another version. */
MUST_USE bool standby_position(const struct database *database, const PGresult *result, int row,
                               uint64_t *sequence_out);

#endif
