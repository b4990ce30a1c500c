/* commit.c -- turns queued operations into durable, answered operations.
 *
 * The thread that has the turn, the commit thread or a helper, owns the store's write side.
 * Each turn: drain the queue, load what the batch could touch, decide it in memory, hand it
 * to the store. The sync thread, or for small batches the same one, makes it durable and
 * answers every waiter.
 *
 * The states of a batch are drawn in commit/batch.h.
 *
 * (1) A reply leaves only after the store has said that its batch, and so every earlier one, is
 *     durable. Refusals too: they were judged on values that might not have become durable.
 * (2) A batch is committed whole or not at all.
 * (3) Numbers and time go on from writer->position, which a failed sync winds back, so sequence
 *     numbers grow by one with no gap across failures and restarts.
 * (4) Batch time is what the clock says (commit/timekeeper.h), and never before the batch before
 *     but in a bundle that sets it back.
 *
 * Who decides, who syncs and who waits is asked of commit/pace.h. While little is queued, a turn
 * waits for the sync before it and syncs its own batch itself, so batches grow by themselves to
 * what arrives during one sync; only when they are large do deciding and syncing overlap. */
#include "commit/commit.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/metrics.h"
#include "commit/batch.h"
#include "commit/pace.h"
#include "core/event.h"
#include "store/damage.h"

#define REFUSED_SHRINKS 8u    /* by how much batches shrink when one was refused */
#define REFUSED_BATCHES 1000u /* after so many good ones they may be large again */

struct commit {
    struct commit_config config;
    pthread_mutex_t turning; /* one thread at a time has the turn */
    pthread_mutex_t syncing; /* and one is in the store's sync */
    pthread_mutex_t lock;
    pthread_cond_t batch_freed;
    pthread_cond_t submitted_more;
    struct batch *free_batches;
    struct batch **handed; /* a ring of `batches_max`: what the store has, in order */
    uint64_t drained;      /* batches begun, and */
    uint64_t handed_count; /* those handed to the store; the turn's */
    uint64_t told_count;   /* those reported by the store; the sync's */
    uint64_t submitted;    /* batches handed to the store */
    uint64_t reported;     /* batches the store has answered */
    bool closed;
    struct batch *batches;
    uint32_t bound_ops;         /* atomic: how many ops a batch may have; see judge_refusal */
    uint32_t bounded_ops;       /* the turn's: what the queue was told of it */
    uint32_t good_batches;      /* the sync's: since the store refused one */
    int64_t lag_ns;             /* atomic: the last batch's */
    int64_t answered_ns;        /* atomic: when that was */
    struct json_parser *parser; /* the turn's */
    int64_t gap_ns;             /* the turn's: from the answers before it to its beginning */
    bool beginning;             /* atomic: a turn has taken ops and asks the store to begin */
    uint64_t followed;          /* the turn's: which change of rules the rulebook is at */

    struct pace_linger linger; /* the turn's */
};

static void commit_durable(void *context, void *batch_pointer, enum err e);
static bool sync_now(struct commit *commit, bool turns);

/* -- Laws -------------------------------------------------------------------------------------- */

/* For a thread that holds the lock, or is alone. A batch is free, or at the store, or with the
 * thread that has the turn, and that is one at a time. */
static void check_batches(const struct commit *commit)
{
    uint64_t free_count = 0;
    for (const struct batch *batch = commit->free_batches; batch; batch = batch->next) {
        must(batch->state == BATCH_FREE);
        free_count++;
    }
    must(free_count <= commit->config.batches_max);
    must(free_count + commit->submitted + 1 >= commit->config.batches_max + commit->reported);
}

static void commit_check(const struct commit *commit)
{
    must(commit->reported <= commit->submitted + 1); /* counted by the turn a little later */
    if (SLOW_CHECKS) check_batches(commit);
}

static void commit_lock(struct commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    commit_check(commit);
}

static void commit_unlock(struct commit *commit)
{
    if (SLOW_CHECKS) commit_check(commit);
    pthread_mutex_unlock(&commit->lock);
}

/* -- Beginning and end ------------------------------------------------------------------------- */

