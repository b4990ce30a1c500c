/* sim.c -- the model simulation: `sim --seeds N [--from S] [--world memory|embedded|both|postgres]`, and
 * `sim --seed S --world W` to see one seed's whole life.
 *
 * Of `both`, every eighth seed lives in the embedded world, which costs about ten times as much.
 * Seeds are lived by worker processes, two a core because RocksDB sleeps at times, so that a seed
 * that ends its process (a broken promise in the code under test, a sanitizer's report, a loop that
 * does not end) is a failure like any other. Prints each failure and how to see it again; the last
 * line is "N passed, N failed". */
#include "sim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

#define WORKERS_MAX 16
#define FAILURES_MAX 5 /* then it stops */
#define SEED_SECONDS_MAX 60
#define POSTGRES_SECONDS_MAX 240 /* each read asks a database that may have little of the machine */
#define EMBEDDED_EVERY 8         /* seeds of `both` */
#define ROOM_MIN (256u << 20)

enum which { WHICH_BOTH, WHICH_MEMORY, WHICH_EMBEDDED, WHICH_POSTGRES };

static const char *const world_names[] = {
    [SIM_MEMORY] = "memory", [SIM_EMBEDDED] = "embedded", [SIM_POSTGRES] = "postgres"};

struct options {
    uint64_t seeds;
    uint64_t from;
    enum which which;
    bool one; /* only `from`, and tell about it */
};

/* Shared with a worker, which may die at any time. */
struct progress {
    uint64_t seed; /* being lived */
    uint64_t passed;
};

struct worker {
    pid_t pid;
    unsigned number;
    uint64_t next; /* seed */
    struct progress *progress;
};

void sim_say(struct sim *sim, const char *format, ...)
{
    if (!sim->fleet->verbose) return;
    va_list args;
    va_start(args, format);
    printf("%5u %-8s ", sim->fleet->step, sim->fleet->doing);
    if (sim->fleet->count > 1) printf("lane %u: ", sim->index);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    disk_state_readonly(false);
    va_start(args, format);
    printf("seed %llu (%s), step %u (%s): ", (unsigned long long)sim->fleet->seed,
           world_names[sim->fleet->world], sim->fleet->step, sim->fleet->doing);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
    _exit(1);
}

static enum sim_world world_of(const struct options *options, uint64_t seed)
{
    if (options->which == WHICH_BOTH) return seed % EMBEDDED_EVERY ? SIM_MEMORY : SIM_EMBEDDED;
    if (options->which == WHICH_POSTGRES) return SIM_POSTGRES;
    return options->which == WHICH_MEMORY ? SIM_MEMORY : SIM_EMBEDDED;
}

/* Memory if there is any to be had: RocksDB syncs a lot, and its files are not what is tested. */
static void make_dir_name(char *dir, size_t size, unsigned number)
{
    struct statvfs shm;
    const char *parent = getenv("TMPDIR");
    if (!parent) parent = "/tmp";
    if (statvfs("/dev/shm", &shm) == 0 && access("/dev/shm", W_OK) == 0 &&
        (uint64_t)shm.f_bavail * shm.f_frsize > ROOM_MIN)
        parent = "/dev/shm";
    snprintf(dir, size, "%s/tally-sim-%d-%u", parent, (int)getpid(), number);
}

static void tell(const struct fleet *fleet)
{
    struct sim sum = {0};
    uint64_t sequences = 0;
    for (unsigned i = 0; i < fleet->count; i++) {
        const struct sim *sim = fleet->lanes[i];
        sum.answers += sim->answers;
        sum.failures += sim->failures;
        sum.crashes += sim->crashes;
        sum.reloads += sim->reloads;
        sum.rebuilt += sim->rebuilt;
        sum.passes += sim->passes;
        sum.overtaken += sim->overtaken;
        sum.events += sim->events;
        sequences += sim->chain.shown.sequence;
    }
    printf("%u lane(s), %llu answers, %llu of them 503, %llu crashes, %llu reloads, %llu rebuilds, "
           "%llu passes, %llu of them overtaken, %u events and duplicates, %llu changes\n",
           fleet->count, (unsigned long long)sum.answers, (unsigned long long)sum.failures,
           (unsigned long long)sum.crashes, (unsigned long long)sum.reloads,
           (unsigned long long)sum.rebuilt, (unsigned long long)sum.passes,
           (unsigned long long)sum.overtaken, sum.events, (unsigned long long)sequences);
}

