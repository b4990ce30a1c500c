/* test_store_reads.c -- get, range, sum, list and due of every store agree with each other and with
 * what was written, wherever it is by then: staged, in memory, in the state, or deleted. */
#include "core/counter.h"
#include "support/store_expect.h"

/* ---- what the reads find ---- */

static void range_has_both_ends_and_the_order_of_time(void **state)
{
    struct heart *heart = *state;
    static const int64_t buckets[] = {120, -60, 0, 60, -120, 180};
    for (size_t i = 0; i < ARRAY_COUNT(buckets); i++) {
        done_ok(heart, increment_at(heart, "views", 60, buckets[i], 1 + (int64_t)i));
        if (i == 2) heart_checkpoint(heart); /* some in the state, some newer */
    }
    done_ok(heart, increment_at(heart, "views", 3600, 0, 7));
    assert_string_equal(range(heart, "views", 60, INT64_MIN, INT64_MAX, EVERY),
                        "-120:5 -60:2 0:3 60:4 120:1 180:6 ");
    assert_string_equal(range(heart, "views", 60, -60, 120, EVERY), "-60:2 0:3 60:4 120:1 ");
    assert_string_equal(range(heart, "views", 60, -59, 119, EVERY), "0:3 60:4 ");
    assert_string_equal(range(heart, "views", 60, -60, 120, 2), "-60:2 0:3 ");
    assert_string_equal(range(heart, "views", 60, 181, 999, EVERY), "");
    assert_string_equal(range(heart, "views", 61, INT64_MIN, INT64_MAX, EVERY), "");
    assert_string_equal(range(heart, "likes", 60, INT64_MIN, INT64_MAX, EVERY), "");
}

struct in_part {
    int64_t from; /* of the next part */
    unsigned left;
    struct buf text;
};

static bool part_visit(void *context, int64_t bucket, const struct cell *cell)
{
    struct in_part *part = context;
    if (part->left-- == 0) return false;
    buf_addf(&part->text, "%lld:%lld ", (long long)bucket, (long long)cell->added);
    part->from = bucket + 1;
    return true;
}

/* Between its parts cells are written back, changed and added: what was acknowledged before is in
 * the range once, and nothing twice. */
static void a_range_in_parts_shows_each_cell_once(void **state)
{
    struct heart *heart = *state;
    struct arena arena;
    struct in_part part = {.from = INT64_MIN};
    arena_init(&arena, 256);
    buf_init(&part.text, 1024);
    for (int64_t bucket = 0; bucket < 600; bucket += 60) {
        done_ok(heart, increment_at(heart, "views", 60, bucket, 1 + bucket));
        if (bucket == 240) heart_checkpoint(heart);
    }
    struct range_newer newer = {.arena = &arena};
    struct cell_ref ref = heart_ref(heart, "views", 60);
    for (unsigned i = 0; i < 4; i++) {
        part.left = 3;
        assert_int_equal(
            view_range(&heart->store->view, &ref, part.from, 99999, &newer, part_visit, &part),
            ERR_OK);
        done_ok(heart, increment_at(heart, "views", 60, 0, 1)); /* is past */
        done_ok(heart, increment_at(heart, "views", 60, -60 - (int64_t)i, 1));
        heart_checkpoint(heart);
    }
    buf_add_char(&part.text, '\0');
    assert_string_equal(part.text.data, "0:1 60:61 120:121 180:181 240:241 300:301 360:361 "
                                        "420:421 480:481 540:541 ");
    buf_release(&part.text);
    arena_release(&arena);
}

static void expect_sum(struct heart *heart, int32_t duration, int64_t from, int64_t to,
                       int64_t added, int64_t subbed)
{
    struct range_sum sum = {-1, -1};
    struct cell_ref ref = heart_ref(heart, "views", duration);
    assert_int_equal(view_sum(&heart->store->view, &ref, from, to, UINT32_MAX, &sum), ERR_OK);
    assert_true(sum.added == added && sum.subbed == subbed);
}

