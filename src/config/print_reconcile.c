/* print_reconcile.c -- `reconcile:` as YAML: what was understood, without its secrets. */
#include <inttypes.h>

#include "base/duration.h"
#include "config/reconcile.h"
#include "core/reconcile.h"

static void write_list(struct buf *buf, const char *name, const struct bytes *items, unsigned count)
{
    buf_addf(buf, "    %s: [", name);
    for (unsigned i = 0; i < count; i++) {
        if (i > 0) buf_add(buf, BYTES(", "));
        setting_show_text(buf, items[i]);
    }
    buf_add(buf, BYTES("]\n"));
}

static void write_duration(struct buf *buf, const char *name, int64_t ms)
{
    char text[DURATION_TEXT_SIZE];
    duration_format(ms, text);
    buf_addf(buf, "    %s: %s\n", name, text);
}

static void write_source(struct buf *buf, const struct reconcile *reconcile)
{
    if (reconcile->truth == TRUTH_EVENTS) {
        buf_add(buf, BYTES("    source: { events: true }\n"));
        return;
    }
    buf_add(buf, BYTES("    source: { postgres: "));
    setting_show_text(buf, reconcile->dsn_shown.size ? reconcile->dsn_shown : BYTES("(set)"));
    buf_add(buf, BYTES(" }\n"));
}

static void write_counters(struct buf *buf, const struct reconcile *reconcile)
{
    bool events = reconcile->truth == TRUTH_EVENTS;
    buf_add(buf, BYTES("    counters:\n"));
    for (unsigned i = 0; i < reconcile->counters_count; i++) {
        buf_add(buf, events ? BYTES("      - ") : BYTES("      "));
        setting_show_text(buf, reconcile->counters[i].name);
        if (!events) {
            buf_add(buf, BYTES(": "));
            setting_show_text(buf, reconcile->counters[i].query);
        }
        buf_add_char(buf, '\n');
    }
}

static void write_tiers(struct buf *buf, const struct reconcile *reconcile)
{
    buf_add(buf, BYTES("    singleFlight: ["));
    for (unsigned i = 0; i < reconcile->tiers_count; i++) {
        const struct reconcile_tier *tier = &reconcile->tiers[i];
        char every[DURATION_TEXT_SIZE];
        duration_format(tier->every_ms, every);
        buf_add(buf, i ? BYTES(", { ") : BYTES("{ "));
        if (tier->below != INT64_MAX) buf_addf(buf, "below: %" PRId64 ", ", tier->below);
        buf_addf(buf, "every: %s }", every);
    }
    buf_add(buf, BYTES("]\n"));
}

static void write_entry(struct buf *buf, const struct reconcile *reconcile)
{
    buf_add(buf, BYTES("  - name: "));
    setting_show_text(buf, reconcile->name);
    buf_add_char(buf, '\n');
    if (reconcile->all_tenants)
        buf_add(buf, BYTES("    tenants: all\n"));
    else
        write_list(buf, "tenants", reconcile->tenants, reconcile->tenants_count);
    write_list(buf, "entity", reconcile->parameters, reconcile->entity.count);
    write_source(buf, reconcile);
    write_counters(buf, reconcile);
    write_duration(buf, "scanEvery", reconcile->scan_every_ms);
    buf_addf(buf, "    scanLimit: %" PRId64 "\n", reconcile->scan_limit);
    write_duration(buf, "minInterval", reconcile->min_interval_ms);
    write_tiers(buf, reconcile);
    if (reconcile->size_by >= 0) {
        buf_add(buf, BYTES("    sizeBy: "));
        setting_show_text(buf, reconcile->counters[reconcile->size_by].name);
        buf_add_char(buf, '\n');
    }
    buf_addf(buf, "    driftAlert: %" PRId64 "\n", reconcile->drift_alert);
    write_duration(buf, "statementTimeout", reconcile->statement_timeout_ms);
}

void config_write_reconcile(const struct config *config, struct buf *buf)
{
    const struct rules *rules = config->rules;
    buf_add(buf, rules->reconciles_count ? BYTES("reconcile:\n") : BYTES("reconcile: []\n"));
    for (unsigned i = 0; i < rules->reconciles_count; i++)
        write_entry(buf, &rules->reconciles[i]);
}