static void live(const struct options *options, uint64_t seed, const char *dir)
{
    struct fleet *fleet = must_calloc(1, sizeof *fleet);
    fleet->seed = seed;
    fleet->world = world_of(options, seed);
    fleet->verbose = options->one;
    fleet_run(fleet, dir);
    if (fleet->verbose) tell(fleet);
    fleet_free(fleet);
}

/* ---- workers ---- */

static void work(const struct options *options, struct worker *worker, unsigned stride,
                 const char *dir)
{
    uint64_t end = options->from + options->seeds;
    for (uint64_t seed = worker->next; seed < end; seed += stride) {
        worker->progress->seed = seed;
        alarm(options->which == WHICH_POSTGRES ? POSTGRES_SECONDS_MAX : SEED_SECONDS_MAX);
        live(options, seed, dir);
        worker->progress->passed++;
    }
}

static void start_worker(const struct options *options, struct worker *worker, unsigned stride)
{
    char dir[200];
    make_dir_name(dir, sizeof dir, worker->number);
    fflush(stdout);
    worker->pid = fork();
    must(worker->pid >= 0);
    if (worker->pid > 0) return;
    work(options, worker, stride, dir);
    fflush(stdout);
    exit(0); /* leaks are looked for here */
}

/* True: it died of its seed and has more to do. */
static bool end_worker(const struct options *options, struct worker *worker, int status,
                       unsigned stride, unsigned *failed)
{
    char dir[200];
    make_dir_name(dir, sizeof dir, worker->number);
    remove_tree(dir);
    worker->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    uint64_t seed = worker->progress->seed;
    printf("FAILED: seed %llu, %s %d. To see it: sim --seed %llu --world %s\n",
           (unsigned long long)seed, WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (unsigned long long)seed,
           world_names[world_of(options, seed)]);
    worker->next = seed + stride;
    return ++*failed < FAILURES_MAX;
}

static struct worker *find_worker(struct worker *workers, unsigned count, pid_t pid)
{
    for (unsigned i = 0; i < count; i++)
        if (workers[i].pid == pid) return &workers[i];
    return NULL;
}

static unsigned live_all(const struct options *options, uint64_t *passed_out)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = cores < 1 ? 1 : cores * 2 > WORKERS_MAX ? WORKERS_MAX : (unsigned)cores * 2;
    struct worker workers[WORKERS_MAX] = {0};
    struct progress *progress = mmap(NULL, sizeof *progress * count, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(progress != MAP_FAILED);
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.number = i, .next = options->from + i};
        workers[i].progress = &progress[i];
        start_worker(options, &workers[i], count);
    }
    unsigned failed = 0;
    int status;
    for (pid_t pid; (pid = wait(&status)) > 0;) {
        struct worker *worker = find_worker(workers, count, pid);
        if (worker && end_worker(options, worker, status, count, &failed))
            start_worker(options, worker, count);
    }
    for (unsigned i = 0; i < count; i++)
        *passed_out += progress[i].passed;
    munmap(progress, sizeof *progress * count);
    return failed;
}

/* ---- the command line ---- */

static int usage(void)
{
    fprintf(stderr, "usage: sim --seeds N [--from S] [--world memory|embedded|both|postgres]\n"
                    "       sim --seed S [--world memory|embedded|postgres]\n");
    return 2;
}

static bool parse_world(struct options *options, const char *text)
{
    static const char *const names[] = {[WHICH_BOTH] = "both",
                                        [WHICH_MEMORY] = "memory",
                                        [WHICH_EMBEDDED] = "embedded",
                                        [WHICH_POSTGRES] = "postgres"};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        options->which = (enum which)i;
        if (strcmp(text, names[i]) == 0) return true;
    }
    return false;
}

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t number = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seeds") == 0) {
            options->seeds = number;
        } else if (strcmp(argv[i], "--from") == 0) {
            options->from = number;
        } else if (strcmp(argv[i], "--seed") == 0) {
            options->from = number;
            options->one = true;
        } else if (strcmp(argv[i], "--world") != 0 || !parse_world(options, argv[i + 1])) {
            return false;
        }
    }
    return argc % 2 == 1 && (options->one || options->seeds > 0);
}

int main(int argc, char **argv)
{
    struct options options = {.from = 1};
    if (!parse(&options, argc, argv)) return usage();
    if (!options.one) log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (options.one) {
        char dir[200];
        setvbuf(stdout, NULL, _IOLBF, 0);
        make_dir_name(dir, sizeof dir, 0);
        live(&options, options.from, dir);
        return 0;
    }
    uint64_t passed = 0;
    unsigned failed = live_all(&options, &passed);
    printf("%llu passed, %u failed\n", (unsigned long long)passed, failed);
    return failed > 0;
}
