/* timekeeper.c -- see the header.
 *
 * (1) The line of time is changed under the lock, and the record only in a bundle that is alone in
 *     its batch with nothing else under way.
 * (2) Whether a bundle that was answered 503 happened is not known. So the record is put again, and
 *     a setting back again, until one is durable; until then batches are dated no earlier than the
 *     last durable one, and take no more for sure than before (commit.c). What is written meanwhile
 *     is dated so too, and the setting back that lasts goes back from there.
 * (3) Time never runs back but in a bundle that sets it back. */
#include "commit/timekeeper.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/table.h"
#include "core/object.h"

#define LATENESS_MS 10000 /* what a primary says of the time is on its way so long at most */
#define ASK_MS 1000       /* between two questions to the kernel, while the clock is suspect */

struct timekeeper {
    const struct clock *base;
    struct clock clock;
    struct store *store;
    pthread_mutex_t lock;
    struct timeline timeline;
    struct clock_record recorded;
    bool unknown;      /* a note failed: what is recorded may be something else */
    bool back_unknown; /* ... nor whether time was set back by it */
    bool noting;       /* a note is on its way: the next one is of what became of it */
    pthread_cond_t noted;
    bool following; /* time is `told`, and what has passed since `told_boot_ms` */
    struct moment told;
    int64_t told_boot_ms;
    int64_t asked_boot_ms;
    bool synchronised;
};

/* -- The record -------------------------------------------------------------------------------- */

static enum err record_read(struct timekeeper *keeper)
{
    struct buf value;
    struct arena arena;
    arena_init(&arena, 1024);
    buf_init(&value, SIZE_MAX / 2);
    struct bytes key = object_key(&arena, OBJECT_META, META_CLOCK);
    enum err e = view_object(&keeper->store->view, key, &value);
    if (e == ERR_OK && !clock_record_decode(buf_bytes(&value), &keeper->recorded)) e = ERR_CORRUPT;
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    buf_release(&value);
    arena_release(&arena);
    return e;
}

/* A start need not say that a little is not sure. It is half the tolerance, because the wall clock
 * that a lead is measured by may be ahead by the other half: together they are no more than a step
 * that is followed. */
static int64_t little_ms(const struct timekeeper *keeper)
{
    return keeper->timeline.settings.tolerance_ms / 2;
}

static struct moment worth_recording(const struct timekeeper *keeper)
{
    struct moment moment = timeline_moment(&keeper->timeline);
    if (moment.held_ms > little_ms(keeper)) return moment;
    moment.held_ms = moment.since_ms = 0;
    return moment;
}

/* True for a lead that grows while it lasts: the next life would take too much for sure. */
static bool holds_more(const struct timekeeper *keeper, const struct moment *moment)
{
    int64_t recorded_ms = keeper->recorded.moment.held_ms;
    return moment->held_ms > recorded_ms && moment->held_ms - recorded_ms > little_ms(keeper);
}

/* -- Looking ----------------------------------------------------------------------------------- */

static void say_trust(bool suspect, const struct timeline *timeline)
{
    if (suspect)
        log_line(LOG_WARN,
                 "the wall clock stepped; time goes on without it until it is right again "
                 "or `tally clock accept` says that it is",
                 LOG_KV("stepSeconds", (long long)(timeline->wall_ms - timeline->now_ms) / 1000));
    else
        log_line(LOG_INFO, "the wall clock is believed again");
}

/* The lock is held. */
static struct clock_reading look_at_clocks(struct timekeeper *keeper)
{
    const struct clock *base = keeper->base;
    struct clock_reading reading = {.boot_ms = clock_boot_ms(base), .wall_ms = clock_wall_ms(base)};
    if (!keeper->timeline.suspect) {
        keeper->synchronised = false;
    } else if (!keeper->synchronised || reading.boot_ms - keeper->asked_boot_ms >= ASK_MS) {
        keeper->synchronised = clock_synchronised(base);
        keeper->asked_boot_ms = reading.boot_ms;
    }
    reading.synchronised = keeper->synchronised;
    return reading;
}

/* (2), for the thread that has the lock. */
static void keeper_check(const struct timekeeper *keeper)
{
    must(keeper->unknown || !keeper->back_unknown);
}

/* The lock is held. What is not sure there is not sure here. */
static struct moment told_moment(const struct timekeeper *keeper)
{
    struct moment moment = keeper->told;
    int64_t passed_ms = clock_boot_ms(keeper->base) - keeper->told_boot_ms;
    if (passed_ms > 0) moment.now_ms += passed_ms;
    return moment;
}

