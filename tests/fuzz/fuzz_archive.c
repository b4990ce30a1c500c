/* fuzz_archive.c -- no bytes on disk make the archive do anything but read or refuse.
 *
 * The first byte of the input says what the rest is:
 *   'f'  a file as it is
 *   'i'  an index, in a file whose checksums are right: u16 size of the frames, u16 how many there
 *        are, u16 how many records, then the index
 *   'r'  the records of one frame, in a file where everything else is right
 *   'p'  a packed frame: u16 size of the raw bytes, u16 size of the UUIDs, then they, then what is
 *        compressed
 *   'd'  damage to a good archive: five bytes each, u32 place and what to turn there. It must then
 *        refuse, or read what was written and nothing else.
 * An archive that opened must take a run and open again with it. */
#include <fcntl.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/codec.h"
#include "base/log.h"
#include "store/embedded/archive/internal.h"
#include "store/embedded/archive/pack.h"
#include "support/archive_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LAST 1000u
#define NAME "events-0000000000000001-00000000000003e8.tally"
#define SIZE_MAX_HERE (1u << 20)

struct walk {
    struct bytes tenant;
    uint64_t last;
    uint64_t touched;
};

static bool walk_on(void *context, const struct stored_event *event)
{
    struct walk *walk = context;
    must(event->sequence > walk->last);
    must(event->sequence <= LAST);
    must(walk->tenant.size == 0 || bytes_equal(walk->tenant, event->tenant));
    walk->last = event->sequence;
    walk->touched += hash_checksum(event->id) + hash_checksum(event->type) +
                     hash_checksum(event->payload) + hash_checksum(event->dimensions_json) +
                     hash_checksum(event->tenant);
    return event->sequence % 3 != 0;
}

static void walk_all(struct archive *archive, struct bytes tenant)
{
    struct walk walk = {.tenant = tenant};
    struct event_query query = {
        .tenant = tenant, .upto = UINT64_MAX, .events = true, .duplicates = true};
    uint64_t next = 0;
    do {
        query.after = next;
        enum err e = archive_read(archive, &query, walk_on, &walk, &next);
        must(e == ERR_OK || e == ERR_CORRUPT);
        must(next == 0 || next > query.after);
    } while (next != 0);
}

static void goes_on(struct archive_world *world)
{
    enum err e = world_open(world);
    must((e == ERR_OK) == (world->archive != NULL));
    must(e == ERR_OK || (e == ERR_CORRUPT && reason_given(&world->why)));
    if (e != ERR_OK) return;
    must(archive_last(world->archive) == LAST);
    walk_all(world->archive, BYTES("a"));
    walk_all(world->archive, BYTES("tenant-1"));
    walk_all(world->archive, BYTES_NONE);
    must(archive_seal(world->archive, LAST + 5) == ERR_OK);
    world_close(world);
    must(world_open(world) == ERR_OK);
    must(archive_last(world->archive) == LAST + 5);
    archive_drop(world->archive, INT64_MAX);
    world_close(world);
    must(world_open(world) == ERR_OK);
}

static void fuzz_file(struct bytes bytes)
{
    struct archive_world world;
    world_init(&world, 5);
    struct io *io = world.config.io;
    int fd = io->ops->open(io, NAME, true, false);
    if (bytes.size) must(io->ops->write(io, fd, bytes.data, bytes.size, 0) == (int64_t)bytes.size);
    io->ops->close(io, fd);
    goes_on(&world);
    world_release(&world);
}

/* A file of these frames and this index. */
static void fuzz_parts(struct bytes frames, struct bytes index, uint32_t frames_count,
                       uint32_t records_count)
{
    struct archive_summary summary = {
        .first = 1,
        .last = LAST,
        .index_offset = ARCHIVE_HEADER_SIZE + frames.size,
        .index_size = index.size,
        .index_checksum = hash_checksum(index),
        .frames_count = frames_count,
        .records_count = records_count,
        .arrived_min = INT64_MIN,
        .arrived_max = INT64_MAX,
    };
    char header[ARCHIVE_HEADER_SIZE], trailer[ARCHIVE_TRAILER_SIZE];
    archive_header_encode(header, 7, summary.first, summary.last);
    archive_trailer_encode(trailer, header, &summary);
    struct buf file;
    buf_init(&file, SIZE_MAX_HERE);
    buf_add(&file, bytes_of(header, sizeof header));
    buf_add(&file, frames);
    buf_add(&file, index);
    buf_add(&file, bytes_of(trailer, sizeof trailer));
    must(!file.failed);
    fuzz_file(buf_bytes(&file));
    buf_release(&file);
}

