/* options.c -- every RocksDB setting and the reason for it.
 *
 * The state is written by one background thread in bulk and read by many, with its log off. So it
 * has large batches, few and late compactions, filters in front of every point lookup, and all
 * memory inside one cache whose size the operator chose. */
#include "store/embedded/state/options.h"

#include "store/embedded/state/registry_record.h"

#define MIB (1ull << 20)
#define STATE_BACKGROUND_JOBS \
    3 /* one flush, two compactions: a long merge of ids holds up no other */
#define STATE_BACKGROUND_BYTES_PER_S (256 * MIB) /* leaves the disk to the journal's syncs */
#define STATE_OPEN_FILES_MAX 512                 /* over all states of the process */
#define STATE_OPEN_FILES_LEAST 64
#define STATE_MEMTABLE_BYTES (32 * MIB)       /* the cells': one checkpoint's write-back */
#define STATE_MEMTABLE_SMALL_BYTES (16 * MIB) /* the other families' */
#define STATE_FILE_BYTES (64 * MIB)
#define STATE_MANIFEST_AHEAD_BYTES (256 << 10) /* a lane; by itself 4 MiB */
#define STATE_FILTER_BITS 10
#define STATE_IDS_RUNS 8         /* sorted runs before merging: each costs a hit one filter probe */
#define STATE_IDS_RUNS_MAX 10000 /* runs never stall writers: the limit is for all families */

const char *const state_family_names[STATE_FAMILY_COUNT] = {
    [STATE_META] = "default",  [STATE_COUNTERS] = "counters", [STATE_CELLS] = "cells",
    [STATE_SERIES] = "series", [STATE_EXPIRY] = "expiry",     [STATE_TENANTS] = "tenants",
    [STATE_IDS] = "ids",       [STATE_OBJECTS] = "objects",   [STATE_SUMS] = "sums",
};

/* The C API lacks some setters; RocksDB's own parser knows every option. */
static rocksdb_options_t *options_parse(const char *text)
{
    rocksdb_options_t *base = rocksdb_options_create();
    rocksdb_options_t *options = rocksdb_options_create();
    char *error = NULL;
    rocksdb_get_options_from_string(base, text, options, &error);
    must(error == NULL);
    rocksdb_options_destroy(base);
    return options;
}

static int open_files(unsigned sharers)
{
    int share = STATE_OPEN_FILES_MAX / (int)(sharers ? sharers : 1);
    return share > STATE_OPEN_FILES_LEAST ? share : STATE_OPEN_FILES_LEAST;
}

static rocksdb_options_t *options_db(const struct state_options *options, unsigned sharers)
{
    /* A close must not make durable what the journal alone answers for. */
    rocksdb_options_t *db = options_parse("avoid_flush_during_shutdown=true");
    rocksdb_options_set_create_if_missing(db, 1);
    rocksdb_options_set_create_missing_column_families(db, 1);
    rocksdb_options_set_env(db, options->env);
    /* A write batch spans families; without a log only this keeps it whole over a crash. */
    rocksdb_options_set_atomic_flush(db, 1);
    rocksdb_options_set_max_background_jobs(db, STATE_BACKGROUND_JOBS);
    rocksdb_options_set_ratelimiter(db, options->limiter);
    rocksdb_options_set_bytes_per_sync(db, MIB); /* no burst of dirty pages before a sync */
    rocksdb_options_set_max_open_files(db, open_files(sharers));
    rocksdb_options_set_max_manifest_file_size(db, 16 * MIB);
    /* RocksDB would start sixteen threads for each family at each opening, for at most sixteen
     * files, since the number of open ones is bounded: most of what an opening cost. */
    rocksdb_options_set_max_file_opening_threads(db, 1);
    rocksdb_options_set_manifest_preallocation_size(db, STATE_MANIFEST_AHEAD_BYTES);
    state_options_silence(db);
    rocksdb_options_set_stats_dump_period_sec(db, 0);
    rocksdb_options_set_stats_persist_period_sec(db, 0);
    return db;
}

static void options_set_table(const struct state_options *options, rocksdb_options_t *family,
                              size_t block_size)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, options->cache);
    rocksdb_block_based_options_set_block_size(table, block_size);
    rocksdb_block_based_options_set_format_version(table, 5);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(STATE_FILTER_BITS));
    /* Filters are in small parts: a whole file's filter can be larger than what the cache keeps in
     * one piece, and would then be read and checked again, megabytes, for every lookup. */
    rocksdb_block_based_options_set_index_type(
        table, rocksdb_block_based_table_index_type_two_level_index_search);
    rocksdb_block_based_options_set_partition_filters(table, 1);
    rocksdb_block_based_options_set_pin_top_level_index_and_filter(table, 1);
    /* Filters and indexes count against the cache, so memory is bounded, but leave it last. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_options_set_block_based_table_factory(family, table);
    rocksdb_block_based_options_destroy(table);
}

static rocksdb_options_t *options_family(const struct state_options *options)
{
    rocksdb_options_t *family = rocksdb_options_create();
    options_set_table(options, family, 8 << 10);
    rocksdb_options_set_write_buffer_size(family, STATE_MEMTABLE_SMALL_BYTES);
    rocksdb_options_set_max_write_buffer_number(family, 3);
    rocksdb_options_set_target_file_size_base(family, STATE_FILE_BYTES);
    rocksdb_options_set_max_bytes_for_level_base(family, 4 * STATE_FILE_BYTES);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(family, 1);
    rocksdb_options_set_compression(family, rocksdb_lz4_compression);
    rocksdb_options_set_bottommost_compression(family, rocksdb_zstd_compression);
    return family;
}

/* Range sums read one series' neighbours: a file's filter also knows which series are in it. */
static rocksdb_options_t *options_cells(const struct state_options *options)
{
    rocksdb_options_t *family = options_family(options);
    rocksdb_options_set_write_buffer_size(family, STATE_MEMTABLE_BYTES);
    rocksdb_options_set_prefix_extractor(
        family, rocksdb_slicetransform_create_fixed_prefix(STATE_SERIES_SIZE));
    return family;
}