/* In memory, in the state, in both at once. */
static void sum_adds_up_what_range_shows(void **state)
{
    struct heart *heart = *state;
    expect_sum(heart, 60, INT64_MIN, INT64_MAX, 0, 0);
    for (int64_t i = 0; i < 40; i++) {
        done_ok(heart, increment_at(heart, "views", 60, (i - 20) * 60, 1 + i));
        if (i % 16 == 8) heart_checkpoint(heart);
    }
    struct op less = increment_at(heart, "views", 60, 0, 5);
    less.kind = OP_DECREMENT;
    done_ok(heart, less);
    done_ok(heart, increment_at(heart, "views", 0, 0, 7));
    for (unsigned round = 0; round < 3; round++) {
        expect_sum(heart, 60, INT64_MIN, INT64_MAX, 820, 5);
        expect_sum(heart, 60, -60, 60, 20 + 21 + 22, 5);
        expect_sum(heart, 60, -59, 59, 21, 5);
        expect_sum(heart, 60, 60, -60, 0, 0);
        expect_sum(heart, 60, 1, 59, 0, 0);
        expect_sum(heart, 0, INT64_MIN, INT64_MAX, 7, 0);
        expect_sum(heart, 61, INT64_MIN, INT64_MAX, 0, 0);
        if (round == 0) heart_checkpoint(heart);
        if (round == 1) heart_crash(heart, 1);
    }
    done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    expect_sum(heart, 60, INT64_MIN, INT64_MAX, 0, 0);
}

static void sums_past_64_bits_are_exact(void **state)
{
    struct heart *heart = *state;
    struct range_sum sum;
    for (int64_t i = 0; i < 3; i++)
        done_ok(heart, increment_at(heart, "views", 60, i * 60, INT64_MAX));
    struct cell_ref ref = heart_ref(heart, "views", 60);
    assert_int_equal(view_sum(&heart->store->view, &ref, 0, 999, UINT32_MAX, &sum), ERR_OK);
    assert_true(sum.added == (__int128)INT64_MAX * 3 && sum.subbed == 0);
}

/* An embedded store may take sums of sums instead, and then visits hardly any. */
static void a_sum_visits_no_more_cells_than_it_may(void **state)
{
    struct heart *heart = *state;
    struct range_sum sum;
    for (int64_t i = 0; i < 10; i++)
        done_ok(heart, increment_at(heart, "views", 60, i * 60, 1));
    struct cell_ref ref = heart_ref(heart, "views", 60);
    struct view *view = &heart->store->view;
    assert_int_equal(view_sum(view, &ref, 0, 120, 2, &sum), ERR_TOO_MANY_CELLS);
    assert_int_equal(view_sum(view, &ref, 0, 120, 3, &sum), ERR_OK);
    assert_true(sum.added == 3);
}

static uint64_t series_number(struct heart *heart)
{
    struct cell_ref ref = heart_ref(heart, "views", 60);
    uint64_t number;
    assert_int_equal(view_series(&heart->store->view, &ref, &number), ERR_OK);
    return number;
}

static void a_series_made_again_has_another_number(void **state)
{
    struct heart *heart = *state;
    assert_int_equal(series_number(heart), 0);
    done_ok(heart, increment_at(heart, "views", 60, 0, 1));
    uint64_t first = series_number(heart);
    assert_int_not_equal(first, 0);
    done_ok(heart, increment_at(heart, "views", 60, 60, 1));
    assert_int_equal(series_number(heart), first);
    done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    assert_int_equal(series_number(heart), 0);
    done_ok(heart, increment_at(heart, "views", 60, 0, 1));
    assert_int_not_equal(series_number(heart), first);
}

