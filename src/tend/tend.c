/* tend.c -- the table of caretakers, and the loop that runs it over all lanes.
 *
 * A lane is looked after by one thread at a time, in rounds: each of its caretakers that is due
 * takes one step. Lanes take turns, in a circle that begins after the one that was served last, so
 * those that always press cannot keep the others from their turn. A lane whose steps are slow (a
 * disk that stalls, a database that does not answer) keeps one thread, while the others go on.
 *
 * (1) One thread at a time serves a lane.
 * (2) A caretaker keeps the place in the round that its row has in the table, and its lane; a step
 *     proposes no more than its budget, and nothing while an earlier proposal is not answered.
 *
 * ward_check asserts them at both ends of a round. */
#include "tend/tend.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "commit/pace.h"
#include "tend/care.h"
#include "tend/expire.h"
#include "tend/garbage.h"
#include "tend/retain.h"
#include "tend/watch.h"

#define GARBAGE_MS 1000 /* between two looks whether there is any */

static int64_t sweep_period_ms(const struct tend_config *config)
{
    return config->sweep_ms;
}

static int64_t garbage_period_ms(const struct tend_config *config)
{
    (void)config;
    return GARBAGE_MS;
}

static struct care *store_make(uint32_t budget)
{
    (void)budget;
    return must_calloc(1, sizeof(struct care));
}

static void store_end(struct care *care)
{
    free(care);
}

static enum care_next store_step(struct care *care)
{
    return store_tend(care->lane->store) ? CARE_PRESSES : CARE_AGAIN;
}

/* In the order of a round: time is looked at before anything goes by it, and the store comes last,
 * for its steps are the ones that may take long. */
static const struct care_kind kinds[] = {
    {"clock", NULL, false, true, 1, watch_make, watch_end, watch_step},
    {"sweep", sweep_period_ms, true, false, PACE_CARE_OPS, sweep_make, sweep_end, sweep_step},
    {"retain", retain_period_ms, false, false, 1, retain_make, retain_end, retain_step},
    {"garbage", garbage_period_ms, false, false, PACE_CARE_OPS, garbage_make, garbage_end,
     garbage_step},
    {"store", NULL, false, true, 0, store_make, store_end, store_step},
};

#define KINDS ARRAY_COUNT(kinds)

/* All caretakers of one lane. */
struct ward {
    struct care *cares[KINDS];
    int64_t look_at_ns; /* the next round; by the machine's clock, like all waiting here */
    bool served;        /* some thread is looking after it */
};

struct tend {
    struct tend_config config;
    struct ward *wards; /* one for each lane */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a lane was given back, or the end */
    unsigned turn;          /* the lane that is next, if it is due */
    unsigned *served;       /* for each database, how many of its lanes some thread looks after; */
    unsigned served_max;    /* no more than these: one that hangs must not hold all threads */
    bool stopped;
};

/* -- One caretaker ----------------------------------------------------------------------------- */

static void care_rest(struct care *care, int64_t now_ns)
{
    if (care->kind->period_ms)
        care->due_ns = now_ns + care->kind->period_ms(care->config) * 1000000;
}

static struct care *care_new(const struct care_kind *kind, const struct tend_config *config,
                             const struct lane *lane)
{
    uint32_t most = config->step_ops;
    uint32_t budget = most && most < kind->budget ? most : kind->budget;
    struct care *care = kind->make(budget);
    care->kind = kind;
    care->config = config;
    care->lane = lane;
    care->budget = budget;
    care->place = (struct must_place){.state = kind->name, .lane = lane->index};
    if (kind->rests_first) care_rest(care, clock_mono_ns(lane->clock));
    return care;
}

static void care_free(struct care *care)
{
    must(!care->proposing);
    care->kind->end(care);
}

enum err care_propose(struct care *care, struct bundle *bundle)
{
    must(!care->proposing);
    must(bundle->count <= care->budget);
    must(bundle->weighty); /* or a batch could get more than its journal block holds */
    care->proposing = true;
    bundle->owner = care;
    enum err e = queue_push(care->lane->queue, bundle);
    if (e != ERR_OK) care->proposing = false;
    return e;
}

void care_answered(struct care *care)
{
    must(care->proposing);
    care->proposing = false;
}

static enum care_next care_step(struct care *care)
{
    int64_t now_ns = clock_mono_ns(care->lane->clock);
    if (care->proposing || now_ns < care->due_ns) return CARE_RESTS;
    if (!care->kind->everywhere && !store_leads(care->lane->store)) return CARE_RESTS;
    const struct must_place *before = must_at;
    must_at = &care->place;
    enum care_next next = care->kind->step(care);
    must_at = before;
    if (next == CARE_RESTS) care_rest(care, now_ns);
    return next;
}

/* -- One lane ---------------------------------------------------------------------------------- */

static void ward_init(struct ward *ward, const struct tend_config *config, const struct lane *lane)
{
    for (unsigned i = 0; i < KINDS; i++)
        ward->cares[i] = care_new(&kinds[i], config, lane);
}

