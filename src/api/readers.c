/* readers.c -- tenants with waiting tasks stand in a ring; threads serve the front one and send it
 * to the back. A tenant can fill its own half of the queue, never the whole.
 *
 * (1) A tenant has an entry while tasks of it wait or run, and stands in the ring, once, while some
 *     wait.
 * (2) What a tenant counts as waiting is in its two lists; tasks that have begun, and no others,
 *     are in the second. What the pool counts is the sum.
 * (3) No more tasks run than there are threads, but for those that look together: they are one
 *     thread's.
 *
 * readers_check asserts them for the thread that has the lock. */
#include "api/readers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/table.h"
#include "base/thread.h"
#include "commit/pace.h"

struct task_list {
    struct read_task *first;
    struct read_task *last;
};

/* An entry exists while tasks of the tenant wait or run. */
struct reading_tenant {
    struct table_node node;
    struct reading_tenant *ring_next; /* while tasks wait */
    struct task_list fresh;
    struct task_list begun; /* oldest first */
    bool begun_next;        /* whose turn it is within the tenant */
    unsigned waiting;
    unsigned running;
    size_t size;
    char name[];
};

struct readers {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct table tenants;
    struct reading_tenant *ring_first;
    struct reading_tenant *ring_last;
    unsigned waiting;
    unsigned waiting_max;
    bool stopping;
    unsigned threads_max;
    unsigned threads_count;
    pthread_t threads[];
};

static void list_add(struct task_list *list, struct read_task *task)
{
    task->next = NULL;
    *(list->last ? &list->last->next : &list->first) = task;
    list->last = task;
}

static void list_add_first(struct task_list *list, struct read_task *task)
{
    task->next = list->first;
    list->first = task;
    if (!list->last) list->last = task;
}

static struct read_task *list_take(struct task_list *list)
{
    struct read_task *task = list->first;
    if (!task) return NULL;
    list->first = task->next;
    if (!list->first) list->last = NULL;
    return task;
}

static struct reading_tenant *tenant_find_or_make(struct readers *readers, struct bytes name)
{
    uint64_t hash = hash_keyed(&hash_own, name);
    TABLE_EACH_MATCH(&readers->tenants, hash, node)
    {
        struct reading_tenant *tenant = CONTAINER_OF(node, struct reading_tenant, node);
        if (bytes_equal(bytes_of(tenant->name, tenant->size), name)) return tenant;
    }
    struct reading_tenant *tenant = must_calloc(1, sizeof *tenant + name.size);
    tenant->node.hash = hash;
    tenant->size = name.size;
    if (name.size) memcpy(tenant->name, name.data, name.size);
    table_insert(&readers->tenants, &tenant->node);
    return tenant;
}

static void ring_add(struct readers *readers, struct reading_tenant *tenant)
{
    tenant->ring_next = NULL;
    *(readers->ring_last ? &readers->ring_last->ring_next : &readers->ring_first) = tenant;
    readers->ring_last = tenant;
}

static struct reading_tenant *ring_take(struct readers *readers)
{
    struct reading_tenant *tenant = readers->ring_first;
    if (!tenant) return NULL;
    readers->ring_first = tenant->ring_next;
    if (!readers->ring_first) readers->ring_last = NULL;
    return tenant;
}

/* -- Laws -------------------------------------------------------------------------------------- */

static unsigned list_count(const struct task_list *list, bool begun)
{
    unsigned count = 0;
    must((list->first == NULL) == (list->last == NULL));
    for (const struct read_task *task = list->first; task; task = task->next, count++) {
        must(task->begun == begun);
        must(task->next || task == list->last);
    }
    return count;
}

static unsigned ring_count(const struct readers *readers)
{
    unsigned waiting = 0;
    for (const struct reading_tenant *tenant = readers->ring_first; tenant;
         tenant = tenant->ring_next) {
        must(tenant->waiting > 0);
        must(tenant->waiting ==
             list_count(&tenant->fresh, false) + list_count(&tenant->begun, true));
        must(tenant->ring_next || tenant == readers->ring_last);
        waiting += tenant->waiting;
    }
    return waiting;
}

static void count_tenants(const struct readers *readers)
{
    unsigned waiting = 0, running = 0;
    for (size_t b = 0; b <= readers->tenants.mask; b++) {
        for (struct table_node *node = readers->tenants.buckets[b]; node; node = node->next) {
            const struct reading_tenant *tenant = CONTAINER_OF(node, struct reading_tenant, node);
            must(tenant->waiting > 0 || tenant->running > 0);
            waiting += tenant->waiting;
            running += tenant->running;
        }
    }
    must(waiting == readers->waiting);
    must(waiting == ring_count(readers));
    must(running <= readers->threads_max * PACE_READ_TOGETHER);
}

static void readers_check(const struct readers *readers)
{
    must((readers->ring_first != NULL) == (readers->waiting > 0));
    must(readers->waiting == 0 || readers->tenants.count > 0);
    if (SLOW_CHECKS) count_tenants(readers);
}

/* -- The ring ---------------------------------------------------------------------------------- */

static void note_waiting(struct readers *readers, struct reading_tenant *tenant)
{
    readers->waiting++;
    if (tenant->waiting++ == 0) ring_add(readers, tenant);
}

