/* registry_record.h -- the bytes of a remembered id in the state: shared by the registry, which
 * writes them, and the state, whose compaction drops expired ones.
 *
 * Key, 16 bytes: the fingerprint, `high` before `low`, both big-endian, so that memcmp orders keys
 * as record_compare orders fingerprints.
 *
 * Value: one byte of format and flags; first seen (ms, 6 bytes big-endian, or 8 if wide); sequence
 * (varint); digest (4 bytes, or 8 if wide); the outcome to the end. What neighbours have in common
 * (format, the high bytes of the time) comes first, next to RocksDB's own constant bytes, which
 * saves 2 bytes of 37 an id after compression (measured over 2 million). */
#ifndef TALLY_STORE_EMBEDDED_STATE_REGISTRY_RECORD_H
#define TALLY_STORE_EMBEDDED_STATE_REGISTRY_RECORD_H

#include "base/err.h"
#include "base/hash.h"
#include "store/store.h"

#define RECORD_KEY_SIZE 16u
#define RECORD_HEAD_MAX 27u /* format, wide time, longest varint, wide digest */

void record_key_put(char key[RECORD_KEY_SIZE], struct fingerprint print);
MUST_USE enum err record_key_get(struct bytes key, struct fingerprint *print_out);

/* Order of keys: below, at or above zero. */
int record_compare(struct fingerprint a, struct fingerprint b);

/* Replaces the content of `buf` by the value of `record`; `exists` is not stored. */
void record_encode(struct buf *buf, const struct key_record *record);

/* `outcome` borrows from `value`. ERR_CORRUPT for anything record_encode does not write. */
MUST_USE enum err record_decode(struct bytes value, struct key_record *record_out);

#endif
