/* habit.h -- the header lines a client sends again and again.
 *
 * A client that keeps its connection says the same with every request: who it is, what it sends,
 * often how long it is. So a connection remembers the header lines of its last request and what
 * they came to. Lines that are byte for byte the same, up to the empty one, mean the same, and are
 * compared instead of read.
 *
 *     head.habit = habit;                         before http_head_read; NULL: nothing is known
 *     habit_learn(&habit, &head, data);           after a head that was read line by line
 *     free(habit)
 *
 * Only whole heads without a fault are learned, so nothing that was refused is ever recalled. */
#ifndef TALLY_WIRE_HABIT_H
#define TALLY_WIRE_HABIT_H

#include "wire/http.h"

#ifdef TALLY_SMALL_WORLD
#define HABIT_BYTES_MAX 96u
#else
#define HABIT_BYTES_MAX 1024u /* longer header blocks are read each time */
#endif

/* True if the lines after the request line, which has just been read, are the remembered ones and
 * all here: the head is complete. */
bool habit_recall(const struct habit *habit, struct http_head *head, const char *data, size_t size);

/* Remembers the lines of a complete head, whose bytes are at `data`. */
void habit_learn(struct habit **habit, const struct http_head *head, const char *data);

#endif
