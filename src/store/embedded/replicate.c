/* replicate.c -- see the header. */
#include "store/embedded/replicate.h"

#include "base/crash.h"
#include "base/log.h"
#include "core/object.h"
#include "store/embedded/internal.h"
#include "store/embedded/journal/block.h"

/* -- Shipping ---------------------------------------------------------------------------------- */

void embedded_tell(struct store *store, embedded_durable_fn *durable, void *context)
{
    struct embedded *embedded = embedded_of(store);
    embedded->told = durable;
    embedded->told_context = context;
}

void embedded_withhold(struct store *store, embedded_reached_fn *reached,
                       embedded_released_fn *released, void *context)
{
    struct embedded *embedded = embedded_of(store);
    embedded->reached = reached;
    embedded->released = released;
    embedded->reached_context = context;
    store->waits = true;
}

void embedded_set_following(struct store *store)
{
    embedded_of(store)->following = true;
}

bool embedded_leads(struct store *store)
{
    return !embedded_of(store)->following;
}

struct store_position embedded_position(struct store *store)
{
    struct embedded *embedded = embedded_of(store);
    pthread_mutex_lock(&embedded->pipeline);
    struct store_position position = embedded->durable;
    pthread_mutex_unlock(&embedded->pipeline);
    return position;
}

struct shipping {
    uint64_t after;
    uint64_t hash;
    uint64_t durable; /* nobody knows yet whether what comes after it stays */
    bool begun;
    embedded_block_fn *visit;
    void *context;
};

/* ERR_BUSY ends the scan. */
static enum err ship_block(void *context, const struct journal_block *block)
{
    struct shipping *shipping = context;
    uint64_t before;
    if (block->first_sequence > shipping->durable) return ERR_BUSY;
    bool here = block->first_sequence == shipping->after + 1 && block_before(block, &before) &&
                before == shipping->hash;
    if (!shipping->begun && !here) return ERR_POSITION;
    shipping->begun = true;
    return shipping->visit(shipping->context, block);
}

enum err embedded_blocks(struct store *store, uint64_t after, uint64_t hash,
                         embedded_block_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(store);
    struct shipping shipping = {.after = after,
                                .hash = hash,
                                .durable = journal_durable_sequence(embedded->journal),
                                .visit = visit,
                                .context = context};
    if (after >= shipping.durable) return ERR_POSITION;
    pthread_rwlock_rdlock(&embedded->retained);
    enum err e = journal_scan(embedded->journal, after + 1, ship_block, &shipping);
    pthread_rwlock_unlock(&embedded->retained);
    return e == ERR_BUSY && shipping.begun ? ERR_OK : e;
}

void embedded_keep(struct store *store, uint64_t after, uint64_t bytes_max)
{
    struct embedded *embedded = embedded_of(store);
    atomic_store(&embedded->followed_bytes, bytes_max);
    atomic_store(&embedded->followed, after);
}

/* -- Installing -------------------------------------------------------------------------------- */

/* One block on its way into memory. Cells are shown before counters, for a reader comes to them
 * through the counter; so a body is walked twice. */
struct installing {
    struct embedded *embedded;
    struct bytes rules_key;
    struct embedded_news *news;
};

static void pass_counter(void *context, struct bytes key, const struct counter *counter)
{
    (void)context, (void)key, (void)counter;
}

static void pass_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    (void)context, (void)series, (void)bucket, (void)cell;
}

static void pass_tenant(void *context, struct bytes tenant, int64_t cells)
{
    (void)context, (void)tenant, (void)cells;
}

static void pass_key(void *context, struct fingerprint print, const struct key_record *record)
{
    (void)context, (void)print, (void)record;
}

static void pass_object(void *context, struct bytes key, struct bytes value)
{
    (void)context, (void)key, (void)value;
}

static void pass_dead(void *context, uint64_t series)
{
    (void)context, (void)series;
}

static void note_object(void *context, struct bytes key, struct bytes value)
{
    struct installing *installing = context;
    embedded_replay_object(installing->embedded, key, value);
    if (bytes_equal(key, installing->rules_key)) installing->news->rules = true;
}

static void note_counter(void *context, struct bytes key, const struct counter *counter)
{
    embedded_replay_counter(((struct installing *)context)->embedded, key, counter);
}

static void note_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    embedded_replay_cell(((struct installing *)context)->embedded, series, bucket, cell);
}

