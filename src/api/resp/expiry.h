/* expiry.h -- how Redis's commands say until when a key is there. */
#ifndef TALLY_API_RESP_EXPIRY_H
#define TALLY_API_RESP_EXPIRY_H

#include "api/resp/train.h"

enum time_form { TIME_EX, TIME_PX, TIME_EXAT, TIME_PXAT, TIME_FORMS };

/* What an op is to make of its cell's expiry. */
struct op_end {
    enum op_expiry expiry;
    int64_t ms;
};

static inline void end_give(struct op *op, const struct op_end *end)
{
    op->expiry = end->expiry;
    op->expires_ms = end->ms;
}

/* The form that an option of SET or INCREX says; TIME_FORMS: it is another option. */
enum time_form time_form_of(struct bytes option);

/* Reads the time of such an option, which is above 0. False, after refusing. */
bool end_read(struct train *train, struct bytes text, enum time_form form, struct op_end *end);

#endif