struct commit *commit_new(const struct commit_config *config)
{
    must(config->batch_ops_max > 0);
    must(config->batches_max > 0);
    struct commit *commit = must_calloc(1, sizeof *commit);
    commit->config = *config;
    pthread_mutex_init(&commit->turning, NULL);
    pthread_mutex_init(&commit->syncing, NULL);
    pthread_mutex_init(&commit->lock, NULL);
    pthread_cond_init(&commit->batch_freed, NULL);
    pthread_cond_init(&commit->submitted_more, NULL);
    commit->batches = must_calloc(config->batches_max, sizeof *commit->batches);
    commit->handed = must_calloc(config->batches_max, sizeof(struct batch *));
    for (uint32_t i = 0; i < config->batches_max; i++) {
        struct batch *batch = &commit->batches[i];
        batch_init(batch, config->lane, config->batch_ops_max);
        batch->next = commit->free_batches;
        commit->free_batches = batch;
    }
    commit->parser = json_parser_new(EVENT_SIZE_MAX);
    commit->bound_ops = commit->bounded_ops = UINT32_MAX;
    config->store->writer.durable = commit_durable;
    config->store->writer.durable_context = commit;
    return commit;
}

void commit_free(struct commit *commit)
{
    commit_check(commit);
    must(commit->submitted == commit->reported);
    for (uint32_t i = 0; i < commit->config.batches_max; i++)
        batch_release(&commit->batches[i]);
    free(commit->batches);
    free(commit->handed);
    json_parser_free(commit->parser);
    pthread_cond_destroy(&commit->submitted_more);
    pthread_cond_destroy(&commit->batch_freed);
    pthread_mutex_destroy(&commit->lock);
    pthread_mutex_destroy(&commit->syncing);
    pthread_mutex_destroy(&commit->turning);
    free(commit);
}

/* Under the lock. The last one may be reported before it is counted as submitted. */
static uint64_t in_flight(const struct commit *commit)
{
    return commit->submitted > commit->reported ? commit->submitted - commit->reported : 0;
}

static struct batch *batch_take(struct commit *commit)
{
    uint32_t small_ops = commit->config.small_ops;
    uint32_t waiting_ops = queue_waiting(commit->config.queue);
    commit_lock(commit);
    while (!commit->free_batches || pace_turn_waits(small_ops, waiting_ops, in_flight(commit)))
        pthread_cond_wait(&commit->batch_freed, &commit->lock);
    struct batch *batch = commit->free_batches;
    commit->free_batches = batch->next;
    commit_unlock(commit);
    return batch;
}

static void batch_put_back(struct commit *commit, struct batch *batch)
{
    commit_lock(commit);
    batch->next = commit->free_batches;
    commit->free_batches = batch;
    commit_unlock(commit);
}

static void batch_give(struct commit *commit, struct batch *batch)
{
    batch_enter(batch, BATCH_FREE);
    batch_put_back(commit, batch);
}

/* A place in the ring of what the store has. */
static struct batch **handed_place(struct commit *commit, uint64_t count)
{
    return &commit->handed[count % commit->config.batches_max];
}

/* The store refuses these ops alone of a client's bundle that may be cut. */
static void refuse_ops(const struct slice *slice, enum err e)
{
    for (uint32_t i = 0; i < slice->count; i++)
        slice->bundle->ops[slice->first + i].err = e;
}

/* A large bundle's slices may be answered by several threads: the one that had the turn
 * answers what it could not submit. True for the thread that answers the last op, and so
 * finishes the bundle. */
static bool answer_slice(const struct slice *slice, enum err e)
{
    struct bundle *bundle = slice->bundle;
    if (e == ERR_INTERNAL && !bundle->whole && bundle->queued_ns)
        refuse_ops(slice, e);
    else if (e != ERR_OK)
        __atomic_store_n(&bundle->err, e, __ATOMIC_RELAXED);
    uint32_t answered = __atomic_add_fetch(&bundle->answered, slice->count, __ATOMIC_ACQ_REL);
    must(answered <= bundle->count);
    return answered == bundle->count;
}