static void note_tenant(void *context, struct bytes tenant, int64_t cells)
{
    embedded_replay_tenant(((struct installing *)context)->embedded, tenant, cells);
}

static void note_key(void *context, struct fingerprint print, const struct key_record *record)
{
    embedded_replay_key(((struct installing *)context)->embedded, print, record);
}

static void note_dead(void *context, uint64_t series)
{
    embedded_bury(((struct installing *)context)->embedded, &series, 1);
}

static enum err visit_block(const struct journal_block *block, struct arena *arena,
                            const struct block_visitor *visitor)
{
    enum err e = block_visit(block->body, block->time_ms, arena, visitor);
    arena_reset(arena);
    return e;
}

static const struct block_visitor pass = {.counter = pass_counter,
                                          .cell = pass_cell,
                                          .tenant = pass_tenant,
                                          .key = pass_key,
                                          .object = pass_object,
                                          .dead = pass_dead};

/* Before a byte is written: what is refused later would be in the journal already. */
static enum err judge(const struct embedded *embedded, const struct journal_block *blocks,
                      unsigned count, struct arena *arena)
{
    const struct store_position *durable = &embedded->durable;
    size_t body_max = journal_body_max(embedded->journal);
    uint64_t next = durable->last_sequence + 1;
    uint64_t hash = durable->hash;
    uint64_t series = durable->next_series;
    uint64_t before;
    for (unsigned i = 0; i < count; i++) {
        const struct journal_block *block = &blocks[i];
        if (!block_before(block, &before) || before != hash) return ERR_POSITION;
        if (block->count == 0 || block->first_sequence != next) return ERR_POSITION;
        if (block->next_series < series) return ERR_CORRUPT;
        if (block->body.size > body_max) return ERR_BODY_SIZE;
        enum err e = visit_block(block, arena, &pass);
        if (e != ERR_OK) return e;
        next += block->count;
        hash = block_hash(hash, block);
        series = block->next_series;
    }
    return ERR_OK;
}

/* How many of them are durable. A new segment may have been begun on the way, and then the failure
 * is of what came after. */
static unsigned append_all(struct embedded *embedded, const struct journal_block *blocks,
                           unsigned count)
{
    struct journal *journal = embedded->journal;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        struct journal_block block = blocks[i];
        block.set_back = block.time_ms < journal_last_time(journal);
        e = journal_append(journal, &block);
    }
    if (e == ERR_OK) e = journal_sync(journal);
    if (e == ERR_OK) return count;
    uint64_t durable = journal_durable_sequence(journal);
    unsigned whole = 0;
    while (whole < count && blocks[whole].first_sequence + blocks[whole].count <= durable + 1)
        whole++;
    return whole;
}

static void show(struct installing *installing, const struct journal_block *block, int64_t sure_ms,
                 struct arena *arena)
{
    struct embedded *embedded = installing->embedded;
    const struct block_visitor cells = {.counter = pass_counter,
                                        .cell = note_cell,
                                        .tenant = pass_tenant,
                                        .key = note_key,
                                        .object = pass_object,
                                        .dead = pass_dead,
                                        .context = installing};
    const struct block_visitor rest = {.counter = note_counter,
                                       .cell = pass_cell,
                                       .tenant = note_tenant,
                                       .key = pass_key,
                                       .object = note_object,
                                       .dead = note_dead,
                                       .context = installing};
    pthread_rwlock_wrlock(&embedded->visible);
    atomic_fetch_add(&embedded->shown, 1);
    enum err e = visit_block(block, arena, &cells);
    crash_point("install.between");
    if (e == ERR_OK) e = visit_block(block, arena, &rest);
    must(e == ERR_OK); /* it was judged */
    atomic_store(&embedded->sure_ms, sure_ms);
    pthread_mutex_lock(&embedded->pipeline);
    embedded->durable =
        (struct store_position){.last_sequence = block->first_sequence + block->count - 1,
                                .next_series = block->next_series,
                                .time_ms = block->time_ms,
                                .hash = block_hash(embedded->durable.hash, block)};
    embedded->store.writer.position = embedded->durable;
    pthread_mutex_unlock(&embedded->pipeline);
    atomic_store(&embedded->durable_sequence, embedded->durable.last_sequence);
    atomic_fetch_add(&embedded->shown, 1);
    pthread_rwlock_unlock(&embedded->visible);
}

