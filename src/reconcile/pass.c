/* pass.c -- begin, count, settle; then report what was found. */
#include "reconcile/pass.h"

#include <stdio.h>

#include "base/log.h"
#include "base/metrics.h"

#define WHY_MAX 4096
#define SHOWN_MAX (64u << 10)

static void log_failure(const struct entity *entity, enum err e, struct buf *why)
{
    struct buf shown;
    buf_init(&shown, SHOWN_MAX);
    entity_show(&shown, entity);
    metric_add(METRIC_RECONCILE_SOURCE_FAILURES, 1);
    log_line(LOG_ERROR, "reconcile: an entity could not be counted",
             LOG_KV("reconcile", entity->reconcile->name), LOG_KV("tenant", entity->query.tenant),
             LOG_KV("entity", buf_bytes(&shown)), LOG_KV("code", err_code(e)),
             LOG_KV("why", buf_bytes(why)));
    buf_release(&shown);
}

enum err pass_count(struct entity *entity, struct truth *truth)
{
    struct buf why;
    buf_init(&why, WHY_MAX);
    enum err e = truth->ops->count(truth, &entity->query, entity->counts, &why);
    if (e == ERR_SOURCE_DOWN || e == ERR_SOURCE_ANSWER || e == ERR_HISTORY)
        log_failure(entity, e, &why);
    for (uint32_t i = 0; i < entity->change.adjustments_count && e == ERR_OK; i++) {
        must(entity->counts[i] >= 0);
        entity->change.adjustments[i].truth = entity->counts[i];
    }
    buf_release(&why);
    return e;
}

static void log_fix(const struct entity *entity, uint64_t drift)
{
    struct buf msg, before, after, difference;
    buf_init(&msg, SHOWN_MAX);
    buf_init(&before, SHOWN_MAX);
    buf_init(&after, SHOWN_MAX);
    buf_init(&difference, SHOWN_MAX);
    buf_addf(&msg, "[Counter Reconciliation] Fixing counters for %.*s ",
             (int)entity->reconcile->name.size, entity->reconcile->name.data);
    entity_show(&msg, entity);
    buf_add_char(&msg, '\0');
    entity_write(&before, entity, ENTITY_BEFORE);
    entity_write(&after, entity, ENTITY_AFTER);
    entity_write(&difference, entity, ENTITY_DIFFERENCE);
    bool alert =
        entity->reconcile->drift_alert > 0 && drift >= (uint64_t)entity->reconcile->drift_alert;
    if (alert) metric_add(METRIC_RECONCILE_ALERTS, 1);
    log_line(alert ? LOG_WARN : LOG_INFO,
             msg.failed ? "[Counter Reconciliation] Fixing counters" : msg.data,
             log_json("before", buf_bytes(&before)), log_json("after", buf_bytes(&after)),
             log_json("diff", buf_bytes(&difference)), LOG_KV("tenant", entity->query.tenant),
             LOG_KV("alert", alert));
    buf_release(&msg);
    buf_release(&before);
    buf_release(&after);
    buf_release(&difference);
}

static void tell(const struct entity *entity)
{
    uint64_t drift = entity_drift(entity);
    metric_add(drift ? METRIC_RECONCILE_FIXED : METRIC_RECONCILE_CLEAN, 1);
    if (drift == 0) return;
    metric_add(METRIC_RECONCILE_DRIFT, entity_drift_sum(entity));
    log_fix(entity, drift);
}

enum err pass_run(struct entity *entity, struct truth *truth)
{
    enum err e = entity_begin(entity);
    if (e == ERR_OK) e = pass_count(entity, truth);
    if (e == ERR_OK) e = entity_settle(entity);
    if (e == ERR_OK)
        tell(entity);
    else
        metric_add(METRIC_RECONCILE_FAILED, 1);
    return e;
}
