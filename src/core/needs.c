/* needs.c -- lists what a batch could touch, each object once.
 *
 * A batch often hits the same few counters thousands of times, so ops are pointed at shared
 * entries through small open-addressing tables. The tables live in the batch's arena and are as
 * large as the batch: a lone increment pays for a handful of slots, not for five thousand. */
#include "core/apply.h"

struct index {
    uint32_t *slots; /* entry number + 1; 0: free */
    uint32_t mask;
};

static struct index index_new(struct arena *arena, uint32_t entries_max)
{
    uint32_t size = 8;
    while (size < entries_max * 2)
        size *= 2;
    return (struct index){arena_zalloc(arena, size * sizeof(uint32_t)), size - 1};
}

struct needs {
    struct apply *apply;
    struct index counters;
    struct index cells;
    struct index tenants;
    struct index keys;
};

static uint32_t need_tenant(struct needs *needs, struct bytes tenant)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)hash_checksum(tenant) & needs->tenants.mask;
    for (; needs->tenants.slots[at]; at = (at + 1) & needs->tenants.mask) {
        uint32_t found = needs->tenants.slots[at] - 1;
        if (bytes_equal(reads->tenants[found].tenant, tenant)) return found;
    }
    needs->tenants.slots[at] = ++reads->tenants_count;
    reads->tenants[reads->tenants_count - 1] = (struct read_tenant){.tenant = tenant};
    return reads->tenants_count - 1;
}

static uint32_t need_counter(struct needs *needs, const struct op *op)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)op->counter_print.low & needs->counters.mask;
    for (; needs->counters.slots[at]; at = (at + 1) & needs->counters.mask) {
        uint32_t found = needs->counters.slots[at] - 1;
        if (fingerprint_equal(reads->counters[found].print, op->counter_print)) return found;
    }
    needs->counters.slots[at] = ++reads->counters_count;
    reads->counters[reads->counters_count - 1] =
        (struct read_counter){.print = op->counter_print,
                              .key = op->counter,
                              .tenant_index = need_tenant(needs, op->tenant)};
    return reads->counters_count - 1;
}

static uint32_t need_cell(struct needs *needs, const struct op *op)
{
    struct read_set *reads = &needs->apply->reads;
    uint64_t hash = hash_mix((uint64_t)op->bucket ^ ((uint64_t)op->duration << 40) ^
                             ((uint64_t)op->counter_index * 0x9e3779b97f4a7c15u));
    uint32_t at = (uint32_t)hash & needs->cells.mask;
    for (; needs->cells.slots[at]; at = (at + 1) & needs->cells.mask) {
        uint32_t found = needs->cells.slots[at] - 1;
        const struct read_cell *cell = &reads->cells[found];
        if (cell->counter_index == op->counter_index && cell->duration == op->duration &&
            cell->bucket == op->bucket)
            return found;
    }
    needs->cells.slots[at] = ++reads->cells_count;
    reads->cells[reads->cells_count - 1] = (struct read_cell){
        .counter_index = op->counter_index, .duration = op->duration, .bucket = op->bucket};
    return reads->cells_count - 1;
}

static uint32_t need_key(struct needs *needs, struct fingerprint print)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)print.low & needs->keys.mask;
    for (; needs->keys.slots[at]; at = (at + 1) & needs->keys.mask) {
        uint32_t found = needs->keys.slots[at] - 1;
        if (fingerprint_equal(reads->keys[found].print, print)) return found;
    }
    needs->keys.slots[at] = ++reads->keys_count;
    reads->keys[reads->keys_count - 1] = (struct read_key){.print = print};
    return reads->keys_count - 1;
}

static void need_op(struct needs *needs, struct op *op)
{
    op->counter_index = need_counter(needs, op);
    if (op->kind != OP_DELETE) op->cell_index = need_cell(needs, op);
    if (op->keyed) op->key_index = need_key(needs, op->key);
}

static uint32_t keys_max(const struct apply *apply)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        count += slice->job->keyed;
        for (uint32_t i = 0; i < slice->count; i++)
            count += slice->job->ops[slice->first + i].keyed;
    }
    return count;
}

static void needs_init(struct needs *needs, struct apply *apply)
{
    uint32_t ops = 0;
    for (uint32_t s = 0; s < apply->slices_count; s++)
        ops += apply->slices[s].count;
    uint32_t keys = keys_max(apply);
    struct arena *arena = apply->arena;
    apply->ops_count = ops;
    apply->reads = (struct read_set){
        .counters = arena_alloc(arena, ops * sizeof(struct read_counter)),
        .cells = arena_alloc(arena, ops * sizeof(struct read_cell)),
        .tenants = arena_alloc(arena, ops * sizeof(struct read_tenant)),
        .keys = keys ? arena_alloc(arena, keys * sizeof(struct read_key)) : NULL,
    };
    *needs = (struct needs){.apply = apply,
                            .counters = index_new(arena, ops),
                            .cells = index_new(arena, ops),
                            .tenants = index_new(arena, ops),
                            .keys = index_new(arena, keys)};
}

void apply_needs(struct apply *apply)
{
    struct needs needs;
    needs_init(&needs, apply);
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        struct job *job = slice->job;
        must(slice->first + slice->count <= job->count);
        if (job->keyed) job->key_index = need_key(&needs, job->key);
        for (uint32_t i = 0; i < slice->count; i++) {
            struct op *op = &job->ops[slice->first + i];
            if (op->err == ERR_OK) need_op(&needs, op);
        }
    }
}
