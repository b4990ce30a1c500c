/* lanes_dir.h -- a data directory, of one lane or of several.
 *
 *   one lane: DIR is a store (embedded.c)
 *   several:  DIR/IDENTITY        how many lanes there are, and what they have in common
 *             DIR/LOCK            held while any of them is open
 *             DIR/lane-000/ ..    each of them a store, whose IDENTITY says which lane it is
 *
 * (1) DIR/IDENTITY is written last, once those of all lanes are durable. Until then there is
 *     nothing that counts, and lanes that a crash left behind are made anew.
 * (2) From then on no lane is ever made: one that is missing is said to be, and none is opened.
 * (3) What lies in a directory without IDENTITY is never taken for the remains of such a crash if
 *     there is more in it than that leaves.
 *
 *     lanes_dir_open      takes the directory, or makes it
 *     embedded_open       for each lane, in lanes_dir_lane(dir, lane), with what `identity` says
 *     lanes_dir_close     once all of them are closed */
#ifndef TALLY_STORE_EMBEDDED_LANES_DIR_H
#define TALLY_STORE_EMBEDDED_LANES_DIR_H

#include "base/tree.h"
#include "store/embedded/identity.h"

struct lanes_dir {
    unsigned count;
    char **paths;                   /* one for each lane */
    struct store_identity identity; /* that of several lanes; a single lane's store looks after its
                                     * own */
};

/* "lane-007/", what the names of a lane's files begin with, seen from the directory of all; "" if
 * there is one lane. */
#define LANES_PREFIX_SIZE 24u
void lanes_dir_prefix(char out[LANES_PREFIX_SIZE], unsigned count, unsigned lane);

/* "DIR/lane-007", or DIR itself if there is one lane. ERR_STORAGE: it is too long. */
MUST_USE enum err lanes_dir_path(char out[TREE_PATH_MAX], const char *dir, unsigned count,
                                 unsigned lane);

/* Errors of identity_open, and ERR_CORRUPT where a lane is missing. lanes_dir_close is due in any
 * case. */
MUST_USE enum err lanes_dir_open(struct lanes_dir *lanes, const char *dir,
                                 const struct identity_wish *wish, struct reason *why);
void lanes_dir_close(struct lanes_dir *lanes);
static inline const char *lanes_dir_lane(const struct lanes_dir *lanes, unsigned lane)
{
    return lanes->paths[lane];
}

struct lanes_make {
    unsigned count;
    bool ids_shared;
    const struct hash_secret *secret; /* NULL: a new one is drawn */
    uint64_t last;                    /* sequences of every lane begin after this one (begin.h) */
};

/* Makes a directory, which is there and empty, a new installation. With a secret that is known,
 * what another store made means the same here. ERR_STORAGE. */
MUST_USE enum err lanes_dir_make(const char *dir, const struct lanes_make *make,
                                 struct reason *why);

#endif
