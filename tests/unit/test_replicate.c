/* test_replicate.c -- one store's history becomes another's, block by block, and nothing else does
 * (SPEC 13). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/tree.h"
#include "replica/ship.h"
#include "replica/shipment.h"
#include "store/embedded/internal.h"
#include "store/embedded/journal/block.h"
#include "support/heart.h"

#define BLOCKS_MAX 64u
#define SMALL_SEGMENT (64u << 10)

static struct heart *primary;
static struct store *follower;
static struct scratch_dir dir;
static struct buf bytes[BLOCKS_MAX];
static struct journal_block blocks[BLOCKS_MAX];
static unsigned count;

static struct embedded_config config(void)
{
    return (struct embedded_config){.dir = dir.path,
                                    .clock = primary->clock,
                                    .cache_bytes = 4u << 20,
                                    .segment_bytes = 1u << 20,
                                    .keep_bytes = 1u << 20,
                                    .spare_segments = 1,
                                    .checkpoint_ms = 1000000,
                                    .checkpoint_bytes = 1u << 30,
                                    .archive_ms = 1000000,
                                    .key_keep_ms = INT64_MAX / 4};
}

static void open_follower_with(uint64_t segment_bytes)
{
    struct reason why;
    struct embedded_config with = config();
    with.segment_bytes = segment_bytes;
    assert_int_equal(embedded_open(&follower, &with, &why), ERR_OK);
    embedded_set_following(follower);
}

static void open_follower(void)
{
    open_follower_with(1u << 20);
}

static enum err keep_block(void *context, const struct journal_block *block)
{
    (void)context;
    assert_true(count < BLOCKS_MAX);
    buf_init(&bytes[count], 1u << 20);
    buf_add(&bytes[count], block->body);
    blocks[count] = *block;
    blocks[count].body = buf_bytes(&bytes[count]);
    count++;
    return ERR_OK;
}

static void drop_blocks(void)
{
    for (unsigned i = 0; i < count; i++)
        buf_release(&bytes[i]);
    count = 0;
}

/* What the primary has after the place where the follower is. */
static enum err take_blocks(void)
{
    const struct store_position at = embedded_position(follower);
    drop_blocks();
    return embedded_blocks(primary->store, at.last_sequence, at.hash, keep_block, NULL);
}

static enum err install(void)
{
    struct embedded_news news = {0};
    return embedded_install(follower, blocks, count, INT64_MIN, &news);
}

static void catch_up(void)
{
    assert_int_equal(take_blocks(), ERR_OK);
    assert_int_equal(install(), ERR_OK);
}

static void count_on(const char *name, int64_t amount)
{
    heart_do(primary, ask(&primary->asks, OP_INCREMENT, name, amount));
}

/* A follower begins with a snapshot of its primary, as copied by the room `replica`. */
static int setup(void **state)
{
    struct store_position position;
    struct reason why;
    char snapshot[TREE_PATH_MAX];
    primary = heart_new((struct heart_config){.store = "embedded"});
    count_on("before", 7);
    scratch_dir_init(&dir);
    snprintf(snapshot, sizeof snapshot, "%s/snapshot", primary->dir.path);
    assert_int_equal(store_snapshot(primary->store, snapshot, &position, &why), ERR_OK);
    assert_int_equal(tree_remove(dir.path), ERR_OK);
    assert_int_equal(rename(snapshot, dir.path), 0);
    open_follower();
    return 0;
}

static int teardown(void **state)
{
    drop_blocks();
    store_close(follower);
    heart_free(primary);
    scratch_dir_release(&dir);
    return 0;
}

static int64_t net_of(struct store *store, const char *name)
{
    struct cell cell;
    struct heart as = *primary; /* the asks know the names */
    struct op op = ask(&as.asks, OP_INCREMENT, name, 1);
    const struct cell_ref ref = {.counter = op.counter,
                                 .print = fingerprint_of(&store->secret, op.counter),
                                 .duration = op.duration};
    enum err e = view_get(&store->view, &ref, op.bucket, READ_ALL, &cell);
    return e == ERR_OK && cell.exists ? cell.added - cell.subbed : 0;
}