static void list_has_the_tenants_names_in_order(void **state)
{
    struct heart *heart = *state;
    static const char *const names[] = {"b", "a.long", "a", "c", "B"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        done_ok(heart, increment(heart, names[i], 1));
        if (i == 2) heart_checkpoint(heart);
    }
    done_ok(heart, increment_at(heart, "b", 60, 0, 1));
    heart->asks.tenant = "acmf"; /* the next in order */
    done_ok(heart, increment(heart, "theirs", 1));
    heart->asks.tenant = "acme";
    assert_string_equal(list(heart, "", NULL, EVERY), "B/0 a/0 a.long/0 b/0/60 c/0 ");
    assert_string_equal(list(heart, "a", NULL, EVERY), "a/0 a.long/0 ");
    assert_string_equal(list(heart, "", "a", EVERY), "a.long/0 b/0/60 c/0 ");
    assert_string_equal(list(heart, "", "a", 2), "a.long/0 b/0/60 ");
    assert_string_equal(list(heart, "", "c", EVERY), "");
    done_ok(heart, ask(&heart->asks, OP_DELETE, "a", 0)); /* from the state */
    done_ok(heart, ask(&heart->asks, OP_DELETE, "c", 0)); /* from memory */
    assert_string_equal(list(heart, "", NULL, EVERY), "B/0 a.long/0 b/0/60 ");
}

/* "0 60 " for that many granularities, "" for no counter. */
static const char *granularities(struct heart *heart, const char *name)
{
    static char text[64];
    struct arena arena;
    const struct counter *counter;
    struct cell_ref ref = heart_ref(heart, name, 12345);
    size_t size = 0;
    arena_init(&arena, 4096);
    assert_int_equal(view_counter(&heart->store->view, &ref, &arena, &counter), ERR_OK);
    text[0] = '\0';
    for (uint32_t i = 0; counter && i < counter->count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%d ",
                                 (int)counter->series[i].duration);
    arena_release(&arena);
    return text;
}

static void a_counters_granularities_are_read_by_themselves(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, increment_at(heart, "b", 60, 0, 1));
    done_ok(heart, increment(heart, "b", 1));
    done_ok(heart, increment(heart, "b.long", 1));
    for (unsigned round = 0; round < 2; round++) {
        assert_string_equal(granularities(heart, "b"), "0 60 ");
        assert_string_equal(granularities(heart, "b.long"), "0 ");
        assert_string_equal(granularities(heart, "b.l"), "");
        heart_checkpoint(heart);
        heart_crash(heart, 1); /* then from the state */
    }
    done_ok(heart, ask(&heart->asks, OP_DELETE, "b", 0));
    assert_string_equal(granularities(heart, "b"), "");
}

static void a_read_from_memory_is_right_or_busy(void **state)
{
    struct heart *heart = *state;
    struct cell cell;
    done_ok(heart, increment(heart, "views", 5));
    struct cell_ref views = heart_ref(heart, "views", 0);
    struct cell_ref likes = heart_ref(heart, "likes", 0);
    for (unsigned round = 0; round < 2; round++) {
        enum err e = view_get(&heart->store->view, &views, 0, READ_MEMORY, &cell);
        assert_true(e == ERR_BUSY || (e == ERR_OK && cell.added == 5));
        e = view_get(&heart->store->view, &likes, 0, READ_MEMORY, &cell);
        assert_true(e == ERR_BUSY || e == ERR_NOT_FOUND);
        heart_crash(heart, 1);
        heart_checkpoint(heart);
    }
    assert_int_equal(heart_net(heart, "views"), 5); /* read once, it is in memory, */
    if (heart->store->remote) return;               /* unless others may have changed it since */
    assert_int_equal(view_get(&heart->store->view, &views, 0, READ_MEMORY, &cell), ERR_OK);
    assert_int_equal(cell.added, 5);
}

static void reads_agree_after_many_changes(void **state)
{
    struct heart *heart = *state;
    for (uint64_t i = 0; i < 120; i++) {
        uint64_t dice = hash_mix(i + 1);
        char name[] = {(char)('a' + dice % 5), 0};
        struct op op = increment_at(heart, name, (int32_t)(dice >> 8 & 0xff) % 3 * 60,
                                    (int64_t)(dice >> 16 & 0xff) % 4 * 180, 1 + (int64_t)i);
        op.kind = dice % 17 == 0 ? OP_DELETE : dice % 5 == 0 ? OP_DECREMENT : OP_INCREMENT;
        if (op.duration == 0) op.bucket = 0;
        heart_do(heart, op);
        if (i % 40 == 10) heart_checkpoint(heart);
        if (i % 40 == 30) heart_crash(heart, i);
        if (i % 20 == 0) expect_whole(heart);
    }
    expect_whole(heart);
}

