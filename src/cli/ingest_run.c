/* ingest_run.c -- the ring of parcels between the thread that reads and those that send. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/ingest.h"

#define IDLE_MS 300       /* a pipe that pauses this long has its lines sent */
#define ATTEMPT_MS 60000  /* a server that accepts and then says nothing is asked again */
#define AWAY_PAUSE_MS 500 /* between rounds of the library's own retries */
#define NOTE_EVERY_NS INT64_C(1000000000)
#define LOOK_MS 100

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_SENDING, SLOT_DONE };

struct parcel_slot {
    struct parcel parcel;
    enum parcel_kind kind;
    enum slot_state state;
    uint64_t line; /* the last one it deals with */
    uint64_t digest;
    double share;
    enum tally_end end;
    struct tally_error error;
};

struct ingest {
    const struct ingest_config *config;
    struct parcel_rules *rules;
    struct resume *resume;
    struct progress progress;
    struct lines *lines;
    uint64_t digest; /* for all lines read so far */
    uint64_t lines_before;
    int64_t began_ns;
    int64_t noted_ns;
    int code;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct parcel_slot *slots;
    unsigned slots_count;
    uint64_t filled;    /* slots handed to the senders */
    uint64_t taken;     /* slots a sender has begun */
    uint64_t harvested; /* slots whose outcome is booked */
    bool closing;
    char away[TALLY_SENTENCE_SIZE]; /* why a sender is waiting; "": none is */
};

static struct parcel_slot *slot_at(struct ingest *ingest, uint64_t sequence)
{
    must(ingest->slots_count > 0);
    return &ingest->slots[sequence % ingest->slots_count];
}

/* -- The senders ------------------------------------------------------------------------------- */

static bool is_stopped(void *context)
{
    const struct ingest_config *config = context;
    return *config->stop;
}

static struct parcel_slot *take_slot(struct ingest *ingest)
{
    struct parcel_slot *slot = NULL;
    pthread_mutex_lock(&ingest->lock);
    while (ingest->taken == ingest->filled && !ingest->closing)
        pthread_cond_wait(&ingest->changed, &ingest->lock);
    if (ingest->taken < ingest->filled) {
        slot = slot_at(ingest, ingest->taken++);
        must(slot->state == SLOT_READY);
        slot->state = SLOT_SENDING;
    }
    pthread_mutex_unlock(&ingest->lock);
    return slot;
}

static void say_away(struct ingest *ingest, const char *why)
{
    pthread_mutex_lock(&ingest->lock);
    snprintf(ingest->away, sizeof ingest->away, "%s", why);
    pthread_mutex_unlock(&ingest->lock);
}

static bool may_pass(enum tally_end end, const struct tally_error *error)
{
    bool own = strcmp(error->code, "stopped") == 0 || strcmp(error->code, "bad_reply") == 0;
    return (end == TALLY_UNKNOWN && !own) || error->status == 429;
}

/* The library has retried for a second or two each time; a server that restarts takes longer. */
static void send_slot(struct ingest *ingest, struct parcel_slot *slot, struct client *client)
{
    const struct ingest_config *config = ingest->config;
    int64_t until_ns = clock_mono_ns(&clock_system) + config->give_up_ms * INT64_C(1000000);
    for (;;) {
        slot->end = parcel_send(&slot->parcel, slot->kind, client);
        slot->error = client->error;
        bool again = slot->end != TALLY_OK && may_pass(slot->end, &slot->error);
        say_away(ingest, again ? slot->error.sentence : "");
        if (!again || *config->stop || clock_mono_ns(&clock_system) >= until_ns) return;
        nanosleep(&(struct timespec){.tv_nsec = AWAY_PAUSE_MS * 1000000L}, NULL);
    }
}