static void expect_same(void)
{
    const struct store_position here = embedded_position(follower);
    const struct store_position there = embedded_position(primary->store);
    assert_int_equal(here.last_sequence, there.last_sequence);
    assert_int_equal(here.hash, there.hash);
    assert_int_equal(here.next_series, there.next_series);
    assert_int_equal(here.time_ms, there.time_ms);
}

static void a_snapshot_is_at_the_primarys_place(void **state)
{
    expect_same();
    assert_int_equal(net_of(follower, "before"), 7);
    assert_int_equal(take_blocks(), ERR_POSITION); /* nothing comes after it */
}

static void installed_blocks_are_read_and_survive(void **state)
{
    for (int i = 1; i <= 9; i++) {
        count_on("n", i);
        count_on("m", 1);
        if (i % 3 == 0) catch_up();
        if (i == 6) {
            store_close(follower);
            open_follower();
        }
    }
    expect_same();
    assert_int_equal(net_of(follower, "n"), 45);
    assert_int_equal(net_of(follower, "m"), 9);
    embedded_crash(follower);
    open_follower();
    expect_same();
    assert_int_equal(net_of(follower, "n"), 45);
}

static void a_store_that_follows_does_not_lead(void **state)
{
    assert_false(store_leads(follower));
    assert_true(store_leads(primary->store));
}

/* Each of these is refused, and then the right one is taken all the same. */
static void what_does_not_continue_the_history_changes_nothing(void **state)
{
    count_on("n", 1);
    count_on("n", 2);
    count_on("n", 4);
    assert_int_equal(take_blocks(), ERR_OK);
    assert_int_equal(count, 3);
    const struct store_position before = embedded_position(follower);
    struct embedded_news news = {0};
    assert_int_equal(embedded_install(follower, blocks + 1, 2, 0, &news), ERR_POSITION);
    const struct journal_block gap[] = {blocks[0], blocks[2]};
    assert_int_equal(embedded_install(follower, gap, 2, 0, &news), ERR_POSITION);
    struct journal_block changed = blocks[0];
    changed.first_sequence++;
    assert_int_equal(embedded_install(follower, &changed, 1, 0, &news), ERR_POSITION);
    changed = blocks[0];
    changed.body.size--;
    assert_int_equal(embedded_install(follower, &changed, 1, 0, &news), ERR_CORRUPT);
    changed.body.size = 0;
    assert_int_equal(embedded_install(follower, &changed, 1, 0, &news), ERR_POSITION);
    assert_int_equal(embedded_position(follower).last_sequence, before.last_sequence);
    assert_int_equal(journal_durable_sequence(embedded_of(follower)->journal),
                     before.last_sequence);
    assert_int_equal(install(), ERR_OK);
    assert_int_equal(install(), ERR_POSITION); /* replayed */
    expect_same();
}

/* A primary whose segments are larger commits more at a time. */
static void a_commit_that_fits_no_segment_here_is_refused(void **state)
{
    struct op ops[400];
    char names[ARRAY_COUNT(ops)][256];
    for (unsigned i = 0; i < ARRAY_COUNT(ops); i++) {
        snprintf(names[i], sizeof names[i], "%0250u", i);
        ops[i] = ask(&primary->asks, OP_INCREMENT, names[i], 1);
    }
    heart_send(primary, (struct bundle){0}, ops, ARRAY_COUNT(ops));
    heart_run(primary);
    assert_int_equal(take_blocks(), ERR_OK);
    assert_int_equal(count, 1);
    store_close(follower);
    open_follower_with(SMALL_SEGMENT);
    assert_true(blocks[0].body.size > SMALL_SEGMENT);
    const struct store_position before = embedded_position(follower);
    assert_int_equal(install(), ERR_BODY_SIZE);
    assert_int_equal(embedded_position(follower).last_sequence, before.last_sequence);
    store_close(follower);
    open_follower();
    catch_up();
    expect_same();
    assert_int_equal(net_of(follower, names[399]), 1);
}

