/* ask.c -- one entity now, a page of drift, the state of an entry. */
#include "reconcile/ask.h"

#include <inttypes.h>
#include <time.h>

#include "core/event.h"
#include "core/name.h"
#include "core/timefmt.h"
#include "reconcile/pass.h"
#include "reconcile/reconciler_internal.h"

#define PAGE_NS (INT64_C(5) * 1000000000) /* one page counts so long at most */
#define WAIT_SECONDS 10                   /* for a pass of the same entity to end */

/* One question: the entry as the rules have it now, and what counts for it. */
struct asking {
    struct reconciler *reconciler;
    const struct lane *lane; /* the tenant's */
    struct rules *rules;     /* held */
    const struct reconcile *reconcile;
    struct entry *entry; /* held */
    struct bytes tenant;
    struct json_parser *parser;
};

static enum err asking_begin(struct asking *asking, struct reconciler *reconciler,
                             struct bytes name, struct bytes tenant)
{
    *asking = (struct asking){.reconciler = reconciler,
                              .lane = lanes_of(reconciler->config.lanes, tenant),
                              .tenant = tenant};
    asking->rules = rulebook_hold(asking->lane->rulebook);
    asking->reconcile = reconcile_find(asking->rules, name);
    if (!asking->reconcile || !reconcile_has_tenant(asking->reconcile, tenant)) {
        rules_release(asking->rules);
        return ERR_NOT_FOUND;
    }
    pthread_mutex_lock(&reconciler->lock);
    bool stopped = reconciler->stopped; /* a truth made now would not be cancelled */
    if (!stopped) asking->entry = entry_hold(reconciler, asking->reconcile);
    pthread_mutex_unlock(&reconciler->lock);
    if (stopped) {
        rules_release(asking->rules);
        return ERR_BUSY;
    }
    asking->parser = json_parser_new(EVENT_SIZE_MAX);
    return ERR_OK;
}

static void asking_end(struct asking *asking)
{
    pthread_mutex_lock(&asking->reconciler->lock);
    entry_give(asking->entry);
    pthread_mutex_unlock(&asking->reconciler->lock);
    json_parser_free(asking->parser);
    rules_release(asking->rules);
}

static bool asking_entity(struct asking *asking, struct bytes entity_json, struct entity *entity)
{
    return entity_init(entity, &asking->lane->caretaker, rules_hold(asking->rules),
                       asking->reconcile, asking->tenant, entity_json, asking->parser);
}

/* -- One entity now ---------------------------------------------------------------------------- */

/* An entity has one pass at a time: waits for the end of another one. */
static bool seize(struct reconciler *reconciler, struct bytes key)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_SECONDS;
    int result = 0;
    bool seized = false;
    pthread_mutex_lock(&reconciler->lock);
    while (!reconciler->stopped && result == 0 &&
           !(seized = flights_seize(&reconciler->flights, key, clock_mono_ns(reconciler->clock))))
        result = pthread_cond_clockwait(&reconciler->changed, &reconciler->lock, CLOCK_MONOTONIC,
                                        &until);
    pthread_mutex_unlock(&reconciler->lock);
    return seized;
}

static void let_go(struct reconciler *reconciler, struct bytes key)
{
    pthread_mutex_lock(&reconciler->lock);
    flights_land(&reconciler->flights, key, 0, 0);
    pthread_cond_broadcast(&reconciler->changed);
    pthread_mutex_unlock(&reconciler->lock);
}

static void write_numbers(struct buf *json, const char *name, const struct entity *entity,
                          enum entity_number which)
{
    buf_addf(json, ",\"%s\":", name);
    entity_write_text(json, entity, which);
}

static enum err run_entity(struct asking *asking, struct entity *entity, struct buf *json)
{
    struct bytes key = entity->change.place.key;
    if (!seize(asking->reconciler, key)) return ERR_BUSY;
    enum err e = pass_run(entity, asking->entry->truth);
    let_go(asking->reconciler, key);
    if (e != ERR_OK) return e;
    buf_add(json, BYTES("{\"entity\":"));
    buf_add(json, entity->query.entity_json);
    write_numbers(json, "before", entity, ENTITY_BEFORE);
    write_numbers(json, "after", entity, ENTITY_AFTER);
    write_numbers(json, "diff", entity, ENTITY_DIFFERENCE);
    buf_addf(json, ",\"cleared\":%s}", entity->change.cleared ? "true" : "false");
    return ERR_OK;
}

