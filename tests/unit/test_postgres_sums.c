/* test_postgres_sums.c -- SPEC 5, 12: a sum over a long range is what its cells add up to, exactly,
 * whatever was counted, taken back, expired, deleted or dated anew since its nodes were made, and
 * whichever node did so; and every row of `sums` is the sum of its cells. */
#include "support/store_expect.h"

#include "base/hash.h"
#include "store/postgres/sums.h"
#include "support/cluster.h"

#define BUCKETS (5u * NODE_BUCKETS + 7)
#define JOB_OPS 500u

static struct heart *heart, *other;
static int32_t duration;
static int64_t first_bucket;

/* What every bucket must hold. */
static struct {
    int64_t added[BUCKETS];
    int64_t subbed[BUCKETS];
} model;

static int start(void **state)
{
    (void)state;
    heart = heart_new((struct heart_config){.store = "postgres"});
    other = heart_new((struct heart_config){.store = "postgres", .beside = heart});
    memset(&model, 0, sizeof model);
    duration = 60;
    first_bucket = -(int64_t)(2 * NODE_BUCKETS + 3) * 60; /* to both sides of 1970 */
    return 0;
}

static int stop(void **state)
{
    (void)state;
    heart_free(heart);
    heart_free(other);
    return 0;
}

static int64_t bucket_of(unsigned at)
{
    return first_bucket + (int64_t)at * duration;
}

static struct op make(struct heart *by, enum op_kind kind, unsigned at, int64_t amount)
{
    struct op op = increment_at(by, "views", duration, bucket_of(at), amount);
    op.kind = kind;
    return op;
}

static void add(struct heart *by, unsigned at, int64_t amount)
{
    done_ok(by, make(by, OP_INCREMENT, at, amount));
    model.added[at] += amount;
}

/* Counts at each `step`th bucket. */
static void fill(unsigned step)
{
    struct op ops[JOB_OPS];
    uint32_t count = 0;
    for (unsigned at = 0; at < BUCKETS; at += step) {
        model.added[at] += at % 7 + 1;
        ops[count++] = make(heart, OP_INCREMENT, at, at % 7 + 1);
        if (count < JOB_OPS && at + step < BUCKETS) continue;
        assert_int_equal(heart_send(heart, (struct bundle){0}, ops, count)->pushed, ERR_OK);
        heart_run(heart);
        count = 0;
    }
}

static struct range_sum sum(struct heart *by, int64_t from, int64_t to)
{
    struct range_sum sum;
    struct cell_ref ref = heart_ref(by, "views", duration);
    assert_int_equal(view_sum(&by->store->view, &ref, from, to, UINT32_MAX, &sum), ERR_OK);
    return sum;
}

static void expect(struct heart *by, int64_t from, int64_t to)
{
    __int128 added = 0, subbed = 0;
    for (unsigned at = 0; at < BUCKETS; at++) {
        if (bucket_of(at) < from || bucket_of(at) > to) continue;
        added += model.added[at];
        subbed += model.subbed[at];
    }
    struct range_sum got = sum(by, from, to);
    if (got.added != added || got.subbed != subbed)
        fail_msg("from %lld to %lld: %lld - %lld, not %lld - %lld", (long long)from, (long long)to,
                 (long long)got.added, (long long)got.subbed, (long long)added, (long long)subbed);
}

/* Law (1) of sums.h, by the database's own arithmetic. */
static void expect_laws(void)
{
    char sql[1200];
    snprintf(
        sql, sizeof sql,
        "DO $$ BEGIN IF EXISTS (SELECT FROM %1$s.sums m JOIN %1$s.series s USING (series, lane)"
        " CROSS JOIN LATERAL (SELECT coalesce(sum(c.added), 0) AS added,"
        " coalesce(sum(c.subbed), 0) AS subbed FROM %1$s.cells c WHERE c.series = m.series"
        " AND c.lane = m.lane AND c.bucket >= m.node * s.duration * %2$d"
        " AND c.bucket < (m.node + 1) * s.duration * %2$d) AS k"
        " WHERE m.added <> k.added OR m.subbed <> k.subbed)"
        " THEN RAISE 'a node is not the sum of its cells'; END IF; END $$",
        heart->schema, NODE_BUCKETS);
    cluster_run(sql);
}

static void expect_nodes(unsigned count)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "DO $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM %s.sums;"
             " IF n <> %u THEN RAISE '%% nodes', n; END IF; END $$",
             heart->schema, count);
    cluster_run(sql);
}

/* A long sum asks; once that was a while ago the next one may ask again. */
static void make_nodes(void)
{
    (void)sum(heart, INT64_MIN, INT64_MAX);
    heart_tend(heart);
    heart->time->mono_ns += INT64_C(11000000000);
}

/* -- Made, used, dropped ----------------------------------------------------------------------- */