/* Ids are random keys that are hardly ever overwritten: levels would rewrite each id once for every
 * level's width, merging runs of like size does it once for every doubling or so. A run more costs
 * a lookup of a known id one filter probe, and a lookup of a new id nothing (the registry's own
 * filters stand before). */
static rocksdb_options_t *options_ids(const struct state_options *options)
{
    rocksdb_options_t *family = options_family(options);
    rocksdb_universal_compaction_options_t *universal =
        rocksdb_universal_compaction_options_create();
    rocksdb_universal_compaction_options_set_size_ratio(universal, 20);
    rocksdb_universal_compaction_options_set_min_merge_width(universal, 4);
    rocksdb_universal_compaction_options_set_max_size_amplification_percent(universal, 300);
    rocksdb_options_set_compaction_style(family, rocksdb_universal_compaction);
    rocksdb_options_set_universal_compaction_options(family, universal);
    rocksdb_universal_compaction_options_destroy(universal);
    rocksdb_options_set_level0_file_num_compaction_trigger(family, STATE_IDS_RUNS);
    rocksdb_options_set_level0_slowdown_writes_trigger(family, STATE_IDS_RUNS_MAX);
    rocksdb_options_set_level0_stop_writes_trigger(family, STATE_IDS_RUNS_MAX);
    rocksdb_options_set_soft_pending_compaction_bytes_limit(family, 0);
    rocksdb_options_set_hard_pending_compaction_bytes_limit(family, 0);
    if (options->expire) rocksdb_options_set_compaction_filter(family, options->expire);
    return family;
}

/* A fresh file lives until the next merge: the bottommost compression would be wasted on it. */
static rocksdb_options_t *options_ingest(const struct state_options *options)
{
    rocksdb_options_t *ingest = rocksdb_options_create();
    options_set_table(options, ingest, 8 << 10);
    rocksdb_options_set_compression(ingest, rocksdb_lz4_compression);
    return ingest;
}

static const char *expire_name(void *context)
{
    (void)context;
    return "tally.expired_ids";
}

/* A record that cannot be read is kept, for a person to look at. */
static unsigned char expire_filter(void *context, int level, const char *key, size_t key_size,
                                   const char *value, size_t value_size, char **new_value,
                                   size_t *new_value_size, unsigned char *value_changed)
{
    (void)level, (void)key, (void)key_size, (void)new_value, (void)new_value_size;
    const struct state_options *options = context;
    struct key_record record;
    *value_changed = 0;
    if (record_decode(bytes_of(value, value_size), &record) != ERR_OK) return 0;
    if (record.event) return 0; /* an event's id is kept for ever */
    return record.first_seen_ms < options->ids_expired_before(options->context);
}

static void expire_destroy(void *context)
{
    (void)context;
}

static rocksdb_compactionfilter_t *options_expire(struct state_options *options)
{
    if (!options->ids_expired_before) return NULL;
    rocksdb_compactionfilter_t *expire =
        rocksdb_compactionfilter_create(options, expire_destroy, expire_filter, expire_name);
    /* RocksDB refuses a filter that would spare what a snapshot sees. */
    rocksdb_compactionfilter_set_ignore_snapshots(expire, 1);
    return expire;
}

void state_options_init(struct state_options *options, const struct state_config *config)
{
    *options = (struct state_options){
        .cache = rocksdb_cache_create_lru(config->cache_bytes),
        .limiter =
            rocksdb_ratelimiter_create((int64_t)STATE_BACKGROUND_BYTES_PER_S, 100 * 1000, 10),
        .env = rocksdb_create_default_env(),
        .ids_expired_before = config->ids_expired_before,
        .context = config->context,
    };
    rocksdb_env_lower_thread_pool_cpu_priority(options->env); /* compactions yield to commits */
    options->expire = options_expire(options);
    options->db = options_db(options, config->sharers);
    options->ingest = options_ingest(options);
    for (size_t i = 0; i < STATE_FAMILY_COUNT; i++) {
        options->families[i] = i == STATE_CELLS ? options_cells(options)
                               : i == STATE_IDS ? options_ids(options)
                                                : options_family(options);
    }
}

void state_options_release(struct state_options *options)
{
    for (size_t i = 0; i < STATE_FAMILY_COUNT; i++)
        rocksdb_options_destroy(options->families[i]);
    rocksdb_options_destroy(options->ingest);
    rocksdb_options_destroy(options->db);
    if (options->expire) rocksdb_compactionfilter_destroy(options->expire);
    rocksdb_env_destroy(options->env);
    rocksdb_ratelimiter_destroy(options->limiter);
    rocksdb_cache_destroy(options->cache);
}
