/* import_history.c -- see the header. */
#include "jobs/import_history.h"

#include <stdio.h>

#include "core/event_id.h"
#include "core/object.h"

#define LOOK_BYTES (8u << 20)
#define EVENT_WEIGHT 96u /* what an event weighs beyond its texts: numbers, its id, its note */

/* -- How much was taken ------------------------------------------------------------------------ */

/* The object's key: whose history. */
static struct bytes taken_key(const struct import_lane *lane, struct arena *arena)
{
    char name[64];
    snprintf(name, sizeof name, META_IMPORTED_FORMAT, (unsigned long long)lane->history.from);
    return object_key(arena, OBJECT_META, bytes_str(name));
}

static struct bytes taken_bytes(const struct import_lane *lane, struct arena *arena,
                                const uint64_t *sequences)
{
    char *bytes = arena_alloc(arena, lane->history.count * sizeof *sequences);
    for (unsigned i = 0; i < lane->history.count; i++)
        put_u64(bytes + i * sizeof *sequences, sequences[i]);
    return bytes_of(bytes, lane->history.count * sizeof *sequences);
}

static enum err read_taken(struct import_lane *lane, struct arena *arena)
{
    struct import_history *history = &lane->history;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&lane->with->store->view, taken_key(lane, arena), &value);
    history->stored = e == ERR_OK;
    if (e == ERR_OK && value.size != history->count * sizeof *history->taken) e = ERR_CORRUPT;
    for (unsigned i = 0; i < history->count && e == ERR_OK; i++)
        history->taken[i] = get_u64(value.data + i * sizeof *history->taken);
    buf_release(&value);
    if (e == ERR_STORAGE) return ERR_BUSY;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* -- Whether the lane can take history --------------------------------------------------------- */

bool import_history_has_more(const struct importer *importer, const struct import_lane *lane)
{
    const struct port_record *header = importer_header(importer);
    if (!lane->history.taken) return false;
    for (unsigned i = 0; i < header->lanes_count; i++)
        if (header->lanes[i].sequence > lane->history.taken[i]) return true;
    return false;
}

static bool find_own(void *context, const struct stored_event *event)
{
    bool *found = context;
    *found = event->origin == 0;
    return !*found;
}

static enum err has_own_events(const struct import_lane *lane, bool *found_out)
{
    struct event_query query = {
        .upto = UINT64_MAX, .arrived_from = INT64_MIN, .events = true, .budget = LOOK_BYTES};
    enum err e;
    *found_out = false;
    do
        e = view_events(&lane->with->store->view, &query, find_own, found_out, &query.after);
    while (e == ERR_OK && !*found_out && query.after > 0);
    return e == ERR_STORAGE ? ERR_BUSY : e;
}

/* What came while an import was under way does not end it. */
static enum err check_order(const struct import_lane *lane, struct reason *why)
{
    bool found;
    if (lane->position > 0) return ERR_OK;
    enum err e = has_own_events(lane, &found);
    if (e != ERR_OK || !found) return e;
    return reason_err(why, ERR_CONFLICT,
                      "lane %u has events of its own, and the events of an export can only come "
                      "before the first of them",
                      lane->index);
}

static enum err check_numbers(const struct import_lane *lane, const struct port_record *header,
                              struct reason *why)
{
    struct store_stats stats;
    uint64_t highest = port_highest(header);
    store_stats(lane->with->store, &stats);
    if (stats.durable_sequence >= highest) return ERR_OK;
    return reason_err(why, ERR_CONFLICT,
                      "the events in this export have ids up to %llu, and lane %u gives out those "
                      "after %llu; `tally import NAME --prepare` makes an empty %s that begins "
                      "above them",
                      (unsigned long long)highest, lane->index,
                      (unsigned long long)stats.durable_sequence,
                      lane->with->store->remote ? "schema" : "data directory");
}

