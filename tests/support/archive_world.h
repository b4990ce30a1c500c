/* archive_world.h -- an archive on a simulated disk, with records that tell what they must be.
 *
 * Everything about a record follows from its sequence, so a reader is checked without a list of
 * what was written: each record must be the next one that the query asks for, to the last byte, and
 * at the end none may be left. Every seventh sequence is something else than an event. Ids are
 * UUIDs, almost UUIDs and others. */
#ifndef TALLY_TESTS_ARCHIVE_WORLD_H
#define TALLY_TESTS_ARCHIVE_WORLD_H

#include <stdio.h>

#include "base/hash.h"
#include "store/embedded/archive/archive.h"
#include "support/io_sim.h"

#define ARRIVED(sequence) (1000000 + 10 * (int64_t)(sequence))

struct archive_world {
    struct io_sim *sim;
    struct archive_config config;
    struct archive *archive;
    unsigned tenants;
    size_t payload_max;
    struct reason why;
};

struct archive_record {
    struct stored_event event;
    char tenant[32];
    char id[40];
    char dimensions[64];
    char payload[4096];
};

static inline void world_init(struct archive_world *world, unsigned tenants)
{
    *world = (struct archive_world){.sim = io_sim_new(), .tenants = tenants, .payload_max = 200};
    world->config =
        (struct archive_config){.dir = "archive", .io = io_sim_io(world->sim), .installation = 7};
}

static inline enum err world_open(struct archive_world *world)
{
    reason_clear(&world->why);
    return archive_open(&world->archive, &world->config, &world->why);
}

static inline void world_close(struct archive_world *world)
{
    archive_close(world->archive);
    world->archive = NULL;
}

static inline void world_release(struct archive_world *world)
{
    world_close(world);
    io_sim_free(world->sim);
}

static inline bool record_exists(uint64_t sequence)
{
    return sequence % 7 != 0;
}

static inline struct bytes record_tenant(const struct archive_world *world, uint64_t sequence,
                                         char text[32])
{
    snprintf(text, 32, "tenant-%u", (unsigned)(hash_mix(sequence) % world->tenants));
    return bytes_str(text);
}

static inline bool record_duplicate(uint64_t sequence)
{
    return sequence % 5 == 0;
}

static inline void record_id(uint64_t mix, char text[40])
{
    const char *form = "id-%llx";
    if (mix % 3 == 0) form = "%08llx-89ab-cdef-0123-456789abcdef";
    if (mix % 11 == 0) form = "%08llX-89AB-cdef-0123-456789abcdef";
    if (mix % 13 == 0) form = "%08llx-89ab-cdef-0123_456789abcdef";
    snprintf(text, 40, form, (unsigned long long)(mix >> 32));
}

static inline void record_make(const struct archive_world *world, uint64_t sequence,
                               struct archive_record *record)
{
    uint64_t mix = hash_mix(sequence + 1);
    record_id(mix, record->id);
    snprintf(record->dimensions, sizeof record->dimensions, "{\"a\":\"%u\"}", (unsigned)mix % 100);
    size_t payload = (size_t)(mix % (world->payload_max + 1));
    for (size_t i = 0; i < payload; i++)
        record->payload[i] = (char)('a' + ((mix >> i % 61) & 15));
    record->event = (struct stored_event){
        .sequence = sequence,
        .arrived_ms = ARRIVED(sequence),
        .tenant = record_tenant(world, sequence, record->tenant),
        .id = bytes_str(record->id),
        .type = mix % 2 ? BYTES("Created") : BYTES("Deleted"),
        .occurred_ms = ARRIVED(sequence) - (int64_t)(mix % 100000),
        .dimensions_json = bytes_str(record->dimensions),
        .payload = bytes_of(record->payload, payload),
        .duplicate = record_duplicate(sequence),
    };
    if (!record->event.duplicate) return;
    record->event.first_sequence = sequence - 1;
    record->event.first_seen_ms = ARRIVED(sequence - 1);
}