/* New rules come into force for all tenants with the batch that carried them. */
static void settle_rules(struct commit *commit, const struct batch *batch, enum err e)
{
    for (uint32_t s = 0; s < batch->apply.slices_count; s++) {
        const struct bundle *bundle = batch->slices[s].bundle;
        if (bundle->rules && bundle->err == ERR_OK)
            rulebook_settled(commit->config.rulebook, e == ERR_OK);
    }
}

static void answer_batch(struct commit *commit, struct batch *batch, enum err e)
{
    must(e != ERR_OK || batch->state == BATCH_DURABLE); /* (1) */
    batch_enter(batch, BATCH_ANSWERED);
    struct bundle *finished = NULL;
    struct bundle **end = &finished;
    for (uint32_t s = 0; s < batch->apply.slices_count; s++) {
        if (!answer_slice(&batch->slices[s], e)) continue;
        *end = batch->slices[s].bundle;
        end = &batch->slices[s].bundle->next;
    }
    *end = NULL;
    if (finished) queue_done_all(commit->config.queue, finished);
    while (finished) {
        struct bundle *bundle = finished;
        finished = bundle->next; /* its owner may be gone once it is told */
        bundle->done(bundle);
    }
}

/* Bundles of caretakers have no time of arrival. */
static int64_t batch_lag_ns(const struct batch *batch, int64_t now_ns)
{
    int64_t oldest_ns = now_ns;
    for (uint32_t s = 0; s < batch->apply.slices_count; s++) {
        int64_t queued_ns = batch->slices[s].bundle->queued_ns;
        if (queued_ns && queued_ns < oldest_ns) oldest_ns = queued_ns;
    }
    return now_ns - oldest_ns;
}

int64_t commit_lag_ns(const struct commit *commit)
{
    int64_t busy_ns = queue_busy_ns(commit->config.queue);
    int64_t answered_ns = __atomic_load_n(&commit->answered_ns, __ATOMIC_RELAXED);
    int64_t lag_ns = __atomic_load_n(&commit->lag_ns, __ATOMIC_RELAXED);
    if (busy_ns == 0) return 0;
    int64_t since_ns = busy_ns > answered_ns ? busy_ns : answered_ns;
    int64_t waited_ns = clock_mono_ns(commit->config.clock) - since_ns;
    return waited_ns > lag_ns ? waited_ns : lag_ns;
}

/* A store that refuses what is in a batch, however often it is tried, gets smaller and smaller ones
 * until what it refuses is alone: only that is told so. All others are told to try again, as after
 * any failed sync, because what was decided once cannot be decided anew. */
static enum err judge_refusal(struct commit *commit, const struct batch *batch, enum err e)
{
    uint32_t bound = __atomic_load_n(&commit->bound_ops, __ATOMIC_RELAXED);
    uint32_t smaller =
        batch->place.ops / REFUSED_SHRINKS > 0 ? batch->place.ops / REFUSED_SHRINKS : 1;
    bool found = e == ERR_INTERNAL && batch->lone;
    must(!found || batch->apply.slices_count == 1);
    if (e == ERR_INTERNAL) commit->good_batches = 0;
    if (e == ERR_OK && bound != UINT32_MAX) commit->good_batches++;
    if (found || commit->good_batches > REFUSED_BATCHES)
        bound = UINT32_MAX;
    else if (e == ERR_INTERNAL && smaller < bound)
        bound = smaller;
    if (bound == UINT32_MAX) commit->good_batches = 0;
    __atomic_store_n(&commit->bound_ops, bound, __ATOMIC_RELAXED);
    return e == ERR_INTERNAL && !found ? ERR_STORAGE : e;
}

