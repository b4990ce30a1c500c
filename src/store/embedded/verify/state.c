/* state.c -- compares two states, family by family, key by key.
 *
 * Every row of the one is looked up in the other, with its value, and then every row of the other
 * in the one: so both hold the same set. Rows that are derived (range sums) or may be out of date
 * (expiry) are not compared, but each cell that expires must have its row. */
#include <stdio.h>

#include "core/object.h"
#include "store/embedded/verify/internal.h"
#include "store/embedded/ids/runs.h"
#include "store/embedded/state/records.h"
#include "store/embedded/state/registry_record.h"
#include "store/embedded/state/state.h"

#define SHOWN_MAX 10u /* differences listed one by one */
#define STATE_CACHE_BYTES (64u << 20)

static const struct {
    enum state_family family;
    const char *name;
} compared[] = {
    {STATE_COUNTERS, "counter"}, {STATE_CELLS, "cell"}, {STATE_SERIES, "series"},
    {STATE_TENANTS, "tenant"},   {STATE_IDS, "key"},    {STATE_OBJECTS, "object"},
};

struct comparison {
    struct verify *verify;
    struct state *now;
    struct state *then;
    enum state_family family;
    const char *name;
    uint64_t rows;
    uint64_t different; /* over all families */
    int64_t keys_before;
    struct buf value;
    enum err err;
};

static bool is_expired_key(const struct comparison *comparison, struct bytes value)
{
    struct key_record record;
    if (comparison->family != STATE_IDS || record_decode(value, &record) != ERR_OK) return false;
    return !record.event && record.first_seen_ms < comparison->keys_before;
}

/* Adds a key as a person can read it. */
static void add_readable(struct buf *text, struct bytes key)
{
    for (size_t i = 0; i < key.size && i < 200; i++) {
        unsigned char byte = (unsigned char)key.data[i];
        if (byte >= ' ' && byte < 127)
            buf_add_char(text, (char)byte);
        else
            buf_addf(text, "\\x%02x", byte);
    }
}

/* Adds the counter that a cell belongs to, from the series row. */
static void add_owner(struct comparison *comparison, struct buf *text, struct bytes key)
{
    struct series series;
    struct bytes counter;
    struct buf row;
    buf_init(&row, 1u << 20);
    if (key.size == CELL_KEY_SIZE &&
        state_get(comparison->now, STATE_SERIES, bytes_of(key.data, SERIES_KEY_SIZE), &row) ==
            ERR_OK &&
        series_record_decode(buf_bytes(&row), &series.duration, &counter) == ERR_OK) {
        buf_add(text, BYTES(" of "));
        add_readable(text, counter);
    }
    buf_release(&row);
}

static void differs(struct comparison *comparison, struct bytes key, const char *how)
{
    if (comparison->different++ >= SHOWN_MAX) return;
    struct buf text;
    buf_init(&text, 8192);
    add_readable(&text, key);
    if (comparison->family == STATE_CELLS) add_owner(comparison, &text, key);
    verify_say(comparison->verify, VERIFY_DAMAGED, "balance", "%s %.*s %s", comparison->name,
               (int)text.size, text.data, how);
    buf_release(&text);
}

static void check_expiry(struct comparison *comparison, struct bytes key, struct bytes value)
{
    struct cell cell;
    char due[EXPIRY_KEY_SIZE];
    uint64_t series;
    int64_t bucket;
    if (comparison->family != STATE_CELLS) return;
    if (cell_key_decode(key, &series, &bucket) != ERR_OK ||
        cell_record_decode(value, &cell) != ERR_OK) {
        differs(comparison, key, "cannot be read");
        return;
    }
    if (cell.expires_ms == TIME_NONE) return;
    expiry_key(due, cell.expires_ms, series, bucket);
    if (state_get(comparison->now, STATE_EXPIRY, bytes_of(due, sizeof due), &comparison->value) ==
        ERR_NOT_FOUND)
        differs(comparison, key, "expires, but no sweep would find it");
}

