/* fuzz_shipment.c -- no bytes from a primary, or from somebody who claims to be one, make a follower
 * do anything but take them or refuse.
 *
 * The first byte of the input says what the rest is:
 *   's'  a shipment as it is
 *   'i'  blocks, shipped with running hashes that are right, and installed: for each u32 size of
 *        the body, u32 count, i64 time, u64 next series, then the body. One that begins as a body
 *        of format 4 has the hash before it put right, too.
 *   'r'  the same, and what was taken is the history of the store, which then opens again with it,
 *        is written back, and opens once more.
 *        Opening takes as long as hundreds of the others, so those go on with the same store. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/timefmt.h"
#include "replica/shipment.h"
#include "store/embedded/embedded.h"
#include "store/embedded/journal/block.h"
#include "support/scratch_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHIPMENT_MAX (1u << 20)
#define BLOCKS_MAX 8u
#define TEND_ROUNDS 100u
#define BODY_FORMAT 4
#define AT_BEFORE 1u

static struct scratch_dir dir;
static struct store *follower;

static void open_follower(void)
{
    struct reason why;
    const struct embedded_config config = {.dir = dir.path,
                                           .clock = &clock_system,
                                           .cache_bytes = 1u << 20,
                                           .segment_bytes = 64u << 10,
                                           .keep_bytes = 64u << 10,
                                           .spare_segments = 1,
                                           .checkpoint_ms = 1, /* once it is tended */
                                           .checkpoint_bytes = 1u << 30,
                                           .archive_ms = 1,
                                           .key_keep_ms = INT64_MAX / 4};
    must(embedded_open(&follower, &config, &why) == ERR_OK);
    embedded_set_following(follower);
}

static void leave_follower(void)
{
    store_close(follower);
    scratch_dir_release(&dir);
}

static void begin_follower(void)
{
    scratch_dir_init(&dir);
    open_follower();
}

static uint64_t touched; /* views are read to their ends */

static void fuzz_shipment(struct bytes bytes)
{
    struct shipment_head head;
    struct shipment_block came;
    struct reader reader;
    struct buf again;
    uint32_t format;
    enum err e = shipment_read(bytes, &head, &reader, &format);
    must(e == ERR_OK || e == ERR_CORRUPT || (e == ERR_INVALID && format != SHIPMENT_FORMAT));
    if (e != ERR_OK) return;
    must(moment_age(&head.moment, TIME_MS_MIN) >= 0 && moment_age(&head.moment, TIME_MS_MAX) >= 0);
    touched += (uint64_t)moment_sure(&head.moment);
    buf_init(&again, bytes.size + 1);
    shipment_begin(&again, &head);
    while ((e = shipment_next(&reader, &came)) == ERR_OK) {
        touched += hash_checksum(came.block.body);
        shipment_add(&again, &came.block, came.hash);
        must(!again.failed && memcmp(again.data, bytes.data, again.size) == 0);
    }
    must(e == ERR_CORRUPT || e == ERR_NOT_FOUND);
    must((e == ERR_NOT_FOUND) == (again.size == bytes.size));
    buf_release(&again);
}

/* How the blocks are shipped by somebody who knows how hashes are worked out. */
static void ship(struct buf *shipment, struct bytes bytes, struct store_position at)
{
    const struct shipment_head head = {.last = at.last_sequence};
    struct reader reader = reader_of(bytes);
    shipment_begin(shipment, &head);
    for (unsigned i = 0; i < BLOCKS_MAX && reader_left(&reader) > 0; i++) {
        uint32_t size = read_u32(&reader);
        struct journal_block block = {.first_sequence = at.last_sequence + 1,
                                      .count = read_u32(&reader),
                                      .time_ms = (int64_t)read_fixed64(&reader)};
        block.next_series = read_fixed64(&reader);
        if (size > reader_left(&reader)) size = (uint32_t)reader_left(&reader);
        struct bytes body = read_bytes(&reader, size);
        if (reader.failed) break;
        char *copy = must_alloc(size + 1);
        if (size) memcpy(copy, body.data, size);
        if (size >= AT_BEFORE + 8 && copy[0] == BODY_FORMAT) put_u64(copy + AT_BEFORE, at.hash);
        block.body = bytes_of(copy, size);
        at.hash = block_hash(at.hash, &block);
        at.last_sequence += block.count;
        shipment_add(shipment, &block, at.hash);
        free(copy);
    }
}

static void check_reopened(uint64_t last)
{
    store_close(follower);
    open_follower();
    must(embedded_position(follower).last_sequence == last);
    for (unsigned rounds = 0; store_tend(follower) && rounds < TEND_ROUNDS; rounds++)
        continue;
    store_close(follower);
    open_follower();
    must(embedded_position(follower).last_sequence == last);
    leave_follower();
    begin_follower();
}

static void fuzz_install(struct bytes bytes, bool reopen)
{
    struct shipment_head head;
    struct shipment_block came;
    struct journal_block blocks[BLOCKS_MAX];
    struct embedded_news news = {0};
    struct reader reader;
    struct buf shipment;
    uint32_t format;
    unsigned count = 0;
    const struct store_position before = embedded_position(follower);
    uint64_t last = before.last_sequence;
    buf_init(&shipment, SHIPMENT_MAX);
    ship(&shipment, bytes, before);
    if (!shipment.failed) {
        must(shipment_read(buf_bytes(&shipment), &head, &reader, &format) == ERR_OK);
        for (; shipment_next(&reader, &came) == ERR_OK; last += came.block.count)
            blocks[count++] = came.block;
        enum err e = embedded_install(follower, blocks, count, INT64_MIN, &news);
        must(e == ERR_OK || e == ERR_POSITION || e == ERR_CORRUPT);
        if (e != ERR_OK) last = before.last_sequence;
        must(embedded_position(follower).last_sequence == last);
        if (e == ERR_OK && count && reopen) check_reopened(last);
    }
    buf_release(&shipment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!follower) {
        log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
        begin_follower();
        atexit(leave_follower);
    }
    if (size == 0) return 0;
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (data[0] == 's') fuzz_shipment(rest);
    if (data[0] == 'i' || data[0] == 'r') fuzz_install(rest, data[0] == 'r');
    return 0;
}
