/* test_conn.c -- the laws of a connection (wire/conn.h), broken one by one. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support/panic.h"
#include "wire/conn.h"

static struct worker worker;
static struct wire wire;
static struct conn *conn;
static struct ticket *first, *second;
static char text[] = "GET / HTTP/1.1";

/* A connection with an answered and a kept ticket, which rests between two requests. */
static int setup(void **state)
{
    wire = (struct wire){.config = {.pipeline_max = 4, .output_bytes_max = 4096}};
    worker = (struct worker){.wire = &wire};
    conn = conn_new(7, &wire.listeners[WIRE_HTTP]);
    conn->worker = &worker;
    first = conn_ticket_new(conn);
    first->state = TICKET_KEPT;
    second = conn_ticket_new(conn);
    second->state = TICKET_ANSWERED;
    conn->unanswered = 1;
    conn->output_bytes = CONN_TICKET_BYTES;
    conn->input = (struct input){.data = text, .size = 5, .capacity = sizeof text};
    return 0;
}

static int teardown(void **state)
{
    while (conn->first) {
        struct ticket *ticket = conn->first;
        conn->first = ticket->next;
        ticket->state = TICKET_ANSWERED;
        ticket_give(&worker.tickets, ticket);
    }
    ticket_pool_release(&worker.tickets);
    free(conn);
    return 0;
}

/* The second request is being read. */
static void read_on(enum conn_state state, enum ticket_state ticket)
{
    conn->state = state;
    conn->current = second;
    conn->request_ns = 1;
    conn->unanswered = 2;
    conn->output_bytes = 0;
    second->state = ticket;
}

static void check(void)
{
    conn_check(conn);
    conn_check_rest(conn);
}

static void a_connection_may_rest_in_every_state(void **state)
{
    check();
    read_on(CONN_LENGTH, TICKET_READING);
    check();
    conn->state = CONN_CHUNKS;
    check();
    read_on(CONN_PACKED, TICKET_READY);
    conn->block = BLOCK_MEMORY;
    conn->queued[QUEUE_RETRY] = true;
    check();
    conn->state = CONN_READY;
    conn->block = BLOCK_BARRIER;
    check();
    conn->state = CONN_TRAIN;
    check();
    conn->block = BLOCK_HOLD;
    check();
    conn->current = NULL;
    second->state = TICKET_KEPT;
    conn->state = CONN_SWALLOW_LENGTH;
    conn->block = BLOCK_NONE;
    check();
    conn->state = CONN_DONE;
    conn->input = (struct input){0};
    conn->request_ns = 0;
    check();
}

/* ---- (5): what a state allows ---- */

static void wait_for_the_handler_with_half_a_request(void)
{
    read_on(CONN_LENGTH, TICKET_READING);
    conn->block = BLOCK_HOLD;
    check();
}

static void read_a_body_of_nobody(void)
{
    read_on(CONN_LENGTH, TICKET_READING);
    conn->current = NULL;
    check();
}

static void begin_a_request_with_a_ticket(void)
{
    conn->current = second;
    check();
}

static void read_into_an_earlier_ticket(void)
{
    read_on(CONN_LENGTH, TICKET_READING);
    conn->current = first;
    check();
}

static void give_away_a_ticket_that_is_being_read(void)
{
    read_on(CONN_LENGTH, TICKET_KEPT);
    check();
}

static void keep_input_after_the_last_request(void)
{
    conn->state = CONN_DONE;
    check();
}

static void read_without_a_time_limit(void)
{
    read_on(CONN_CHUNKS, TICKET_READING);
    conn->request_ns = 0;
    check();
}

static void take_more_input_than_there_is(void)
{
    conn->input.at = 6;
    check();
}

static void read_on_behind_the_end(void)
{
    conn->ended = true;
    check();
}

static void part_with_replies_left(void)
{
    conn->state = CONN_LINGER;
    conn->input = (struct input){0};
    check();
}

