/* rwlock.c -- see rwlock.h. */
#include "base/rwlock.h"

#include "base/must.h"

void rwlock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    must(pthread_rwlock_init(lock, &attributes) == 0);
    pthread_rwlockattr_destroy(&attributes);
}