/* ---- deletes ---- */

static void a_delete_unmaps_at_once(void **state)
{
    struct heart *heart = *state;
    struct cell cell;
    done_ok(heart, increment_at(heart, "views", 60, 0, 5));
    done_ok(heart, increment_at(heart, "views", 3600, 0, 5));
    done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    assert_int_equal(heart_get(heart, "views", 60, 0, &cell), ERR_NOT_FOUND);
    assert_int_equal(heart_get(heart, "views", 3600, 0, &cell), ERR_NOT_FOUND);
    assert_string_equal(range(heart, "views", 60, INT64_MIN, INT64_MAX, EVERY), "");
    assert_string_equal(list(heart, "", NULL, EVERY), "");
    assert_int_equal(heart_tenant_cells(heart), 0);
    assert_int_equal(heart_do(heart, ask(&heart->asks, OP_DELETE, "views", 0)).err, ERR_NOT_FOUND);
}

/* Whatever had reached the state by the time of the delete, and whatever happens after it. */
static void a_deleted_counters_cells_never_come_back(void **state)
{
    struct heart *heart = *state;
    for (unsigned way = 0; way < 8; way++) {
        done_ok(heart, increment_at(heart, "views", 60, 60, 5));
        done_ok(heart, increment_at(heart, "views", 60, 120, 5));
        if (way & 1) heart_checkpoint(heart);
        done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
        if (way & 2) heart_crash(heart, way);
        if (way & 4) heart_checkpoint(heart);
        done_ok(heart, increment_at(heart, "views", 60, 60, 1));
        if (way % 4 == 1) heart_crash(heart, way);
        assert_string_equal(range(heart, "views", 60, INT64_MIN, INT64_MAX, EVERY), "60:1 ");
        expect_whole(heart);
        done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    }
}

/* ---- expiry ---- */

static struct op expiring(struct heart *heart, const char *name, int64_t expires_ms)
{
    struct op op = increment_at(heart, name, 60, 120, 1);
    op.expires_ms = expires_ms;
    return op;
}

static void cells_are_due_from_their_expiry_on(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, expiring(heart, "a", 1000));
    done_ok(heart, expiring(heart, "b", 2000));
    done_ok(heart, increment_at(heart, "c", 60, 120, 1));
    assert_string_equal(due(heart, 999, EVERY), "");
    assert_string_equal(due(heart, 1000, EVERY), "a/60@120 ");
    assert_string_equal(due(heart, 2000, EVERY), "a/60@120 b/60@120 ");
    assert_string_equal(due(heart, 2000, 1), "a/60@120 ");
    heart_crash(heart, 1);
    assert_string_equal(due(heart, 1000, EVERY), "a/60@120 ");
}

static void due_stops_when_told_to(void **state)
{
    struct heart *heart = *state;
    for (int64_t i = 0; i < 4; i++) {
        struct op op = expiring(heart, i < 2 ? "a" : "b", 1000);
        op.bucket = i % 2 * 60;
        done_ok(heart, op);
    }
    for (unsigned most = 1; most <= 4; most++) { /* found_due checks that it is not asked again */
        unsigned count = 0;
        for (const char *at = due(heart, 2000, most); (at = strchr(at, '@')); at++)
            count++;
        assert_int_equal(count, most);
    }
}

static void an_extended_cell_is_due_at_its_new_time_only(void **state)
{
    struct heart *heart = *state;
    for (unsigned way = 0; way < 4; way++) {
        char name[] = {(char)('a' + way), 0};
        done_ok(heart, expiring(heart, name, 1000));
        if (way & 1) heart_checkpoint(heart);
        done_ok(heart, expiring(heart, name, 3000));
        if (way & 2) heart_crash(heart, way);
        assert_string_equal(due(heart, 2999, EVERY), "");
        assert_string_equal(due(heart, 1000, EVERY), ""); /* the old row is gone for good */
        assert_true(strlen(due(heart, 3000, EVERY)) > 0);
        done_ok(heart, ask(&heart->asks, OP_DELETE, name, 0));
    }
}

