/* known.c -- see the header.
 *
 * A shelf has two generations, each a table whose facts lie in an arena of their own. A fact that
 * is used while it is old becomes young again. When the young ones take half of the room the old
 * ones are given up all at once, which costs nothing a fact; so what was used lately stays, as in a
 * list of all facts by their last use, without such a list. */
#include "store/postgres/known.h"

#include <string.h>

#include "core/counter.h"

#define CHUNK_SIZE (64u << 10)
#define KEYS_SHARE 4u

enum fact_kind { FACT_COUNTER, FACT_CELL, FACT_TENANT, FACT_OBJECT, FACT_KEY };

struct fact {
    struct table_node node;
    struct fingerprint name;
    uint32_t size;
    uint32_t room; /* what a newer value may take in its place */
    uint8_t kind;
    char value[];
};

/* -- Generations ------------------------------------------------------------------------------- */

static void generation_init(struct generation *generation)
{
    table_init(&generation->table);
    arena_init(&generation->arena, CHUNK_SIZE);
}

static void generation_release(struct generation *generation)
{
    table_release(&generation->table);
    arena_release(&generation->arena);
}

static size_t generation_bytes(const struct generation *generation)
{
    return generation->arena.total +
           (generation->table.mask + 1) * sizeof *generation->table.buckets;
}

static struct fact *generation_find(const struct generation *generation, uint64_t hash,
                                    enum fact_kind kind, struct fingerprint name)
{
    TABLE_EACH_MATCH(&generation->table, hash, node)
    {
        struct fact *fact = CONTAINER_OF(node, struct fact, node);
        if (fact->kind == kind && fingerprint_equal(fact->name, name)) return fact;
    }
    return NULL;
}

static void shelf_init(struct shelf *shelf, size_t bytes_max)
{
    shelf->bytes_max = bytes_max;
    generation_init(&shelf->young);
    generation_init(&shelf->old);
}

static void shelf_release(struct shelf *shelf)
{
    generation_release(&shelf->young);
    generation_release(&shelf->old);
}

static void shelf_clear(struct shelf *shelf)
{
    shelf_release(shelf);
    shelf_init(shelf, shelf->bytes_max);
}

static void shelf_grow_old(struct shelf *shelf)
{
    generation_release(&shelf->old);
    shelf->old = shelf->young;
    generation_init(&shelf->young);
}

/* -- Facts ------------------------------------------------------------------------------------- */

static uint64_t hash_of(enum fact_kind kind, struct fingerprint name)
{
    return hash_fold(name.low ^ 0x9e3779b97f4a7c15u, name.high + 0xd6e8feb86659fd93u + kind);
}

static struct shelf *shelf_of(struct known_rows *known, enum fact_kind kind)
{
    return kind == FACT_KEY ? &known->keys : &known->rows;
}

/* Where a value of that size goes; the caller fills it in. */
static char *put(struct known_rows *known, enum fact_kind kind, struct fingerprint name,
                 size_t size)
{
    struct shelf *shelf = shelf_of(known, kind);
    uint64_t hash = hash_of(kind, name);
    struct fact *fact = generation_find(&shelf->young, hash, kind, name);
    if (!fact || fact->room < size) {
        if (fact) table_remove(&shelf->young.table, &fact->node);
        if (generation_bytes(&shelf->young) + size > shelf->bytes_max / 2) shelf_grow_old(shelf);
        struct fact *old = generation_find(&shelf->old, hash, kind, name);
        if (old) table_remove(&shelf->old.table, &old->node);
        fact = arena_alloc(&shelf->young.arena, sizeof *fact + size);
        *fact = (struct fact){
            .node.hash = hash, .name = name, .room = (uint32_t)size, .kind = (uint8_t)kind};
        table_insert(&shelf->young.table, &fact->node);
    }
    fact->size = (uint32_t)size;
    return fact->value;
}

/* A view that lives until the next change; BYTES_NONE: it is not known. */
static bool find(struct known_rows *known, enum fact_kind kind, struct fingerprint name,
                 struct bytes *value_out)
{
    struct shelf *shelf = shelf_of(known, kind);
    uint64_t hash = hash_of(kind, name);
    struct fact *fact = generation_find(&shelf->young, hash, kind, name);
    if (fact) {
        *value_out = bytes_of(fact->value, fact->size);
        return true;
    }
    fact = generation_find(&shelf->old, hash, kind, name);
    if (!fact) return false;
    if (generation_bytes(&shelf->young) + fact->size <= shelf->bytes_max / 2) {
        char *young = put(known, kind, name, fact->size);
        memcpy(young, fact->value, fact->size);
        *value_out = bytes_of(young, fact->size);
        return true;
    }
    *value_out = bytes_of(fact->value, fact->size); /* the next change makes room */
    return true;
}

