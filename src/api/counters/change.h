/* change.h -- reading an operation from JSON, shared by single requests and batches. */
#ifndef TALLY_API_COUNTERS_CHANGE_H
#define TALLY_API_COUNTERS_CHANGE_H

#include "core/op.h"
#include "api/params.h"

struct call;

/* The JSON fields of an operation, in the order in which change_fill takes their values. */
#define CHANGE_FIELD_NAMES                                                        \
    BYTES("durationSeconds"), BYTES("bucket"), BYTES("zone"), BYTES("timestamp"), \
        BYTES("expiresAt"), BYTES("amount"), BYTES("targetValue"), BYTES("max")
enum change_field {
    CHANGE_DURATION,
    CHANGE_BUCKET,
    CHANGE_ZONE,
    CHANGE_TIMESTAMP,
    CHANGE_EXPIRES,
    CHANGE_AMOUNT,
    CHANGE_TARGET,
    CHANGE_CAP,
    CHANGE_FIELD_COUNT,
};

/* Fills kind, cell, amounts and expiry of an op, or says in one sentence what is wrong. The op
 * keeps only the bucket of its timestamp; `time_out` is the timestamp itself. */
MUST_USE enum err change_fill(struct call *call, enum op_kind kind, struct bytes name,
                              const struct json_value *values, struct op *op, int64_t *time_out,
                              struct reason *why);

/* The same without the counter: kind, duration and bucket, amounts, expiry. */
MUST_USE enum err change_read(enum op_kind kind, const struct json_value *values, struct op *op,
                              int64_t *time_out, struct reason *why);

/* A hash of everything an op says, which makes it the same op under its own key, through whatever
 * door. Its bucket would not do: two times of one bucket are two requests (SPEC 5). */
uint64_t change_digest(const struct op *op, int64_t time_ms);

/* Whether a field that only another kind of operation has is among the values; `elsewhere_out` says
 * which these are, as in struct known. */
bool change_strays(enum op_kind kind, const struct json_value *values, uint32_t *elsewhere_out);

/* Counts a decided op in the metrics; not for one that was answered from its key's record, for it
 * was counted when it was decided. */
void change_count(const struct op *op);

#endif