static void a_removed_cell_is_not_due_and_starts_afresh(void **state)
{
    struct heart *heart = *state;
    for (unsigned way = 0; way < 4; way++) {
        done_ok(heart, expiring(heart, "views", 1000));
        done_ok(heart, increment_at(heart, "views", 60, 180, 1)); /* keeps the series alive */
        if (way & 1) heart_checkpoint(heart);
        struct op sweep = increment_at(heart, "views", 60, 120, 0);
        sweep.kind = OP_EXPIRE;
        done_ok(heart, sweep);
        if (way & 2) heart_crash(heart, way);
        assert_string_equal(due(heart, 9999, EVERY), "");
        assert_string_equal(range(heart, "views", 60, 0, 130, EVERY), "");
        struct op anew = done_ok(heart, increment_at(heart, "views", 60, 120, 2));
        assert_int_equal(anew.after.added, 2);
        assert_string_equal(due(heart, 9999, EVERY), ""); /* the new one has no expiry */
        expect_whole(heart);
        done_ok(heart, ask(&heart->asks, OP_DELETE, "views", 0));
    }
}

/* ---- exact expiries (SPEC 14) ---- */

static struct op ending(struct heart *heart, const char *name, int32_t duration, int64_t bucket,
                        int64_t ends_ms)
{
    struct op op = increment_at(heart, name, duration, bucket, 5);
    op.expiry = EXPIRY_AT;
    op.expires_ms = ends_ms;
    return op;
}

static enum err get_by(struct heart *heart, const char *name, int64_t now_ms, struct cell *cell_out)
{
    struct cell_ref ref = heart_ref(heart, name, 0);
    ref.now_ms = now_ms;
    return view_get(&heart->store->view, &ref, 0, READ_ALL, cell_out);
}

static void an_exact_expiry_hides_the_cell_to_the_millisecond(void **state)
{
    struct heart *heart = *state;
    int64_t end_ms = heart->time->wall_ms + 1000000; /* a checkpoint takes time */
    struct cell cell;
    done_ok(heart, ending(heart, "views", 0, 0, end_ms));
    for (unsigned way = 0; way < 3; way++) {
        assert_int_equal(get_by(heart, "views", end_ms - 1, &cell), ERR_OK);
        assert_int_equal(cell.added, 5);
        assert_true(cell.exact);
        assert_int_equal(cell.expires_ms, end_ms);
        assert_int_equal(get_by(heart, "views", end_ms, &cell), ERR_NOT_FOUND);
        assert_int_equal(get_by(heart, "views", 0, &cell), ERR_OK); /* who does not say the time */
        if (way == 0) heart_checkpoint(heart);
        if (way == 1) heart_crash(heart, 3);
    }
}

static int64_t sum_by(struct heart *heart, int64_t now_ms)
{
    struct range_sum sum;
    unsigned most = EVERY;
    struct cell_ref ref = heart_ref(heart, "views", 60);
    ref.now_ms = now_ms;
    found[0] = 0;
    assert_int_equal(view_sum(&heart->store->view, &ref, 0, 600, UINT32_MAX, &sum), ERR_OK);
    assert_int_equal(view_range(&heart->store->view, &ref, 0, 600, NULL, found_cell, &most),
                     ERR_OK);
    return (int64_t)sum.added;
}

static void sums_and_ranges_leave_out_what_is_over(void **state)
{
    struct heart *heart = *state;
    int64_t end_ms = heart->time->wall_ms + 1000000; /* a checkpoint takes time */
    done_ok(heart, increment_at(heart, "views", 60, 0, 1));
    done_ok(heart, ending(heart, "views", 60, 60, end_ms));
    done_ok(heart, ending(heart, "views", 60, 120, end_ms + 1));
    for (unsigned way = 0; way < 3; way++) {
        assert_int_equal(sum_by(heart, end_ms - 1), 11);
        assert_string_equal(found, "0:1 60:5 120:5 ");
        assert_int_equal(sum_by(heart, end_ms), 6);
        assert_string_equal(found, "0:1 120:5 ");
        assert_int_equal(sum_by(heart, end_ms + 1), 1);
        assert_string_equal(found, "0:1 ");
        if (way == 0) heart_checkpoint(heart);
        if (way == 1) heart_crash(heart, 5);
    }
}

