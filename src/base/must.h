/* must.h -- the words in which the code states what only its own bug can break.
 *
 * `must(x)` stays on in production: a broken promise ends the process with a report rather than
 * count wrong. Bytes from the wire, the disk or the config never reach one; they earn an
 * `enum err`. `must_slow(x)` is for checks too dear for production; test builds define
 * TALLY_SLOW_CHECKS, and what needs a loop asks `if (SLOW_CHECKS)`. */
#ifndef TALLY_BASE_MUST_H
#define TALLY_BASE_MUST_H

#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define must(x) (__builtin_expect(!!(x), 1) ? (void)0 : must_failed(#x, __FILE__, __LINE__))
#define unreachable_state(value) must_unreachable(#value, (long long)(value), __FILE__, __LINE__)

#ifdef TALLY_SLOW_CHECKS
#define SLOW_CHECKS 1
#else
#define SLOW_CHECKS 0
#endif
#define must_slow(x) (SLOW_CHECKS ? must(x) : (void)0)

/* Prints the broken promise, which thread it was, where that was in its work, and a backtrace on
 * stderr, then aborts. */
_Noreturn void must_failed(const char *what, const char *file, int line);
_Noreturn void must_unreachable(const char *what, long long value, const char *file, int line);

/* Where a thread is in its work, for the report of a broken promise. */
struct must_place {
    const char *state; /* lasts for ever: the batch's state, or what the thread does */
    unsigned lane;
    uint64_t batch;          /* 0: it is not about a batch, and the rest says nothing */
    uint64_t first_sequence; /* 0: not known yet */
    uint32_t ops;
};

/* The report reads it when a promise is broken. So what it points at may change, and has to stay
 * until the thread is somewhere else. NULL: the thread is nowhere in particular, as each is at
 * first. */
extern _Thread_local const struct must_place *must_at;

/* The same report for a fault of the processor (SIGSEGV and the like), which then ends the process
 * as it would have. Sanitizers have reports of their own. */
void must_report_faults(void);

/* malloc that cannot fail: running out of memory at a bounded size is a bug in the bounds. */
MUST_USE void *must_alloc(unsigned long size);
MUST_USE void *must_calloc(unsigned long count, unsigned long size);
MUST_USE void *must_realloc(void *old, unsigned long size);

#endif
