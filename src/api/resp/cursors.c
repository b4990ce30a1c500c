/* cursors.c -- a list from the oldest to the newest, and a table over it. */
#include "api/resp/cursors.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/table.h"

#define KEEP_NS (INT64_C(600) * 1000000000)
#define FIRST_MAX ((UINT64_C(1) << 48) - 1)
#ifdef TALLY_SMALL_WORLD
#define COUNT_MAX 8u
#else
#define COUNT_MAX 16384u
#endif

struct bookmark {
    struct table_node node; /* the hash is of the number */
    struct bookmark *newer, *older;
    uint64_t number;
    int64_t made_ns;
    size_t tenant_size, name_size;
    char text[]; /* tenant and name */
};

struct cursors {
    pthread_mutex_t lock;
    struct table table;
    struct bookmark *oldest, *newest;
    uint64_t last;
};

/* The numbers of another life of the process are none of this one's. */
struct cursors *cursors_new(void)
{
    struct cursors *cursors = must_calloc(1, sizeof *cursors);
    pthread_mutex_init(&cursors->lock, NULL);
    table_init(&cursors->table);
    int64_t seed = (int64_t)(intptr_t)cursors;
    cursors->last = hash_keyed(&hash_own, bytes_of(&seed, sizeof seed)) & FIRST_MAX;
    return cursors;
}

static uint64_t hash_of(uint64_t number)
{
    return hash_keyed(&hash_own, bytes_of(&number, sizeof number));
}

static struct bytes tenant_of(const struct bookmark *cursor)
{
    return bytes_of(cursor->text, cursor->tenant_size);
}

static void drop(struct cursors *cursors, struct bookmark *cursor)
{
    *(cursor->older ? &cursor->older->newer : &cursors->oldest) = cursor->newer;
    *(cursor->newer ? &cursor->newer->older : &cursors->newest) = cursor->older;
    table_remove(&cursors->table, &cursor->node);
    free(cursor);
}

void cursors_free(struct cursors *cursors)
{
    while (cursors->oldest)
        drop(cursors, cursors->oldest);
    table_release(&cursors->table);
    pthread_mutex_destroy(&cursors->lock);
    free(cursors);
}

static void make_room(struct cursors *cursors, struct bytes tenant, int64_t now_ns)
{
    while (cursors->oldest && now_ns - cursors->oldest->made_ns >= KEEP_NS)
        drop(cursors, cursors->oldest);
    if (cursors->table.count < COUNT_MAX) return;
    struct bookmark *own = cursors->oldest;
    while (own && !bytes_equal(tenant_of(own), tenant))
        own = own->newer;
    if (!own) own = cursors->oldest;
    must(own != NULL);
    drop(cursors, own);
}

uint64_t cursors_keep(struct cursors *cursors, struct bytes tenant, struct bytes name,
                      int64_t now_ns)
{
    struct bookmark *cursor = must_calloc(1, sizeof *cursor + tenant.size + name.size);
    cursor->made_ns = now_ns;
    cursor->tenant_size = tenant.size;
    cursor->name_size = name.size;
    memcpy(cursor->text, tenant.data, tenant.size);
    memcpy(cursor->text + tenant.size, name.data, name.size);
    pthread_mutex_lock(&cursors->lock);
    make_room(cursors, tenant, now_ns);
    uint64_t number = cursor->number = ++cursors->last;
    cursor->node.hash = hash_of(number);
    table_insert(&cursors->table, &cursor->node);
    cursor->older = cursors->newest;
    *(cursor->older ? &cursor->older->newer : &cursors->oldest) = cursor;
    cursors->newest = cursor;
    pthread_mutex_unlock(&cursors->lock);
    return number;
}

static const struct bookmark *find(const struct cursors *cursors, uint64_t number)
{
    TABLE_EACH_MATCH(&cursors->table, hash_of(number), node)
    {
        const struct bookmark *cursor = CONTAINER_OF(node, struct bookmark, node);
        if (cursor->number == number) return cursor;
    }
    return NULL;
}

bool cursors_find(struct cursors *cursors, struct bytes tenant, uint64_t number, int64_t now_ns,
                  struct arena *arena, struct bytes *name_out)
{
    pthread_mutex_lock(&cursors->lock);
    const struct bookmark *cursor = find(cursors, number);
    bool good =
        cursor && bytes_equal(tenant_of(cursor), tenant) && now_ns - cursor->made_ns < KEEP_NS;
    if (good)
        *name_out =
            arena_copy(arena, bytes_of(cursor->text + cursor->tenant_size, cursor->name_size));
    pthread_mutex_unlock(&cursors->lock);
    return good;
}
