/* sums.c -- see the header. */
#include "store/postgres/internal.h"

#include "base/clock.h"

#define ASKED_CELLS (4 * NODE_BUCKETS) /* a sum of more asks for nodes */
#define STEP_NODES 16                  /* some milliseconds, in which the lane is locked */
#define AGAIN_NS INT64_C(10000000000)
#define FAR (INT64_C(1) << 62) /* no bucket is so far from 1970 */

/* Rounds down, below zero too. */
static int64_t node_of(int64_t bucket, int64_t span)
{
    int64_t node = bucket / span;
    return bucket % span < 0 ? node - 1 : node;
}

static int64_t span_of(int32_t duration)
{
    return (int64_t)duration * NODE_BUCKETS;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static bool sums_is_wanted(const struct sums_wanted *wanted, uint64_t series, int64_t now_ns)
{
    return wanted->series == series && (!wanted->over || now_ns - wanted->over_ns < AGAIN_NS);
}

/* Asks for nodes from one bucket to another, unless that was done lately; those that find no place
 * ask again with their next sum. */
static void ask_for_nodes(struct lane_store *lane, uint64_t series, int64_t span, int64_t from,
                          int64_t to)
{
    struct sums_asked *asked = &lane->sums;
    struct sums_wanted *place = NULL;
    int64_t now_ns = clock_mono_ns(lane->database->config.clock);
    pthread_mutex_lock(&asked->lock);
    for (unsigned i = 0; i < SUMS_ASKED; i++) {
        struct sums_wanted *wanted = &asked->wanted[i];
        if (sums_is_wanted(wanted, series, now_ns)) {
            place = NULL;
            break;
        }
        if (wanted->series == 0 || wanted->over) place = wanted;
    }
    if (place)
        *place = (struct sums_wanted){.series = series, .span = span, .next = from, .to = to};
    pthread_mutex_unlock(&asked->lock);
}

/* The nodes that lie wholly in a range. False: there are none. */
static bool nodes_within(int32_t duration, int64_t from, int64_t to, int64_t *first_out,
                         int64_t *last_out)
{
    if (duration <= 0 || from > to) return false;
    int64_t span = span_of(duration);
    int64_t least = from < -FAR ? -FAR : from, most = to > FAR ? FAR : to;
    *first_out = node_of(least - 1, span) + 1;
    *last_out = node_of(most + 1, span) - 1;
    return *first_out <= *last_out;
}

struct sum_inquiry {
    struct inquiry inquiry;
    const struct cell_ref *ref;
    int64_t from, to;
    uint32_t cells_max;
};

static enum err ask_sum(struct sum_inquiry *asking, PGresult **result_out)
{
    struct sql_values *values = &asking->inquiry.values;
    int64_t first, last;
    values_print(values, asking->ref->print);
    values_i32(values, asking->ref->duration);
    values_i64(values, asking->from);
    values_i64(values, asking->to);
    values_i64(values, (int64_t)asking->cells_max + 1);
    values_i64(values, asking->ref->now_ms ? asking->ref->now_ms : INT64_MIN);
    if (!nodes_within(asking->ref->duration, asking->from, asking->to, &first, &last))
        return inquiry_ask(&asking->inquiry, SQL_SUM, result_out);
    values_i64(values, first);
    values_i64(values, last);
    values_i64(values, span_of(asking->ref->duration));
    return inquiry_ask(&asking->inquiry, SQL_SUM_NODES, result_out);
}

static enum err take_sum(struct sum_inquiry *asking, const PGresult *result,
                         struct range_sum *sum_out)
{
    int64_t cells, series = 0;
    if (PQntuples(result) != 1 || !result_i64(result, 0, 0, &cells) ||
        !parse_sum(result_bytes(result, 0, 1), &sum_out->added) ||
        !parse_sum(result_bytes(result, 0, 2), &sum_out->subbed))
        return inquiry_corrupt(&asking->inquiry, "a sum");
    bool known = PQnfields(result) == 4 && result_i64(result, 0, 3, &series);
    if (known && cells > ASKED_CELLS)
        ask_for_nodes(asking->inquiry.lane, (uint64_t)series, span_of(asking->ref->duration),
                      asking->from, asking->to);
    return cells > asking->cells_max ? ERR_TOO_MANY_CELLS : ERR_OK;
}

enum err postgres_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                      uint32_t cells_max, struct range_sum *sum_out)
{
    struct sum_inquiry asking = {.ref = ref, .from = from, .to = to, .cells_max = cells_max};
    PGresult *result;
    *sum_out = (struct range_sum){0};
    inquiry_begin(&asking.inquiry, view);
    enum err e = ask_sum(&asking, &result);
    if (e == ERR_OK) e = take_sum(&asking, result, sum_out);
    PQclear(result);
    inquiry_end(&asking.inquiry);
    return e;
}

