/* test_port.c -- lines of exports, the files they stand in, and manifests: what is written is read
 * back, and what is not ours is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/timefmt.h"
#include "jobs/file.h"
#include "jobs/record.h"
#include "store/embedded/backup/manifest.h"
#include "support/scratch_dir.h"

static struct json_parser *parser;

static bool read_back(const char *text, struct arena *arena, struct port_record *record,
                      const char **why)
{
    char room[4096 + JSON_PADDING] = "";
    size_t size = strlen(text);
    assert_true(size < 4096);
    memcpy(room, text, size);
    return port_record_read(parser, bytes_of(room, size), arena, record, why);
}

static void a_cell_comes_back_as_it_was_extremes_and_all(void **state)
{
    (void)state;
    struct arena arena;
    struct buf line;
    const char *why;
    struct port_record back;
    const struct port_record cell = {
        .kind = PORT_CELL,
        .tenant = BYTES("t~._-9"),
        .counter = BYTES("n"),
        .dimensions = BYTES("{\"a\":\"\\\"\xc3\xa9\"}"),
        .duration = INT32_MAX,
        .bucket = INT64_MIN,
        .cell = {.exists = true,
                 .added = INT64_MAX,
                 .subbed = INT64_MAX,
                 .expires_ms = INT64_MAX,
                 .start_ms = -1,
                 .updated_ms = INT64_MIN + 1},
    };
    arena_init(&arena, 4096);
    buf_init(&line, 4000);
    port_record_write(&line, &cell);
    buf_add_char(&line, '\0');
    assert_true(read_back(line.data, &arena, &back, &why));
    assert_int_equal(back.kind, PORT_CELL);
    assert_true(bytes_equal(back.tenant, cell.tenant));
    assert_true(bytes_equal(back.dimensions, cell.dimensions));
    assert_int_equal(back.duration, cell.duration);
    assert_true(back.bucket == cell.bucket);
    assert_memory_equal(&back.cell.added, &cell.cell.added, 5 * sizeof(int64_t));
    buf_release(&line);
    arena_release(&arena);
}

static void an_exact_expiry_comes_back_and_belongs_to_a_time(void **state)
{
    (void)state;
    struct arena arena;
    struct buf line;
    const char *why;
    struct port_record back;
    const struct port_record cell = {.kind = PORT_CELL,
                                     .tenant = BYTES("t"),
                                     .counter = BYTES("n"),
                                     .cell = {.exists = true,
                                              .added = 1,
                                              .expires_ms = 1700000000000,
                                              .exact = true,
                                              .start_ms = TIME_NONE}};
    arena_init(&arena, 4096);
    buf_init(&line, 4000);
    port_record_write(&line, &cell);
    buf_add_char(&line, '\0');
    assert_true(read_back(line.data, &arena, &back, &why));
    assert_true(back.cell.exact);
    assert_int_equal(back.cell.expires_ms, cell.cell.expires_ms);
    assert_false(read_back("{\"kind\":\"cell\",\"tenant\":\"a\",\"counter\":\"b\","
                           "\"durationSeconds\":0,\"bucket\":\"0\",\"added\":\"1\","
                           "\"subbed\":\"0\",\"exact\":true,\"updatedAt\":\"0\"}",
                           &arena, &back, &why));
    buf_release(&line);
    arena_release(&arena);
}

#define CELL_OF(dimensions)                                                                         \
    "{\"kind\":\"cell\",\"tenant\":\"a\",\"counter\":\"b\",\"durationSeconds\":0,\"bucket\":\"0\"," \
    "\"added\":\"1\",\"subbed\":\"0\",\"updatedAt\":\"0\",\"dimensions\":\"" dimensions "\"}"

static void what_is_no_line_of_an_export_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "[]",
        "{}",
        "{\"kind\":\"other\"}",
        "{\"kind\":\"cell\"}",
        "{\"kind\":\"mark\",\"tenant\":\"t\",\"reconcile\":\"r\"}",
        "{\"kind\":\"mark\",\"tenant\":\"t\",\"reconcile\":\"/\",\"dimensions\":\"{}\"}",
        "{\"kind\":\"end\",\"lines\":\"-1\"}",
        "{\"kind\":\"end\",\"lines\":\"99999999999999999999999\"}",
        "{\"kind\":\"header\",\"format\":2}",
        "{\"kind\":\"status\",\"tenant\":\"a/b\",\"status\":\"x\",\"updatedAt\":\"1\"}",
        "{\"kind\":\"state\",\"tenant\":\"a\",\"counter\":\"b\",\"entity\":\"0\",\"value\":\"\"}",
        "{\"kind\":\"state\",\"tenant\":\"a\",\"counter\":\"b\",\"entity\":\"0g\",\"value\":\"\"}",
        "{\"kind\":\"state\",\"tenant\":\"a\",\"counter\":\"b\",\"entity\":\"g0\",\"value\":\"\"}",
        "{\"kind\":\"state\",\"tenant\":\"a\",\"counter\":\"b\",\"entity\":\"00\",\"value\":\"02\"}",
        "{\"kind\":\"id\",\"print\":\"00112233445566778899aabbccddeeff\",\"event\":false,"
        "\"firstSeenAt\":\"1\",\"check\":\"1\",\"outcome\":\"77\"}",
        CELL_OF("no JSON"),
        CELL_OF("[]"),
        CELL_OF("{\\\"k\\\":1}"),
        CELL_OF("{ \\\"k\\\":\\\"v\\\"}"),
        CELL_OF("{\\\"k\\\":\\\"v\\\",\\\"a\\\":\\\"v\\\"}"),
        CELL_OF("{\\\"k\\\":\\\"v\\\",\\\"k\\\":\\\"v\\\"}"),
        "{\"kind\":\"id\",\"print\":\"00\",\"event\":true}",
        "{\"kind\":\"id\",\"print\":\"00112233445566778899aabbccddeeff\",\"event\":77}",
        "{\"kind\":\"id\",\"print\":\"00112233445566778899aabbccddeeff\",\"event\":\"true\"}",
        "{\"kind\":\"definition\",\"counter\":\"a\",\"mode\":\"odd\",\"value\":\"\"}",
        "{\"kind\":\"cell\",\"tenant\":\"a\",\"counter\":\"b\",\"durationSeconds\":60,\"bucket\":\"0\","
        "\"added\":\"1\",\"subbed\":\"2\",\"updatedAt\":\"0\"}",
        "{\"kind\":\"cell\",\"tenant\":\"a\",\"counter\":\"b\",\"durationSeconds\":-2147483649,\"bucket\":\"0\","
        "\"added\":\"1\",\"subbed\":\"0\",\"updatedAt\":\"0\"}",
    };
    struct arena arena;
    arena_init(&arena, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        struct port_record record;
        const char *why = NULL;
        assert_false(read_back(lines[i], &arena, &record, &why));
        assert_non_null(why);
    }
    struct port_record good;
    const char *wrong;
    assert_true(read_back(CELL_OF("{\\\"a\\\":\\\"v\\\"}"), &arena, &good, &wrong));
    assert_true(read_back(CELL_OF("{}"), &arena, &good, &wrong));
    arena_release(&arena);
}

#define HEADER_OF(more)                                                            \
    "{\"kind\":\"header\",\"format\":1,\"sequence\":\"9\",\"moment\":\"-5\"," more \
    "\"installation\":\"77\",\"idScope\":\"tenant\",\"ids\":false}"

static void a_header_names_each_lane_and_an_older_one_has_one(void **state)
{
    (void)state;
    struct arena arena;
    struct buf line;
    struct port_record header;
    const char *why;
    arena_init(&arena, 4096);
    buf_init(&line, 4000);
    assert_true(read_back(HEADER_OF(""), &arena, &header, &why));
    assert_int_equal(header.lanes_count, 1);
    assert_true(header.lanes[0].sequence == 9 && header.lanes[0].moment_ms == -5);

    const struct port_lane lanes[] = {{3, INT64_MIN}, {UINT64_MAX / 2, 8}, {4, 7}};
    header.lanes = lanes;
    header.lanes_count = 3;
    port_record_write(&line, &header);
    buf_add_char(&line, '\0');
    assert_true(read_back(line.data, &arena, &header, &why));
    assert_int_equal(header.lanes_count, 3);
    assert_memory_equal(header.lanes, lanes, sizeof lanes);
    assert_true(port_changes(&header) == UINT64_MAX / 2 + 7 && port_moment_ms(&header) == 8);

    static const char *const wrong[] = {HEADER_OF("\"lanes\":[],"), HEADER_OF("\"lanes\":3,"),
                                        HEADER_OF("\"lanes\":[{\"sequence\":\"1\"}],"),
                                        HEADER_OF("\"lanes\":[7],")};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_false(read_back(wrong[i], &arena, &header, &why));
    buf_release(&line);
    arena_release(&arena);
}

static void expect_event_back(const struct port_record *record)
{
    struct arena arena;
    struct buf line;
    struct port_record back;
    const char *why;
    const struct stored_event *event = &record->event;
    arena_init(&arena, 4096);
    buf_init(&line, 4000);
    port_record_write(&line, record);
    buf_add_char(&line, '\0');
    assert_true(read_back(line.data, &arena, &back, &why));
    assert_true(back.kind == record->kind && back.lane == record->lane);
    assert_true(back.event.sequence == event->sequence);
    assert_true(back.event.origin == stored_event_number(event));
    assert_true(back.event.arrived_ms == event->arrived_ms);
    assert_true(back.event.occurred_ms == event->occurred_ms);
    assert_true(back.event.duplicate == event->duplicate);
    assert_true(back.event.first_sequence == event->first_sequence);
    assert_true(back.event.first_seen_ms == event->first_seen_ms);
    assert_true(bytes_equal(back.tenant, event->tenant));
    assert_true(bytes_equal(back.event.id, event->id) && bytes_equal(back.event.type, event->type));
    assert_true(bytes_equal(back.event.dimensions_json, event->dimensions_json));
    assert_true(bytes_equal(back.event.payload, event->payload));
    buf_release(&line);
    arena_release(&arena);
}

static void an_event_comes_back_as_it_was_its_number_and_its_bytes_too(void **state)
{
    (void)state;
    struct port_record record = {.kind = PORT_EVENT,
                                 .lane = 1023,
                                 .event = {.tenant = BYTES("t"),
                                           .id = BYTES("\0\"\xc3\xa9\n"),
                                           .type = BYTES("x y"),
                                           .dimensions_json = BYTES("{\"a\":\"\\u0000\"}"),
                                           .sequence = UINT64_MAX,
                                           .occurred_ms = TIME_MS_MIN,
                                           .arrived_ms = TIME_MS_MAX}};
    expect_event_back(&record); /* one that came to the store, without a payload */
    record.event.origin = 7;
    record.event.payload = BYTES("{\"n\":[1,2.5,null,\"\\u0000\"]}");
    expect_event_back(&record);
    record.kind = PORT_DUPLICATE;
    record.event.duplicate = true;
    record.event.first_sequence = 3;
    record.event.first_seen_ms = 4;
    expect_event_back(&record);
}

