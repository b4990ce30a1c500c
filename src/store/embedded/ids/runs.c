/* runs.c -- the list of runs, and the merge under way.
 *
 * Runs tile the sets ever written, from 1 on without a gap, so a file that went missing is noticed.
 * A merged run takes the place of those it covers the moment it is named; the next start removes
 * those it finds beside it after a crash. It syncs the directory before it believes a listing: the
 * process may have been killed between a rename and the sync of the directory, and a power cut
 * could then keep the removals and lose the rename. `lock` lets any thread read the list; it is
 * changed, for as long as it takes to move a few pointers, by the one thread that adds and merges.
 *
 * (1) Runs tile the sets: the first begins with set 1, each other one right behind the one before.
 * (2) A merge under way reads neighbouring runs that are all still in the list, and will hold their
 *     sets and no other.
 *
 * runs_check asserts both when a run came, and before and after each step of merging. */
#include "store/embedded/ids/runs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/rwlock.h"
#include "store/embedded/state/registry_record.h"

#define RUN_BESIDE "ids-run.tmp"
#define MERGE_BESIDE "ids-merge.tmp"
#ifdef TALLY_SMALL_WORLD
#define MERGE_FAN 2u
#define MERGE_STEP 64u
#else
#define MERGE_FAN 8u
#define MERGE_STEP (64u << 10) /* ids: 2.3 MB, some milliseconds */
#endif

/* One input of a merge, at its next id. */
struct merge_input {
    struct id_run *run;
    struct id_cursor cursor;
    struct id_entry entry;
    bool ended;
};

struct merge {
    struct id_writer writer;
    struct merge_input *inputs; /* oldest first; NULL: no merge is under way */
    uint64_t *heads;            /* `high` of each one's next id, side by side to be searched */
    size_t count;
};

struct id_runs {
    struct id_files files;
    pthread_rwlock_t lock;
    struct id_run **runs; /* oldest first */
    size_t count;
    size_t capacity;
    struct merge merge;
    uint64_t failed_at; /* the last set when a merge failed; 0: none did */
    _Atomic uint64_t merges_failed;
};

/* -- Opening ----------------------------------------------------------------------------------- */

static void list_insert(struct id_runs *runs, size_t at, struct id_run *run)
{
    if (runs->count == runs->capacity) {
        runs->capacity = runs->capacity ? 2 * runs->capacity : 16;
        runs->runs = must_realloc(runs->runs, runs->capacity * sizeof(struct id_run *));
    }
    memmove(runs->runs + at + 1, runs->runs + at, (runs->count - at) * sizeof(struct id_run *));
    runs->runs[at] = run;
    runs->count++;
}