static void a_place_of_another_history_is_not_shipped_from(void **state)
{
    const struct store_position at = embedded_position(follower);
    count_on("n", 1);
    count_on("n", 1);
    assert_int_equal(
        embedded_blocks(primary->store, at.last_sequence, at.hash + 1, keep_block, NULL),
        ERR_POSITION);
    assert_int_equal(
        embedded_blocks(primary->store, at.last_sequence + 50, at.hash, keep_block, NULL),
        ERR_POSITION);
    assert_int_equal(count, 0);
}

/* The hash at every block is the same, however the history came to be in the store. */
static void hashes_are_over_everything(void **state)
{
    count_on("n", 1);
    count_on("n", 2);
    assert_int_equal(take_blocks(), ERR_OK);
    const struct store_position at = embedded_position(follower);
    uint64_t first = block_hash(at.hash, &blocks[0]);
    struct journal_block other = blocks[0];
    uint64_t before;
    assert_true(block_before(&blocks[1], &before));
    assert_int_equal(before, first);
    other.time_ms++;
    assert_int_not_equal(block_hash(at.hash, &other), first);
    other = blocks[0];
    other.next_series++;
    assert_int_not_equal(block_hash(at.hash, &other), first);
    other = blocks[0];
    other.first_sequence++;
    assert_int_not_equal(block_hash(at.hash, &other), first);
    bytes[0].data[bytes[0].size - 1] ^= 1;
    assert_int_not_equal(block_hash(at.hash, &blocks[0]), first);
    assert_int_not_equal(block_hash(at.hash + 1, &blocks[0]), first);
}

/* ---- what is withheld until others have it ---- */

static bool others_have_it;
static unsigned asked_for;

static bool reached(void *context, uint64_t sequence, bool wait)
{
    (void)context, (void)wait;
    asked_for = (unsigned)sequence;
    return others_have_it;
}

static void no_news(void *context)
{
    (void)context;
}

static void send_one(int64_t amount, struct sent **sent_out)
{
    struct op op = ask(&primary->asks, OP_INCREMENT, "n", amount);
    *sent_out = heart_send(primary, (struct bundle){0}, &op, 1);
}

static void a_batch_is_shown_and_answered_once_others_have_it(void **state)
{
    struct sent *sent;
    others_have_it = true;
    embedded_withhold(primary->store, reached, no_news, NULL);
    send_one(1, &sent);
    heart_run(primary);
    assert_int_equal(sent->bundle.err, ERR_OK);
    assert_int_equal(asked_for, sent->bundle.ops[0].sequence);
    assert_int_equal(net_of(primary->store, "n"), 1);
}

/* Two batches are in the journal, one is decided behind them; none of it is shown, and nothing is
 * decided anew. Then all of the journal is shown, as if nothing had happened. */
static void what_others_have_not_is_withheld_until_they_have(void **state)
{
    struct sent *sent[3];
    count_on("n", 1);
    others_have_it = false;
    embedded_withhold(primary->store, reached, no_news, NULL);
    const struct store_position before = embedded_position(primary->store);
    for (unsigned i = 0; i < 2; i++) {
        send_one(10, &sent[i]);
        assert_true(commit_turn(primary->commit));
    }
    commit_sync_now(primary->commit);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sent[i]->bundle.err, ERR_STORAGE); /* the outcome is unknown */
    assert_int_equal(net_of(primary->store, "n"), 1);
    assert_int_equal(embedded_position(primary->store).last_sequence, before.last_sequence);
    send_one(100, &sent[2]);
    heart_run(primary);
    assert_int_equal(sent[2]->bundle.err, ERR_FEW_FOLLOWERS); /* nothing was done */
    heart_tend(primary);
    assert_int_equal(net_of(primary->store, "n"), 1);
    others_have_it = true;
    heart_tend(primary);
    assert_int_equal(net_of(primary->store, "n"), 21);
    assert_int_equal(embedded_position(primary->store).last_sequence, before.last_sequence + 2);
    count_on("n", 1000);
    assert_int_equal(net_of(primary->store, "n"), 1021);
    catch_up();
    expect_same();
    heart_reopen(primary);
    assert_int_equal(net_of(primary->store, "n"), 1021);
}

/* ---- shipping ---- */

static unsigned answers;

static void answered(struct ship_ask *ask)
{
    (void)ask;
    __atomic_add_fetch(&answers, 1, __ATOMIC_SEQ_CST);
}