enum err reconcile_now(struct reconciler *reconciler, struct bytes name, struct bytes tenant,
                       struct bytes entity_json, struct buf *json_out)
{
    struct asking asking;
    struct entity entity;
    enum err e = asking_begin(&asking, reconciler, name, tenant);
    if (e != ERR_OK) return e;
    e = asking_entity(&asking, entity_json, &entity) ? run_entity(&asking, &entity, json_out)
                                                     : ERR_CONFLICT;
    entity_release(&entity);
    asking_end(&asking);
    return e;
}

/* -- Drift ------------------------------------------------------------------------------------- */

/* Entities are known by the cells of each counter in turn, then by the marks of those without any.
 * A cursor is the turn, a byte, and the entity. */
struct drift_page {
    struct asking *asking;
    struct arena arena;
    unsigned turn;
    struct bytes after; /* entity's JSON; size 0: from the beginning of the turn */
    struct bytes *found;
    unsigned count;
    unsigned most;
    size_t prefix_size;
    struct buf *json; /* out: what is wrong, and what could not be counted */
    struct buf *uncounted;
};

static bool page_add(struct drift_page *page, struct bytes entity_json)
{
    page->found[page->count++] = arena_copy(&page->arena, entity_json);
    return page->count < page->most;
}

static bool see_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct drift_page *page = context;
    struct bytes json = bytes_of(key.data + page->prefix_size, key.size - page->prefix_size);
    (void)counter;
    if (!mark_is_entity(json, page->asking->reconcile)) return true;
    return page_add(page, json);
}

static bool see_mark(void *context, struct bytes key, struct bytes value)
{
    struct drift_page *page = context;
    (void)value;
    return page_add(page, bytes_of(key.data + page->prefix_size, key.size - page->prefix_size));
}

static struct bytes page_prefix(struct drift_page *page)
{
    const struct asking *asking = page->asking;
    const struct reconcile *reconcile = asking->reconcile;
    if (page->turn == reconcile->counters_count)
        return mark_prefix(&page->arena, reconcile->name, asking->tenant);
    const struct definition *definition =
        rules_find(asking->rules, reconcile->counters[page->turn].name);
    return rule_key_prefix(&page->arena, asking->tenant, definition->name, definition->generation);
}

static enum err page_find(struct drift_page *page)
{
    struct store *store = page->asking->lane->store;
    struct bytes prefix = page_prefix(page);
    struct bytes after = BYTES_NONE;
    if (page->after.size) {
        char *key = arena_alloc(&page->arena, prefix.size + page->after.size);
        memcpy(key, prefix.data, prefix.size);
        memcpy(key + prefix.size, page->after.data, page->after.size);
        after = bytes_of(key, prefix.size + page->after.size);
    }
    page->prefix_size = prefix.size;
    page->count = 0;
    if (page->turn == page->asking->reconcile->counters_count)
        return view_objects(&store->view, prefix, after, see_mark, page);
    return view_list(&store->view, prefix, after, see_counter, page);
}

/* Whether an earlier turn listed the entity. */
static bool is_known(const struct drift_page *page, const struct entity *entity)
{
    struct store *store = page->asking->lane->store;
    for (unsigned i = 0; i < page->turn; i++) {
        const struct adjustment *adjustment = &entity->change.adjustments[i];
        const struct cell_ref ref = {adjustment->key, adjustment->print, 0, 0};
        struct cell cell;
        if (view_get(&store->view, &ref, 0, READ_ALL, &cell) == ERR_OK) return true;
    }
    return false;
}

static bool is_wrong(const struct entity *entity)
{
    for (uint32_t i = 0; i < entity->change.adjustments_count; i++)
        if (entity->change.adjustments[i].then != entity->change.adjustments[i].truth) return true;
    return false;
}

static void write_drift(struct buf *json, const struct entity *entity)
{
    if (json->size && json->data[json->size - 1] == '}') buf_add_char(json, ',');
    buf_add(json, BYTES("{\"entity\":"));
    buf_add(json, entity->query.entity_json);
    write_numbers(json, "stored", entity, ENTITY_THEN);
    write_numbers(json, "actual", entity, ENTITY_TRUTH);
    write_numbers(json, "drift", entity, ENTITY_DRIFT);
    buf_add_char(json, '}');
}

static void write_uncounted(struct buf *json, const struct entity *entity)
{
    if (json->size) buf_add_char(json, ',');
    buf_add(json, entity->query.entity_json);
}

static enum err drift_of(struct drift_page *page, struct bytes entity_json)
{
    struct entity entity;
    enum err e = ERR_OK;
    if (asking_entity(page->asking, entity_json, &entity) && !is_known(page, &entity)) {
        e = entity_begin(&entity);
        if (e == ERR_OK) e = pass_count(&entity, page->asking->entry->truth);
        if (e == ERR_OK && is_wrong(&entity)) write_drift(page->json, &entity);
        if (e == ERR_SOURCE_ANSWER) {
            write_uncounted(page->uncounted, &entity);
            e = ERR_OK;
        }
    }
    entity_release(&entity);
    return e;
}

