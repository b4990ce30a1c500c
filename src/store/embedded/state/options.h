/* options.h -- how RocksDB is set up for tally, apart from how it is used (state.c).
 *
 * They are made once by state_open and kept over state_reopen. */
#ifndef TALLY_STORE_EMBEDDED_STATE_OPTIONS_H
#define TALLY_STORE_EMBEDDED_STATE_OPTIONS_H

#include <rocksdb/c.h>

#include "store/embedded/state/state.h"

/* STATE_CELLS keys begin with their series, so one series' cells are neighbours. */
#define STATE_SERIES_SIZE 8u

struct state_options {
    rocksdb_options_t *db;
    rocksdb_options_t *families[STATE_FAMILY_COUNT];
    rocksdb_options_t *ingest; /* for the files that state_ingest writes: as families, cheaper to
                                * write */
    rocksdb_cache_t *cache;
    rocksdb_ratelimiter_t *limiter;
    rocksdb_env_t *env;
    rocksdb_compactionfilter_t *expire; /* for STATE_IDS; NULL without ids_expired_before */
    int64_t (*ids_expired_before)(void *context);
    void *context;
};

/* The names of the families on disk, in the order of the enum. */
extern const char *const state_family_names[STATE_FAMILY_COUNT];

/* `options` stays where it is until state_options_release: RocksDB calls back into it. */
void state_options_init(struct state_options *options, const struct state_config *config);
void state_options_release(struct state_options *options);

/* Leaves RocksDB without a log of its own (log.cc). */
void state_options_silence(rocksdb_options_t *options);

#endif
