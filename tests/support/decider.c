/* decider.c -- see decider.h. */
#include "support/decider.h"

#include "store/memory.h"

static void ignore_durable(void *context, void *batch, enum err e)
{
    (void)context, (void)batch;
    must(e == ERR_OK);
}

void decider_init(struct decider *decider)
{
    *decider = (struct decider){.moment = {.now_ms = 1000000}};
    decider->limits =
        (struct apply_limits){.tenant_cells = 1000000, .granularities = 16, .key_keep_ms = 60000};
    enum err e = memory_open(&decider->store);
    must(e == ERR_OK);
    decider->store->writer.durable = ignore_durable;
    asks_init(&decider->asks, &decider->store->secret);
    arena_init(&decider->arena, 4096);
    decider->parser = json_parser_new(EVENT_SIZE_MAX);
}

void decider_release(struct decider *decider)
{
    if (decider->decided) decider_give_up(decider);
    store_close(decider->store);
    arena_release(&decider->arena);
    json_parser_free(decider->parser);
    asks_release(&decider->asks);
}

static void begin(struct decider *decider)
{
    if (decider->bundles_count > 0 && decider->apply.arena == NULL) return; /* still being filled */
    must(!decider->decided);
    arena_reset(&decider->arena);
    decider->apply = (struct apply){0};
    decider->bundles_count = 0;
}

struct op *decider_bundle(struct decider *decider, struct bundle shape, const struct op *ops,
                          uint32_t count)
{
    begin(decider);
    must(decider->bundles_count < DECIDER_JOBS_MAX);
    struct bundle *bundle = &decider->bundles[decider->bundles_count];
    *bundle = shape;
    bundle->ops = arena_alloc(&decider->arena, count * sizeof *ops);
    memcpy(bundle->ops, ops, count * sizeof *ops);
    bundle->count = count;
    decider->slices[decider->bundles_count++] = (struct slice){bundle, 0, count};
    return bundle->ops;
}

void decider_decide(struct decider *decider)
{
    struct store *store = decider->store;
    struct apply *apply = &decider->apply;
    *apply = (struct apply){.arena = &decider->arena,
                            .limits = &decider->limits,
                            .slices = decider->slices,
                            .slices_count = decider->bundles_count,
                            .rules = decider->rules,
                            .secret = &store->secret,
                            .parser = decider->parser,
                            .moment = decider->moment,
                            .set_back = decider->set_back,
                            .sequence = store->writer.position.last_sequence,
                            .next_series = store->writer.position.next_series};
    enum err e = writer_begin(&store->writer);
    must(e == ERR_OK);
    apply_identify(apply);
    e = writer_load(&store->writer, &apply->reads, &decider->arena);
    must(e == ERR_OK);
    apply_needs(apply);
    e = writer_load(&store->writer, &apply->reads, &decider->arena);
    must(e == ERR_OK);
    apply_decide(apply);
    decider->decided = true;
}

void decider_keep(struct decider *decider)
{
    must(decider->decided);
    decider->decided = false;
    writer_submit(&decider->store->writer, &decider->apply.writes);
    writer_sync(&decider->store->writer);
}

void decider_give_up(struct decider *decider)
{
    must(decider->decided);
    decider->decided = false;
    writer_abandon(&decider->store->writer, &decider->apply.reads);
}

struct op decider_do(struct decider *decider, struct op op)
{
    struct op *done = decider_bundle(decider, (struct bundle){0}, &op, 1);
    decider_decide(decider);
    decider_keep(decider);
    return *done;
}
