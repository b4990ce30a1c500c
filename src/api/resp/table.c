/* table.c -- the commands of commands.def, and how one is found by its name. */
#include "api/resp/resp.h"
#include "api/resp/train.h"

#define SLOTS 128u /* a power of two, some three times as many as there are commands */
#define NAME_BYTES_MAX 24u

enum { SCOPE_NONE = 0 };

const struct resp_entry resp_entries[] = {
#define RESP_COMMAND(id, name, arity, scope, flags, first, last, step, group, since, summary) \
    {name, arity, SCOPE_##scope, flags, first, last, step, group, since, summary, resp_##id},
#define STRANGER RESP_STRANGER
#define CUTS RESP_CUTS
#define CONTROLS RESP_CONTROLS
#define ALONE RESP_ALONE
#define SINGLE RESP_SINGLE
#define WRITES RESP_WRITES
#define READS RESP_READS
#define FAST RESP_FAST
#include "api/resp/commands.def"
#undef FAST
#undef READS
#undef WRITES
#undef ALONE
#undef SINGLE
#undef CONTROLS
#undef CUTS
#undef STRANGER
#undef RESP_COMMAND
};

#define COUNT ((unsigned)ARRAY_COUNT(resp_entries))
_Static_assert(ARRAY_COUNT(resp_entries) * 2 < SLOTS, "the table has room");

static const char *const names[] = {
#define RESP_COMMAND(id, name, ...) name,
#include "api/resp/commands.def"
#undef RESP_COMMAND
    "unknown",
};

static uint8_t slots[SLOTS]; /* entry + 1; 0: free */

unsigned resp_entries_count(void)
{
    return COUNT;
}

const char *const *resp_command_names(unsigned *count_out)
{
    *count_out = COUNT + 1;
    return names;
}

static unsigned slot_of(struct bytes name)
{
    uint32_t hash = (uint32_t)name.size;
    for (size_t i = 0; i < name.size; i++)
        hash = hash * 31 + ((unsigned char)name.data[i] & 0xdfu);
    return hash % SLOTS;
}

__attribute__((constructor)) static void fill_slots(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned slot = slot_of(bytes_str(resp_entries[i].name));
        while (slots[slot])
            slot = (slot + 1) % SLOTS;
        slots[slot] = (uint8_t)(i + 1);
    }
}

unsigned resp_find(struct bytes name)
{
    if (name.size > NAME_BYTES_MAX) return COUNT;
    for (unsigned slot = slot_of(name); slots[slot]; slot = (slot + 1) % SLOTS) {
        unsigned index = slots[slot] - 1u;
        if (bytes_equal_nocase(name, bytes_str(resp_entries[index].name))) return index;
    }
    return COUNT;
}
