/* records.h -- the rows of the state, as bytes.
 *
 *   counters   tenant 0 kind name 0 -> format, series list (core/counter.h)
 *   cells      series u64, bucket i64 -> format, added, subbed, updated, expires, start
 *              (format 2: the expiry is exact)
 *   series     series u64 -> format, duration, counter key
 *   expiry     expires i64, series u64, bucket i64 -> (empty)
 *   tenants    tenant -> format, cells
 *   objects    core/object.h's keys -> the value
 *   sums       series u64, level u8, index i64 -> format, added, subbed: 128 bits each
 *              0 u64, series u64 -> format, duration: the series is summed (sums.h)
 *   meta       "applied" -> format, sequence, next series, time, running hash (u64; a store of
 *              before has none, and its history is hashed from there on)
 *
 * Integers in keys are big-endian with the sign bit turned, so that memcmp keeps their order: one
 * series' cells are adjacent and in order of time. Integers in values are varints. Every decode
 * checks and answers ERR_CORRUPT for bytes that no encoder wrote. */
#ifndef TALLY_STORE_EMBEDDED_STATE_RECORDS_H
#define TALLY_STORE_EMBEDDED_STATE_RECORDS_H

#include "base/codec.h"
#include "core/counter.h"
#include "store/store.h"

#define CELL_KEY_SIZE 16u
#define SERIES_KEY_SIZE 8u
#define EXPIRY_KEY_SIZE 24u
#define NODE_KEY_SIZE 17u
#define MARK_KEY_SIZE 16u
#define META_APPLIED BYTES("applied")

#define SERIES_FIRST 1u /* the first id given out: 0 means none */

struct bytes cell_key(char out[CELL_KEY_SIZE], uint64_t series, int64_t bucket);
MUST_USE enum err cell_key_decode(struct bytes key, uint64_t *series_out, int64_t *bucket_out);
void cell_record(struct buf *buf, const struct cell *cell);
MUST_USE enum err cell_record_decode(struct bytes value, struct cell *cell_out);

void counter_record(struct buf *buf, const struct counter *counter);
MUST_USE enum err counter_record_decode(struct bytes value, struct arena *arena,
                                        const struct counter **counter_out);

struct bytes series_key(char out[SERIES_KEY_SIZE], uint64_t series);
void series_record(struct buf *buf, int32_t duration, struct bytes counter_key);
MUST_USE enum err series_record_decode(struct bytes value, int32_t *duration_out,
                                       struct bytes *counter_key_out);

struct bytes expiry_key(char out[EXPIRY_KEY_SIZE], int64_t expires_ms, uint64_t series,
                        int64_t bucket);
MUST_USE enum err expiry_key_decode(struct bytes key, int64_t *expires_out, uint64_t *series_out,
                                    int64_t *bucket_out);

struct bytes node_key(char out[NODE_KEY_SIZE], uint64_t series, uint8_t level, int64_t index);
void node_record(struct buf *buf, const struct range_sum *sum); /* neither part is negative */
MUST_USE enum err node_record_decode(struct bytes value, struct range_sum *sum_out);

struct bytes mark_key(char out[MARK_KEY_SIZE], uint64_t series);
MUST_USE enum err mark_key_decode(struct bytes key, uint64_t *series_out);
void mark_record(struct buf *buf, int32_t duration);
MUST_USE enum err mark_record_decode(struct bytes value, int32_t *duration_out);

void tenant_record(struct buf *buf, int64_t cells);
MUST_USE enum err tenant_record_decode(struct bytes value, int64_t *cells_out);

void position_record(struct buf *buf, const struct store_position *position);
MUST_USE enum err position_record_decode(struct bytes value, struct store_position *position_out);

#endif
