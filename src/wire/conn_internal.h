/* conn_internal.h -- what the files of a connection's reading half share. */
#ifndef TALLY_WIRE_CONN_INTERNAL_H
#define TALLY_WIRE_CONN_INTERNAL_H

#include "wire/conn.h"

enum step {
    STEP_ON,   /* there is more to do with what is here */
    STEP_MORE, /* more bytes are needed */
    STEP_WAIT, /* nothing can be read now */
};

/* -- In conn.c --------------------------------------------------------------------------------- */

/* Pays for some more tickets. False: there is no room for them. */
bool conn_pay_ahead(struct conn *conn);
enum step conn_block(struct conn *conn, enum conn_block block);
/* No further request is taken; the connection ends when the replies are out. */
enum step conn_finish_reading(struct conn *conn);
/* Answers with a fault, and reads no further. */
enum step conn_refuse(struct conn *conn, enum fault fault);

/* -- In commands.c: Redis's protocol ----------------------------------------------------------- */

enum step commands_read(struct conn *conn);
enum step commands_dispatch(struct conn *conn);
/* Fills the reply with what Redis would say of the fault, and marks it to close. */
void commands_refuse(const struct conn *conn, enum fault fault, struct exchange *exchange);
/* How long the connection may be silent; 0: for ever. `idle_ms` is what one of HTTP may be. */
int64_t commands_idle_ms(const struct conn *conn, int64_t idle_ms);
/* The reply is about to leave. */
void commands_check_reply(struct ticket *ticket);

/* Whether there is room for the ticket of another request. One ordinary request at a time is free;
 * further ones are paid for, some at a time. So a client that asks for one thing after the other
 * pays nothing, and others pay once a burst. */
static inline bool conn_may_hold_another(struct conn *conn)
{
    return conn->tickets == 0 || conn->tickets < conn->paid || conn_pay_ahead(conn);
}

#endif