void timekeeper_follow(struct timekeeper *keeper, const struct moment *moment)
{
    struct moment told = *moment;
    pthread_mutex_lock(&keeper->lock);
    int64_t before_ms = keeper->following ? told_moment(keeper).now_ms : told.now_ms;
    /* It was said some time ago: what was on the way is no setting back. */
    if (before_ms > told.now_ms && before_ms - told.now_ms < LATENESS_MS)
        moment_raise(&told, before_ms);
    keeper->following = true;
    keeper->told = told;
    keeper->told_boot_ms = clock_boot_ms(keeper->base);
    pthread_mutex_unlock(&keeper->lock);
}

static struct moment keeper_moment(void *context)
{
    struct timekeeper *keeper = context;
    pthread_mutex_lock(&keeper->lock);
    if (keeper->following) {
        struct moment moment = told_moment(keeper);
        pthread_mutex_unlock(&keeper->lock);
        return moment;
    }
    keeper_check(keeper);
    bool suspect = keeper->timeline.suspect;
    int64_t from_ms = keeper->timeline.now_ms;
    const struct clock_reading reading = look_at_clocks(keeper);
    timeline_look(&keeper->timeline, &reading);
    must(keeper->timeline.now_ms >= from_ms); /* (3) */
    const struct timeline seen = keeper->timeline;
    pthread_mutex_unlock(&keeper->lock);
    if (seen.suspect != suspect) say_trust(seen.suspect, &seen);
    return timeline_moment(&seen);
}

static int64_t keeper_wall(void *context)
{
    return clock_wall_ms(((struct timekeeper *)context)->base);
}

static int64_t keeper_mono(void *context)
{
    return clock_mono_ns(((struct timekeeper *)context)->base);
}

/* What the last life left: its record, brought up to the last batch.
 *
 * Batches since the note may be dated by a leap whose own note did not become durable. Of the time
 * between the two all is sure but the steps that were followed, no more than the tolerance. */
static struct moment last_moment(const struct timekeeper *keeper, int64_t tolerance_ms)
{
    struct moment last = keeper->recorded.moment;
    int64_t last_ms = keeper->store->writer.position.time_ms;
    int64_t passed_ms = last_ms - last.now_ms;
    moment_leap(&last, passed_ms);
    if (last.held_ms && last.held_ms != HELD_ALL && passed_ms > 0)
        last.held_ms += passed_ms < tolerance_ms ? passed_ms : tolerance_ms;
    last.now_ms = last_ms;
    return last;
}

enum err timekeeper_new(struct timekeeper **keeper_out, const struct clock *clock,
                        const struct timeline_settings *settings, struct store *store)
{
    struct timekeeper *keeper = must_calloc(1, sizeof *keeper);
    keeper->base = clock;
    keeper->store = store;
    enum err e = record_read(keeper);
    if (e != ERR_OK) {
        free(keeper);
        return e;
    }
    keeper->clock = (struct clock){
        .wall_ms = keeper_wall, .mono_ns = keeper_mono, .moment = keeper_moment, .context = keeper};
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_cond_init(&keeper->noted, NULL);
    const struct moment last = last_moment(keeper, settings->tolerance_ms);
    const struct clock_reading reading = look_at_clocks(keeper);
    timeline_start(&keeper->timeline, settings, &reading, &last);
    if (keeper->timeline.suspect) say_trust(true, &keeper->timeline);
    *keeper_out = keeper;
    return ERR_OK;
}

