/* probe.c -- the store between the commit layer and the real one.
 *
 * Every batch passes here as it is begun, loaded, submitted and reported. When it is submitted the
 * model decides the same operations in the same order; what it says is kept until the answers go
 * out. Checked here: numbers and time of each batch, that reports come in order and each once, that
 * a failure has a reason, and that after one nothing is left under way. */
#include "sim.h"

#include "base/table.h"
#include "store/memory.h"

#define SIM_OF(pointer) CONTAINER_OF(CONTAINER_OF(pointer, struct probe, store), struct sim, probe)

static struct store *real_of(struct store *store)
{
    return SIM_OF(store)->probe.real;
}

/* ---- deciding once more ---- */

static void decide_swept(struct sim *sim, struct model *model, int64_t time_ms, const struct op *op)
{
    struct model_bundle bundle = {.count = 1, .ops = {{.kind = MODEL_EXPIRE}}};
    struct model_op *asked = &bundle.ops[0];
    if (!plan_find(sim, op->counter, &asked->tenant, &asked->name) &&
        !plan_find_rule(sim, op->counter, &asked->tenant, &asked->name, &asked->generation))
        sim_fail(sim, "the sweep names a counter that never was");
    asked->duration = op->duration;
    asked->bucket = op->bucket;
    model_decide(model, &sim->plan.limits, time_ms, &bundle, 0, 1);
}

static void decide_flight(struct sim *sim, struct model *model, int64_t time_ms,
                          struct flight *flight, const struct slice *slice)
{
    for (uint32_t i = slice->first; i < slice->first + slice->count; i++)
        flight->expected.ops[i].put_off = flight->ops[i].err == ERR_BUSY;
    model_decide(model, &sim->plan.limits, time_ms, &flight->expected, slice->first, slice->count);
}

static void decide_slice(struct sim *sim, struct model *model, const struct apply *apply,
                         const struct slice *slice)
{
    struct flight *flight = traffic_flight(slice->bundle);
    if (flight)
        decide_flight(sim, model, apply->moment.now_ms, flight, slice);
    else if (slice->bundle->ops[slice->first].kind != OP_EXPIRE)
        care_decided(sim, model, apply, slice);
    else
        for (uint32_t i = 0; i < slice->count; i++)
            decide_swept(sim, model, apply->moment.now_ms, &slice->bundle->ops[slice->first + i]);
}

static void decide_batch(struct sim *sim, const struct apply *apply)
{
    const struct write_set *writes = &apply->writes;
    uint64_t before = chain_head(&sim->chain)->sequence;
    sim->plan.limits.refusals = 0;
    struct model *model = chain_push(&sim->chain);
    clocks_decided(sim, model, apply);
    sim->plan.limits.rules =
        sim->rules_next == SIM_NO_RULES ? NULL : &sim->plan.rulesets[sim->rules_next];
    for (uint32_t s = 0; s < apply->slices_count; s++)
        decide_slice(sim, model, apply, &apply->slices[s]);
    if (sim->plan.limits.early) sim_fail(sim, "a key is forgotten before its time");
    if (writes->set_back && writes->count && model->retained_ms > apply->moment.now_ms)
        sim_fail(sim, "what arrives now is not retained");
    if (writes->count != model->sequence - before ||
        (writes->count && writes->first_sequence != before + 1))
        sim_fail(sim, "the batch has sequences %llu+%u, expected %llu+%llu",
                 (unsigned long long)writes->first_sequence, writes->count,
                 (unsigned long long)before + 1, (unsigned long long)(model->sequence - before));
}

/* ---- the turn ---- */

static void fail_slices(struct sim *sim, const struct apply *apply)
{
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        struct flight *flight = traffic_flight(apply->slices[s].bundle);
        struct errand *errand = errand_of(apply->slices[s].bundle);
        if (flight) flight->failed = true;
        if (errand) errand->failed = true;
    }
}

/* One of the next calls fails, in whichever step of the turn. */
static bool fails_now(struct sim *sim)
{
    if (sim->probe.fail_loads == 0 || dice_chance(sim->dice, 30)) return false;
    sim->probe.fail_loads--;
    return true;
}

static enum err begin_real(struct sim *sim)
{
    struct store *real = sim->probe.real;
    enum err e = writer_begin(&real->writer);
    if (e != ERR_OK && life_writable(sim) && !sim->state_faulty && !sim->sync_breaks)
        sim_fail(sim, "a turn could not begin for no reason");
    return e;
}

static enum err probe_begin(struct writer *writer)
{
    struct sim *sim = SIM_OF(writer->store);
    if (sim->fleet->world == SIM_POSTGRES) nodes_look(sim);
    bool fails = sim->probe.dead || fails_now(sim);
    enum err e = fails ? ERR_STORAGE : begin_real(sim);
    sim->probe.loads = 0;
    if (e == ERR_OK)
        writer->position = sim->probe.real->writer.position;
    else
        traffic_refused(sim);
    return e;
}

static uint64_t errors_counted(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->probe.real, &stats);
    return stats.storage_errors;
}