static void a_mark_comes_back(void **state)
{
    (void)state;
    static const char line[] =
        "{\"kind\":\"mark\",\"tenant\":\"t\",\"reconcile\":\"r\",\"dimensions\":\"{\\\"a\\\":\\\"b\\\"}\"}";
    struct arena arena;
    struct port_record record;
    struct buf again;
    const char *why;
    arena_init(&arena, 4096);
    buf_init(&again, 1000);
    assert_true(read_back(line, &arena, &record, &why));
    assert_true(record.kind == PORT_MARK && bytes_equal(record.reconcile, BYTES("r")));
    assert_true(bytes_equal(record.dimensions, BYTES("{\"a\":\"b\"}")));
    port_record_write(&again, &record);
    assert_true(bytes_equal(buf_bytes(&again), bytes_str(line)));
    buf_release(&again);
    arena_release(&arena);
}

#define EVENT_OF(more)                                                                            \
    "{\"kind\":\"event\",\"tenant\":\"t\",\"eventId\":\"e\",\"type\":\"x\",\"occurredAt\":\"1\"," \
    "\"arrivedAt\":\"2\",\"lane\":0,\"sequence\":\"3\",\"dimensions\":\"{}\"" more "}"

static void what_no_event_can_be_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        EVENT_OF(",\"lane\":1024"),
        EVENT_OF(",\"lane\":-1"),
        EVENT_OF(",\"sequence\":\"0\""),
        EVENT_OF(",\"tenant\":\"a/b\""),
        EVENT_OF(",\"eventId\":\"\""),
        EVENT_OF(",\"type\":\"\""),
        EVENT_OF(",\"occurredAt\":\"9223372036854775807\""),
        EVENT_OF(",\"arrivedAt\":\"-62135596800001\""),
        EVENT_OF(",\"dimensions\":\"[]\""),
        EVENT_OF(",\"dimensions\":\"{\\\"a\\\":1}\""),
        EVENT_OF(",\"payload\":\"{\""),
        EVENT_OF(",\"payload\":\"{ }\""),
        EVENT_OF(",\"kind\":\"duplicate\""),
    };
    struct arena arena;
    struct port_record record;
    const char *why;
    arena_init(&arena, 4096);
    assert_true(read_back(EVENT_OF(""), &arena, &record, &why));
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        why = NULL;
        assert_false(read_back(wrong[i], &arena, &record, &why));
        assert_non_null(why);
    }
    arena_release(&arena);
}

