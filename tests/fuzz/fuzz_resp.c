/* fuzz_resp.c -- feeds bytes through the framing of Redis's protocol as a connection does, cut at
 * places the input chooses, and reads what was framed. What must hold for any bytes at all:
 *
 *     what is found whole, and the fault, do not depend on the cuts;
 *     nothing is read past the bytes that are here;
 *     as many commands are read as were framed, each with a name's place, inside the bytes.
 *
 * The first byte seeds the cuts, the rest is the stream. */
#include <stdint.h>
#include <stdlib.h>

#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct resp_limits limits = {
    .bytes_max = 2048, .arguments_max = 64, .commands_max = UINT32_MAX};

static enum fault frame(struct resp_frames *frames, struct bytes stream, size_t here)
{
    char *copy = must_alloc(here);
    if (here) memcpy(copy, stream.data, here);
    enum fault fault = resp_frame(frames, bytes_of(copy, here), &limits);
    free(copy);
    must(frames->at <= here && frames->whole <= frames->at);
    return fault;
}

static enum fault frame_cut(struct resp_frames *frames, struct bytes stream, uint64_t random)
{
    enum fault fault = FAULT_NONE;
    size_t here = 0;
    while (fault == FAULT_NONE && here < stream.size) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t more = 1 + (random >> 33) % ((random >> 60) ? 7 : 200);
        here = here + more < stream.size ? here + more : stream.size;
        fault = frame(frames, stream, here);
    }
    return fault;
}

static void check_command(const struct resp_command *command)
{
    static volatile char sum;
    must(command->count >= 1);
    for (uint32_t i = 0; i < command->count; i++)
        for (size_t at = 0; at < command->items[i].size; at++)
            sum = (char)(sum + command->items[i].data[at]);
}

static void read_all(struct bytes whole, unsigned count)
{
    struct arena arena;
    struct resp_command command;
    char *copy = must_alloc(whole.size);
    if (whole.size) memcpy(copy, whole.data, whole.size);
    struct resp_reader reader = {.rest = bytes_of(copy, whole.size)};
    arena_init(&arena, 256);
    unsigned found = 0;
    while (resp_next(&reader, &arena, &command)) {
        check_command(&command);
        found++;
    }
    must(found == count && reader.rest.size == 0);
    arena_release(&arena);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct bytes stream = bytes_of(data + 1, size - 1);
    struct resp_frames all = {0};
    enum fault fault = frame(&all, stream, stream.size);
    for (uint64_t round = 0; round < 3; round++) {
        struct resp_frames cut = {0};
        must(frame_cut(&cut, stream, ((uint64_t)data[0] << 8) + round + 1) == fault);
        must(cut.whole == all.whole && cut.commands == all.commands);
    }
    read_all(bytes_of(stream.data, all.whole), all.commands);
    return 0;
}