static void remove_file(const struct id_runs *runs, const char *name)
{
    char path[ID_RUN_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", runs->files.dir, name);
    runs->files.io->ops->unlink(runs->files.io, path); /* what stays is removed at the next start */
}

/* For runs that another one has taken the place of; what stays is removed at the next start. */
static void remove_run(const struct id_runs *runs, uint64_t first, uint64_t last)
{
    char name[64];
    char path[ID_RUN_PATH_MAX];
    id_run_name(name, sizeof name, first, last);
    snprintf(path, sizeof path, "%s/%s", runs->files.dir, name);
    io_remove(runs->files.io, runs->files.dir, path);
}

/* Orders by first set; of those that begin with the same one, the widest comes first. */
static int by_range(const void *a, const void *b)
{
    const struct id_run *left = *(struct id_run *const *)a, *right = *(struct id_run *const *)b;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    return left->last > right->last ? -1 : left->last < right->last;
}

static void note_file(void *context, const char *name)
{
    struct id_runs *runs = context;
    uint64_t first, last;
    if (!id_run_name_parse(name, &first, &last)) return;
    struct id_run *run = must_calloc(1, sizeof *run);
    run->fd = -1;
    run->first = first;
    run->last = last;
    list_insert(runs, runs->count, run);
}

/* Opens the runs that are not covered by another; removes the others. */
static enum err open_listed(struct id_runs *runs)
{
    size_t kept = 0;
    uint64_t last = 0;
    enum err e = ERR_OK;
    for (size_t i = 0; i < runs->count; i++) {
        struct id_run *run = runs->runs[i];
        if (run->last <= last || e != ERR_OK) {
            if (e == ERR_OK) remove_run(runs, run->first, run->last);
            free(run);
            continue;
        }
        e = run->first <= last + 1 ? id_run_open(run, &runs->files, run->first, run->last)
                                   : ERR_CORRUPT;
        if (e != ERR_OK) {
            log_line(LOG_ERROR, "event ids are missing or damaged", LOG_KV("set", last + 1));
            free(run);
            continue;
        }
        last = run->last;
        runs->runs[kept++] = run;
    }
    runs->count = kept;
    return e == ERR_OK ? ERR_OK : ERR_STORAGE;
}

/* Lists the files after a sync, so that what is listed now stays, also after a power cut. */
static enum err read_listing(struct id_runs *runs)
{
    struct io *io = runs->files.io;
    int result = io->ops->list(io, runs->files.dir, note_file, runs);
    if (result == 0) result = io->ops->sync_dir(io, runs->files.dir);
    if (runs->count) qsort(runs->runs, runs->count, sizeof(struct id_run *), by_range);
    if (result == 0) return ERR_OK;
    log_line(LOG_ERROR, "the directory of event ids cannot be read or synced",
             LOG_KV("why", (const char *)strerror(-result)));
    return ERR_STORAGE;
}

enum err id_runs_open(struct id_runs **runs_out, const struct id_files *files)
{
    struct id_runs *runs = must_calloc(1, sizeof *runs);
    runs->files = *files;
    rwlock_init(&runs->lock);
    remove_file(runs, RUN_BESIDE);
    remove_file(runs, MERGE_BESIDE);
    enum err e = read_listing(runs);
    if (e == ERR_OK) e = open_listed(runs);
    if (e != ERR_OK) {
        id_runs_free(runs);
        runs = NULL;
    }
    *runs_out = runs;
    return e;
}

/* -- Laws -------------------------------------------------------------------------------------- */

static void merge_check(const struct id_runs *runs)
{
    const struct merge *merge = &runs->merge;
    size_t at = 0;
    while (at < runs->count && runs->runs[at] != merge->inputs[0].run)
        at++;
    must(merge->count >= 2 && at + merge->count <= runs->count);
    for (size_t i = 0; i < merge->count; i++)
        must(runs->runs[at + i] == merge->inputs[i].run);
    must(merge->writer.first == merge->inputs[0].run->first);
    must(merge->writer.last == merge->inputs[merge->count - 1].run->last);
}

/* For the one thread that changes the list. */
static void runs_check(const struct id_runs *runs)
{
    uint64_t last = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const struct id_run *run = runs->runs[i];
        must(run->fd >= 0);
        must(run->first == last + 1);
        must(run->last >= run->first);
        last = run->last;
    }
    if (runs->merge.inputs) merge_check(runs);
}

/* -- Finding and adding ------------------------------------------------------------------------ */

/* Logs it; the caller counts it. */
static enum err read_failed(struct id_run *run, enum err e)
{
    char name[64];
    if (atomic_exchange_explicit(&run->said, true, memory_order_relaxed)) return ERR_STORAGE;
    id_run_name(name, sizeof name, run->first, run->last);
    log_line(LOG_ERROR, "a file of event ids cannot be read", LOG_KV("file", (char *)name),
             LOG_KV("code", err_code(e)));
    return ERR_STORAGE;
}

static bool run_meets(const struct id_run *run, struct id_span span)
{
    return run->first <= span.last && run->last >= span.first;
}

enum err id_runs_find(struct id_runs *runs, struct id_span span, struct fingerprint print,
                      struct id_entry *entry_out)
{
    enum err e = ERR_NOT_FOUND;
    pthread_rwlock_rdlock(&runs->lock);
    for (size_t i = runs->count; i-- > 0 && e == ERR_NOT_FOUND;) {
        if (!run_meets(runs->runs[i], span)) continue;
        e = id_run_find(runs->runs[i], print, entry_out);
        if (e != ERR_OK && e != ERR_NOT_FOUND) e = read_failed(runs->runs[i], e);
    }
    pthread_rwlock_unlock(&runs->lock);
    return e;
}

static uint64_t last_set(const struct id_runs *runs)
{
    return runs->count ? runs->runs[runs->count - 1]->last : 0;
}

static enum err open_new(const struct id_runs *runs, uint64_t first, uint64_t last,
                         struct id_run **run_out)
{
    struct id_run *run = must_alloc(sizeof *run);
    enum err e = id_run_open(run, &runs->files, first, last);
    if (e != ERR_OK) {
        free(run);
        run = NULL;
    }
    *run_out = run;
    return e == ERR_OK ? ERR_OK : ERR_STORAGE;
}