static void commit_durable(void *context, void *batch_pointer, enum err e)
{
    struct commit *commit = context;
    struct batch *batch = batch_pointer;
    struct batch **oldest = handed_place(commit, commit->told_count++);
    must(batch == *oldest); /* (1), (3): in the order in which they were decided */
    __atomic_store_n(oldest, NULL, __ATOMIC_RELEASE);
    must_at = &batch->place;
    e = judge_refusal(commit, batch, e);
    if (e == ERR_OK) batch_enter(batch, BATCH_DURABLE);
    if (e == ERR_OK) crash_point("commit.before_answer");
    int64_t now_ns = clock_mono_ns(commit->config.clock);
    metric_observe_lane(METRIC_COMMIT_SECONDS, commit->config.lane,
                        (double)(now_ns - batch->started_ns) * 1e-9);
    __atomic_store_n(&commit->lag_ns, batch_lag_ns(batch, now_ns), __ATOMIC_RELAXED);
    __atomic_store_n(&commit->answered_ns, now_ns, __ATOMIC_RELAXED);
    settle_rules(commit, batch, e);
    answer_batch(commit, batch, e);
    batch_give(commit, batch);
}

static void batch_refuse(struct commit *commit, struct batch *batch, enum err e)
{
    answer_batch(commit, batch, e);
    batch_give(commit, batch);
    must_at = NULL;
    commit->config.answered(commit->config.context);
}

static void sync_inline(struct commit *commit, uint32_t ops)
{
    int64_t before_ns = clock_mono_ns(commit->config.clock);
    sync_now(commit, true);
    int64_t sync_ns = clock_mono_ns(commit->config.clock) - before_ns;
    pace_synced(&commit->linger, sync_ns, ops + queue_waiting(commit->config.queue));
}

static void commit_linger(struct commit *commit)
{
    struct queue *queue = commit->config.queue;
    int64_t linger_ns = pace_linger_ns(&commit->linger);
    if (linger_ns == 0) return;
    queue_gather(queue, commit->linger.expected_ops, linger_ns);
    pace_lingered(&commit->linger, queue_waiting(queue));
}

static void batch_submit(struct commit *commit, struct batch *batch)
{
    const struct store_position *position = &commit->config.store->writer.position;
    struct write_set *writes = &batch->apply.writes;
    uint32_t ops = batch->place.ops;
    must(writes->first_sequence == position->last_sequence + 1); /* (3) */
    must(writes->next_series >= position->next_series);
    must(writes->time_ms >= position->time_ms || writes->set_back); /* (4) */
    writes->batch = batch;
    batch_enter(batch, BATCH_SUBMITTED);
    __atomic_store_n(handed_place(commit, commit->handed_count++), batch, __ATOMIC_RELEASE);
    writer_submit(&commit->config.store->writer, writes);
    must_at = NULL;
    commit_lock(commit);
    commit->submitted++;
    bool here = pace_turn_syncs(commit->config.small_ops, ops, in_flight(commit));
    commit_unlock(commit);
    if (here)
        sync_inline(commit, ops);
    else
        pthread_cond_signal(&commit->submitted_more);
}

/* A clock that knows what is sure says so; by a plain clock everything is sure. */
static struct moment batch_moment(const struct commit *commit, bool set_back)
{
    const struct clock *clock = commit->config.clock;
    int64_t least_ms = set_back ? INT64_MIN : commit->config.store->writer.position.time_ms;
    struct moment moment = clock_moment(clock);
    if (clock->moment)
        moment_raise(&moment, least_ms);
    else if (moment.now_ms < least_ms)
        moment.now_ms = least_ms;
    return moment;
}

/* Time and numbers go on where the store's last batch left them. */
static void batch_begin(struct commit *commit, struct batch *batch, uint32_t slices_count)
{
    const struct store_position *position = &commit->config.store->writer.position;
    struct bundle *first = batch->slices[0].bundle;
    batch->set_back = first->retime && first->retime(first);
    if (commit->config.rulebook) batch->rules = rulebook_next(commit->config.rulebook);
    batch->apply = (struct apply){.arena = &batch->arena,
                                  .limits = &commit->config.limits,
                                  .slices = batch->slices,
                                  .slices_count = slices_count,
                                  .rules = batch->rules,
                                  .secret = &commit->config.store->secret,
                                  .parser = commit->parser,
                                  .moment = batch_moment(commit, batch->set_back),
                                  .set_back = batch->set_back,
                                  .sequence = position->last_sequence,
                                  .next_series = position->next_series};
    batch->place.first_sequence = position->last_sequence + 1;
}