static void ward_release(struct ward *ward)
{
    for (unsigned i = 0; i < KINDS; i++)
        care_free(ward->cares[i]);
}

static void ward_check(const struct ward *ward)
{
    for (unsigned i = 0; i < KINDS; i++) {
        const struct care *care = ward->cares[i];
        must(care->kind == &kinds[i]);
        must(care->budget <= care->kind->budget);
        must(care->lane == ward->cares[0]->lane);
    }
}

/* True: something presses. */
static bool ward_round(struct ward *ward)
{
    bool presses = false;
    ward_check(ward);
    for (unsigned i = 0; i < KINDS; i++)
        presses |= care_step(ward->cares[i]) == CARE_PRESSES;
    ward_check(ward);
    return presses;
}

static bool ward_proposes(const struct ward *ward)
{
    for (unsigned i = 0; i < KINDS; i++)
        if (ward->cares[i]->proposing) return true;
    return false;
}

/* -- All lanes --------------------------------------------------------------------------------- */

static void share_threads(struct tend *tend)
{
    const struct lanes *lanes = tend->config.lanes;
    unsigned places = 1;
    for (unsigned i = 0; i < lanes->count; i++)
        if (lanes->items[i].store->place >= places) places = lanes->items[i].store->place + 1;
    tend->served = must_calloc(places, sizeof *tend->served);
    tend->served_max = tend->config.threads ? tend->config.threads / places : UINT32_MAX;
    if (tend->served_max == 0) tend->served_max = 1;
}

static unsigned *served_with(struct tend *tend, const struct ward *ward)
{
    return &tend->served[ward->cares[0]->lane->store->place];
}

struct tend *tend_new(const struct tend_config *config)
{
    struct tend *tend = must_calloc(1, sizeof *tend);
    tend->config = *config;
    tend->wards = must_calloc(config->lanes->count, sizeof *tend->wards);
    for (unsigned i = 0; i < config->lanes->count; i++)
        ward_init(&tend->wards[i], &tend->config, &config->lanes->items[i]);
    share_threads(tend);
    pthread_mutex_init(&tend->lock, NULL);
    pthread_cond_init(&tend->changed, NULL);
    return tend;
}

void tend_free(struct tend *tend)
{
    for (unsigned i = 0; i < tend->config.lanes->count; i++)
        ward_release(&tend->wards[i]);
    free(tend->wards);
    free(tend->served);
    pthread_cond_destroy(&tend->changed);
    pthread_mutex_destroy(&tend->lock);
    free(tend);
}

void tend_round(struct tend *tend)
{
    for (unsigned i = 0; i < tend->config.lanes->count; i++)
        ward_round(&tend->wards[i]);
}

static int64_t machine_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The next lane whose round is due and that no thread serves; NULL: none is before `*until_ns_out`.
 * The lock is held. */
static struct ward *ward_take(struct tend *tend, int64_t *until_ns_out)
{
    unsigned count = tend->config.lanes->count;
    int64_t now = machine_ns();
    *until_ns_out = now + pace_care_pause_ns(false);
    for (unsigned i = 0; i < count; i++) {
        unsigned index = (tend->turn + i) % count;
        struct ward *ward = &tend->wards[index];
        if (ward->served || *served_with(tend, ward) >= tend->served_max) continue;
        if (ward->look_at_ns > now) {
            if (ward->look_at_ns < *until_ns_out) *until_ns_out = ward->look_at_ns;
            continue;
        }
        tend->turn = (index + 1) % count;
        ward->served = true;
        ++*served_with(tend, ward);
        return ward;
    }
    return NULL;
}

static void ward_give(struct tend *tend, struct ward *ward, bool presses)
{
    must(ward->served);
    ward->served = false;
    --*served_with(tend, ward);
    ward->look_at_ns = machine_ns() + pace_care_pause_ns(presses);
}

static void wait_until(struct tend *tend, int64_t ns)
{
    const struct timespec until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    pthread_cond_clockwait(&tend->changed, &tend->lock, CLOCK_MONOTONIC, &until);
}

static void run_rounds(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    while (!tend->stopped) {
        int64_t until_ns;
        struct ward *ward = ward_take(tend, &until_ns);
        if (!ward) {
            wait_until(tend, until_ns);
            continue;
        }
        pthread_mutex_unlock(&tend->lock);
        bool presses = ward_round(ward);
        pthread_mutex_lock(&tend->lock);
        ward_give(tend, ward, presses);
    }
    pthread_mutex_unlock(&tend->lock);
}

void tend_run(struct tend *tend)
{
    run_rounds(tend);
    for (unsigned i = 0; i < tend->config.lanes->count; i++)
        while (ward_proposes(&tend->wards[i]))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void tend_stop(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    tend->stopped = true;
    pthread_mutex_unlock(&tend->lock);
    pthread_cond_broadcast(&tend->changed);
}