void timekeeper_free(struct timekeeper *keeper)
{
    pthread_cond_destroy(&keeper->noted);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

const struct clock *timekeeper_clock(struct timekeeper *keeper)
{
    return &keeper->clock;
}

void timekeeper_state(struct timekeeper *keeper, struct timekeeper_state *state_out)
{
    struct moment moment = keeper_moment(keeper);
    pthread_mutex_lock(&keeper->lock);
    *state_out =
        (struct timekeeper_state){.moment = moment, .wall_ms = clock_wall_ms(keeper->base)};
    if (!keeper->following) {
        state_out->moment = timeline_moment(&keeper->timeline);
        state_out->wall_ms = keeper->timeline.wall_ms;
        state_out->suspect = keeper->timeline.suspect;
        state_out->settling = keeper->timeline.settling;
    }
    pthread_mutex_unlock(&keeper->lock);
    state_out->synchronised = clock_synchronised(keeper->base);
}

void timekeeper_accept(struct timekeeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    const struct clock_reading reading = look_at_clocks(keeper);
    timeline_accept(&keeper->timeline, &reading);
    pthread_mutex_unlock(&keeper->lock);
    log_line(LOG_INFO, "an operator says that the wall clock is right");
}

/* -- Noting ------------------------------------------------------------------------------------ */

bool timekeeper_wants_note(struct timekeeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    struct moment moment = worth_recording(keeper);
    bool differs = keeper->unknown || timeline_wants_back(&keeper->timeline) ||
                   (moment.held_ms > 0) != (keeper->recorded.moment.held_ms > 0) ||
                   holds_more(keeper, &moment) ||
                   moment.since_ms != keeper->recorded.moment.since_ms ||
                   moment.back_ms != keeper->recorded.moment.back_ms;
    bool wanted = differs && !keeper->following && !keeper->noting;
    pthread_mutex_unlock(&keeper->lock);
    return wanted;
}

/* The commit thread calls this before it takes the batch's time. */
static bool note_apply(struct bundle *bundle)
{
    struct timekeeper_note *note = CONTAINER_OF(bundle, struct timekeeper_note, bundle);
    struct timekeeper *keeper = note->keeper;
    pthread_mutex_lock(&keeper->lock);
    const struct clock_reading reading = look_at_clocks(keeper);
    timeline_look(&keeper->timeline, &reading);
    int64_t from_ms = keeper->timeline.now_ms;
    timeline_set_back(&keeper->timeline, &reading, note->operator_says);
    if (keeper->back_unknown)
        timeline_back_from(&keeper->timeline, keeper->store->writer.position.time_ms);
    bool back = keeper->timeline.now_ms < from_ms || keeper->back_unknown;
    note->record.resets = keeper->recorded.resets + back;
    note->record.moment = worth_recording(keeper);
    note->applied = true;
    note->back = back;
    pthread_mutex_unlock(&keeper->lock);
    return back;
}

/* What arrives after a setting back would count as gone if what is retained began later. */
static void note_prepare(struct bundle *bundle, int64_t time_ms)
{
    struct timekeeper_note *note = CONTAINER_OF(bundle, struct timekeeper_note, bundle);
    struct arena *arena = &note->arena;
    const struct hash_secret *secret = &note->keeper->store->secret;
    note->ops[0] = propose_object(arena, secret, object_key(arena, OBJECT_META, META_CLOCK),
                                  clock_record_encode(arena, &note->record));
    if (!note->back) return;
    uint64_t retained_ms = time_ms > 0 ? (uint64_t)time_ms : 0;
    note->ops[1] = propose_object(arena, secret, object_key(arena, OBJECT_META, META_RETAINED),
                                  object_number(arena, retained_ms));
    bundle->count = 2;
}

/* False: another note is on its way. */
static bool begin_note(struct timekeeper *keeper, bool waits)
{
    pthread_mutex_lock(&keeper->lock);
    while (waits && keeper->noting)
        pthread_cond_wait(&keeper->noted, &keeper->lock);
    bool alone = !keeper->noting;
    keeper->noting = true;
    pthread_mutex_unlock(&keeper->lock);
    return alone;
}

static void make_note(struct timekeeper *keeper, struct timekeeper_note *note, bool operator_says)
{
    *note = (struct timekeeper_note){.keeper = keeper, .operator_says = operator_says};
    arena_init(&note->arena, 1024);
    note->ops[0].kind = OP_OBJECT;
    note->bundle = (struct bundle){.ops = note->ops,
                                   .count = 1,
                                   .urgency = URGENCY_URGENT,
                                   .atomic = true,
                                   .whole = true,
                                   .weighty = true,
                                   .retime = note_apply,
                                   .prepare = note_prepare};
}

bool timekeeper_note(struct timekeeper *keeper, struct timekeeper_note *note, bool operator_says)
{
    if (!begin_note(keeper, false)) return false;
    make_note(keeper, note, operator_says);
    return true;
}

void timekeeper_noted(struct timekeeper_note *note)
{
    struct timekeeper *keeper = note->keeper;
    bool durable = note->applied && note->bundle.err == ERR_OK;
    pthread_mutex_lock(&keeper->lock);
    must(keeper->noting);
    must(!note->applied || note->record.resets - keeper->recorded.resets <= 1);
    bool back = durable && note->record.resets != keeper->recorded.resets;
    keeper->noting = false;
    pthread_cond_broadcast(&keeper->noted);
    if (durable) {
        keeper->recorded = note->record;
        keeper->unknown = keeper->back_unknown = false;
    } else if (note->applied) {
        keeper->unknown = true;
        keeper->back_unknown |= note->record.resets != keeper->recorded.resets;
    }
    keeper_check(keeper);
    pthread_mutex_unlock(&keeper->lock);
    if (back)
        log_line(LOG_WARN, "time was set back",
                 LOG_KV("bySeconds", (long long)note->record.moment.back_ms / 1000));
    arena_release(&note->arena);
}

enum err timekeeper_note_now(struct timekeeper *keeper, struct queue *queue, bool operator_says)
{
    struct timekeeper_note note;
    if (!operator_says && !timekeeper_wants_note(keeper)) return ERR_OK;
    (void)begin_note(keeper, true);
    make_note(keeper, &note, operator_says);
    enum err e = propose_and_wait(queue, &note.bundle);
    timekeeper_noted(&note);
    return e;
}