/* A read that fails, of an id for one, fails the load and is counted. */
static enum err load_real(struct sim *sim, struct read_set *reads, struct arena *arena)
{
    struct store *real = sim->probe.real;
    uint64_t failed = sim->disk ? disk_reads_failed(sim->disk) : 0;
    uint64_t counted = errors_counted(sim);
    enum err e = writer_load(&real->writer, reads, arena);
    if (e == ERR_OK) return e;
    bool unread = sim->disk && disk_reads_failed(sim->disk) != failed;
    if (!unread && life_writable(sim) && !sim->state_faulty && !sim->sync_breaks)
        sim_fail(sim, "a load failed for no reason");
    if (errors_counted(sim) == counted) sim_fail(sim, "a load failed and was not counted");
    return e;
}

/* A failure comes before the store is asked or after it has answered. The turn is then abandoned.
 */
static enum err load_or_fail(struct sim *sim, struct read_set *reads, struct arena *arena)
{
    if (!fails_now(sim)) return load_real(sim, reads, arena);
    if (dice_chance(sim->dice, 70)) (void)!load_real(sim, reads, arena);
    return ERR_STORAGE;
}

static enum err probe_load(struct writer *writer, struct read_set *reads, struct arena *arena)
{
    struct sim *sim = SIM_OF(writer->store);
    const struct apply *apply = CONTAINER_OF(reads, struct apply, reads);
    if (sim->probe.loads++ == 0) traffic_taken(sim, apply);
    if (sim->fleet->world == SIM_POSTGRES) nodes_look(sim);
    enum err e = load_or_fail(sim, reads, arena);
    if (e != ERR_OK) fail_slices(sim, apply);
    return e;
}

static void probe_submit(struct writer *writer, struct write_set *writes)
{
    struct sim *sim = SIM_OF(writer->store);
    struct probe *probe = &sim->probe;
    const struct apply *apply = CONTAINER_OF(writes, struct apply, writes);
    chain_lay_ghosts(&sim->chain); /* a batch can only build on what is settled */
    decide_batch(sim, apply);
    must(probe->batches_count < CHAIN_MAX);
    probe->batches[probe->batches_count] = writes->batch;
    probe->applies[probe->batches_count++] = apply;
    writer_submit(&probe->real->writer, writes);
    writer->position = probe->real->writer.position;
}

static void probe_abandon(struct writer *writer, struct read_set *reads)
{
    writer_abandon(&real_of(writer->store)->writer, reads);
}

/* ---- reports ---- */

static void check_position(struct sim *sim)
{
    if (sim->probe.real->writer.position.last_sequence != sim->chain.shown.sequence)
        sim_fail(sim, "after a failed sync the store goes on from %llu, expected %llu",
                 (unsigned long long)sim->probe.real->writer.position.last_sequence,
                 (unsigned long long)sim->chain.shown.sequence);
}

/* The first failed report of a sync settles what is under way; the others only follow. */
static void settle_failure(struct sim *sim)
{
    struct chain *chain = &sim->chain;
    if (sim->fleet->world == SIM_EMBEDDED) {
        if (!sim->journal_faulty) sim_fail(sim, "a sync failed for no reason");
        if (chain->pending_count) chain_doubt_pending(chain);
    } else {
        if (!sim->sync_breaks && chain->pending_count) sim_fail(sim, "a sync failed for no reason");
        if (sim->break_keeps)
            chain_show_all(chain);
        else
            chain_drop_pending(chain);
        sim->sync_breaks = false;
    }
    check_position(sim);
}

static void take_report(struct sim *sim, void *batch, enum err e)
{
    struct probe *probe = &sim->probe;
    if (probe->batches_count == 0 || probe->batches[0] != batch)
        sim_fail(sim, "a batch was reported out of order or twice");
    const struct apply *apply = probe->applies[0];
    probe->batches_count--;
    memmove(probe->batches, probe->batches + 1, sizeof probe->batches - sizeof probe->batches[0]);
    memmove(probe->applies, probe->applies + 1, sizeof probe->applies - sizeof probe->applies[0]);
    if (e != ERR_OK) {
        fail_slices(sim, apply);
        if (!probe->dead) settle_failure(sim);
    } else if (sim->chain.pending_count == 0) {
        sim_fail(sim, "a batch was reported durable after one before it had failed");
    } else {
        chain_show_first(&sim->chain);
    }
    if (apply->slices[0].bundle->rules) reload_reported(sim, apply->slices[0].bundle, e);
}

static void probe_durable(void *context, void *batch, enum err e)
{
    struct sim *sim = context;
    take_report(sim, batch, e);
    sim->probe.store.writer.durable(sim->probe.store.writer.durable_context, batch, e);
}

static uint32_t report_dead(struct sim *sim)
{
    uint32_t count = 0;
    for (; sim->probe.batches_count; count++)
        probe_durable(sim, sim->probe.batches[0], ERR_STORAGE);
    return count;
}

/* A store that fails and keeps what it was given all the same is one that cannot tell. New rules
 * are then in its tables and not in force: so far no store is like that. */