static bool compare_row(void *context, struct bytes key, struct bytes value)
{
    struct comparison *comparison = context;
    struct effort *effort = comparison->verify->config->effort;
    enum err e = state_get(comparison->then, comparison->family, key, &comparison->value);
    comparison->rows++;
    atomic_fetch_add(&effort->done, key.size + value.size);
    bool excused = e == ERR_NOT_FOUND && is_expired_key(comparison, value);
    if (e == ERR_NOT_FOUND && !excused)
        differs(comparison, key, "is stored, but not what the journal adds up to");
    else if (e == ERR_OK && !bytes_equal(buf_bytes(&comparison->value), value))
        differs(comparison, key, "has another value than the journal adds up to");
    else if (e != ERR_OK && e != ERR_NOT_FOUND)
        comparison->err = e;
    check_expiry(comparison, key, value);
    if (atomic_load(&effort->stop)) comparison->err = ERR_BUSY;
    return comparison->err == ERR_OK;
}

static bool count_row(void *context, struct bytes key, struct bytes value)
{
    struct comparison *comparison = context;
    if (state_get(comparison->now, comparison->family, key, &comparison->value) != ERR_NOT_FOUND ||
        is_expired_key(comparison, value))
        return true;
    differs(comparison, key, "is missing");
    return true;
}

static enum err compare_family(struct comparison *comparison)
{
    enum err e = state_scan(comparison->now, comparison->family, BYTES_NONE, BYTES_NONE,
                            compare_row, comparison);
    if (e == ERR_OK) e = comparison->err;
    if (e == ERR_OK)
        e = state_scan(comparison->then, comparison->family, BYTES_NONE, BYTES_NONE, count_row,
                       comparison);
    return e;
}

/* Event ids are kept beside RocksDB. */
struct id_comparison {
    struct comparison *comparison;
    struct id_runs *mine;
    struct id_runs *other;
    bool values; /* compares values too; the second way round they were compared already */
    const char *how;
};

static void compare_id(void *context, struct id_span span, const struct id_entry *entry)
{
    struct id_comparison *ids = context;
    struct comparison *comparison = ids->comparison;
    struct fingerprint print = entry->print;
    struct id_entry mine;
    struct id_entry other;
    char key[RECORD_KEY_SIZE];
    span.last = UINT64_MAX; /* a newer run may have a newer record of it */
    enum err e = id_runs_find(ids->mine, span, print, &mine);
    enum err found = id_runs_find(ids->other, ID_SPAN_ALL, print, &other);
    if (ids->values) comparison->rows++;
    record_key_put(key, print);
    if (e != ERR_OK || (found != ERR_OK && found != ERR_NOT_FOUND))
        comparison->err = ERR_STORAGE;
    else if (found == ERR_NOT_FOUND)
        differs(comparison, bytes_of(key, sizeof key), ids->how);
    else if (ids->values && (mine.sequence != other.sequence || mine.digest != other.digest ||
                             mine.first_seen_ms != other.first_seen_ms))
        differs(comparison, bytes_of(key, sizeof key),
                "has another value than the journal adds up to");
}

static enum err open_ids(struct state *state, const char *dir, char path[TREE_PATH_MAX],
                         struct id_runs **runs_out)
{
    enum err e = tree_path(path, dir, "ids");
    const struct id_files files = {
        .io = &io_system, .dir = path, .identity = state_identity(state)};
    return e == ERR_OK ? id_runs_open(runs_out, &files) : e;
}

static enum err compare_ids(struct comparison *comparison, const char *now, const char *then)
{
    char now_path[TREE_PATH_MAX];
    char then_path[TREE_PATH_MAX];
    struct id_runs *now_ids = NULL;
    struct id_runs *then_ids = NULL;
    comparison->family = STATE_IDS;
    comparison->name = "id";
    enum err e = open_ids(comparison->now, now, now_path, &now_ids);
    if (e == ERR_OK) e = open_ids(comparison->then, then, then_path, &then_ids);
    struct id_comparison ids = {comparison, now_ids, then_ids, true,
                                "is stored, but not what the journal adds up to"};
    if (e == ERR_OK) e = id_runs_scan(now_ids, 0, compare_id, &ids);
    ids = (struct id_comparison){comparison, then_ids, now_ids, false, "is missing"};
    if (e == ERR_OK) e = id_runs_scan(then_ids, 0, compare_id, &ids);
    id_runs_free(now_ids);
    id_runs_free(then_ids);
    return e == ERR_OK ? comparison->err : e;
}