enum err import_history_open(const struct importer *importer, struct import_lane *lane,
                             struct arena *arena, struct reason *why_out)
{
    const struct port_record *header = importer_header(importer);
    size_t size = header->lanes_count * sizeof(uint64_t);
    lane->history =
        (struct import_history){.from = header->installation,
                                .count = header->lanes_count,
                                .own = header->installation == lane->with->store->installation};
    if (!header->events || lane->history.own) return ERR_OK;
    lane->history.taken = arena_zalloc(arena, size);
    lane->history.taking = arena_zalloc(arena, size);
    enum err e = read_taken(lane, arena);
    if (e != ERR_OK || !import_history_has_more(importer, lane)) return e;
    e = check_numbers(lane, header, why_out);
    return e == ERR_OK ? check_order(lane, why_out) : e;
}

/* -- Lines ------------------------------------------------------------------------------------- */

bool import_history_wants(const struct import_lane *lane, const struct port_record *record)
{
    const struct import_history *history = &lane->history;
    if (history->own) return record->kind == PORT_EVENT;
    return record->event.sequence > history->taken[record->lane];
}

static struct event *event_of(struct arena *arena, const struct stored_event *stored)
{
    struct event *event = arena_alloc(arena, sizeof *event);
    *event = (struct event){.id = stored->id,
                            .type = stored->type,
                            .occurred_ms = stored->occurred_ms,
                            .dimensions_json = stored->dimensions_json,
                            .payload = stored->payload,
                            .origin = stored->origin,
                            .arrived_ms = stored->arrived_ms,
                            .result = stored->duplicate ? EVENT_DUPLICATE : EVENT_APPLIED,
                            .foreign = stored->duplicate && stored->first_sequence == 0,
                            .first_sequence = stored->first_sequence,
                            .first_seen_ms = stored->first_seen_ms};
    event->digest = event_digest(event);
    return event;
}

static struct op id_op(const struct import_lane *lane, struct arena *arena, const struct op *op)
{
    struct key_record *record = arena_alloc(arena, sizeof *record);
    *record = (struct key_record){.sequence = op->event->origin,
                                  .first_seen_ms = op->event->arrived_ms,
                                  .digest = op->event->digest,
                                  .event = true,
                                  .exists = true};
    if (lane->ids_shared)
        record->outcome = event_id_owner(arena, &lane->with->store->secret, op->tenant);
    return (struct op){
        .kind = OP_IMPORT_ID, .key = op->key, .imported_id = record, .weight = EVENT_WEIGHT};
}

struct op import_history_op(const struct import_lane *lane, struct arena *arena,
                            const struct port_record *record)
{
    const struct stored_event *stored = &record->event;
    struct op op = {
        .kind = OP_IMPORT_EVENT,
        .tenant = stored->tenant,
        .event = event_of(arena, stored),
        .key = event_id_print(&lane->with->store->secret, lane->ids_shared, stored->tenant,
                              stored->id),
        .weight = stored->tenant.size + stored->id.size + stored->type.size +
                  stored->dimensions_json.size + stored->payload.size + EVENT_WEIGHT,
    };
    return lane->history.own ? id_op(lane, arena, &op) : op;
}

void import_history_begin(const struct import_lane *lane)
{
    const struct import_history *history = &lane->history;
    if (history->taken) memcpy(history->taking, history->taken, history->count * sizeof(uint64_t));
}

void import_history_take(const struct import_lane *lane, const struct port_record *record)
{
    if (lane->history.taken) lane->history.taking[record->lane] = record->event.sequence;
}

void import_history_take_all(const struct importer *importer, const struct import_lane *lane)
{
    const struct port_record *header = importer_header(importer);
    import_history_begin(lane);
    for (unsigned i = 0; i < header->lanes_count; i++)
        if (header->lanes[i].sequence > lane->history.taken[i])
            lane->history.taking[i] = header->lanes[i].sequence;
}

struct op import_history_mark(const struct import_lane *lane, struct arena *arena)
{
    const struct import_history *history = &lane->history;
    return propose_object_if(arena, &lane->with->store->secret, taken_key(lane, arena),
                             history->stored ? taken_bytes(lane, arena, history->taken)
                                             : BYTES_NONE,
                             taken_bytes(lane, arena, history->taking));
}

void import_history_taken(struct import_lane *lane)
{
    struct import_history *history = &lane->history;
    if (!history->taken) return;
    history->stored = true;
    memcpy(history->taken, history->taking, history->count * sizeof(uint64_t));
}
