/* test_job.c -- the record of a job: its bytes, those of stores of before, and what it shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "jobs/job.h"

static struct arena arena;

static const struct job_record backup = {.id = 7,
                                         .kind = JOB_BACKUP,
                                         .state = JOB_DONE,
                                         .name = BYTES("b"),
                                         .size = 300,
                                         .sequence = 41,
                                         .asked_ms = 1000,
                                         .ended_ms = 2000,
                                         .why = BYTES("one file was damaged")};

static const struct job_record exported = {.id = 8,
                                           .kind = JOB_EXPORT,
                                           .state = JOB_RUNNING,
                                           .name = BYTES("x.gz"),
                                           .ids = true,
                                           .asked_ms = 1000};

static const struct job_record with_events = {.id = 8,
                                              .kind = JOB_EXPORT,
                                              .state = JOB_RUNNING,
                                              .name = BYTES("x.gz"),
                                              .events = true,
                                              .asked_ms = 1000};

static const struct job_record imported = {.id = 9,
                                           .kind = JOB_IMPORT,
                                           .state = JOB_FAILED,
                                           .name = BYTES("x.gz"),
                                           .position = 5,
                                           .size = 9,
                                           .asked_ms = 1000,
                                           .ended_ms = 2000,
                                           .why = BYTES("line 6")};

static const struct job_record elsewhere = {.id = 9,
                                            .kind = JOB_IMPORT,
                                            .state = JOB_RUNNING,
                                            .name = BYTES("x.gz"),
                                            .asked_ms = 1000,
                                            .node = BYTES("host /data 0.0.0.0:8787")};

static const struct job_record rebuilt = {.id = 10,
                                          .kind = JOB_REBUILD,
                                          .state = JOB_RUNNING,
                                          .name = BYTES("likes"),
                                          .position = 50,
                                          .size = 20,
                                          .sequence = 100,
                                          .asked_ms = 1000,
                                          .rebuild = {.force = true,
                                                      .based = true,
                                                      .from = BYTES("x.gz"),
                                                      .base_lines = 12,
                                                      .generation = 3,
                                                      .rules_digest = 0x0102030405060708,
                                                      .since = 77}};

static const struct job_record *const jobs[] = {&backup,  &exported,    &imported,
                                                &rebuilt, &with_events, &elsewhere};

static void assert_same(const struct job_record *a, const struct job_record *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->state, b->state);
    assert_true(bytes_equal(a->name, b->name));
    assert_int_equal(a->ids, b->ids);
    assert_int_equal(a->events, b->events);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->asked_ms, b->asked_ms);
    assert_int_equal(a->ended_ms, b->ended_ms);
    assert_true(bytes_equal(a->why, b->why));
    assert_true(bytes_equal(a->node, b->node));
    assert_int_equal(a->rebuild.force, b->rebuild.force);
    assert_int_equal(a->rebuild.based, b->rebuild.based);
    assert_true(bytes_equal(a->rebuild.from, b->rebuild.from));
    assert_int_equal(a->rebuild.base_lines, b->rebuild.base_lines);
    assert_int_equal(a->rebuild.generation, b->rebuild.generation);
    assert_int_equal(a->rebuild.rules_digest, b->rebuild.rules_digest);
    assert_int_equal(a->rebuild.since, b->rebuild.since);
}

static void a_job_of_every_kind_comes_back(void **state)
{
    for (unsigned i = 0; i < ARRAY_COUNT(jobs); i++) {
        struct job_record job;
        assert_int_equal(job_decode(job_encode(&arena, jobs[i]), &job), ERR_OK);
        assert_same(&job, jobs[i]);
    }
}

/* id, kind, state, name, ids, position, size, sequence, asked, ended (zigzag), why */
#define OLD_BACKUP "e\7\0\2\1b\0\0\xac\2\x29\xd0\x0f\xa0\x1f\x14one file was damaged"
#define OLD_EXPORT "e\x8\1\1\4x.gz\1\0\0\0\xd0\x0f\0\0"
#define OLD_IMPORT "e\x9\2\3\4x.gz\0\5\x9\0\xd0\x0f\xa0\x1f\6line 6"
/* id, state, counter, force, from, based, base_lines, generation, rules_digest, since, position,
 * target, events, asked, ended, why */
#define OLD_REBUILD "\3\xa\1\5likes\1\4x.gz\1\xc\3\x8\7\6\5\4\3\2\1\x4d\x32\x64\x14\xd0\x0f\0\0"

static void a_job_of_a_store_of_before_is_read_as_it_was_written(void **state)
{
    static const struct bytes old[] = {BYTES(OLD_BACKUP), BYTES(OLD_EXPORT), BYTES(OLD_IMPORT),
                                       BYTES(OLD_REBUILD)};
    for (unsigned i = 0; i < ARRAY_COUNT(old); i++) {
        struct job_record job;
        assert_int_equal(job_decode(old[i], &job), ERR_OK);
        assert_same(&job, jobs[i]);
    }
}

static void bytes_cut_or_continued_are_no_job(void **state)
{
    for (unsigned i = 0; i < ARRAY_COUNT(jobs); i++) {
        struct job_record job;
        struct bytes value = job_encode(&arena, jobs[i]);
        size_t node = jobs[i]->node.size ? jobs[i]->node.size + 1 : 0; /* stores of before: none */
        for (size_t size = 0; size < value.size; size++)
            assert_int_equal(job_decode(bytes_of(value.data, size), &job),
                             node && size == value.size - node ? ERR_OK : ERR_CORRUPT);
        char *longer = arena_zalloc(&arena, value.size + 1);
        memcpy(longer, value.data, value.size);
        assert_int_equal(job_decode(bytes_of(longer, value.size + 1), &job), ERR_CORRUPT);
    }
}

