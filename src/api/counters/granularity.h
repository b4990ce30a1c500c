/* granularity.h -- how a call names the length of buckets: `durationSeconds`, or `bucket` and
 * `zone` (SPEC 15). */
#ifndef TALLY_API_COUNTERS_GRANULARITY_H
#define TALLY_API_COUNTERS_GRANULARITY_H

#include "api/params.h"

/* Entries of a table of fields, at three places of the caller's. */
#define FIELD_DURATION BYTES("durationSeconds"), FIELD_I64, .max = INT32_MAX
#define FIELD_BUCKET BYTES("bucket"), FIELD_CHOICE, .choices = calendar_choices
#define FIELD_ZONE BYTES("zone"), FIELD_TEXT, .min = 1, .max = 255
extern const char *const calendar_choices[];

struct granularity_values {
    const struct field_value *duration;
    const struct field_value *bucket;
    const struct field_value *zone;
    bool required; /* else 0 where none is named */
};

/* ERR_INVALID: none that is required, or two; ERR_UNKNOWN_ZONE. */
MUST_USE enum err granularity_read(const struct granularity_values *values,
                                   int32_t *granularity_out, struct reason *why);

/* Writes 60, or {"bucket":"month","zone":"Europe/Berlin"}, as a value of JSON. */
void granularity_write(struct buf *json, int32_t granularity);
/* Writes 60, or month Europe/Berlin, into a sentence. */
void granularity_say(int32_t granularity, struct reason *why);
/* Writes the same as members of an object, without a comma before them. */
void granularity_write_fields(struct buf *json, int32_t granularity);

/* Writes `"timeStart":".."`, and of a calendar's bucket its `"date"` too, with a comma at the end.
 * The zone is known, because a request named it. */
void granularity_write_bucket(struct buf *json, int64_t bucket, int32_t granularity);

#endif