static inline bool record_equal(const struct stored_event *a, const struct stored_event *b)
{
    return a->sequence == b->sequence && a->arrived_ms == b->arrived_ms &&
           bytes_equal(a->tenant, b->tenant) && bytes_equal(a->id, b->id) &&
           bytes_equal(a->type, b->type) && a->occurred_ms == b->occurred_ms &&
           bytes_equal(a->dimensions_json, b->dimensions_json) &&
           bytes_equal(a->payload, b->payload) && a->duplicate == b->duplicate &&
           (!a->duplicate ||
            (a->first_sequence == b->first_sequence && a->first_seen_ms == b->first_seen_ms));
}

/* Adds what there is from `first` to `last`. */
static inline void world_add(struct archive_world *world, uint64_t first, uint64_t last)
{
    static struct archive_record record;
    for (uint64_t sequence = first; sequence <= last; sequence++) {
        if (!record_exists(sequence)) continue;
        record_make(world, sequence, &record);
        must(archive_add(world->archive, &record.event) > 0);
    }
}

static inline enum err world_run(struct archive_world *world, uint64_t last)
{
    world_add(world, archive_last(world->archive) + 1, last);
    return archive_seal(world->archive, last);
}

/* A reader that knows what is to come. */
struct archive_check {
    const struct archive_world *world;
    struct event_query query;
    uint64_t at;    /* everything up to here was checked */
    uint64_t count; /* of records */
    uint64_t calls;
    uint64_t stop_every; /* the visitor stops after as many; 0: never */
    bool wrong;
};

static inline bool check_wants(const struct archive_check *check, uint64_t sequence)
{
    char text[32];
    const struct event_query *query = &check->query;
    if (!record_exists(sequence) || ARRIVED(sequence) < query->arrived_from) return false;
    if (!(record_duplicate(sequence) ? query->duplicates : query->events)) return false;
    return query->tenant.size == 0 ||
           bytes_equal(query->tenant, record_tenant(check->world, sequence, text));
}

static inline void check_pass(struct archive_check *check, uint64_t upto)
{
    while (check->at < upto)
        if (check_wants(check, ++check->at)) check->wrong = true; /* left out */
}

static inline bool check_visit(void *context, const struct stored_event *event)
{
    static struct archive_record record;
    struct archive_check *check = context;
    if (event->sequence <= check->at || event->sequence > check->query.upto) {
        check->wrong = true;
        return false;
    }
    check_pass(check, event->sequence - 1);
    record_make(check->world, event->sequence, &record);
    check->wrong |= !check_wants(check, event->sequence) || !record_equal(event, &record.event);
    check->at = event->sequence;
    check->count++;
    return check->stop_every == 0 || check->count % check->stop_every != 0;
}

/* Reads to the end in as many calls as it takes. False: something came that should not have, or did
 * not come. `at` says how far it got if the archive answered an error. */
static inline bool check_read(struct archive_check *check, struct archive *archive, enum err *e_out)
{
    uint64_t next = check->at = check->query.after;
    do {
        check->query.after = next;
        *e_out = archive_read(archive, &check->query, check_visit, check, &next);
        check->calls++;
        if (*e_out != ERR_OK || check->wrong) return !check->wrong;
        if (next != 0 && next <= check->query.after) return false; /* no progress */
        if (next != 0) check_pass(check, next);
    } while (next != 0);
    uint64_t last = archive_last(archive);
    check_pass(check, check->query.upto < last ? check->query.upto : last);
    return !check->wrong;
}

static inline struct archive_check check_all(const struct archive_world *world, struct bytes tenant)
{
    return (struct archive_check){.world = world,
                                  .query = {.tenant = tenant,
                                            .upto = UINT64_MAX,
                                            .events = true,
                                            .duplicates = true,
                                            .budget = SIZE_MAX}};
}

#endif