static void a_long_sum_has_nodes_made_and_then_goes_by_them(void **state)
{
    char sql[200];
    (void)state;
    fill(1);
    expect_nodes(0);
    make_nodes();
    expect_nodes(7);
    expect_laws();
    expect(other, INT64_MIN, INT64_MAX);
    snprintf(sql, sizeof sql, "UPDATE %s.sums SET added = added + 1000000", heart->schema);
    cluster_run(sql);
    __int128 all = sum(other, INT64_MIN, INT64_MAX).added;
    __int128 inner = sum(other, bucket_of(1), bucket_of(BUCKETS - 2)).added;
    assert_true(all > 7000000 && inner > 5000000 && inner < 6000000);
}

static void a_short_sum_asks_for_no_nodes(void **state)
{
    (void)state;
    fill(1);
    expect(heart, bucket_of(10), bucket_of(3 * NODE_BUCKETS));
    heart_tend(heart);
    expect_nodes(0);
}

static void any_ends_of_a_range_will_do(void **state)
{
    static const int64_t near[] = {-1, 0, 1};
    (void)state;
    fill(1);
    make_nodes();
    for (int64_t a = -3; a <= 3; a++)
        for (int64_t b = a; b <= 3; b++)
            for (size_t i = 0; i < 9; i++)
                expect(other, a * NODE_BUCKETS * 60 + near[i % 3],
                       b * NODE_BUCKETS * 60 + near[i / 3]);
    expect(other, 5, 4);
    expect(other, INT64_MAX, INT64_MIN);
    expect(other, INT64_MIN, -1);
    expect(other, 0, INT64_MAX);
}

static void a_change_of_what_is_past_drops_its_node_alone(void **state)
{
    (void)state;
    fill(1);
    make_nodes();
    add(other, 4, 5);
    expect_nodes(6);
    add(other, 5, 5);
    expect_nodes(6);
    expect(heart, INT64_MIN, INT64_MAX);
    make_nodes(); /* one node's cells are too few for a sum to ask */
    expect_nodes(6);
    for (unsigned at = 0; at < BUCKETS; at += NODE_BUCKETS)
        add(other, at, 1);
    make_nodes();
    expect_nodes(7);
    expect_laws();
    expect(heart, INT64_MIN, INT64_MAX);
}

static void cells_that_go_take_their_node_along(void **state)
{
    (void)state;
    fill(1);
    struct op op = make(heart, OP_INCREMENT, 7, 1);
    op.expires_ms = heart->time->wall_ms + 1;
    done_ok(heart, op);
    make_nodes();
    expect_nodes(7);
    heart_wait_ms(heart, 2);
    done_ok(other, make(other, OP_EXPIRE, 7, 0));
    model.added[7] = 0;
    expect_nodes(6);
    expect_laws();
    expect(heart, INT64_MIN, INT64_MAX);
}

static void make_exact(struct heart *by, unsigned at)
{
    struct op op = make(by, OP_INCREMENT, at, 1);
    op.expiry = EXPIRY_AT;
    op.expires_ms = heart->time->wall_ms + 5000;
    done_ok(by, op);
    model.added[at]++;
}

/* Such a cell is over without a commit (SPEC 14), so no node may hold it. */
static void a_stretch_with_an_exact_expiry_has_no_node(void **state)
{
    (void)state;
    fill(1);
    make_exact(heart, 9);
    make_nodes();
    expect_nodes(6);
    make_exact(other, 9 + 2 * NODE_BUCKETS);
    expect_nodes(5);
    expect(other, INT64_MIN, INT64_MAX);
    struct range_sum all = sum(heart, INT64_MIN, INT64_MAX), later;
    struct cell_ref ref = heart_ref(heart, "views", duration);
    ref.now_ms = heart->time->wall_ms + 5000;
    assert_int_equal(view_sum(&heart->store->view, &ref, INT64_MIN, INT64_MAX, UINT32_MAX, &later),
                     ERR_OK);
    assert_true(later.added == all.added - model.added[9] - model.added[9 + 2 * NODE_BUCKETS]);
}

static void a_counter_that_is_deleted_leaves_no_nodes(void **state)
{
    (void)state;
    fill(1);
    make_nodes();
    done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    memset(&model, 0, sizeof model);
    expect(other, INT64_MIN, INT64_MAX);
    fill(1);
    expect(other, INT64_MIN, INT64_MAX);
    for (unsigned i = 0; i < 20; i++) {
        heart_wait_ms(heart, 11000); /* graves are filled now and then */
        heart_tend(heart);
    }
    expect_nodes(0);
    make_nodes();
    expect_nodes(7);
    expect_laws();
}

/* -- What is not past -------------------------------------------------------------------------- */

