/* errand_ask.c -- asking for errands, looking at them, and at what they made. */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/object.h"
#include "core/timefmt.h"
#include "jobs/errand_internal.h"

#define WAITING_MAX 16u
#define OVER_KEPT 100u /* errands that are over and can still be asked for */

enum err errand_read(struct errands *errands, struct arena *arena, struct bytes key,
                     struct bytes *value_out)
{
    struct store *store = errands->config.with.store;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&store->view, key, &value);
    *value_out = e == ERR_OK ? arena_copy(arena, buf_bytes(&value)) : BYTES_NONE;
    buf_release(&value);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* -- Asking ------------------------------------------------------------------------------------ */

/* What is in the store already. */
struct census {
    struct bytes name;
    enum job_kind kind;
    unsigned waiting; /* or running */
    unsigned over;
    uint64_t oldest_over; /* id; 0: none */
    bool taken;           /* another errand waits to make the same name */
};

static bool count_errand(void *context, struct bytes key, struct bytes value)
{
    struct census *census = context;
    struct job_record job;
    if (!job_met(key, value, &job) || job.kind == JOB_REBUILD) return true;
    if (!job_is_over(&job)) {
        census->waiting++;
        census->taken |= job.kind == census->kind && bytes_equal(job.name, census->name);
        return true;
    }
    census->over++;
    if (census->oldest_over == 0) census->oldest_over = job.id;
    return true;
}

