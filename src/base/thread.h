/* thread.h -- starts a thread that a person finds by its name in top, gdb and perf. */
#ifndef TALLY_BASE_THREAD_H
#define TALLY_BASE_THREAD_H

#include <pthread.h>

/* `name` has 15 characters at most. The process ends if it gets no thread, for it cannot go on. */
void thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *context);

#endif