static void *run_sender(void *context)
{
    struct ingest *ingest = context;
    struct client client;
    struct tally_options options = {
        .attempt_ms = ATTEMPT_MS,
        .timeout_ms = 2 * ATTEMPT_MS,
        .stop = is_stopped,
        .stop_context = (void *)ingest->config,
    };
    /* The options were good when the main thread opened a client with them. */
    must(client_open_with(&client, "ingest", ingest->config->client, &options) == EXIT_GOOD);
    for (struct parcel_slot *slot; (slot = take_slot(ingest));) {
        send_slot(ingest, slot, &client);
        pthread_mutex_lock(&ingest->lock);
        slot->state = SLOT_DONE;
        pthread_cond_broadcast(&ingest->changed);
        pthread_mutex_unlock(&ingest->lock);
    }
    client_close(&client);
    return NULL;
}

/* -- The harvest ------------------------------------------------------------------------------- */

static void print_rejection(struct ingest *ingest, const struct rejection *rejection)
{
    const char *file = ingest->config->file;
    if (!ingest->config->client->json) {
        fprintf(stderr, "%s:%" PRIu64 ": %s (%s)\n", strcmp(file, "-") ? file : "standard input",
                rejection->line, rejection->why.sentence, rejection->why.code);
        return;
    }
    struct buf line;
    buf_init(&line, 8 * TALLY_SENTENCE_SIZE);
    buf_addf(&line, "{\"line\":%" PRIu64 ",\"error\":", rejection->line);
    buf_add_json(&line, bytes_str(rejection->why.sentence));
    buf_add(&line, BYTES(",\"code\":"));
    buf_add_json(&line, bytes_str(rejection->why.code));
    fprintf(stderr, "%.*s}\n", (int)line.size, line.data);
    buf_release(&line);
}

static void book(struct ingest *ingest, struct parcel_slot *slot)
{
    struct resume *resume = ingest->resume;
    const struct parcel *parcel = &slot->parcel;
    if (parcel->rejections_count) progress_clear(&ingest->progress);
    for (unsigned i = 0; i < parcel->rejections_count; i++)
        print_rejection(ingest, &parcel->rejections[i]);
    resume->line = slot->line;
    resume->digest = slot->digest;
    resume->applied += parcel->applied;
    resume->duplicates += parcel->duplicates;
    resume->rejected += parcel->rejections_count;
    int64_t now_ns = clock_mono_ns(&clock_system);
    if (now_ns - ingest->noted_ns < NOTE_EVERY_NS) return;
    resume_save(resume);
    ingest->noted_ns = now_ns;
}

static void show(struct ingest *ingest, double share)
{
    char applied[PROGRESS_COUNT_SIZE], duplicates[PROGRESS_COUNT_SIZE];
    char rejected[PROGRESS_COUNT_SIZE], rate[PROGRESS_COUNT_SIZE];
    const struct resume *resume = ingest->resume;
    double seconds = (double)(clock_mono_ns(&clock_system) - ingest->began_ns) / 1e9;
    double lines = (double)(resume->line - ingest->lines_before);
    pthread_mutex_lock(&ingest->lock);
    char away[TALLY_SENTENCE_SIZE];
    snprintf(away, sizeof away, "%s", ingest->away);
    pthread_mutex_unlock(&ingest->lock);
    if (away[0]) {
        progress_show(&ingest->progress, share, "waiting: %s", away);
        return;
    }
    progress_show(&ingest->progress, share, "%s lines/s  %s applied, %s duplicates, %s rejected",
                  progress_count((uint64_t)(seconds > 0 ? lines / seconds : 0), rate),
                  progress_count(resume->applied, applied),
                  progress_count(resume->duplicates, duplicates),
                  progress_count(resume->rejected, rejected));
}

/* Returns the oldest slot when it is done. With `wait` it waits for that, and shows
 * progress meanwhile. */
static struct parcel_slot *oldest_done(struct ingest *ingest, bool wait)
{
    struct parcel_slot *slot = NULL;
    pthread_mutex_lock(&ingest->lock);
    if (ingest->harvested < ingest->filled) slot = slot_at(ingest, ingest->harvested);
    while (wait && slot && slot->state != SLOT_DONE) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_clockwait(&ingest->changed, &ingest->lock, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&ingest->lock);
        show(ingest, slot->share);
        pthread_mutex_lock(&ingest->lock);
    }
    if (slot && slot->state != SLOT_DONE) slot = NULL;
    pthread_mutex_unlock(&ingest->lock);
    return slot;
}