static enum err compare_all(struct comparison *comparison, const char *now, const char *then,
                            const char *since)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < ARRAY_COUNT(compared) && e == ERR_OK; i++) {
        comparison->family = compared[i].family;
        comparison->name = compared[i].name;
        e = compare_family(comparison);
    }
    if (e == ERR_OK) e = compare_ids(comparison, now, then);
    if (e != ERR_OK) return e;
    if (comparison->different == 0)
        verify_say(comparison->verify, VERIFY_GOOD, "balance",
                   "%llu rows equal what the journal adds up to from %s",
                   (unsigned long long)comparison->rows, since);
    else
        verify_say(comparison->verify, VERIFY_DAMAGED, "balance",
                   "%llu of %llu rows differ from what the journal adds up to from %s",
                   (unsigned long long)comparison->different, (unsigned long long)comparison->rows,
                   since);
    return ERR_OK;
}

static enum err open_state(struct verify *verify, const char *dir, struct state **state_out)
{
    char path[TREE_PATH_MAX];
    struct reason why;
    reason_clear(&why);
    enum err e = tree_path(path, dir, "state");
    const struct state_config config = {.dir = path, .cache_bytes = STATE_CACHE_BYTES};
    if (e == ERR_OK) e = state_open(state_out, &config, &why);
    if (e != ERR_OK) verify_say(verify, VERIFY_DAMAGED, "state", "%s: %s", path, why.text);
    return e;
}

/* A row that cannot be read ends the comparison; RocksDB's sentence has the path of the file. */
static void say_unread(const struct comparison *comparison, const char *since)
{
    const char *why = state_error(comparison->now);
    verify_say(comparison->verify, VERIFY_DAMAGED, "balance",
               "compared with what the journal adds up to from %s, the rows of kind %s cannot be "
               "read after %llu rows%s%s",
               since, comparison->name, (unsigned long long)comparison->rows, why[0] ? ": " : "",
               why);
}

/* Keys are forgotten by batch time. Time may have been set back since: when they were forgotten it
 * was later by as much. */
static enum err find_keys_before(struct comparison *comparison)
{
    struct arena arena;
    struct store_position position = {0};
    struct clock_record record = {0};
    struct buf *value = &comparison->value;
    arena_init(&arena, 1024);
    struct bytes key = object_key(&arena, OBJECT_META, META_CLOCK);
    enum err e = state_get(comparison->now, STATE_META, META_APPLIED, value);
    if (e == ERR_OK) e = position_record_decode(buf_bytes(value), &position);
    if (e == ERR_OK) e = state_get(comparison->now, STATE_OBJECTS, key, value);
    if (e == ERR_OK && !clock_record_decode(buf_bytes(value), &record)) e = ERR_CORRUPT;
    comparison->keys_before =
        position.time_ms + record.moment.back_ms - comparison->verify->config->key_keep_ms;
    arena_release(&arena);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

enum err verify_compare(struct verify *verify, const char *now, const char *then, const char *since)
{
    struct comparison comparison = {.verify = verify};
    buf_init(&comparison.value, 1u << 30);
    enum err e = open_state(verify, now, &comparison.now);
    if (e == ERR_OK) e = open_state(verify, then, &comparison.then);
    if (e == ERR_OK) e = find_keys_before(&comparison);
    if (e == ERR_OK) e = compare_all(&comparison, now, then, since);
    if (e != ERR_OK && e != ERR_BUSY && comparison.then) say_unread(&comparison, since);
    state_close(comparison.now);
    state_close(comparison.then);
    buf_release(&comparison.value);
    return e;
}