static enum err install(struct embedded *embedded, const struct journal_block *blocks,
                        unsigned count, int64_t sure_ms, struct embedded_news *news)
{
    struct arena arena;
    struct arena key;
    arena_init(&arena, 64u << 10);
    arena_init(&key, 256);
    struct installing installing = {
        .embedded = embedded, .rules_key = object_key(&key, OBJECT_META, META_RULES), .news = news};
    enum err e = judge(embedded, blocks, count, &arena);
    if (e == ERR_OK) {
        crash_point("install.before_append");
        unsigned whole = append_all(embedded, blocks, count);
        crash_point("install.before_show");
        for (unsigned i = 0; i < whole; i++)
            show(&installing, &blocks[i], sure_ms, &arena);
        if (whole < count) e = ERR_STORAGE;
    }
    arena_release(&key);
    arena_release(&arena);
    return e;
}

/* The journal is begun anew by the thread that tends, as after a failed batch. */
static void note_failure(struct embedded *embedded)
{
    log_line(LOG_ERROR, "the journal could not be written; what was received is asked for again");
    atomic_fetch_add(&embedded->storage_errors, 1);
    pthread_mutex_lock(&embedded->pipeline);
    embedded->down = true;
    pthread_mutex_unlock(&embedded->pipeline);
}

enum err embedded_install(struct store *store, const struct journal_block *blocks, unsigned count,
                          int64_t sure_ms, struct embedded_news *news)
{
    struct embedded *embedded = embedded_of(store);
    must(embedded->following);
    pthread_mutex_lock(&embedded->turn);
    pthread_mutex_lock(&embedded->pipeline);
    embedded_check_turn(embedded);
    bool down = embedded->down;
    pthread_mutex_unlock(&embedded->pipeline);
    enum err e = down ? ERR_STORAGE : install(embedded, blocks, count, sure_ms, news);
    if (e == ERR_STORAGE && !down) note_failure(embedded);
    pthread_mutex_unlock(&embedded->turn);
    return e;
}

/* -- What was withheld ------------------------------------------------------------------------- */

struct releasing {
    struct installing installing;
    struct arena arena;
    uint64_t last;
    int64_t sure_ms;
};

/* ERR_BUSY ends the scan. */
static enum err release_block(void *context, const struct journal_block *block)
{
    struct releasing *releasing = context;
    if (block->first_sequence > releasing->last) return ERR_BUSY;
    enum err e = visit_block(block, &releasing->arena, &pass);
    if (e == ERR_OK) show(&releasing->installing, block, releasing->sure_ms, &releasing->arena);
    return e;
}

/* The turn is held, and none begins meanwhile. */
static void release_all(struct embedded *embedded, uint64_t last)
{
    struct arena key;
    struct embedded_news news = {0};
    arena_init(&key, 256);
    struct releasing releasing = {
        .installing = {.embedded = embedded,
                       .rules_key = object_key(&key, OBJECT_META, META_RULES),
                       .news = &news},
        .last = last,
        .sure_ms = atomic_load(&embedded->sure_ms)};
    arena_init(&releasing.arena, 64u << 10);
    const struct store_position end = embedded->store.writer.position;
    enum err e = journal_scan(embedded->journal, embedded->durable.last_sequence + 1, release_block,
                              &releasing);
    embedded->store.writer.position = end;
    bool whole = embedded->durable.last_sequence == last;
    if (!whole)
        log_line(LOG_ERROR, "what followers have now cannot be read from the journal",
                 LOG_KV("why", err_sentence(e)));
    must(!whole || embedded->durable.hash == end.hash);
    if (whole && news.rules) embedded->released(embedded->reached_context);
    pthread_mutex_lock(&embedded->pipeline);
    embedded->withheld = !whole;
    pthread_mutex_unlock(&embedded->pipeline);
    arena_release(&releasing.arena);
    arena_release(&key);
}

void embedded_release(struct embedded *embedded)
{
    pthread_mutex_lock(&embedded->pipeline);
    bool withheld = embedded->withheld && !embedded->down;
    uint64_t last = embedded->store.writer.position.last_sequence;
    pthread_mutex_unlock(&embedded->pipeline);
    if (!withheld || !embedded->reached(embedded->reached_context, last, false)) return;
    pthread_mutex_lock(&embedded->turn);
    release_all(embedded, last);
    pthread_mutex_unlock(&embedded->turn);
    log_line(LOG_INFO, "followers have what was written last; writes go on");
}