/* Books the oldest slot if it is done; with `wait`, until it is. False: there is none,
 * or it failed. */
static bool harvest_one(struct ingest *ingest, bool wait)
{
    struct parcel_slot *slot = ingest->code ? NULL : oldest_done(ingest, wait);
    if (!slot) return false;
    if (slot->end != TALLY_OK) {
        progress_clear(&ingest->progress);
        ingest->code = EXIT_FAILED;
        if (strcmp(slot->error.code, "stopped") != 0)
            cli_failure("ingest", "%s (%s)", slot->error.sentence, slot->error.code);
        return false;
    }
    book(ingest, slot);
    show(ingest, slot->share);
    parcel_reset(&slot->parcel);
    pthread_mutex_lock(&ingest->lock);
    slot->state = SLOT_FREE;
    ingest->harvested++;
    pthread_mutex_unlock(&ingest->lock);
    return true;
}

static void harvest_all(struct ingest *ingest, bool wait)
{
    while (harvest_one(ingest, wait)) {
    }
}

/* -- Reading ----------------------------------------------------------------------------------- */

static void take_line(struct ingest *ingest, enum lines_got got, struct bytes line,
                      struct parcel *parcel)
{
    uint64_t number = lines_number(ingest->lines);
    ingest->digest = hash_mix(ingest->digest ^ (got == LINES_ONE ? hash_checksum(line) : number));
    if (!parcel) return;
    if (got == LINES_ONE)
        parcel_add(parcel, ingest->rules, number, line);
    else
        parcel_reject(parcel, number, "invalid_request", "The line is over 1 MiB.");
}

/* LINES_ONE: there is more to read. */
static enum lines_got fill(struct ingest *ingest, struct parcel_slot *slot)
{
    struct bytes line;
    enum lines_got got = LINES_ONE;
    bool waiting = true;
    while (waiting && !parcel_is_full(&slot->parcel)) {
        got = lines_next(ingest->lines, IDLE_MS, &line);
        bool one = got == LINES_ONE || got == LINES_LONG;
        if (one) take_line(ingest, got, line, &slot->parcel);
        bool empty = slot->parcel.count == 0 && slot->parcel.rejections_count == 0;
        waiting = one || (got == LINES_IDLE && empty);
        if (got == LINES_IDLE) harvest_all(ingest, false);
        if (ingest->code) return LINES_STOPPED;
    }
    slot->kind = ingest->rules->kind;
    slot->line = lines_number(ingest->lines);
    slot->digest = ingest->digest;
    slot->share = lines_share(ingest->lines);
    return got == LINES_LONG || got == LINES_IDLE ? LINES_ONE : got;
}

/* NULL: something went wrong meanwhile. */
static struct parcel_slot *free_slot(struct ingest *ingest)
{
    if (ingest->filled - ingest->harvested == ingest->slots_count) harvest_one(ingest, true);
    return ingest->code ? NULL : slot_at(ingest, ingest->filled);
}

static void hand_over(struct ingest *ingest, struct parcel_slot *slot)
{
    pthread_mutex_lock(&ingest->lock);
    slot->state = SLOT_READY;
    ingest->filled++;
    pthread_cond_broadcast(&ingest->changed);
    pthread_mutex_unlock(&ingest->lock);
}

static void read_all(struct ingest *ingest)
{
    enum lines_got got = LINES_ONE;
    while (got == LINES_ONE) {
        struct parcel_slot *slot = free_slot(ingest);
        if (!slot) return;
        got = fill(ingest, slot);
        if (got != LINES_STOPPED) hand_over(ingest, slot);
        harvest_all(ingest, false);
    }
    if (got == LINES_STOPPED) {
        ingest->code = EXIT_FAILED;
        return;
    }
    harvest_all(ingest, true);
    if (got != LINES_FAILED || ingest->code) return;
    progress_clear(&ingest->progress);
    ingest->code =
        cli_failure("ingest", "%s: %s", ingest->config->file, lines_problem(ingest->lines));
}