static void lines_come_back_from_every_kind_of_file(void **state)
{
    static const char *const names[] = {"plain", "packed.gz", "packed.zst"};
    const char *dir = *state;
    char text[300];
    for (size_t n = 0; n < ARRAY_COUNT(names); n++) {
        struct port_writer *writer;
        struct port_reader *reader;
        struct bytes line;
        assert_int_equal(port_writer_open(&writer, dir, names[n]), ERR_OK);
        for (int i = 0; i < 20000; i++) {
            int size = snprintf(text, sizeof text, "line %d of many, %0*d", i, i % 200, i);
            assert_int_equal(port_writer_line(writer, bytes_of(text, (size_t)size)), ERR_OK);
        }
        assert_int_equal(port_reader_open(&reader, dir, names[n]), ERR_NOT_FOUND);
        assert_int_equal(port_writer_close(writer, true), ERR_OK);
        assert_int_equal(port_reader_open(&reader, dir, names[n]), ERR_OK);
        for (int i = 0; i < 20000; i++) {
            int size = snprintf(text, sizeof text, "line %d of many, %0*d", i, i % 200, i);
            assert_int_equal(port_reader_line(reader, &line), ERR_OK);
            assert_true(bytes_equal(line, bytes_of(text, (size_t)size)));
        }
        assert_int_equal(port_reader_line(reader, &line), ERR_NOT_FOUND);
        assert_true(port_reader_offset(reader) == port_reader_size(reader));
        port_reader_close(reader);
    }
}