static void fields_that_a_state_does_not_allow_are_no_job(void **state)
{
    static const struct bytes wrong[] = {
        BYTES("e\x8\1\0\4x.gz\1\0\0\0\xd0\x0f\xa0\x1f\0"), /* it waits and has ended */
        BYTES("e\x8\1\1\4x.gz\1\0\0\0\xd0\x0f\0\1?"),      /* it runs and says why it failed */
        BYTES("e\x8\1\3\4x.gz\1\0\0\0\xd0\x0f\xa0\x1f\0"), /* it failed and does not say why */
        BYTES("e\x8\1\0\4x.gz\1\1\0\0\xd0\x0f\0\0"),       /* it waits and has done something */
        BYTES("e\x8\0\1\4x.gz\1\0\0\0\xd0\x0f\0\0"),       /* a backup with ids */
        BYTES("e\x8\3\1\4x.gz\0\0\0\0\xd0\x0f\0\0"),       /* no kind of then */
        BYTES("\3\xa\1\5likes\0\0\0\0\0\x8\7\6\5\4\3\2\1\0\0\0\0\xd0\x0f\0\0"), /* of nothing */
    };
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct job_record job;
        assert_int_equal(job_decode(wrong[i], &job), ERR_CORRUPT);
    }
}

static void a_walk_leaves_out_what_is_no_job_and_what_lies_under_another_number(void **state)
{
    struct job_record job;
    assert_true(job_met(job_key(&arena, 7), job_encode(&arena, &backup), &job));
    assert_false(job_met(job_key(&arena, 6), job_encode(&arena, &backup), &job));
    assert_false(job_met(job_key(&arena, 7), BYTES("?"), &job));
}

static void assert_shown(const struct job_record *job, double share, const char *json)
{
    struct buf buf;
    buf_init(&buf, 4096);
    job_write(&buf, job, share);
    buf_add_char(&buf, '\0');
    assert_string_equal(buf.data, json);
    buf_release(&buf);
}

static void a_job_shows_what_its_kind_counts_and_names(void **state)
{
    assert_shown(&backup, 0.5,
                 "{\"job\":\"7\",\"type\":\"backup\",\"name\":\"b\",\"state\":\"done\","
                 "\"progress\":1.000,\"bytes\":\"300\",\"sequence\":\"41\",\"askedAt\":"
                 "\"1970-01-01T00:00:01.000Z\",\"endedAt\":\"1970-01-01T00:00:02.000Z\","
                 "\"error\":null,\"warning\":\"one file was damaged\"}");
    assert_shown(&exported, 0.5,
                 "{\"job\":\"8\",\"type\":\"export\",\"name\":\"x.gz\",\"state\":\"running\","
                 "\"progress\":0.500,\"lines\":\"0\",\"sequence\":null,\"askedAt\":"
                 "\"1970-01-01T00:00:01.000Z\",\"endedAt\":null,\"error\":null}");
    assert_shown(&imported, 0.5,
                 "{\"job\":\"9\",\"type\":\"import\",\"name\":\"x.gz\",\"state\":\"failed\","
                 "\"progress\":0.500,\"lines\":\"9\",\"sequence\":null,\"askedAt\":"
                 "\"1970-01-01T00:00:01.000Z\",\"endedAt\":\"1970-01-01T00:00:02.000Z\","
                 "\"error\":\"line 6\"}");
    assert_shown(&elsewhere, 0.5,
                 "{\"job\":\"9\",\"type\":\"import\",\"name\":\"x.gz\",\"state\":\"running\","
                 "\"progress\":0.500,\"lines\":\"0\",\"sequence\":null,\"node\":"
                 "\"host /data 0.0.0.0:8787\",\"askedAt\":"
                 "\"1970-01-01T00:00:01.000Z\",\"endedAt\":null,\"error\":null}");
}

static void a_rebuild_is_as_far_as_its_position_and_never_done_before_it_is(void **state)
{
    struct job_record job = rebuilt;
    assert_shown(&job, 0,
                 "{\"job\":\"10\",\"type\":\"rebuild\",\"counter\":\"likes\",\"state\":\"running\","
                 "\"progress\":0.500,\"events\":\"20\",\"askedAt\":\"1970-01-01T00:00:01.000Z\","
                 "\"endedAt\":null,\"error\":null}");
    job.position = 200;
    assert_shown(&job, 0,
                 "{\"job\":\"10\",\"type\":\"rebuild\",\"counter\":\"likes\",\"state\":\"running\","
                 "\"progress\":0.999,\"events\":\"20\",\"askedAt\":\"1970-01-01T00:00:01.000Z\","
                 "\"endedAt\":null,\"error\":null}");
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_job_of_every_kind_comes_back),
        LAW(a_job_of_a_store_of_before_is_read_as_it_was_written),
        LAW(bytes_cut_or_continued_are_no_job),
        LAW(fields_that_a_state_does_not_allow_are_no_job),
        LAW(a_walk_leaves_out_what_is_no_job_and_what_lies_under_another_number),
        LAW(a_job_shows_what_its_kind_counts_and_names),
        LAW(a_rebuild_is_as_far_as_its_position_and_never_done_before_it_is),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
