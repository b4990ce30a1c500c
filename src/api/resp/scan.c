/* scan.c -- SCAN: the counters that have a cell without a duration, in the order of their names.
 *
 * A reader looks at COUNT counters and says where it stopped. What is there from the first call to
 * the last is shown once; what comes or goes meanwhile may be shown or not. */
#include "api/resp/cursors.h"
#include "api/resp/glob.h"
#include "api/resp/train.h"
#include "core/counter.h"
#include "core/name.h"

#define COUNT_DEFAULT 10
#define COUNT_MAX 10000

struct scanning {
    struct bytes pattern; /* no data: all */
    bool none;            /* a type was asked for that no counter has */
    int64_t count;
    struct bytes prefix, after; /* keys */
    struct train *train;
    struct buf names; /* those found, as replies */
    uint64_t found;
    int64_t seen;
    bool more; /* it stopped here: */
    char last[NAME_SIZE_MAX];
    size_t last_size;
    int64_t now_ms;
    enum err err;
};

/* -- Asking ------------------------------------------------------------------------------------ */

static bool read_option(struct scanning *scan, struct bytes option, struct bytes value)
{
    if (bytes_equal_nocase(option, BYTES("MATCH")))
        scan->pattern = value;
    else if (bytes_equal_nocase(option, BYTES("COUNT")))
        return resp_integer(value, &scan->count);
    else if (bytes_equal_nocase(option, BYTES("TYPE")))
        scan->none = !bytes_equal_nocase(value, BYTES("string"));
    else
        return false;
    return true;
}

/* False, after refusing. */
static bool read_options(struct train *train, const struct resp_command *command,
                         struct scanning *scan)
{
    for (uint32_t i = 2; i < command->count; i += 2) {
        bool whole = i + 1 < command->count;
        bool count = bytes_equal_nocase(command->items[i], BYTES("COUNT"));
        if (whole && read_option(scan, command->items[i], command->items[i + 1])) continue;
        if (whole && count)
            train_refuse_number(train);
        else
            train_refuse_syntax(train);
        return false;
    }
    if (scan->count < 1) train_refuse_syntax(train);
    if (scan->count > COUNT_MAX) scan->count = COUNT_MAX;
    return scan->count >= 1;
}

/* False, after refusing. */
static bool find_place(struct train *train, struct bytes cursor, struct scanning *scan)
{
    char key[COUNTER_KEY_SIZE_MAX];
    struct arena *arena = &train->exchange->arena;
    struct bytes name;
    int64_t number;
    bool good = resp_integer(cursor, &number) && number >= 0;
    if (good && number == 0) return true;
    good = good && cursors_find(train->api->cursors, train->tenant, (uint64_t)number,
                                train->exchange->turn_ns, arena, &name);
    if (good)
        scan->after = arena_copy(arena, counter_key(key, train->tenant, name));
    else
        train_refuse(train, "ERR invalid cursor");
    return good;
}

/* -- Looking ----------------------------------------------------------------------------------- */

static bool look_at(void *context, struct bytes key, const struct counter *counter)
{
    struct scanning *scan = context;
    struct bytes tenant, name;
    char kind;
    if (scan->seen == scan->count) return false;
    scan->seen++;
    if (!counter_key_split(key, &tenant, &kind, &name)) return true;
    memcpy(scan->last, name.data, name.size);
    scan->last_size = name.size;
    const struct series *series = counter_find(counter, 0);
    if (scan->none || !series || !series_shows(series, scan->now_ms)) return true;
    if (scan->pattern.data && !glob_match(scan->pattern, name)) return true;
    if (train_is_managed(scan->train, name)) return true;
    resp_add_bulk(&scan->names, name);
    scan->found++;
    return true;
}

static bool look(struct train *train)
{
    struct scanning *scan = train->plan;
    if (api_is_over(train->api)) {
        scan->err = ERR_BUSY;
        return false;
    }
    scan->now_ms = clock_now_ms(train->lane->clock);
    scan->err = view_list(&train->lane->store->view, scan->prefix, scan->after, look_at, scan);
    scan->more = scan->seen == scan->count && scan->last_size > 0;
    return false;
}

/* -- Answering --------------------------------------------------------------------------------- */

static void reply_scan(struct train *train, const struct promise *promise, struct buf *out)
{
    struct scanning *scan = train->plan;
    uint64_t cursor = 0;
    (void)promise;
    enum err e = train->refused != ERR_OK ? train->refused : scan->err;
    if (e != ERR_OK) {
        train_add_err(out, e);
        buf_release(&scan->names);
        return;
    }
    if (scan->more)
        cursor = cursors_keep(train->api->cursors, train->tenant,
                              bytes_of(scan->last, scan->last_size), train->exchange->turn_ns);
    resp_add_array(out, 2);
    resp_add_bulk_integer(out, (int64_t)cursor);
    resp_add_array(out, scan->found);
    buf_add(out, buf_bytes(&scan->names));
    buf_release(&scan->names);
}

void resp_scan(struct train *train, const struct resp_command *command)
{
    char key[COUNTER_KEY_SIZE_MAX];
    struct arena *arena = &train->exchange->arena;
    struct scanning *scan = arena_zalloc(arena, sizeof *scan);
    *scan = (struct scanning){.count = COUNT_DEFAULT, .train = train};
    if (!read_options(train, command, scan) || !find_place(train, command->items[1], scan)) return;
    struct bytes start = scan->pattern.data ? glob_prefix(scan->pattern) : BYTES("");
    if (start.size > 0 && !counter_name_valid(start)) { /* no counter is called so */
        resp_add_array(train_out(train), 2);
        resp_add_bulk(train_out(train), BYTES("0"));
        resp_add_array(train_out(train), 0);
        return;
    }
    if (scan->pattern.data) scan->pattern = arena_copy(arena, scan->pattern);
    scan->prefix = arena_copy(arena, counter_key_prefix(key, train->tenant, start));
    buf_init(&scan->names, (size_t)COUNT_MAX * (NAME_SIZE_MAX + 16));
    train->plan = scan;
    train->work = look;
    train_promise_new(train)->reply = reply_scan;
}