static void a_file_that_is_cut_short_does_not_end_well(void **state)
{
    static const char *const names[] = {"packed.gz", "packed.zst"};
    const char *dir = *state;
    for (size_t n = 0; n < ARRAY_COUNT(names); n++) {
        char path[4096];
        struct port_reader *reader;
        struct bytes line;
        enum err e = ERR_OK;
        snprintf(path, sizeof path, "%s/%s", dir, names[n]);
        assert_int_equal(truncate(path, 5000), 0);
        assert_int_equal(port_reader_open(&reader, dir, names[n]), ERR_OK);
        while (e == ERR_OK)
            e = port_reader_line(reader, &line);
        assert_int_equal(e, ERR_CORRUPT);
        port_reader_close(reader);
    }
}

/* What is read back is what was written, and nothing else is read at all. */
static void expect_kept(const struct manifest *manifest)
{
    struct buf text;
    struct manifest back;
    buf_init(&text, 1u << 20);
    manifest_encode(&text, manifest);
    assert_int_equal(manifest_decode(buf_bytes(&text), &back), ERR_OK);
    assert_int_equal(back.lanes_count, manifest->lanes_count);
    assert_memory_equal(back.lanes, manifest->lanes, back.lanes_count * sizeof *back.lanes);
    assert_true(back.taken_ms == 5 && back.copied_bytes == 7);
    assert_int_equal(back.files.count, 2);
    assert_string_equal(back.files.files[1].path, "state/000001.sst");
    assert_true(checksum_equal(back.files.files[1].checksum, manifest->files.files[1].checksum));
    manifest_release(&back);
    for (size_t i = 0; i < text.size; i++) {
        text.data[i] ^= 1;
        assert_int_equal(manifest_decode(buf_bytes(&text), &back), ERR_CORRUPT);
        text.data[i] ^= 1;
        assert_int_equal(manifest_decode(bytes_of(text.data, i), &back), ERR_CORRUPT);
    }
    buf_release(&text);
}

