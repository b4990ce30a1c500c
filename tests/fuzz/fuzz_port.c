/* fuzz_port.c -- no bytes in a backup's manifest or an export's line make their readers do anything
 * but read or refuse.
 *
 * The first byte of the input says what the rest is: 'm' a manifest without its last line, which is
 * a checksum and is put behind it, 'l' a line of an export. What is accepted must be what an
 * encoder could have written: a manifest byte for byte, a line with the same fields in it. */
#include <inttypes.h>
#include <stdlib.h>

#include "jobs/record.h"
#include "store/embedded/backup/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_manifest(struct bytes body)
{
    struct buf text;
    struct buf again;
    struct manifest manifest;
    buf_init(&text, 1u << 20);
    buf_init(&again, 1u << 20);
    buf_add(&text, body);
    buf_addf(&text, "end %016" PRIx64 "\n", hash_checksum(body));
    if (manifest_decode(buf_bytes(&text), &manifest) == ERR_OK) {
        manifest_encode(&again, &manifest);
        must(bytes_equal(buf_bytes(&again), buf_bytes(&text)));
        manifest_release(&manifest);
    }
    buf_release(&again);
    buf_release(&text);
}

/* The parser reads a little past the end. */
static bool read_line(struct json_parser *parser, struct bytes line, struct arena *arena,
                      struct port_record *record_out)
{
    const char *why = NULL;
    char *room = must_calloc(1, line.size + JSON_PADDING);
    if (line.size) memcpy(room, line.data, line.size);
    bool read = port_record_read(parser, bytes_of(room, line.size), arena, record_out, &why);
    must(read || why != NULL);
    free(room);
    return read;
}

static void read_export_line(struct bytes line)
{
    static struct json_parser *parser;
    struct arena arena;
    struct buf once;
    struct buf twice;
    struct port_record record;
    if (!parser) parser = json_parser_new(1u << 20);
    arena_init(&arena, 4096);
    buf_init(&once, 1u << 20);
    buf_init(&twice, 1u << 20);
    if (read_line(parser, line, &arena, &record)) {
        port_record_write(&once, &record);
        must(read_line(parser, buf_bytes(&once), &arena, &record));
        port_record_write(&twice, &record);
        must(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    }
    buf_release(&twice);
    buf_release(&once);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 64u << 10) return 0;
    struct bytes rest = bytes_of((const char *)data + 1, size - 1);
    if (data[0] == 'm') read_manifest(rest);
    if (data[0] == 'l') read_export_line(rest);
    return 0;
}