static int64_t until(struct heart *heart, const char *name, int32_t duration)
{
    struct cell_ref ref = heart_ref(heart, name, duration);
    const struct counter *counter;
    struct arena arena;
    arena_init(&arena, 256);
    assert_int_equal(view_counter(&heart->store->view, &ref, &arena, &counter), ERR_OK);
    int64_t until_ms = counter_find(counter, duration)->until_ms;
    arena_release(&arena);
    return until_ms;
}

/* Lists look at no cells. */
static void a_granularity_says_until_when_it_has_a_cell_to_be_seen(void **state)
{
    struct heart *heart = *state;
    int64_t end_ms = heart->time->wall_ms + 1000000; /* a checkpoint takes time */
    done_ok(heart, ending(heart, "views", 0, 0, end_ms));
    done_ok(heart, ending(heart, "views", 60, 0, end_ms + 7));
    done_ok(heart, ending(heart, "views", 60, 60, end_ms));
    for (unsigned way = 0; way < 3; way++) {
        assert_int_equal(until(heart, "views", 0), end_ms);
        assert_int_equal(until(heart, "views", 60), end_ms + 7);
        if (way == 0) heart_checkpoint(heart);
        if (way == 1) heart_crash(heart, 7);
    }
    done_ok(heart, ending(heart, "views", 0, 0, end_ms - 500)); /* sooner */
    assert_int_equal(until(heart, "views", 0), end_ms - 500);
    struct op lasting = ask(&heart->asks, OP_DEADLINE, "views", 0);
    lasting.expiry = EXPIRY_NONE;
    done_ok(heart, lasting);
    done_ok(heart, increment_at(heart, "views", 60, 120, 1));
    assert_int_equal(until(heart, "views", 0), 0);
    assert_int_equal(until(heart, "views", 60), 0);
}

static void a_cell_that_is_over_starts_afresh_before_any_sweep(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, ending(heart, "views", 0, 0, heart->time->wall_ms + 1000));
    heart_wait_ms(heart, 1000);
    assert_int_equal(done_ok(heart, increment_at(heart, "views", 0, 0, 2)).after.added, 2);
    heart_checkpoint(heart);
    struct cell cell;
    assert_int_equal(get_by(heart, "views", INT64_MAX, &cell), ERR_OK);
    assert_false(cell.exact);
    assert_string_equal(due(heart, INT64_MAX - 1, EVERY), "");
    expect_whole(heart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(range_has_both_ends_and_the_order_of_time),
        LAW(a_range_in_parts_shows_each_cell_once),
        LAW(sum_adds_up_what_range_shows),
        LAW(sums_past_64_bits_are_exact),
        LAW(a_sum_visits_no_more_cells_than_it_may),
        LAW(a_series_made_again_has_another_number),
        LAW(list_has_the_tenants_names_in_order),
        LAW(a_counters_granularities_are_read_by_themselves),
        LAW(a_read_from_memory_is_right_or_busy),
        LAW(reads_agree_after_many_changes),
        LAW(a_delete_unmaps_at_once),
        LAW(a_deleted_counters_cells_never_come_back),
        LAW(cells_are_due_from_their_expiry_on),
        LAW(due_stops_when_told_to),
        LAW(an_extended_cell_is_due_at_its_new_time_only),
        LAW(a_removed_cell_is_not_due_and_starts_afresh),
        LAW(an_exact_expiry_hides_the_cell_to_the_millisecond),
        LAW(sums_and_ranges_leave_out_what_is_over),
        LAW(a_granularity_says_until_when_it_has_a_cell_to_be_seen),
        LAW(a_cell_that_is_over_starts_afresh_before_any_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
