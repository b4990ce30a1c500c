/* readers.c -- tasks wait in lanes chosen by the tenant's hash; threads take from the lanes in
 * turn. A tenant can fill its own lane, never the whole queue. */
#include "api/readers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/must.h"

#define LANES 16u

struct task_lane {
    struct read_task *first;
    struct read_task *last;
    unsigned count;
};

struct readers {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct task_lane lanes[LANES];
    unsigned turn; /* the lane to look at first */
    unsigned count;
    unsigned count_max;
    bool stopping;
    unsigned threads_count;
    pthread_t threads[];
};

static struct read_task *take(struct readers *readers)
{
    for (unsigned i = 0; i < LANES; i++) {
        struct task_lane *lane = &readers->lanes[(readers->turn + i) % LANES];
        struct read_task *task = lane->first;
        if (!task) continue;
        lane->first = task->next;
        if (!lane->first) lane->last = NULL;
        lane->count--;
        readers->count--;
        readers->turn = (readers->turn + i + 1) % LANES;
        return task;
    }
    return NULL;
}

static void *reader_main(void *context)
{
    struct readers *readers = context;
    pthread_mutex_lock(&readers->lock);
    for (;;) {
        struct read_task *task = take(readers);
        if (task) {
            pthread_mutex_unlock(&readers->lock);
            task->run(task->context);
            pthread_mutex_lock(&readers->lock);
        } else if (readers->stopping) {
            break;
        } else {
            pthread_cond_wait(&readers->filled, &readers->lock);
        }
    }
    pthread_mutex_unlock(&readers->lock);
    return NULL;
}

struct readers *readers_new(unsigned threads, unsigned tasks_max)
{
    struct readers *readers =
        must_calloc(1, sizeof *readers + threads * sizeof readers->threads[0]);
    pthread_mutex_init(&readers->lock, NULL);
    pthread_cond_init(&readers->filled, NULL);
    readers->count_max = tasks_max;
    for (unsigned i = 0; i < threads; i++) {
        int failed = pthread_create(&readers->threads[i], NULL, reader_main, readers);
        must(failed == 0);
        readers->threads_count++;
    }
    return readers;
}

void readers_free(struct readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->stopping = true;
    pthread_mutex_unlock(&readers->lock);
    pthread_cond_broadcast(&readers->filled);
    for (unsigned i = 0; i < readers->threads_count; i++)
        pthread_join(readers->threads[i], NULL);
    pthread_cond_destroy(&readers->filled);
    pthread_mutex_destroy(&readers->lock);
    free(readers);
}

enum err readers_push(struct readers *readers, struct read_task *task)
{
    struct task_lane *lane = &readers->lanes[hash_keyed(&hash_own, task->tenant) % LANES];
    unsigned share = readers->count_max / 2 ? readers->count_max / 2 : 1;
    pthread_mutex_lock(&readers->lock);
    bool full = readers->count >= readers->count_max || lane->count >= share;
    if (!full) {
        task->next = NULL;
        *(lane->last ? &lane->last->next : &lane->first) = task;
        lane->last = task;
        lane->count++;
        readers->count++;
    }
    pthread_mutex_unlock(&readers->lock);
    if (full) return ERR_BUSY;
    pthread_cond_signal(&readers->filled);
    return ERR_OK;
}