static enum err take_census(struct errands *errands, struct arena *arena, struct census *census)
{
    struct store *store = errands->config.with.store;
    return view_objects(&store->view, object_key(arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                        count_errand, census);
}

/* One old errand goes with each new one. */
static struct op forget_op(struct errands *errands, struct arena *arena,
                           const struct census *census)
{
    uint64_t id = census->over >= OVER_KEPT ? census->oldest_over : 0;
    return propose_object(arena, &errands->config.with.store->secret, job_key(arena, id),
                          BYTES_NONE);
}

/* ERR_CONFLICT: the last number is not `before` any more, because another errand was
 * asked for since. */
static enum err put_job(struct errands *errands, struct arena *arena, struct job_record *job,
                        const struct census *census, struct bytes before)
{
    const struct caretaker *config = &errands->config.with;
    const struct hash_secret *secret = &config->store->secret;
    struct bytes numbers = object_key(arena, OBJECT_META, META_JOBS);
    uint64_t id = 0;
    if (before.size && !object_number_decode(before, &id)) return ERR_CORRUPT;
    job->id = id + 1;
    struct op ops[] = {
        propose_object_if(arena, secret, numbers, before, object_number(arena, job->id)),
        propose_object(arena, secret, job_key(arena, job->id), job_encode(arena, job)),
        forget_op(errands, arena, census),
    };
    return propose_all(config, ops, ARRAY_COUNT(ops), BYTES_NONE);
}

/* The name of a backup or export that was given none: 20261117T193012.345Z. */
static struct bytes name_of_now(struct arena *arena, int64_t now_ms)
{
    char name[64];
    char seconds[32];
    struct tm parts;
    time_t now = (time_t)(now_ms / 1000);
    gmtime_r(&now, &parts);
    strftime(seconds, sizeof seconds, "%Y%m%dT%H%M%S", &parts);
    snprintf(name, sizeof name, "%s.%03dZ", seconds, (int)(now_ms % 1000));
    return arena_copy(arena, bytes_str(name));
}

static bool is_shared(const struct errands *errands)
{
    return errands->config.with.store->remote;
}

bool errand_file_exists(const struct errands *errands, enum job_kind kind, struct bytes name)
{
    char text[NAME_SIZE_MAX + 1];
    snprintf(text, sizeof text, "%.*s", (int)name.size, name.data);
    return backup_exists(kind == JOB_BACKUP ? errands->backups : errands->exports, text);
}

static enum err check_ask(struct errands *errands, const struct errand_ask *ask,
                          const struct census *census, struct reason *why)
{
    if (ask->kind == JOB_BACKUP && is_shared(errands)) return ERR_DATABASE_BACKUP;
    if (!errands->config.embedded && !is_shared(errands)) {
        reason_say(why, "A store in memory cannot do that.");
        return ERR_INVALID;
    }
    if (!backup_name_valid(census->name)) {
        reason_say(why, "name must be 1 to %u of A-Z a-z 0-9 _ . ~ - without a leading dot.",
                   BACKUP_NAME_MAX);
        return ERR_INVALID;
    }
    if (census->waiting >= WAITING_MAX) return ERR_BUSY;
    bool here = store_leads(errands->config.with.store); /* another node's files are not seen */
    bool there = here && errand_file_exists(errands, ask->kind, census->name);
    if (ask->kind == JOB_IMPORT) return there || !here ? ERR_OK : ERR_NOT_FOUND;
    if (!there && !census->taken) return ERR_OK;
    reason_say(why, "That name is taken.");
    return ERR_CONFLICT;
}

static enum err ask_once(struct errands *errands, struct arena *arena, const struct errand_ask *ask,
                         struct job_record *job, bool *again_out, struct reason *why)
{
    *again_out = false;
    int64_t now_ms = clock_now_ms(errands->config.with.clock);
    struct bytes name =
        ask->name.size || ask->kind == JOB_IMPORT ? ask->name : name_of_now(arena, now_ms);
    struct census census = {.name = name, .kind = ask->kind};
    struct bytes before;
    enum err e = errand_read(errands, arena, object_key(arena, OBJECT_META, META_JOBS), &before);
    if (e == ERR_OK) e = take_census(errands, arena, &census);
    if (e == ERR_OK) e = check_ask(errands, ask, &census, why);
    if (e != ERR_OK) return e;
    *job = (struct job_record){.kind = ask->kind,
                               .name = name,
                               .ids = ask->ids,
                               .events = ask->events,
                               .asked_ms = now_ms};
    e = put_job(errands, arena, job, &census, before);
    *again_out = e == ERR_CONFLICT;
    return e;
}

enum err errand_ask(struct errands *errands, const struct errand_ask *ask, struct buf *id_out,
                    struct buf *name_out, struct reason *why_out)
{
    struct arena arena;
    struct job_record job = {0};
    arena_init(&arena, 4096);
    enum err e;
    bool again;
    reason_clear(why_out);
    do /* two asked at once: the other one may have taken the name */
        e = ask_once(errands, &arena, ask, &job, &again, why_out);
    while (again);
    if (e == ERR_OK) {
        buf_add_u64(id_out, job.id);
        buf_add(name_out, job.name);
        runner_wake(errands->config.runner, DESK_FILES);
    }
    arena_release(&arena);
    return e;
}

/* -- Looking ----------------------------------------------------------------------------------- */

static double progress_of(struct errands *errands, uint64_t id)
{
    bool running = atomic_load(&errands->running) == id;
    uint64_t done = atomic_load(&errands->effort.done);
    uint64_t total = atomic_load(&errands->effort.total);
    if (!running || total == 0) return 0;
    return done >= total ? 1 : (double)done / (double)total;
}

static bool parse_id(struct bytes id, uint64_t *number_out)
{
    *number_out = 0;
    if (id.size == 0 || id.size > 18) return false;
    for (size_t i = 0; i < id.size; i++) {
        if (id.data[i] < '0' || id.data[i] > '9') return false;
        *number_out = *number_out * 10 + (uint64_t)(id.data[i] - '0');
    }
    return true;
}

enum err errand_describe(struct errands *errands, struct bytes id, struct buf *json_out)
{
    struct arena arena;
    struct bytes value;
    struct job_record job;
    uint64_t number;
    if (!parse_id(id, &number)) return ERR_NOT_FOUND;
    arena_init(&arena, 4096);
    enum err e = errand_read(errands, &arena, job_key(&arena, number), &value);
    if (e == ERR_OK && value.size == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK) e = job_decode(value, &job);
    if (e == ERR_OK && job.kind == JOB_REBUILD) e = ERR_NOT_FOUND; /* this lane's part of one */
    if (e == ERR_OK) job_write(json_out, &job, progress_of(errands, number));
    arena_release(&arena);
    return e;
}

/* -- What there is ----------------------------------------------------------------------------- */

struct listing {
    const struct errand_page *page;
    struct buf *json;
    struct buf *next; /* key of the last one shown, while there may be more */
    uint64_t count;
    bool more;
};

enum placing { PLACE_BEFORE, PLACE_HERE, PLACE_AFTER };

/* Whether what sorts by `key` comes before the page, on it or behind it. */
static enum placing listing_place(struct listing *listing, struct bytes key)
{
    const struct errand_page *page = listing->page;
    if (page->after.data && bytes_compare(key, page->after) <= 0) return PLACE_BEFORE;
    listing->more = listing->count == page->limit;
    if (listing->more) return PLACE_AFTER;
    if (listing->count++) buf_add_char(listing->json, ',');
    buf_reset(listing->next);
    buf_add(listing->next, key);
    return PLACE_HERE;
}

static void add_moment(struct buf *json, uint64_t sequence, int64_t moment_ms)
{
    buf_addf(json, "\"sequence\":\"%llu\",\"moment\":", (unsigned long long)sequence);
    if (moment_ms < 0)
        buf_add(json, BYTES("null"));
    else
        time_format_json(json, moment_ms);
}

static void add_lanes(struct buf *json, const struct manifest *manifest)
{
    buf_add(json, BYTES(",\"lanes\":["));
    for (unsigned i = 0; i < manifest->lanes_count; i++) {
        buf_add(json, i ? BYTES(",{") : BYTES("{"));
        add_moment(json, manifest->lanes[i].sequence, manifest->lanes[i].moment_ms);
        buf_add_char(json, '}');
    }
    buf_add_char(json, ']');
}

static void add_backup(struct buf *json, const char *name, const struct manifest *manifest)
{
    buf_add(json, BYTES("{\"name\":"));
    buf_add_json(json, bytes_str(name));
    buf_add_char(json, ',');
    add_moment(json, manifest_changes(manifest), manifest_moment_ms(manifest));
    buf_add(json, BYTES(",\"askedAt\":"));
    time_format_json(json, manifest->taken_ms);
    buf_addf(json, ",\"bytes\":\"%llu\",\"newBytes\":\"%llu\",\"files\":%zu",
             (unsigned long long)manifest_bytes(manifest),
             (unsigned long long)manifest->copied_bytes, manifest->files.count);
    if (manifest->lanes_count > 1) add_lanes(json, manifest);
    buf_add_char(json, '}');
}

/* Sorted as backup_list has them: by time, then by name. */
static bool list_backup(void *context, const char *name, const struct manifest *manifest)
{
    struct listing *listing = context;
    char key[ERRAND_NEXT_SIZE_MAX];
    uint64_t time = (uint64_t)manifest->taken_ms ^ (UINT64_C(1) << 63); /* negative ones first */
    snprintf(key, sizeof key, "%020llu %s", (unsigned long long)time, name);
    enum placing placing = listing_place(listing, bytes_str(key));
    if (placing == PLACE_HERE) add_backup(listing->json, name, manifest);
    return placing != PLACE_AFTER;
}

static void add_export(struct buf *json, const char *name, const struct stat *file)
{
    buf_add(json, BYTES("{\"name\":"));
    buf_add_json(json, bytes_str(name));
    buf_addf(json, ",\"bytes\":\"%llu\",\"madeAt\":", (unsigned long long)file->st_size);
    time_format_json(json, (int64_t)file->st_mtim.tv_sec * 1000);
    buf_add_char(json, '}');
}

/* Exports are files; the file's own time says when each was made. */
static enum err list_exports(const char *dir, struct listing *listing)
{
    struct tree_list files = {0};
    char path[TREE_PATH_MAX];
    struct stat file;
    if (access(dir, F_OK) != 0) return ERR_OK;
    enum err e = tree_list_read(&files, dir);
    for (size_t i = 0; i < files.count && e == ERR_OK && !listing->more; i++) {
        const char *name = files.files[i].path;
        if (!backup_name_valid(bytes_str(name))) continue;
        if (tree_path(path, dir, name) != ERR_OK || stat(path, &file) != 0) continue;
        if (listing_place(listing, bytes_str(name)) == PLACE_HERE)
            add_export(listing->json, name, &file);
    }
    tree_list_release(&files);
    return e;
}

enum err errand_list(struct errands *errands, const struct errand_page *page, struct buf *json_out,
                     struct buf *next_out)
{
    struct listing listing = {.page = page, .json = json_out, .next = next_out};
    must(page->kind == JOB_BACKUP || page->kind == JOB_EXPORT);
    enum err e = page->kind == JOB_EXPORT ? list_exports(errands->exports, &listing)
                                          : backup_list(errands->backups, list_backup, &listing);
    if (!listing.more) buf_reset(next_out);
    return e;
}

enum err errand_remove(struct errands *errands, enum job_kind kind, struct bytes name)
{
    char text[NAME_SIZE_MAX + 1];
    must(kind == JOB_BACKUP || kind == JOB_EXPORT);
    if (!backup_name_valid(name)) return ERR_NOT_FOUND;
    snprintf(text, sizeof text, "%.*s", (int)name.size, name.data);
    return backup_remove(kind == JOB_BACKUP ? errands->backups : errands->exports, text);
}