/* -- Beginning and end ------------------------------------------------------------------------- */

static int open_lines(struct ingest *ingest)
{
    const char *file = ingest->config->file;
    ingest->digest = 0;
    ingest->lines = lines_open(file, ingest->config->stop);
    return ingest->lines ? EXIT_GOOD : cli_failure("ingest", "%s: %m", file);
}

/* Passes over what the note says is done. False: these are other lines than those. */
static bool pass_over(struct ingest *ingest)
{
    struct bytes line;
    while (lines_number(ingest->lines) < ingest->resume->line) {
        enum lines_got got = lines_next(ingest->lines, IDLE_MS, &line);
        if (got != LINES_ONE && got != LINES_LONG) return false;
        take_line(ingest, got, line, NULL);
    }
    return ingest->digest == ingest->resume->digest;
}

static int find_beginning(struct ingest *ingest)
{
    struct resume *resume = ingest->resume;
    int code = open_lines(ingest);
    if (code || resume->line == 0) return code;
    if (pass_over(ingest)) {
        fprintf(stderr, "tally ingest: going on after line %" PRIu64 "\n", resume->line);
        return EXIT_GOOD;
    }
    lines_close(ingest->lines);
    resume->line = resume->digest = resume->applied = resume->duplicates = resume->rejected = 0;
    fputs("tally ingest: the file has changed since it was left; beginning at its first line, "
          "what was counted stays counted once\n",
          stderr);
    return open_lines(ingest);
}

static void run_threads(struct ingest *ingest)
{
    unsigned count = ingest->config->senders;
    pthread_t *threads = must_calloc(count, sizeof *threads);
    for (unsigned i = 0; i < count; i++)
        must(pthread_create(&threads[i], NULL, run_sender, ingest) == 0);
    read_all(ingest);
    if (ingest->code) *ingest->config->stop = true;
    pthread_mutex_lock(&ingest->lock);
    ingest->closing = true;
    pthread_cond_broadcast(&ingest->changed);
    pthread_mutex_unlock(&ingest->lock);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

static void report(const struct ingest *ingest, struct ingest_totals *totals_out)
{
    const struct resume *resume = ingest->resume;
    *totals_out = (struct ingest_totals){
        .lines = resume->line,
        .applied = resume->applied,
        .duplicates = resume->duplicates,
        .rejected = resume->rejected,
        .lines_now = resume->line - ingest->lines_before,
        .seconds = (double)(clock_mono_ns(&clock_system) - ingest->began_ns) / 1e9,
    };
}

int ingest_run(const struct ingest_config *config, struct parcel_rules *rules,
               struct resume *resume, struct ingest_totals *totals_out)
{
    struct ingest ingest = {.config = config,
                            .rules = rules,
                            .resume = resume,
                            .slots_count = config->senders + 2,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    progress_begin(&ingest.progress, "tally ingest");
    ingest.progress.quiet = config->client->json;
    ingest.slots = must_calloc(ingest.slots_count, sizeof *ingest.slots);
    for (unsigned i = 0; i < ingest.slots_count; i++)
        parcel_init(&ingest.slots[i].parcel, config->lines_each);
    ingest.code = find_beginning(&ingest);
    ingest.began_ns = ingest.noted_ns = clock_mono_ns(&clock_system);
    ingest.lines_before = resume->line;
    if (!ingest.code) run_threads(&ingest);
    progress_clear(&ingest.progress);
    if (ingest.code)
        resume_save(resume);
    else
        resume_remove(resume);
    report(&ingest, totals_out);
    for (unsigned i = 0; i < ingest.slots_count; i++)
        parcel_release(&ingest.slots[i].parcel);
    free(ingest.slots);
    lines_close(ingest.lines);
    return ingest.code;
}