static void nodes_are_made_of_what_is_past(void **state)
{
    (void)state;
    const int64_t span_s = 60 * NODE_BUCKETS;
    first_bucket = (HEART_START_MS / 1000 / span_s - 3) * span_s;
    fill(1);
    make_nodes();
    expect_nodes(3); /* the fourth is under way */
    unsigned now = (unsigned)((HEART_START_MS / 1000 - first_bucket) / 60);
    add(heart, now, 5);
    add(other, now + NODE_BUCKETS, 5);
    expect_nodes(3);
    add(other, now - NODE_BUCKETS, 5);
    expect_nodes(2);
    heart_wait_ms(heart, span_s * 1000);
    add(heart, now + NODE_BUCKETS, 1); /* it is by commits that time passes */
    for (unsigned at = 0; at < 3 * NODE_BUCKETS; at += NODE_BUCKETS)
        add(other, at, 1);
    make_nodes();
    expect_nodes(4);
    expect_laws();
    expect(other, INT64_MIN, INT64_MAX);
}

static bool goes_back(struct bundle *bundle)
{
    (void)bundle;
    return true;
}

/* What was past is then to come again, and counted at without a look at nodes. */
static void a_commit_that_sets_time_back_drops_every_node(void **state)
{
    (void)state;
    const int64_t span_s = 60 * NODE_BUCKETS;
    first_bucket = (HEART_START_MS / 1000 / span_s - 5) * span_s;
    fill(1);
    make_nodes();
    expect_nodes(5);
    heart->time->wall_ms -= 3 * span_s * 1000;
    struct op op = make(heart, OP_INCREMENT, 0, 1);
    model.added[0]++;
    struct bundle bundle = {.urgency = URGENCY_URGENT, .retime = goes_back};
    assert_int_equal(heart_send(heart, bundle, &op, 1)->pushed, ERR_OK);
    heart_run(heart);
    expect_nodes(0);
    add(other, 4 * NODE_BUCKETS, 5);
    expect(heart, INT64_MIN, INT64_MAX);
    make_nodes();
    expect_nodes(2);
    expect_laws();
}

/* -- Everything at once ------------------------------------------------------------------------ */

static void expire(struct heart *by, unsigned at)
{
    struct op op = make(by, OP_INCREMENT, at, 1);
    op.expires_ms = heart->time->wall_ms + 1;
    done_ok(by, op);
    heart_wait_ms(heart, 2);
    done_ok(by, make(by, OP_EXPIRE, at, 0));
    model.added[at] = model.subbed[at] = 0;
}

static void change_something(uint64_t dice)
{
    unsigned at = (unsigned)(hash_mix(dice) % BUCKETS);
    struct heart *by = dice % 2 ? heart : other;
    switch (dice / 2 % 8) {
    case 0:
        expire(by, at);
        break;
    case 1:
        if (heart_do(by, make(by, OP_DECREMENT, at, 2)).err == ERR_OK) model.subbed[at] += 2;
        break;
    case 2:
        make_nodes();
        break;
    case 3:
        heart_wait_ms(heart, (int64_t)duration * 1000 * (int64_t)(hash_mix(dice) % NODE_BUCKETS));
        break;
    case 4:
        expect(by, bucket_of(at), INT64_MAX);
        expect(by, bucket_of(at / 2), bucket_of(at));
        break;
    default:
        add(by, at, INT64_C(1) << (dice % 50));
    }
}

static void live(int32_t seconds, uint64_t seed)
{
    duration = seconds;
    first_bucket = (HEART_START_MS / 1000 / seconds - 3 * NODE_BUCKETS) * seconds;
    memset(&model, 0, sizeof model);
    fill(seed % 2 + 1);
    for (unsigned i = 0; i < 150; i++)
        change_something(hash_mix(seed * 1000 + i));
    make_nodes();
    expect_laws();
    expect(other, INT64_MIN, INT64_MAX);
    if (seed % 2) done_ok(other, ask(&other->asks, OP_DELETE, "views", 0));
}

static void a_sum_is_what_its_cells_add_up_to_whatever_happens(void **state)
{
    static const int32_t durations[] = {1, 60, 3600, 86400};
    (void)state;
    for (uint64_t i = 0; i < ARRAY_COUNT(durations); i++)
        live(durations[i], 2 * i + 1);
    live(60, 100);
}

#define ON_NODES(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_NODES(a_long_sum_has_nodes_made_and_then_goes_by_them),
        ON_NODES(a_short_sum_asks_for_no_nodes),
        ON_NODES(any_ends_of_a_range_will_do),
        ON_NODES(a_change_of_what_is_past_drops_its_node_alone),
        ON_NODES(cells_that_go_take_their_node_along),
        ON_NODES(a_stretch_with_an_exact_expiry_has_no_node),
        ON_NODES(a_counter_that_is_deleted_leaves_no_nodes),
        ON_NODES(nodes_are_made_of_what_is_past),
        ON_NODES(a_commit_that_sets_time_back_drops_every_node),
        ON_NODES(a_sum_is_what_its_cells_add_up_to_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