static uint32_t take_u16(struct bytes bytes, size_t at)
{
    return (unsigned char)bytes.data[at] | (uint32_t)(unsigned char)bytes.data[at + 1] << 8;
}

static void fuzz_index(struct bytes bytes)
{
    static const char zeros[UINT16_MAX];
    if (bytes.size < 6 || bytes.size > SIZE_MAX_HERE / 2) return;
    fuzz_parts(bytes_of(zeros, take_u16(bytes, 0)), bytes_of(bytes.data + 6, bytes.size - 6),
               take_u16(bytes, 2), take_u16(bytes, 4));
}

static void fuzz_records(struct bytes raw)
{
    if (raw.size > ARCHIVE_FRAME_MAX) return;
    struct buf stored;
    buf_init(&stored, ARCHIVE_STORED_MAX);
    struct archive_packer *packer = archive_packer_new();
    archive_pack(packer, raw, &stored);
    archive_packer_free(packer);
    struct archive_frame frame = {
        .first = {BYTES("\x01"), 1},
        .last = {BYTES("\xff"), LAST},
        .arrived_min = INT64_MIN,
        .arrived_max = INT64_MAX,
        .stored_size = (uint32_t)stored.size,
        .raw_size = (uint32_t)raw.size,
        .records_count = 1,
        .checksum = hash_checksum(raw),
        .events = true,
        .duplicates = true,
    };
    struct buf index;
    buf_init(&index, 1000);
    archive_frame_encode(&index, &frame);
    fuzz_parts(buf_bytes(&stored), buf_bytes(&index), 1, 1);
    buf_release(&index);
    buf_release(&stored);
}

static void fuzz_packed(struct bytes bytes)
{
    if (bytes.size < 4) return;
    size_t raw_size = take_u16(bytes, 0), uuids = take_u16(bytes, 2);
    if (uuids > bytes.size - 4) return;
    struct bytes plain = bytes_of(bytes.data + 4 + uuids, bytes.size - 4 - uuids);
    size_t bound = ZSTD_compressBound(plain.size);
    char *stored = must_alloc(bound + uuids), *raw = must_alloc(raw_size + 1);
    size_t size = ZSTD_compress(stored, bound, plain.data, plain.size, 1);
    must(!ZSTD_isError(size));
    memcpy(stored + size, bytes.data + 4, uuids);
    struct archive_unpacker *unpacker = archive_unpacker_new();
    bool good = archive_unpack(unpacker, bytes_of(stored, size + uuids), raw, raw_size);
    must(!good || raw_size <= plain.size + uuids / 16 * 36);
    archive_unpacker_free(unpacker);
    free(raw);
    free(stored);
}

/* Only the middle file: what is before and after it must still be read. */
static void fuzz_damage(struct bytes bytes)
{
    struct archive_world world;
    world_init(&world, 5);
    must(world_open(&world) == ERR_OK);
    for (uint64_t last = 40; last <= 120; last += 40)
        must(world_run(&world, last) == ERR_OK);
    world_close(&world);
    const char *name = io_sim_name(world.sim, "events-", 1);
    uint64_t size;
    must(io_sim_content(world.sim, name, &size) != NULL);
    for (; bytes.size >= 5; bytes = bytes_of(bytes.data + 5, bytes.size - 5))
        io_sim_damage(world.sim, name, get_u32(bytes.data) % size, (unsigned char)bytes.data[4]);
    enum err e = world_open(&world);
    must(e == ERR_OK || e == ERR_CORRUPT);
    if (e == ERR_OK) {
        struct archive_check check = check_all(&world, BYTES_NONE);
        must(check_read(&check, world.archive, &e));
        must(e == ERR_OK || (e == ERR_CORRUPT && check.at <= 40));
        check = check_all(&world, BYTES_NONE);
        check.query.after = 80;
        must(check_read(&check, world.archive, &e) && e == ERR_OK);
    }
    world_release(&world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    if (!quiet) log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    quiet = true;
    if (size < 1) return 0;
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (data[0] == 'f') fuzz_file(rest);
    if (data[0] == 'i') fuzz_index(rest);
    if (data[0] == 'r') fuzz_records(rest);
    if (data[0] == 'p') fuzz_packed(rest);
    if (data[0] == 'd') fuzz_damage(rest);
    return 0;
}
