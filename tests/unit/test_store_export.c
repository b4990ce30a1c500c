/* test_store_export.c -- any kind of store can be exported: the same life leaves the same lines,
 * whatever kept it. */
#include "support/store_expect.h"

#include <stdlib.h>

#include "jobs/export.h"
#include "jobs/file.h"

static struct reason why;

static void live(struct heart *heart)
{
    done_ok(heart, increment(heart, "b", 5));
    done_ok(heart, increment_at(heart, "a", 60, 120, 7));
    heart_checkpoint(heart);
    done_ok(heart, ask_keyed(&heart->asks, increment(heart, "b", 1), "key", 9));
    heart->asks.tenant = "beta";
    done_ok(heart, increment(heart, "c", 2));
    done_ok(heart, ask_event(&heart->asks, "E1", "up", "k=v", "{\"n\":1}"));
    done_ok(heart, ask_event(&heart->asks, "E1", "up", "k=v", "{\"n\":1}"));
    heart->asks.tenant = "acme";
}

static void export_to(struct heart *heart, const char *dir, bool ids, bool events)
{
    const struct port_lane lane = {heart->store->writer.position.last_sequence,
                                   heart->store->writer.position.time_ms};
    const struct export_request request = {.dir = dir,
                                           .name = "x",
                                           .header = {.kind = PORT_HEADER,
                                                      .lanes = &lane,
                                                      .lanes_count = 1,
                                                      .installation = 7,
                                                      .ids = ids,
                                                      .events = events}};
    struct effort effort = {0};
    struct exporter *exporter;
    uint64_t lines;
    enum err e = exporter_open(&exporter, &request, &effort, &why);
    if (e == ERR_OK) e = exporter_lane(exporter, &heart->store->view, &why);
    assert_int_equal(exporter_close(exporter, e, &lines, &why), ERR_OK);
    assert_true(effort.done == lines && effort.total > 0);
}

/* What the lines are about, in their order: an id's alone does not tell, for stores show ids in an
 * order of their own. */
static const char *lines_of(const char *dir)
{
    struct json_parser *parser = json_parser_new(PORT_LINE_MAX);
    struct port_reader *reader;
    struct port_record record = {0};
    struct arena arena;
    struct bytes line;
    const char *wrong;
    arena_init(&arena, 4096);
    found[0] = 0;
    assert_int_equal(port_reader_open(&reader, dir, "x"), ERR_OK);
    while (record.kind != PORT_END) {
        assert_int_equal(port_reader_line(reader, &line), ERR_OK);
        assert_true(port_record_read(parser, line, &arena, &record, &wrong));
        size_t used = strlen(found);
        char *at = found + used;
        size_t room = sizeof found - used;
        if (record.kind == PORT_CELL)
            snprintf(at, room, "%.*s.%.*s/%d@%lld:%lld ", (int)record.tenant.size,
                     record.tenant.data, (int)record.counter.size, record.counter.data,
                     record.duration, (long long)record.bucket,
                     (long long)cell_triple(&record.cell).net);
        if (record.kind == PORT_EVENT || record.kind == PORT_DUPLICATE)
            snprintf(at, room, "%s%.*s#%llu ", record.kind == PORT_DUPLICATE ? "!" : "",
                     (int)record.event.id.size, record.event.id.data,
                     (unsigned long long)record.event.sequence);
        if (record.kind == PORT_ID)
            snprintf(at, room, record.key.event ? "id#%llu " : "key%llu ",
                     (unsigned long long)record.key.sequence);
    }
    port_reader_close(reader);
    json_parser_free(parser);
    arena_release(&arena);
    return found;
}

#define CELLS "acme.a/60@120:7 acme.b/0@0:6 beta.c/0@0:2 "

static void a_store_of_any_kind_leaves_the_same_lines(void **state)
{
    struct heart *heart = *state;
    struct scratch_dir dir;
    scratch_dir_init(&dir);
    live(heart);
    for (unsigned way = 0; way < 2; way++) {
        export_to(heart, dir.path, false, false);
        assert_string_equal(lines_of(dir.path), CELLS);
        export_to(heart, dir.path, false, true);
        assert_string_equal(lines_of(dir.path), CELLS "E1#5 !E1#6 ");
        export_to(heart, dir.path, true, true); /* the event's line is its id's, too */
        assert_string_equal(lines_of(dir.path), CELLS "E1#5 !E1#6 key0 ");
        heart_checkpoint(heart);
    }
    scratch_dir_release(&dir);
}

/* An id whose event is not in the export has a line, with the number that clients know it by. */
static void an_id_without_its_event_keeps_its_number(void **state)
{
    struct heart *heart = *state;
    struct scratch_dir dir;
    scratch_dir_init(&dir);
    done_ok(heart, increment(heart, "b", 5));
    done_ok(heart, ask_event(&heart->asks, "E1", "up", "", NULL));
    export_to(heart, dir.path, true, false);
    assert_string_equal(lines_of(dir.path), "acme.b/0@0:5 id#2 ");
    scratch_dir_release(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_store_of_any_kind_leaves_the_same_lines),
        LAW(an_id_without_its_event_keeps_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
