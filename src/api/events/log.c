/* log.c -- what events did, in metrics and in log lines (SPEC 10).
 *
 * A change of a counter is a line at debug. A duplicate is a line at info, so many a second at
 * most, for a producer that sends everything twice must not fill the disk. */
#include "api/counters/dims.h"
#include "api/events/events.h"
#include "base/log.h"
#include "base/metrics.h"
#include "core/name.h"

#define DUPLICATE_LINES_MAX 10 /* a second */

/* Adds the dimensions' canonical JSON, which ends the counter's key. */
static void add_dimension_key(struct buf *key, struct bytes counter_key)
{
    struct bytes tenant;
    struct bytes name;
    struct bytes dimensions;
    uint32_t generation;
    bool split = rule_key_split(counter_key, &tenant, &name, &generation, &dimensions);
    must(split);
    dims_add_key(key, dimensions);
}

static void log_set(const struct event *event, const struct change *change,
                    struct bytes counter_key)
{
    static const char *const results[] = {[CHANGE_APPLIED] = "APPLIED",
                                          [CHANGE_CLAMPED] = "CLAMPED",
                                          [CHANGE_IGNORED] = "IGNORED_TRANSITION"};
    char room[DIMS_KEY_SIZE];
    struct buf key = {.data = room, .capacity = sizeof room, .max = sizeof room};
    add_dimension_key(&key, counter_key);
    log_line(LOG_DEBUG, "counter change", LOG_KV("counterName", change->definition->name),
             LOG_KV("dimensionKey", buf_bytes(&key)), LOG_KV("eventId", event->id),
             LOG_KV("op", change->op == OP_DECREMENT ? "DEC" : "INC"),
             LOG_KV("result", results[change->result]));
}

/* A transition-safe decrement that counted did so under the sets its entity was switched on with,
 * which need not be the event's. */
static void log_change(const struct event *event, const struct change *change)
{
    const struct buf *told = change->entity ? change->entity->told : NULL;
    if (!told || told->failed || change->result == CHANGE_IGNORED) {
        for (uint32_t i = 0; i < change->targets_count; i++)
            log_set(event, change, change->targets[i].key);
        return;
    }
    for (struct reader reader = reader_of(buf_bytes(told)); reader_left(&reader) > 0;)
        log_set(event, change, read_sized(&reader));
}

/* A projection that replaced ours is gone by now, and with it what it changed. That happens to the
 * few events that were under way while the rules were reloaded. */
static void log_changes(const struct sent_event *sent)
{
    const struct projection *projection = sent->projection;
    if (!log_enabled(LOG_DEBUG) || sent->event.projection != projection) return;
    for (uint32_t i = 0; i < projection->changes_count; i++)
        log_change(&sent->event, &projection->changes[i]);
}

static void log_duplicate(const struct event *event, int64_t now_ms)
{
    static struct log_limit limit = {.lines_max = DUPLICATE_LINES_MAX};
    uint64_t left_out;
    if (!log_enabled(LOG_INFO) || !log_limit_pass(&limit, now_ms, &left_out)) return;
    log_line(LOG_INFO, "duplicate event", LOG_KV("eventId", event->id),
             LOG_KV("result", "DROPPED_DUPLICATE"), LOG_KV("conflict", (bool)event->conflict),
             LOG_KV("leftOut", left_out));
}

void events_count(const struct op *op, int64_t now_ms)
{
    if (op->err != ERR_OK) {
        metric_add(METRIC_EVENTS_REJECTED, 1);
        return;
    }
    const struct sent_event *sent = sent_event_of(op);
    if (sent->event.result == EVENT_DUPLICATE) {
        metric_add(METRIC_DUPLICATE_DROPPED, 1);
        log_duplicate(&sent->event, now_ms);
        return;
    }
    const struct projection *projection = sent->projection;
    metric_add(METRIC_EVENTS_APPLIED, 1);
    metric_add(METRIC_UPDATE_SUCCESS, sent->event.counters);
    if (projection->missing_dimension)
        metric_add(METRIC_SKIPPED_DIMENSION, projection->missing_dimension);
    if (projection->missing_entity) metric_add(METRIC_SKIPPED_ENTITY, projection->missing_entity);
    if (projection->bad_amount) metric_add(METRIC_SKIPPED_AMOUNT, projection->bad_amount);
    log_changes(sent);
}
