/* test_snapshot.c -- what a snapshot links shows nothing that comes after its moment. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "store/embedded/internal.h"
#include "support/heart.h"

static int set_up(void **state)
{
    *state = heart_new((struct heart_config){.store = "embedded"});
    return 0;
}

static int tear_down(void **state)
{
    heart_free(*state);
    return 0;
}

static void *sync_main(void *context)
{
    struct heart *heart = context;
    commit_sync_now(heart->commit);
    return NULL;
}

static struct op increment(struct heart *heart)
{
    return ask(&heart->asks, OP_INCREMENT, "views", 1);
}

/* Durable in the journal, and a reader keeps it from being shown until the lock is released. */
static pthread_t hold_up_a_batch(struct heart *heart, struct embedded *embedded)
{
    pthread_t thread;
    struct op op = increment(heart);
    uint64_t before = journal_durable_sequence(embedded->journal);
    heart_send(heart, (struct bundle){0}, &op, 1);
    commit_turn(heart->commit);
    pthread_rwlock_rdlock(&embedded->visible);
    assert_int_equal(pthread_create(&thread, NULL, sync_main, heart), 0);
    while (journal_durable_sequence(embedded->journal) == before)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return thread;
}

/* Else a backup's archive would have events that its counters have not, under sequences that are
 * given out again once it is restored. */
static void the_archive_takes_only_what_readers_are_shown(void **state)
{
    struct heart *heart = *state;
    struct embedded *embedded = embedded_of(heart->store);
    struct store_stats stats;
    heart_do(heart, increment(heart));
    store_stats(heart->store, &stats);
    uint64_t shown = stats.durable_sequence;
    pthread_t thread = hold_up_a_batch(heart, embedded);
    heart_wait_ms(heart, 1000);
    heart_tend(heart);
    store_stats(heart->store, &stats);
    pthread_rwlock_unlock(&embedded->visible);
    pthread_join(thread, NULL);
    assert_int_equal(stats.durable_sequence, shown);
    assert_int_equal(stats.archived_sequence, shown);
    heart_tend(heart);
    store_stats(heart->store, &stats);
    assert_int_equal(stats.archived_sequence, shown + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_archive_takes_only_what_readers_are_shown, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