/* Both steps of core/apply.h; most batches have nothing to look up in the first. */
static enum err batch_load(struct commit *commit, struct batch *batch)
{
    struct store *store = commit->config.store;
    struct apply *apply = &batch->apply;
    enum err e = ERR_OK;
    apply_identify(apply);
    if (apply->reads.keys_count || apply->reads.objects_count)
        e = writer_load(&store->writer, &apply->reads, &batch->arena);
    if (e != ERR_OK) return e;
    apply_needs(apply);
    e = writer_load(&store->writer, &apply->reads, &batch->arena);
    if (e == ERR_OK) batch_enter(batch, BATCH_LOADED);
    return e;
}

static void batch_decide(struct commit *commit, struct batch *batch)
{
    const struct damage *damage = &batch->apply.damage;
    apply_decide(&batch->apply);
    batch_enter(batch, BATCH_DECIDED);
    if (damage->count) damage_say(damage->what, damage->key, damage->count);
    crash_point("commit.decided");
    for (uint32_t s = 0; s < batch->apply.slices_count; s++) {
        struct bundle *bundle = batch->slices[s].bundle;
        if (bundle->rules && bundle->err == ERR_OK)
            rulebook_decided(commit->config.rulebook, bundle->rules);
    }
}

static uint64_t count_in_flight(struct commit *commit)
{
    commit_lock(commit);
    uint64_t count = in_flight(commit);
    commit_unlock(commit);
    return count;
}

/* A batch goes by the rules that the store holds, whichever node brought them into force. Rules of
 * our own are read again, too: they were made of those that were in force here then. */
static enum err follow_rules(struct commit *commit)
{
    uint64_t newest = commit->config.store->writer.position.rules;
    if (!commit->config.follow || newest == commit->followed) return ERR_OK;
    enum err e = commit->config.follow(commit->config.context, commit->config.lane);
    if (e == ERR_OK) commit->followed = newest;
    return e;
}

/* The store's turn. A bundle that has to see everything before it waits until all of it is durable;
 * the queue gives such a bundle alone. */
static enum err turn_begin(struct commit *commit, const struct batch *batch)
{
    while (batch->slices[0].bundle->prepare && count_in_flight(commit))
        commit_sync_now(commit);
    __atomic_store_n(&commit->beginning, true, __ATOMIC_RELAXED);
    enum err e = writer_begin(&commit->config.store->writer);
    __atomic_store_n(&commit->beginning, false, __ATOMIC_RELAXED);
    if (e != ERR_OK) return e;
    e = follow_rules(commit);
    if (e != ERR_OK) writer_abandon(&commit->config.store->writer, &(struct read_set){0});
    return e;
}

static void batch_prepare(struct batch *batch)
{
    struct bundle *bundle = batch->slices[0].bundle;
    if (!bundle->prepare) return;
    must(batch->apply.slices_count == 1);
    bundle->prepare(bundle, batch->apply.moment.now_ms);
    batch->slices[0].count = bundle->count;
    batch_count(batch);
}

static void batch_drained(struct commit *commit, struct batch *batch, uint32_t slices_count)
{
    must_at = &batch->place;
    batch->started_ns = clock_mono_ns(commit->config.clock);
    commit->gap_ns = batch->started_ns - __atomic_load_n(&commit->answered_ns, __ATOMIC_RELAXED);
    batch->place.batch = ++commit->drained;
    batch->place.first_sequence = 0;
    batch->apply = (struct apply){.slices = batch->slices, .slices_count = slices_count};
    batch_count(batch);
    batch_enter(batch, BATCH_DRAINED);
}

/* A batch that may be small only is the only one at the store, so that a refusal is of it. */
static void bound_batch(struct commit *commit, struct batch *batch)
{
    uint32_t bound = __atomic_load_n(&commit->bound_ops, __ATOMIC_RELAXED);
    while (bound != UINT32_MAX && count_in_flight(commit))
        commit_sync_now(commit);
    batch->lone = bound == 1;
    if (bound != commit->bounded_ops) queue_bound(commit->config.queue, bound);
    commit->bounded_ops = bound;
}

