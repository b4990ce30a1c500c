/* rwlock.h -- a lock for many readers that never keeps a writer waiting for ever.
 *
 * By default glibc lets a reader in as long as another one is inside, so readers that take over
 * from each other hold up a writer without end. With this lock readers wait as soon as a writer
 * waits. So a thread that holds the lock for reading must not take it again: it would wait for the
 * writer, who waits for it. */
#ifndef TALLY_BASE_RWLOCK_H
#define TALLY_BASE_RWLOCK_H

#include <pthread.h>

void rwlock_init(pthread_rwlock_t *lock);

#endif