static void a_state_that_does_not_allow_what_a_connection_has_ends_the_process(void **state)
{
    expect_panic(wait_for_the_handler_with_half_a_request, "rest->blocks & BIT(conn->block)");
    expect_panic(read_a_body_of_nobody, "rest->has_current == (conn->current != NULL)");
    expect_panic(begin_a_request_with_a_ticket, "rest->has_current == (conn->current != NULL)");
    expect_panic(read_into_an_earlier_ticket, "conn->current == conn->last");
    expect_panic(give_away_a_ticket_that_is_being_read, "conn->current->state == rest->current");
    expect_panic(keep_input_after_the_last_request, "rest->reads || !conn->input.data");
    expect_panic(read_without_a_time_limit, "!rest->timed || conn->request_ns != 0");
    expect_panic(take_more_input_than_there_is, "conn->input.at <= conn->input.size");
    expect_panic(read_on_behind_the_end, "!conn->ended || !rest->reads");
    expect_panic(part_with_replies_left, "conn->state != CONN_LINGER || !conn->first");
}

/* ---- (4): the dead ---- */

static void die_with_a_queue(void)
{
    conn->fd = -1;
    check();
}

static void be_dead_and_forgotten(void)
{
    conn->fd = -1;
    conn->first = conn->last = NULL;
    conn->input = (struct input){0};
    conn->tickets = conn->unanswered = 0;
    check();
}

static void a_dead_connection_holds_nothing_and_is_not_forgotten(void **state)
{
    expect_panic(die_with_a_queue, "!conn->first");
    expect_panic(be_dead_and_forgotten, "conn->tickets > 0 || conn->queued[QUEUE_DEAD]");
}

/* ---- (6): what it counts ---- */

static void owe_more_answers_than_there_are_tickets(void)
{
    conn->unanswered = 3;
    check();
}

static void pay_without_a_payer(void)
{
    conn->paid = CONN_PAID_AT_ONCE;
    check();
}

static void have_output_without_a_ticket(void)
{
    conn->first = conn->last = NULL;
    conn->unanswered = 0;
    check();
}

static void count_an_answer_twice(void)
{
    conn->unanswered = 0;
    check();
}

static void forget_the_bytes_of_a_reply(void)
{
    conn->output_bytes = 1;
    check();
}

static void stream_behind_another_reply(void)
{
    second->streaming = true;
    check();
}

static void a_connection_that_miscounts_ends_the_process(void **state)
{
    expect_panic(owe_more_answers_than_there_are_tickets, "conn->unanswered <= conn->tickets");
    expect_panic(pay_without_a_payer, "(conn->paid > 0) == (conn->payer != NULL)");
    expect_panic(have_output_without_a_ticket, "conn->output_bytes == 0");
    if (!SLOW_CHECKS) return;
    expect_panic(count_an_answer_twice, "unanswered == conn->unanswered");
    expect_panic(forget_the_bytes_of_a_reply, "output_bytes == conn->output_bytes");
    expect_panic(stream_behind_another_reply, "!ticket->streaming || ticket == conn->first");
}

/* ---- (7): waiting ---- */

static void wait_for_answers_that_came(void)
{
    conn->block = BLOCK_PIPELINE;
    check();
}

static void leave_bytes_in_the_kernel(void)
{
    conn->readable = true;
    check();
}

static void wait_for_room_unnoticed(void)
{
    read_on(CONN_READY, TICKET_READY);
    conn->block = BLOCK_HOLD;
    check();
}

static void keep_a_reply_that_could_leave(void)
{
    first->state = TICKET_ANSWERED;
    conn->unanswered = 0;
    conn->output_bytes = 2 * CONN_TICKET_BYTES;
    check();
}

static void a_connection_that_waits_in_vain_ends_a_slow_build(void **state)
{
    if (!SLOW_CHECKS) return;
    expect_panic(wait_for_answers_that_came, "!waits_in_vain(conn) || conn->queued[QUEUE_WORK]");
    expect_panic(leave_bytes_in_the_kernel, "!waits_in_vain(conn) || conn->queued[QUEUE_WORK]");
    expect_panic(wait_for_room_unnoticed, "!waits_in_vain(conn) || conn->queued[QUEUE_WORK]");
    expect_panic(keep_a_reply_that_could_leave, "!leaves || conn->queued[QUEUE_FLUSH]");
}

#define TEST_OF_CONN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF_CONN(a_connection_may_rest_in_every_state),
        TEST_OF_CONN(a_state_that_does_not_allow_what_a_connection_has_ends_the_process),
        TEST_OF_CONN(a_dead_connection_holds_nothing_and_is_not_forgotten),
        TEST_OF_CONN(a_connection_that_miscounts_ends_the_process),
        TEST_OF_CONN(a_connection_that_waits_in_vain_ends_a_slow_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