enum err id_runs_add(struct id_runs *runs, id_next_fn *next, void *context, uint64_t *set_out)
{
    struct id_writer writer;
    struct id_entry entry;
    struct id_run *run;
    uint64_t set = last_set(runs) + 1;
    id_writer_begin(&writer, &runs->files, RUN_BESIDE, set, set);
    while (next(context, &entry))
        id_writer_add(&writer, &entry);
    enum err e = id_writer_finish(&writer);
    if (e == ERR_OK) e = open_new(runs, set, set, &run);
    if (e != ERR_OK) return e;
    pthread_rwlock_wrlock(&runs->lock);
    list_insert(runs, runs->count, run);
    pthread_rwlock_unlock(&runs->lock);
    *set_out = set;
    runs_check(runs);
    return ERR_OK;
}

/* -- Merging ----------------------------------------------------------------------------------- */

static unsigned level_of(const struct id_run *run)
{
    unsigned level = 0;
    for (uint64_t count = run->count; count >= MERGE_FAN; count /= MERGE_FAN)
        level++;
    return level;
}

/* How many of the newest runs to merge: back to where a larger one lies, if they are enough. A
 * smaller one behind a larger counts like it, so there are never more than a few of each size. */
static size_t merge_width(const struct id_runs *runs)
{
    unsigned level = 0;
    size_t alike = 0;
    for (size_t width = 0; width < runs->count; width++) {
        unsigned here = level_of(runs->runs[runs->count - 1 - width]);
        if (here > level && alike >= MERGE_FAN) return width;
        if (here > level) {
            level = here;
            alike = 0;
        }
        alike++;
    }
    return alike >= MERGE_FAN ? runs->count : 0;
}

static enum err input_step(struct merge *merge, size_t index)
{
    struct merge_input *input = &merge->inputs[index];
    enum err e = id_cursor_next(&input->cursor, &input->entry);
    if (e != ERR_OK && e != ERR_NOT_FOUND) return read_failed(input->run, e);
    input->ended = e == ERR_NOT_FOUND;
    merge->heads[index] = input->ended ? UINT64_MAX : input->entry.print.high;
    return ERR_OK;
}

static void merge_end(struct merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        id_cursor_release(&merge->inputs[i].cursor);
    free(merge->inputs);
    free(merge->heads);
    merge->inputs = NULL;
}

static enum err merge_begin(struct id_runs *runs, size_t width)
{
    struct merge *merge = &runs->merge;
    struct id_run **oldest = runs->runs + runs->count - width;
    merge->inputs = must_calloc(width, sizeof *merge->inputs);
    merge->heads = must_calloc(width, sizeof *merge->heads);
    merge->count = width;
    id_writer_begin(&merge->writer, &runs->files, MERGE_BESIDE, oldest[0]->first, last_set(runs));
    enum err e = ERR_OK;
    for (size_t i = 0; i < width; i++) {
        merge->inputs[i].run = oldest[i];
        id_cursor_init(&merge->inputs[i].cursor, oldest[i]);
    }
    for (size_t i = 0; i < width && e == ERR_OK; i++)
        e = input_step(merge, i);
    return e;
}

static bool input_precedes(const struct merge_input *input, const struct merge_input *other)
{
    if (input->ended || other->ended) return !input->ended;
    return record_compare(input->entry.print, other->entry.print) < 0;
}

/* The input with the lowest id, the newest of equal ones; NULL at the end. */
static const struct merge_input *merge_lowest(const struct merge *merge)
{
    size_t lowest = merge->count - 1;
    for (size_t i = lowest; i-- > 0;) {
        if (merge->heads[i] > merge->heads[lowest]) continue;
        if (merge->heads[i] < merge->heads[lowest] ||
            input_precedes(&merge->inputs[i], &merge->inputs[lowest]))
            lowest = i;
    }
    return merge->inputs[lowest].ended ? NULL : &merge->inputs[lowest];
}