static void write_cursor(struct buf *after, unsigned turn, struct bytes entity_json)
{
    buf_add_char(after, (char)turn);
    buf_add(after, entity_json);
}

static enum err fill_page(struct drift_page *page, struct buf *after_out)
{
    const struct clock *clock = page->asking->reconciler->clock;
    unsigned turns = page->asking->reconcile->counters_count + 1;
    int64_t until_ns = clock_mono_ns(clock) + PAGE_NS;
    unsigned left = page->most;
    for (; page->turn < turns; page->turn++, page->after = BYTES_NONE) {
        page->most = left;
        enum err e = page_find(page);
        for (unsigned i = 0; i < page->count && e == ERR_OK; i++, left--) {
            e = drift_of(page, page->found[i]);
            if (e != ERR_OK || (left > 1 && clock_mono_ns(clock) < until_ns)) continue;
            write_cursor(after_out, page->turn, page->found[i]);
            return ERR_OK;
        }
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

enum err reconcile_drift(struct reconciler *reconciler, struct bytes name, struct bytes tenant,
                         struct bytes after, int64_t limit, struct buf *json_out,
                         struct buf *uncounted_out, struct buf *after_out)
{
    struct asking asking;
    enum err e = asking_begin(&asking, reconciler, name, tenant);
    if (e != ERR_OK) return e;
    struct drift_page page = {
        .asking = &asking, .most = (unsigned)limit, .json = json_out, .uncounted = uncounted_out};
    arena_init(&page.arena, 16u << 10);
    page.found = arena_alloc(&page.arena, page.most * sizeof *page.found);
    if (after.size) {
        page.turn = (unsigned char)after.data[0];
        page.after = bytes_of(after.data + 1, after.size - 1);
    }
    if (page.turn > asking.reconcile->counters_count)
        e = ERR_INVALID;
    else
        e = fill_page(&page, after_out);
    arena_release(&page.arena);
    asking_end(&asking);
    return e;
}

/* -- How things stand -------------------------------------------------------------------------- */

struct standing {
    uint64_t pending;
    uint64_t failing;
    int64_t oldest_ms;
};

static bool see_row(void *context, struct bytes key, struct bytes value)
{
    struct standing *standing = context;
    struct mark mark;
    (void)key;
    if (!mark_decode(value, &mark) || !mark.pending) return true;
    standing->pending++;
    standing->failing += mark.failures > 0;
    if (mark.marked_ms < standing->oldest_ms) standing->oldest_ms = mark.marked_ms;
    return true;
}

static void write_status(struct asking *asking, const struct standing *standing, struct buf *json)
{
    struct reconciler *reconciler = asking->reconciler;
    int64_t now_ns = clock_mono_ns(reconciler->clock);
    pthread_mutex_lock(&reconciler->lock);
    bool down = asking->entry->downs > 0;
    int64_t wait_ns = asking->entry->down_until_ns - now_ns;
    pthread_mutex_unlock(&reconciler->lock);
    buf_add(json, BYTES("{\"name\":"));
    buf_add_json(json, asking->reconcile->name);
    buf_addf(json, ",\"pending\":%" PRIu64 ",\"failing\":%" PRIu64 ",\"oldestMarkAt\":",
             standing->pending, standing->failing);
    if (standing->oldest_ms == INT64_MAX)
        buf_add(json, BYTES("null"));
    else
        time_format_json(json, standing->oldest_ms);
    buf_addf(json, ",\"source\":\"%s\",\"retryInSeconds\":%" PRId64 "}", down ? "down" : "ok",
             wait_ns > 0 ? wait_ns / 1000000000 + 1 : 0);
}

enum err reconcile_status(struct reconciler *reconciler, struct bytes name, struct bytes tenant,
                          struct buf *json_out)
{
    struct asking asking;
    struct arena arena;
    struct standing standing = {.oldest_ms = INT64_MAX};
    enum err e = asking_begin(&asking, reconciler, name, tenant);
    if (e != ERR_OK) return e;
    arena_init(&arena, 1024);
    e = view_objects(&asking.lane->store->view, mark_prefix(&arena, name, tenant), BYTES_NONE,
                     see_row, &standing);
    if (e == ERR_OK) write_status(&asking, &standing, json_out);
    arena_release(&arena);
    asking_end(&asking);
    return e;
}
