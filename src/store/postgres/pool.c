/* pool.c -- see the header. */
#include "store/postgres/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"

#define PROBE_NS 250000000 /* between two tries to reach a database that is down */

struct pool {
    struct link_config config;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct link **idle; /* the last one given back is the next one taken */
    unsigned idle_count;
    unsigned open; /* idle, lent out or being opened */
    unsigned max;
    unsigned waiting; /* threads, for one */
    bool down;
    bool probing;
    int64_t probed_ns;
    struct reason why; /* why it is down */
};

static int64_t mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct pool *pool_new(const struct link_config *config, unsigned links_max)
{
    struct pool *pool = must_calloc(1, sizeof *pool);
    must(links_max > 0);
    pool->config = *config;
    pool->max = links_max;
    pool->idle = must_calloc(links_max, sizeof(struct link *));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->freed, NULL);
    return pool;
}

static void close_idle(struct pool *pool)
{
    pool->open -= pool->idle_count;
    while (pool->idle_count > 0)
        link_close(pool->idle[--pool->idle_count]);
}

void pool_free(struct pool *pool)
{
    close_idle(pool);
    must(pool->open == 0);
    free(pool->idle);
    pthread_cond_destroy(&pool->freed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* The lock is held, and is let go meanwhile. */
static enum err open_one(struct pool *pool, struct link **link_out)
{
    struct reason why;
    pool->open++;
    pthread_mutex_unlock(&pool->lock);
    enum err e = link_open(link_out, &pool->config, &why);
    pthread_mutex_lock(&pool->lock);
    if (e == ERR_OK) {
        if (pool->down) log_line(LOG_INFO, "the database can be reached again");
        pool->down = false;
        return ERR_OK;
    }
    pool->open--;
    if (!pool->down) log_line(LOG_ERROR, "the database cannot be reached", LOG_KV("why", why.text));
    pool->down = true;
    pool->why = why;
    pool->probed_ns = mono_ns();
    pthread_cond_broadcast(&pool->freed); /* so that no thread waits for it */
    return e;
}

/* While no further one can be opened (the server may have as many as it takes), those that are have
 * to do. */
static unsigned most_open(const struct pool *pool)
{
    return pool->down ? pool->open : pool->max;
}

enum err pool_take(struct pool *pool, int wait_ms, struct link **link_out)
{
    int64_t until_ns = mono_ns() + (int64_t)wait_ms * 1000000;
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    int waited = 0;
    enum err e = ERR_STORAGE;
    pthread_mutex_lock(&pool->lock);
    pool->waiting++;
    while (pool->idle_count == 0 && pool->open == most_open(pool) && pool->open > 0 && waited == 0)
        waited = pthread_cond_clockwait(&pool->freed, &pool->lock, CLOCK_MONOTONIC, &until);
    pool->waiting--;
    if (pool->idle_count > 0) {
        *link_out = pool->idle[--pool->idle_count];
        e = ERR_OK;
    } else if (!pool->down && pool->open < pool->max) {
        e = open_one(pool, link_out);
    }
    pthread_mutex_unlock(&pool->lock);
    return e;
}

void pool_give(struct pool *pool, struct link *link)
{
    pthread_mutex_lock(&pool->lock);
    bool keep = !link_is_broken(link);
    if (keep)
        pool->idle[pool->idle_count++] = link;
    else
        pool->open--;
    pthread_cond_signal(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
    if (!keep) link_close(link);
}

void pool_renew(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    close_idle(pool);
    pthread_mutex_unlock(&pool->lock);
}

bool pool_is_wanted(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool wanted = pool->waiting > 0;
    pthread_mutex_unlock(&pool->lock);
    return wanted;
}

bool pool_is_down(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool down = pool->down && pool->open == 0;
    pthread_mutex_unlock(&pool->lock);
    return down;
}

void pool_probe(struct pool *pool)
{
    struct link *link;
    pthread_mutex_lock(&pool->lock);
    bool probes = pool->down && !pool->probing && pool->open < pool->max &&
                  mono_ns() - pool->probed_ns >= PROBE_NS;
    if (probes) {
        pool->probing = true;
        if (open_one(pool, &link) == ERR_OK) {
            pool->idle[pool->idle_count++] = link;
            pthread_cond_signal(&pool->freed);
        }
        pool->probing = false;
    }
    pthread_mutex_unlock(&pool->lock);
}