static void wait_for_answers(unsigned wanted)
{
    for (int i = 0; i < 10000 && __atomic_load_n(&answers, __ATOMIC_SEQ_CST) < wanted; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(__atomic_load_n(&answers, __ATOMIC_SEQ_CST), wanted);
}

static void first_follower(void *context)
{
    ++*(unsigned *)context;
}

static struct ship *start_ship(unsigned *firsts)
{
    const struct ship_config with = {.store = primary->store,
                                     .clock = &clock_system,
                                     .keep_bytes = 1u << 30,
                                     .first = first_follower,
                                     .context = firsts};
    struct ship *ship = ship_new(&with);
    answers = 0;
    ship_start(ship);
    return ship;
}

static struct ship_ask ask_from(const struct store_position *at, int64_t wait_ms, struct buf *out)
{
    buf_init(out, 1u << 24);
    return (struct ship_ask){.after = at->last_sequence,
                             .hash = at->hash,
                             .wait_ms = wait_ms,
                             .out = out,
                             .done = answered};
}

static unsigned count_shipped(const struct buf *out)
{
    struct shipment_head head;
    struct shipment_block block;
    struct reader reader;
    uint32_t format;
    unsigned shipped = 0;
    assert_int_equal(shipment_read(buf_bytes(out), &head, &reader, &format), ERR_OK);
    assert_int_equal(head.last, embedded_position(primary->store).last_sequence);
    while (shipment_next(&reader, &block) == ERR_OK)
        shipped++;
    return shipped;
}

static void a_follower_is_answered_when_there_is_something(void **state)
{
    unsigned firsts = 0;
    struct buf out[3];
    struct ship *ship = start_ship(&firsts);
    const struct store_position at = embedded_position(follower);
    count_on("n", 1);
    struct ship_ask older = ask_from(&at, 60000, &out[0]); /* from the journal */
    assert_int_equal(ship_ask(ship, BYTES("f"), &older), ERR_OK);
    wait_for_answers(1);
    assert_int_equal(older.err, ERR_OK);
    assert_int_equal(count_shipped(&out[0]), 1);

    const struct store_position end = embedded_position(primary->store);
    struct ship_ask waits = ask_from(&end, 60000, &out[1]);
    assert_int_equal(ship_ask(ship, BYTES("f"), &waits), ERR_OK);
    struct ship_ask lost = ask_from(&end, 60000, &out[2]);
    lost.hash++;
    assert_int_equal(ship_ask(ship, BYTES("g"), &lost), ERR_OK);
    wait_for_answers(2);
    assert_int_equal(lost.err, ERR_POSITION);
    count_on("n", 1);
    wait_for_answers(3);
    assert_int_equal(waits.err, ERR_OK);
    assert_int_equal(count_shipped(&out[1]), 1); /* from memory */
    struct ship_follower followers[SHIP_FOLLOWERS_MAX];
    assert_int_equal(ship_followers(ship, followers), 2);
    assert_string_equal(followers[0].name, "f");
    assert_int_equal(followers[0].behind, 1);
    assert_int_equal(firsts, 1);
    ship_stop(ship);
    ship_free(ship);
    for (unsigned i = 0; i < 3; i++)
        buf_release(&out[i]);
}

static void a_stop_answers_who_waits(void **state)
{
    unsigned firsts = 0;
    struct buf out[2];
    struct ship *ship = start_ship(&firsts);
    const struct store_position end = embedded_position(primary->store);
    struct ship_ask waits = ask_from(&end, 60000, &out[0]);
    struct ship_ask short_one = ask_from(&end, 1, &out[1]);
    assert_int_equal(ship_ask(ship, BYTES("f"), &waits), ERR_OK);
    assert_int_equal(ship_ask(ship, BYTES("f"), &short_one), ERR_OK);
    wait_for_answers(1);
    assert_int_equal(count_shipped(&out[1]), 0); /* there was nothing in time */
    ship_stop(ship);
    wait_for_answers(2);
    assert_int_equal(waits.err, ERR_BUSY);
    assert_int_equal(ship_ask(ship, BYTES("f"), &waits), ERR_BUSY);
    ship_free(ship);
    buf_release(&out[0]);
    buf_release(&out[1]);
}

static void a_follower_of_another_store_is_told_why(void **state)
{
    unsigned firsts = 0;
    struct reason why;
    struct ship *ship = start_ship(&firsts);
    struct hash_secret other = primary->store->secret;
    other.bytes[0] ^= 1;
    struct ship_hello hello = {.format = SHIPMENT_FORMAT,
                               .installation = primary->store->installation,
                               .proof = ship_proof(&follower->secret)};
    assert_int_equal(ship_judge(ship, &hello, &why), ERR_OK);
    hello.proof = ship_proof(&other);
    assert_int_equal(ship_judge(ship, &hello, &why), ERR_CONFLICT);
    assert_non_null(strstr(why.text, "fingerprint secret"));
    hello.installation++;
    assert_int_equal(ship_judge(ship, &hello, &why), ERR_CONFLICT);
    assert_non_null(strstr(why.text, "another installation"));
    hello.format++;
    assert_int_equal(ship_judge(ship, &hello, &why), ERR_CONFLICT);
    assert_non_null(strstr(why.text, "format"));
    ship_stop(ship);
    ship_free(ship);
}

static void a_shipment_that_is_none_is_refused(void **state)
{
    struct buf out;
    struct shipment_head head = {.last = 9, .moment = {.now_ms = -5, .held_ms = 4}};
    struct shipment_block block;
    struct reader reader;
    uint32_t format;
    count_on("n", 1);
    assert_int_equal(take_blocks(), ERR_OK);
    buf_init(&out, 1u << 20);
    shipment_begin(&out, &head);
    shipment_add(&out, &blocks[0], 77);
    head = (struct shipment_head){0};
    assert_int_equal(shipment_read(buf_bytes(&out), &head, &reader, &format), ERR_OK);
    assert_int_equal(head.last, 9);
    assert_int_equal(head.moment.now_ms, -5);
    assert_int_equal(head.moment.held_ms, 4);
    assert_int_equal(shipment_next(&reader, &block), ERR_OK);
    assert_int_equal(block.hash, 77);
    assert_int_equal(block.block.time_ms, blocks[0].time_ms);
    assert_int_equal(shipment_next(&reader, &block), ERR_NOT_FOUND);
    for (size_t size = 0; size < out.size; size++) {
        enum err e = shipment_read(bytes_of(out.data, size), &head, &reader, &format);
        if (e == ERR_OK) e = shipment_next(&reader, &block);
        assert_true(e == ERR_CORRUPT || e == ERR_NOT_FOUND);
    }
    for (unsigned i = 0; i < 5; i++) { /* times that no clock tells */
        struct buf lie;
        int64_t times[5] = {0};
        times[i] = INT64_MIN;
        head.moment = (struct moment){times[0], times[1], times[2], times[3], times[4]};
        buf_init(&lie, 1u << 10);
        shipment_begin(&lie, &head);
        assert_int_equal(shipment_read(buf_bytes(&lie), &head, &reader, &format), ERR_CORRUPT);
        buf_release(&lie);
    }
    out.data[8]++;
    assert_int_equal(shipment_read(buf_bytes(&out), &head, &reader, &format), ERR_INVALID);
    assert_int_equal(format, SHIPMENT_FORMAT + 1);
    buf_release(&out);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_snapshot_is_at_the_primarys_place),
        ROW(installed_blocks_are_read_and_survive),
        ROW(a_store_that_follows_does_not_lead),
        ROW(what_does_not_continue_the_history_changes_nothing),
        ROW(a_commit_that_fits_no_segment_here_is_refused),
        ROW(a_place_of_another_history_is_not_shipped_from),
        ROW(hashes_are_over_everything),
        ROW(a_batch_is_shown_and_answered_once_others_have_it),
        ROW(what_others_have_not_is_withheld_until_they_have),
        ROW(a_follower_is_answered_when_there_is_something),
        ROW(a_stop_answers_who_waits),
        ROW(a_follower_of_another_store_is_told_why),
        ROW(a_shipment_that_is_none_is_refused),
    };
    return cmocka_run_group_tests_name("replicate", tests, NULL, NULL);
}