static struct fingerprint cell_name(uint64_t series, int64_t bucket)
{
    return (struct fingerprint){.low = (uint64_t)bucket, .high = series};
}

/* -- All of them ------------------------------------------------------------------------------- */

void known_init(struct known_rows *known, size_t bytes_max)
{
    shelf_init(&known->keys, bytes_max / KEYS_SHARE);
    shelf_init(&known->rows, bytes_max - bytes_max / KEYS_SHARE);
}

void known_release(struct known_rows *known)
{
    shelf_release(&known->rows);
    shelf_release(&known->keys);
}

void known_clear(struct known_rows *known)
{
    shelf_clear(&known->rows);
    shelf_clear(&known->keys);
}

static size_t shelf_bytes(const struct shelf *shelf)
{
    return generation_bytes(&shelf->young) + generation_bytes(&shelf->old);
}

size_t known_bytes(const struct known_rows *known)
{
    return shelf_bytes(&known->rows) + shelf_bytes(&known->keys);
}

/* -- What is known ----------------------------------------------------------------------------- */

bool known_counter(struct known_rows *known, struct fingerprint print, struct arena *arena,
                   const struct counter **counter_out)
{
    struct bytes value;
    if (!find(known, FACT_COUNTER, print, &value)) return false;
    *counter_out = NULL;
    if (value.size == 0) return true;
    struct counter *counter = arena_alloc(arena, value.size);
    memcpy(counter, value.data, value.size);
    *counter_out = counter;
    return true;
}

bool known_cell(struct known_rows *known, uint64_t series, int64_t bucket, struct cell *cell_out)
{
    struct bytes value;
    if (!find(known, FACT_CELL, cell_name(series, bucket), &value)) return false;
    memcpy(cell_out, value.data, sizeof *cell_out);
    return true;
}

bool known_tenant(struct known_rows *known, struct fingerprint print, int64_t *cells_out)
{
    struct bytes value;
    if (!find(known, FACT_TENANT, print, &value)) return false;
    memcpy(cells_out, value.data, sizeof *cells_out);
    return true;
}

bool known_object(struct known_rows *known, struct fingerprint print, struct arena *arena,
                  struct bytes *value_out)
{
    struct bytes value;
    if (!find(known, FACT_OBJECT, print, &value)) return false;
    *value_out = value.size > 0 ? arena_copy(arena, value) : BYTES_NONE;
    return true;
}

bool known_key(struct known_rows *known, struct fingerprint print, struct arena *arena,
               struct key_record *record_out)
{
    struct bytes value;
    if (!find(known, FACT_KEY, print, &value)) return false;
    memcpy(record_out, value.data, sizeof *record_out);
    struct bytes outcome =
        bytes_of(value.data + sizeof *record_out, value.size - sizeof *record_out);
    record_out->outcome = outcome.size > 0 ? arena_copy(arena, outcome) : BYTES_NONE;
    return true;
}

void known_put_counter(struct known_rows *known, struct fingerprint print,
                       const struct counter *counter)
{
    size_t size = counter ? counter_size(counter->count) : 0;
    char *at = put(known, FACT_COUNTER, print, size);
    if (counter) memcpy(at, counter, size);
}

void known_put_cell(struct known_rows *known, uint64_t series, int64_t bucket,
                    const struct cell *cell)
{
    memcpy(put(known, FACT_CELL, cell_name(series, bucket), sizeof *cell), cell, sizeof *cell);
}

void known_put_tenant(struct known_rows *known, struct fingerprint print, int64_t cells)
{
    memcpy(put(known, FACT_TENANT, print, sizeof cells), &cells, sizeof cells);
}

void known_put_object(struct known_rows *known, struct fingerprint print, struct bytes value)
{
    char *at = put(known, FACT_OBJECT, print, value.size);
    if (value.size > 0) memcpy(at, value.data, value.size);
}

void known_put_key(struct known_rows *known, struct fingerprint print,
                   const struct key_record *record)
{
    char *at = put(known, FACT_KEY, print, sizeof *record + record->outcome.size);
    memcpy(at, record, sizeof *record);
    if (record->outcome.size > 0)
        memcpy(at + sizeof *record, record->outcome.data, record->outcome.size);
}