static bool turn(struct commit *commit)
{
    struct batch *batch = batch_take(commit);
    bound_batch(commit, batch);
    uint32_t count = queue_take(commit->config.queue, batch->slices, commit->config.batch_ops_max);
    if (count == 0) {
        batch_put_back(commit, batch);
        return false;
    }
    batch_drained(commit, batch, count);
    struct store *store = commit->config.store;
    enum err e = turn_begin(commit, batch);
    if (e != ERR_OK) {
        batch_refuse(commit, batch, e);
        return true;
    }
    batch_begin(commit, batch, count);
    batch_prepare(batch);
    e = batch_load(commit, batch);
    if (e != ERR_OK) {
        writer_abandon(&store->writer, &batch->apply.reads);
        batch_refuse(commit, batch, e);
        return true;
    }
    batch_decide(commit, batch);
    metric_observe_lane(METRIC_BATCH_SIZE, commit->config.lane, (double)batch->apply.ops_count);
    batch_submit(commit, batch);
    return true;
}

bool commit_turn(struct commit *commit)
{
    pthread_mutex_lock(&commit->turning);
    commit_linger(commit);
    bool any = turn(commit);
    pthread_mutex_unlock(&commit->turning);
    return any;
}

/* The thread that has the turn while another one pushes looks at the queue again afterwards: the
 * commit thread in queue_wait, a helper here. So nothing is left lying. */
void commit_help(struct commit *commit)
{
    struct queue *queue = commit->config.queue;
    const struct store *store = commit->config.store;
    bool small = !store->remote && !store->waits && queue_is_small(queue, commit->config.small_ops);
    if (small && pthread_mutex_trylock(&commit->turning) == 0) {
        if (pace_may_help(count_in_flight(commit), commit->linger.sync_ns)) {
            turn(commit);
            commit->linger.expected_ops = 0;
        }
        pthread_mutex_unlock(&commit->turning);
    }
    queue_wake(queue); /* if anything is left */
}

/* `turns`: by the thread that has the turn. */
static bool sync_now(struct commit *commit, bool turns)
{
    struct writer *writer = &commit->config.store->writer;
    pthread_mutex_lock(&commit->syncing);
    bool begun = __atomic_load_n(&commit->beginning, __ATOMIC_RELAXED);
    writer->more = pace_turn_is_near(queue_waiting(commit->config.queue), begun, turns,
                                     turns ? commit->gap_ns : INT64_MAX);
    struct batch **oldest = handed_place(commit, commit->told_count);
    struct batch *batch = __atomic_load_n(oldest, __ATOMIC_ACQUIRE);
    const struct must_place *before = must_at; /* a turn, if that is what waits for the sync */
    if (batch) must_at = &batch->place;
    uint32_t reported = writer_sync(writer);
    commit_lock(commit);
    commit->reported += reported;
    must(commit->reported <= commit->submitted || !commit->closed);
    commit_unlock(commit);
    pthread_mutex_unlock(&commit->syncing);
    must_at = before;
    if (reported == 0) return false;
    pthread_cond_signal(&commit->batch_freed);
    commit->config.answered(commit->config.context);
    return true;
}

bool commit_sync_now(struct commit *commit)
{
    return sync_now(commit, false);
}

void commit_rest(struct commit *commit)
{
    struct writer *writer = &commit->config.store->writer;
    if (!atomic_load_explicit(&writer->ahead, memory_order_relaxed)) return;
    queue_gather(commit->config.queue, 1, PACE_HOLD_NS);
    if (queue_waiting(commit->config.queue) == 0) writer_rest(writer);
}

bool commit_sync(struct commit *commit)
{
    commit_lock(commit);
    while (commit->submitted <= commit->reported && !commit->closed)
        pthread_cond_wait(&commit->submitted_more, &commit->lock);
    bool more = commit->submitted > commit->reported;
    commit_unlock(commit);
    if (more) commit_sync_now(commit);
    return more;
}

void commit_close(struct commit *commit)
{
    commit_lock(commit);
    commit->closed = true;
    commit_unlock(commit);
    pthread_cond_broadcast(&commit->submitted_more);
}
