/* event_id.c -- see the header. */
#include "core/event_id.h"

#include "base/codec.h"
#include "core/event.h"

#define OWNER_SIZE 8u
#define ORIGIN_SIZE 9u /* with the letter before it */

struct fingerprint event_id_print(const struct hash_secret *secret, bool shared,
                                  struct bytes tenant, struct bytes id)
{
    char text[2 + NAME_SIZE_MAX + EVENT_ID_SIZE_MAX];
    size_t size = 0;
    must(tenant.size <= NAME_SIZE_MAX && id.size <= EVENT_ID_SIZE_MAX);
    text[size++] = shared ? 'i' : 'e';
    if (!shared) {
        memcpy(text + size, tenant.data, tenant.size);
        size += tenant.size;
        text[size++] = 0;
    }
    memcpy(text + size, id.data, id.size);
    return fingerprint_of(secret, bytes_of(text, size + id.size));
}

struct bytes event_id_owner(struct arena *arena, const struct hash_secret *secret,
                            struct bytes tenant)
{
    char *owner = arena_alloc(arena, OWNER_SIZE);
    put_u64(owner, fingerprint_of(secret, tenant).low);
    return bytes_of(owner, OWNER_SIZE);
}

struct bytes event_id_note_encode(struct arena *arena, const struct event_id_note *note)
{
    must(note->owner.size == 0 || note->owner.size == OWNER_SIZE);
    if (note->origin == 0) return note->owner;
    char *bytes = arena_alloc(arena, ORIGIN_SIZE + OWNER_SIZE);
    bytes[0] = note->kept ? 'e' : 'i';
    put_u64(bytes + 1, note->origin);
    if (note->owner.size) memcpy(bytes + ORIGIN_SIZE, note->owner.data, note->owner.size);
    return bytes_of(bytes, ORIGIN_SIZE + note->owner.size);
}

bool event_id_note_decode(struct bytes bytes, struct event_id_note *note_out)
{
    *note_out = (struct event_id_note){.owner = bytes};
    if (bytes.size == 0 || bytes.size == OWNER_SIZE) return true;
    if (bytes.size != ORIGIN_SIZE && bytes.size != ORIGIN_SIZE + OWNER_SIZE) return false;
    note_out->origin = get_u64(bytes.data + 1);
    note_out->owner = bytes_of(bytes.data + ORIGIN_SIZE, bytes.size - ORIGIN_SIZE);
    note_out->kept = bytes.data[0] == 'e';
    return (note_out->kept || bytes.data[0] == 'i') && note_out->origin > 0;
}