static void a_manifest_is_read_back_and_a_changed_one_is_not(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= MANIFEST_LANES_MAX; lanes = lanes * 32) {
        struct manifest manifest;
        manifest_init(&manifest, lanes);
        manifest.taken_ms = 5;
        manifest.copied_bytes = 7;
        manifest.lanes[lanes - 1] = (struct manifest_lane){UINT64_MAX, INT64_MIN};
        tree_list_add(&manifest.files, "IDENTITY", 224);
        tree_list_add(&manifest.files, "state/000001.sst", UINT64_MAX);
        manifest.files.files[1].checksum = (struct checksum){1, UINT64_MAX};
        expect_kept(&manifest);
        manifest_release(&manifest);
    }
}

static enum err decode_text(const char *body)
{
    struct buf text;
    struct manifest manifest;
    buf_init(&text, 1u << 20);
    buf_add(&text, bytes_str(body));
    buf_addf(&text, "end %016llx\n", (unsigned long long)hash_checksum(bytes_str(body)));
    enum err e = manifest_decode(buf_bytes(&text), &manifest);
    if (e == ERR_OK) manifest_release(&manifest);
    buf_release(&text);
    return e;
}

static void a_manifest_of_lanes_has_a_line_for_each(void **state)
{
    (void)state;
    assert_int_equal(
        decode_text("tally-backup 2\nlanes 2\nlane 1 2\nlane 3 -4\ntaken 5\ncopied 6\n"), ERR_OK);
    static const char *const wrong[] = {
        "tally-backup 2\nlanes 3\nlane 1 2\nlane 3 4\ntaken 5\ncopied 6\n",
        "tally-backup 2\nlanes 2\nlane 1 2\nlane 3 4\nlane 5 6\ntaken 5\ncopied 6\n",
        "tally-backup 2\nlanes 1\nlane 1 2\ntaken 5\ncopied 6\n",
        "tally-backup 2\nlanes 1025\nlane 1 2\ntaken 5\ncopied 6\n",
        "tally-backup 2\nsequence 1\nmoment 2\ntaken 5\ncopied 6\n",
        "tally-backup 2\nlanes 2\nlane 1 2\nlane 3\ntaken 5\ncopied 6\n",
        "tally-backup 2\nlanes 2\n",
        "tally-backup 2\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(decode_text(wrong[i]), ERR_CORRUPT);
}

/* A path in a manifest never leads out of the directory that is restored into. */
static void a_manifest_with_a_path_that_leads_elsewhere_is_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {"/etc/passwd", "../x", "state/../../x", ""};
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        struct buf text;
        struct manifest back;
        struct manifest manifest;
        manifest_init(&manifest, 1);
        tree_list_add(&manifest.files, paths[i], 1);
        buf_init(&text, 1u << 20);
        manifest_encode(&text, &manifest);
        assert_int_equal(manifest_decode(buf_bytes(&text), &back), ERR_CORRUPT);
        buf_release(&text);
        manifest_release(&manifest);
    }
}

static struct scratch_dir scratch;

static int setup(void **state)
{
    parser = json_parser_new(PORT_LINE_MAX);
    scratch_dir_init(&scratch);
    *state = scratch.path;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    json_parser_free(parser);
    scratch_dir_release(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_comes_back_as_it_was_extremes_and_all),
        cmocka_unit_test(an_exact_expiry_comes_back_and_belongs_to_a_time),
        cmocka_unit_test(what_is_no_line_of_an_export_is_refused_with_a_reason),
        cmocka_unit_test(a_header_names_each_lane_and_an_older_one_has_one),
        cmocka_unit_test(an_event_comes_back_as_it_was_its_number_and_its_bytes_too),
        cmocka_unit_test(a_mark_comes_back),
        cmocka_unit_test(what_no_event_can_be_is_refused),
        cmocka_unit_test(lines_come_back_from_every_kind_of_file),
        cmocka_unit_test(a_file_that_is_cut_short_does_not_end_well),
        cmocka_unit_test(a_manifest_is_read_back_and_a_changed_one_is_not),
        cmocka_unit_test(a_manifest_of_lanes_has_a_line_for_each),
        cmocka_unit_test(a_manifest_with_a_path_that_leads_elsewhere_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