/* -- Writing ----------------------------------------------------------------------------------- */

/* Whether a node may be there, by a commit's time. */
static bool is_past(int64_t node, int64_t span, int64_t time_ms)
{
    __int128 end_ms = ((__int128)node + 1) * span * 1000;
    return end_ms <= time_ms;
}

/* Neighbours share a node, so what is named again is mostly what was named last. */
void lane_drop_sums(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct sql_values *values = &lane->values;
    uint64_t series = 0;
    int64_t last = 0;
    values_begin(values, lane);
    if (writes->set_back) {
        link_send(lane->link, SQL_DROP_ALL_SUMS, values, LINK_DROP);
        return;
    }
    values_columns(values, "ll");
    for (uint32_t i = 0; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        if (!read->changed || read->duration <= 0) continue;
        int64_t span = span_of(read->duration), node = node_of(read->bucket, span);
        if (!is_past(node, span, writes->time_ms)) continue;
        if (read->series == series && node == last) continue;
        series = read->series;
        last = node;
        row_i64(values, (int64_t)series);
        row_i64(values, node);
    }
    if (values->rows > 0) link_send(lane->link, SQL_DROP_SUMS, values, LINK_DROP);
}

/* -- Making nodes ------------------------------------------------------------------------------ */

/* The first one that is to be given nodes. */
static bool take_wanted(struct sums_asked *asked, struct sums_wanted *wanted_out)
{
    bool found = false;
    pthread_mutex_lock(&asked->lock);
    for (unsigned i = 0; i < SUMS_ASKED && !found; i++) {
        found = asked->wanted[i].series != 0 && !asked->wanted[i].over;
        if (found) *wanted_out = asked->wanted[i];
    }
    pthread_mutex_unlock(&asked->lock);
    return found;
}

static void put_wanted(struct sums_asked *asked, const struct sums_wanted *wanted)
{
    pthread_mutex_lock(&asked->lock);
    for (unsigned i = 0; i < SUMS_ASKED; i++) {
        struct sums_wanted *place = &asked->wanted[i];
        if (place->series == wanted->series && !place->over) *place = *wanted;
    }
    pthread_mutex_unlock(&asked->lock);
}

/* The step made nodes from the first cell on that there is: where it goes on. */
static void go_on(struct sums_wanted *wanted, const PGresult *result)
{
    int64_t node;
    bool past;
    wanted->over = PQntuples(result) != 1 || !result_i64(result, 0, 0, &node) ||
                   !result_bool(result, 0, 1, &past) || !past;
    if (wanted->over) return;
    wanted->next = (node + STEP_NODES) * wanted->span;
    wanted->over = wanted->next > wanted->to;
}

bool lane_make_sums(struct lane_store *lane, struct sql_values *values, int64_t now_ns)
{
    struct sums_wanted wanted;
    PGresult *result;
    if (!take_wanted(&lane->sums, &wanted)) return false;
    values_begin(values, lane);
    values_i64(values, (int64_t)wanted.series);
    values_i64(values, wanted.span);
    values_i64(values, wanted.next);
    values_i64(values, wanted.to);
    values_i64(values, STEP_NODES);
    enum err e = care_ask(lane, SQL_MAKE_SUMS, values, true, &result);
    if (e == ERR_OK) go_on(&wanted, result);
    PQclear(result);
    wanted.over |= e != ERR_OK; /* it is asked for again */
    wanted.over_ns = now_ns;
    put_wanted(&lane->sums, &wanted);
    return e == ERR_OK;
}
