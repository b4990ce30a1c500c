/* busy.c -- see the header. */
#include "api/views/busy.h"

#include <stdlib.h>
#include <string.h>

#include "api/counters/granularity.h"
#include "base/hash.h"

#define SETS 512u
#define WAYS 8u
#define STRETCH_NS INT64_C(2000000000)

struct busy_name {
    uint64_t hash;
    uint64_t now;    /* changes of the stretch under way */
    uint64_t before; /* and of the one before */
    char *name;      /* NULL: the place is free */
    uint32_t size;
    int32_t duration;
};

struct busy {
    struct busy_name names[SETS][WAYS];
    int64_t now_ns;    /* when the stretch under way began */
    int64_t before_ns; /* and the one before */
};

struct busy *busy_new(int64_t now_ns)
{
    struct busy *busy = must_calloc(1, sizeof *busy);
    busy->now_ns = busy->before_ns = now_ns;
    return busy;
}

void busy_free(struct busy *busy)
{
    if (!busy) return;
    for (unsigned set = 0; set < SETS; set++)
        for (unsigned way = 0; way < WAYS; way++)
            free(busy->names[set][way].name);
    free(busy);
}

static void let_go(struct busy_name *name)
{
    free(name->name);
    *name = (struct busy_name){0};
}

static uint64_t changes_of(const struct busy_name *name)
{
    return name->now + name->before;
}

/* A new stretch begins; a name without a change in the one that ends is forgotten. */
static void turn(struct busy *busy, int64_t now_ns)
{
    if (now_ns - busy->now_ns < STRETCH_NS) return;
    for (unsigned set = 0; set < SETS; set++) {
        for (unsigned way = 0; way < WAYS; way++) {
            struct busy_name *name = &busy->names[set][way];
            name->before = name->now;
            name->now = 0;
            if (name->before == 0) let_go(name);
        }
    }
    busy->before_ns = busy->now_ns;
    busy->now_ns = now_ns;
}

static bool is_it(const struct busy_name *place, uint64_t hash, struct bytes name)
{
    return place->name && place->hash == hash &&
           bytes_equal(bytes_of(place->name, place->size), name);
}

/* The name's place, or the one that it may have. */
static struct busy_name *place_of(struct busy *busy, uint64_t hash, struct bytes name)
{
    struct busy_name *places = busy->names[hash % SETS];
    struct busy_name *least = &places[0];
    for (unsigned way = 0; way < WAYS; way++) {
        if (is_it(&places[way], hash, name)) return &places[way];
        if (changes_of(&places[way]) < changes_of(least)) least = &places[way];
    }
    return least;
}

void busy_add(struct busy *busy, struct bytes name, int32_t duration, int64_t now_ns)
{
    uint64_t hash = hash_keyed(&hash_own, name);
    turn(busy, now_ns);
    struct busy_name *place = place_of(busy, hash, name);
    if (!is_it(place, hash, name)) {
        let_go(place);
        place->name = must_alloc(name.size);
        memcpy(place->name, name.data, name.size);
        place->size = (uint32_t)name.size;
        place->hash = hash;
    }
    place->duration = duration;
    place->now++;
}

static int busier_first(const void *a, const void *b)
{
    const struct busy_name *left = *(const struct busy_name *const *)a;
    const struct busy_name *right = *(const struct busy_name *const *)b;
    if (changes_of(left) != changes_of(right)) return changes_of(left) < changes_of(right) ? 1 : -1;
    return bytes_compare(bytes_of(left->name, left->size), bytes_of(right->name, right->size));
}

static size_t sorted(const struct busy *busy, const struct busy_name *out[SETS * WAYS])
{
    size_t count = 0;
    for (unsigned set = 0; set < SETS; set++)
        for (unsigned way = 0; way < WAYS; way++)
            if (busy->names[set][way].name) out[count++] = &busy->names[set][way];
    if (count) qsort(out, count, sizeof *out, busier_first);
    return count;
}

void busy_write(struct busy *busy, int64_t now_ns, size_t limit, struct buf *json)
{
    const struct busy_name **names = must_alloc(SETS * WAYS * sizeof *names);
    turn(busy, now_ns);
    size_t count = sorted(busy, names);
    buf_addf(json, "{\"milliseconds\":%lld,\"counters\":[",
             (long long)((now_ns - busy->before_ns) / 1000000));
    for (size_t i = 0; i < count && i < limit; i++) {
        buf_add(json, i ? BYTES(",{\"name\":") : BYTES("{\"name\":"));
        buf_add_json(json, bytes_of(names[i]->name, names[i]->size));
        buf_add_char(json, ',');
        granularity_write_fields(json, names[i]->duration);
        buf_add(json, BYTES(",\"changes\":\""));
        buf_add_u64(json, changes_of(names[i]));
        buf_add(json, BYTES("\"}"));
    }
    buf_add(json, BYTES("]}"));
    free(names);
}