/* Goes past `print` in every input that has it. */
static enum err merge_pass(struct merge *merge, struct fingerprint print)
{
    for (size_t i = 0; i < merge->count; i++) {
        const struct merge_input *input = &merge->inputs[i];
        if (merge->heads[i] != print.high || input->ended) continue;
        if (!fingerprint_equal(input->entry.print, print)) continue;
        enum err e = input_step(merge, i);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

static enum err merge_some(struct merge *merge, bool *ended_out)
{
    for (unsigned i = 0; i < MERGE_STEP; i++) {
        const struct merge_input *lowest = merge_lowest(merge);
        *ended_out = lowest == NULL;
        if (!lowest) return ERR_OK;
        struct fingerprint print = lowest->entry.print;
        id_writer_add(&merge->writer, &lowest->entry);
        enum err e = merge_pass(merge, print);
        if (e != ERR_OK) return e;
    }
    return merge->writer.err;
}

/* Puts `merged` in place of the runs that it covers, which lie next to each other. */
static void replace(struct id_runs *runs, struct id_run *merged, size_t width)
{
    struct id_run **gone = must_alloc(width * sizeof(struct id_run *));
    pthread_rwlock_wrlock(&runs->lock);
    size_t at = 0;
    while (runs->runs[at]->first != merged->first)
        at++;
    memcpy(gone, runs->runs + at, width * sizeof(struct id_run *));
    runs->runs[at] = merged;
    runs->count -= width - 1;
    memmove(runs->runs + at + 1, runs->runs + at + width,
            (runs->count - at - 1) * sizeof(struct id_run *));
    pthread_rwlock_unlock(&runs->lock);
    for (size_t i = 0; i < width; i++) {
        must(gone[i]->last <= merged->last);
        remove_run(runs, gone[i]->first, gone[i]->last);
        id_run_close(gone[i]);
        free(gone[i]);
    }
    free(gone);
}

static enum err merge_finish(struct id_runs *runs)
{
    struct id_run *merged;
    uint64_t first = runs->merge.writer.first, last = runs->merge.writer.last;
    size_t width = runs->merge.count;
    merge_end(&runs->merge);
    enum err e = id_writer_finish(&runs->merge.writer);
    crash_point("registry.merge.after");
    if (e == ERR_OK) e = open_new(runs, first, last, &merged);
    if (e == ERR_OK) replace(runs, merged, width);
    return e;
}

static bool merge_failed(struct id_runs *runs)
{
    atomic_fetch_add_explicit(&runs->merges_failed, 1, memory_order_relaxed);
    log_line(LOG_WARN, "merging event ids failed, they stay as they are");
    runs->failed_at = last_set(runs);
    if (runs->merge.inputs) {
        merge_end(&runs->merge);
        id_writer_abandon(&runs->merge.writer);
    }
    return false;
}

static bool merge_step(struct id_runs *runs)
{
    bool ended = false;
    enum err e = ERR_OK;
    if (!runs->merge.inputs) {
        size_t width = merge_width(runs);
        if (width == 0 || runs->failed_at == last_set(runs)) return false;
        e = merge_begin(runs, width);
    }
    if (e == ERR_OK) e = merge_some(&runs->merge, &ended);
    if (e == ERR_OK && ended) e = merge_finish(runs);
    if (e != ERR_OK) return merge_failed(runs);
    return !ended || merge_width(runs) > 0;
}

bool id_runs_merge(struct id_runs *runs)
{
    runs_check(runs);
    bool more = merge_step(runs);
    runs_check(runs);
    return more;
}

/* -- Everything -------------------------------------------------------------------------------- */

static enum err scan_run(struct id_run *run, id_visit_fn *visit, void *context)
{
    struct id_cursor cursor;
    struct id_entry entry;
    enum err e;
    id_cursor_init(&cursor, run);
    while ((e = id_cursor_next(&cursor, &entry)) == ERR_OK)
        visit(context, (struct id_span){run->first, run->last}, &entry);
    id_cursor_release(&cursor);
    return e == ERR_NOT_FOUND ? ERR_OK : read_failed(run, e);
}

enum err id_runs_scan(struct id_runs *runs, uint64_t after, id_visit_fn *visit, void *context)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->runs[i]->sequence_max <= after) continue;
        enum err e = scan_run(runs->runs[i], visit, context);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

uint64_t id_runs_last(struct id_runs *runs)
{
    pthread_rwlock_rdlock(&runs->lock);
    uint64_t last = last_set(runs);
    pthread_rwlock_unlock(&runs->lock);
    return last;
}

uint64_t id_runs_count(struct id_runs *runs)
{
    uint64_t count = 0;
    pthread_rwlock_rdlock(&runs->lock);
    for (size_t i = 0; i < runs->count; i++)
        count += runs->runs[i]->count;
    pthread_rwlock_unlock(&runs->lock);
    return count;
}

uint64_t id_runs_merges_failed(struct id_runs *runs)
{
    return atomic_load_explicit(&runs->merges_failed, memory_order_relaxed);
}

void id_runs_free(struct id_runs *runs)
{
    if (!runs) return;
    if (runs->merge.inputs) {
        merge_end(&runs->merge);
        id_writer_abandon(&runs->merge.writer);
    }
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->runs[i]->fd >= 0) id_run_close(runs->runs[i]);
        free(runs->runs[i]);
    }
    free(runs->runs);
    pthread_rwlock_destroy(&runs->lock);
    free(runs);
}
