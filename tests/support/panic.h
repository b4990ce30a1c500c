/* panic.h -- a broken promise, broken on purpose in a child, and what it said.
 *
 *     expect_panic(break_it, "queue->waiting_ops <= queue->ops"); */
#ifndef TALLY_TESTS_SUPPORT_PANIC_H
#define TALLY_TESTS_SUPPORT_PANIC_H

/* Runs `act` in a child, which has to end by a signal. Its report, until the next call. */
const char *panic_report(void (*act)(void));

/* The same, and the report has to contain `text`. */
void expect_panic(void (*act)(void), const char *text);

#endif