struct taken {
    struct read_task *task;
    struct reading_tenant *tenant; /* counts it as running */
};

static bool takes_begun(const struct reading_tenant *tenant)
{
    return tenant->begun.first && (tenant->begun_next || !tenant->fresh.first);
}

/* NULL: nothing waits. */
static const struct read_task *next_one(const struct readers *readers)
{
    const struct reading_tenant *tenant = readers->ring_first;
    if (!tenant) return NULL;
    return takes_begun(tenant) ? tenant->begun.first : tenant->fresh.first;
}

/* Something waits. */
static struct taken take(struct readers *readers)
{
    struct reading_tenant *tenant = ring_take(readers);
    bool begun = takes_begun(tenant);
    struct read_task *task = list_take(begun ? &tenant->begun : &tenant->fresh);
    tenant->begun_next = !begun;
    tenant->running++;
    tenant->waiting--;
    readers->waiting--;
    if (tenant->waiting) ring_add(readers, tenant);
    return (struct taken){task, tenant};
}

static bool looks(const struct read_task *task)
{
    return task->look.read && !task->looked;
}

/* The next task, and if it looks those behind it that do so too. 0: nothing waits. */
static unsigned take_some(struct readers *readers, struct taken taken[static PACE_READ_TOGETHER])
{
    unsigned count = 0;
    unsigned values = 0;
    for (const struct read_task *task; (task = next_one(readers));) {
        if (count > 0 && (!looks(task) || values + task->values > PACE_READ_TOGETHER)) break;
        taken[count++] = take(readers);
        if (!looks(task) || count == PACE_READ_TOGETHER) break;
        values += task->values;
    }
    return count;
}

/* A task that has just begun goes behind those that began before it, which stay first. */
static void put_back(struct readers *readers, struct reading_tenant *tenant, struct read_task *task)
{
    if (task->begun)
        list_add_first(&tenant->begun, task);
    else
        list_add(&tenant->begun, task);
    task->begun = true;
    note_waiting(readers, tenant);
}

static void tenant_end(struct readers *readers, struct reading_tenant *tenant)
{
    if (tenant->waiting || tenant->running) return;
    table_remove(&readers->tenants, &tenant->node);
    free(tenant);
}

static void look_together(const struct taken *taken, unsigned count)
{
    struct view_reading readings[PACE_READ_TOGETHER];
    if (!looks(taken->task)) return;
    for (unsigned i = 0; i < count; i++)
        readings[i] = taken[i].task->look;
    view_gather(readings, count);
    for (unsigned i = 0; i < count; i++)
        taken[i].task->looked = true;
}

/* The lock is held, and is let go meanwhile. */
static void run(struct readers *readers, const struct taken *taken, unsigned count)
{
    bool more[PACE_READ_TOGETHER];
    pthread_mutex_unlock(&readers->lock);
    look_together(taken, count);
    for (unsigned i = 0; i < count; i++)
        more[i] = taken[i].task->run(taken[i].task->context);
    pthread_mutex_lock(&readers->lock);
    for (unsigned i = 0; i < count; i++) {
        taken[i].tenant->running--;
        if (more[i]) put_back(readers, taken[i].tenant, taken[i].task);
        tenant_end(readers, taken[i].tenant);
    }
}

static void *reader_main(void *context)
{
    struct readers *readers = context;
    struct taken taken[PACE_READ_TOGETHER];
    pthread_mutex_lock(&readers->lock);
    for (;;) {
        readers_check(readers);
        unsigned count = take_some(readers, taken);
        if (count > 0)
            run(readers, taken, count);
        else if (readers->stopping)
            break;
        else
            pthread_cond_wait(&readers->filled, &readers->lock);
    }
    pthread_mutex_unlock(&readers->lock);
    return NULL;
}

struct readers *readers_new(const char *name, unsigned threads, unsigned tasks_max)
{
    struct readers *readers =
        must_calloc(1, sizeof *readers + threads * sizeof readers->threads[0]);
    pthread_mutex_init(&readers->lock, NULL);
    pthread_cond_init(&readers->filled, NULL);
    table_init(&readers->tenants);
    readers->waiting_max = tasks_max;
    readers->threads_max = threads;
    for (unsigned i = 0; i < threads; i++) {
        thread_start(&readers->threads[i], name, reader_main, readers);
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
    must(readers->tenants.count == 0);
    table_release(&readers->tenants);
    pthread_cond_destroy(&readers->filled);
    pthread_mutex_destroy(&readers->lock);
    free(readers);
}

enum err readers_push(struct readers *readers, struct read_task *task)
{
    unsigned share = readers->waiting_max / 2 ? readers->waiting_max / 2 : 1;
    pthread_mutex_lock(&readers->lock);
    struct reading_tenant *tenant = tenant_find_or_make(readers, task->tenant);
    bool full = readers->waiting >= readers->waiting_max || tenant->waiting >= share;
    if (!full) {
        list_add(&tenant->fresh, task);
        note_waiting(readers, tenant);
    }
    tenant_end(readers, tenant);
    readers_check(readers);
    pthread_mutex_unlock(&readers->lock);
    if (full) return ERR_BUSY;
    pthread_cond_signal(&readers->filled);
    return ERR_OK;
}
