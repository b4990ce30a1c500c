/* thread.c -- see the header. */
#include "base/thread.h"

#include "base/must.h"

void thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *context)
{
    int failed = pthread_create(thread, NULL, main, context);
    must(failed == 0);
    pthread_setname_np(*thread, name);
}