static void keep_no_rules(struct sim *sim)
{
    if (!sim->sync_breaks || !sim->break_keeps || !errands_change_rules(sim)) return;
    sim->break_keeps = false;
    memory_break_sync(sim->probe.real, false);
}

static uint32_t probe_sync(struct writer *writer)
{
    struct sim *sim = SIM_OF(writer->store);
    if (sim->probe.dead) return report_dead(sim);
    if (sim->fleet->world == SIM_MEMORY) keep_no_rules(sim);
    if (sim->fleet->world == SIM_POSTGRES) nodes_look(sim);
    uint32_t before = sim->probe.batches_count;
    uint32_t count = writer_sync(&sim->probe.real->writer);
    if (sim->fleet->world == SIM_POSTGRES) sim->sync_breaks = false;
    if (count != before || sim->probe.batches_count)
        sim_fail(sim, "a sync reported %u batches of %u", count, before);
    return count;
}

/* ---- passed on, while it lives ---- */

static bool is_dead(struct store *store)
{
    return SIM_OF(store)->probe.dead;
}

static enum err probe_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                          enum read_how how, struct cell *cell_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_get(&real_of(view->store)->view, ref, bucket, how, cell_out);
}

static enum err probe_range(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                            struct range_newer *newer, store_cell_fn *visit, void *context)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_range(&real_of(view->store)->view, ref, from, to, newer, visit, context);
}

static enum err probe_series(struct view *view, const struct cell_ref *ref, uint64_t *series_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_series(&real_of(view->store)->view, ref, series_out);
}

static enum err probe_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                          uint32_t cells_max, struct range_sum *sum_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_sum(&real_of(view->store)->view, ref, from, to, cells_max, sum_out);
}

static enum err probe_list(struct view *view, struct bytes prefix, struct bytes after,
                           store_counter_fn *visit, void *context)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_list(&real_of(view->store)->view, prefix, after, visit, context);
}

static enum err probe_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                              const struct counter **counter_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_counter(&real_of(view->store)->view, ref, arena, counter_out);
}

static enum err probe_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context)
{
    if (is_dead(store)) return ERR_STORAGE;
    return store_due(real_of(store), now_ms, visit, context);
}

static enum err probe_object(struct view *view, struct bytes key, struct buf *value_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_object(&real_of(view->store)->view, key, value_out);
}

static enum err probe_objects(struct view *view, struct bytes prefix, struct bytes after,
                              store_object_fn *visit, void *context)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_objects(&real_of(view->store)->view, prefix, after, visit, context);
}

struct outer_read {
    struct view *outer;
    view_read_fn *read;
    void *context;
};

static void read_outer(void *context, struct view *moment)
{
    (void)moment;
    const struct outer_read *reading = context;
    reading->read(reading->context, reading->outer);
}

/* The reads inside come by here again: the probe sees them, too. */
static void probe_instant(struct view *view, view_read_fn *read, void *context)
{
    struct outer_read reading = {.outer = view, .read = read, .context = context};
    view_instant(&real_of(view->store)->view, read_outer, &reading);
}

static enum err probe_events(struct view *view, const struct event_query *query,
                             store_event_fn *visit, void *context, uint64_t *next_out)
{
    if (is_dead(view->store)) return ERR_STORAGE;
    return view_events(&real_of(view->store)->view, query, visit, context, next_out);
}

static void probe_forget(struct store *store, int64_t before_ms)
{
    if (before_ms > SIM_OF(store)->chain.shown.retained_ms)
        sim_fail(SIM_OF(store), "history is dropped before a commit has said so");
    if (!is_dead(store)) store_forget(real_of(store), before_ms);
}

static bool probe_tend(struct store *store)
{
    return !is_dead(store) && store_tend(real_of(store));
}

static void probe_stats(struct store *store, struct store_stats *stats_out)
{
    memset(stats_out, 0, sizeof *stats_out);
    if (!is_dead(store)) store_stats(real_of(store), stats_out);
}

static void probe_close(struct store *store)
{
    store_close(real_of(store));
}

static const struct writer_ops probe_writer_ops = {
    .begin = probe_begin,
    .load = probe_load,
    .submit = probe_submit,
    .abandon = probe_abandon,
    .sync = probe_sync,
};

static const struct view_ops probe_view_ops = {
    .get = probe_get,
    .range = probe_range,
    .sum = probe_sum,
    .counter = probe_counter,
    .series = probe_series,
    .list = probe_list,
    .object = probe_object,
    .objects = probe_objects,
    .instant = probe_instant,
    .events = probe_events,
};

static const struct store_ops probe_ops = {
    .name = "probe",
    .forget = probe_forget,
    .due = probe_due,
    .tend = probe_tend,
    .stats = probe_stats,
    .close = probe_close,
};

void probe_init(struct sim *sim, struct store *real)
{
    sim->probe = (struct probe){.real = real};
    store_init(&sim->probe.store, &probe_ops, &probe_writer_ops, &probe_view_ops);
    sim->probe.store.writer.position = real->writer.position;
    sim->probe.store.secret = real->secret;
    real->writer.durable = probe_durable;
    real->writer.durable_context = sim;
}
