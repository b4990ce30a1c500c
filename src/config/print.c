/* print.c -- settings and rules as YAML: what is in force, and the manual. */
#include <inttypes.h>

#include "base/duration.h"
#include "config/reconcile.h"
#include "core/zones.h"

static const char manual_head[] =
    "# tally.yaml -- every setting there is, with its default.\n"
    "#\n"
    "# A file need hold only what differs. Each setting can also be given on the command line\n"
    "# (--set limits.queueOps=1000) or in the environment (TALLY_LIMITS_QUEUEOPS=1000). Later ones\n"
    "# win: default, file, environment, --set, flags. Durations: 500ms, 30s, 5m, 1h, 30d. Sizes:\n"
    "# 4096, 64KiB, 16MiB, 1GiB, or in powers of 1000: kB, MB, GB.\n"
    "#\n"
    "# Check a file with `tally check-config FILE`. This text is what `tally help settings` prints.\n";

static const char manual_tail[] =
    "\n"
    "# What events count. `counters:` lists the counters that events keep, `statuses:` the status a\n"
    "# tenant gets by an event. None of them is on unless written; `[a, b]` and `- a` are the same to\n"
    "# YAML. Whole files to start from are in etc/examples.\n"
    "#\n"
    "# counters:\n"
    "#   - counterName: active_connections  # 1 to 255 of A-Z a-z 0-9 _ . ~ - :\n"
    "#     mode: persistent                 # for all time (the default), or windowed, or series\n"
    "#     dimensions: [accountId]          # a count for each value; payload.a.b looks inside\n"
    "#     rollups: [[]]                    # and further sets of them; [] is the whole tenant\n"
    "#     floorAtZero: true                # never below 0; false (the default) may be\n"
    "#     rules:                           # amount is 1, a number or where to find one\n"
    "#       - { on: account.connected, op: increment }\n"
    "#       - { on: account.closed, op: decrement, amount: payload.open, where: { kind: user } }\n"
    "#     idempotency: { requireEventId: true, scope: globalEventId }  # can be nothing else\n"
    "#     transition: { entity: [connectionId] }  # count only changes between on and off of one\n"
    "#     group: usage                     # read together: GET /api/usage/{tenantId}\n"
    "#     limit: 10000                     # what its health is measured against\n"
    "#   - counterName: requests_1h\n"
    "#     mode: windowed\n"
    "#     window: 1h                       # 1s to 366d, from the first event; then anew\n"
    "#     trailing: true                   # the true last hour as well\n"
    "#     rules: [{ on: request, op: increment }]\n"
    "#   - counterName: page_views\n"
    "#     mode: series                     # buckets in time, by occurredAt\n"
    "#     granularities: [0, 60, 86400]    # their lengths in seconds; 0 is one for all time\n"
    "#                                      # or { bucket: day|week|month|year, zone: Europe/Berlin }\n"
    "#     keep: 90d                        # how long after its end a bucket stays; else for ever\n"
    "#     dimensions: [page]\n"
    "#     rules: [{ on: page.viewed, op: increment }]\n"
    "#\n"
    "# statuses:\n"
    "#   Provisioned: active                # event type: status, 1 to 64 of the same characters\n"
    "#   Decommissioned: decommissioned\n"
    "#\n"
    "# Where the truth is, for counters that drift when records change behind them. Marked entities\n"
    "# are counted anew and what differs is put right.\n"
    "#\n"
    "# reconcile:\n"
    "#   - name: conversation_counters\n"
    "#     tenants: [app]                   # or all: the tenant's id is then the last parameter\n"
    "#     entity: [conversationId]         # a set of dimensions that each counter keeps\n"
    "#     source: { postgres: \"env:SOURCE_DSN\" }  # the primary; or { events: true }\n"
    "#     counters:                        # each persistent; from events: a list of names\n"
    "#       vote_count: SELECT count(*) FROM vote WHERE conversation_id = $1\n"
    "#     scanEvery: 2s                    # how often marked entities are looked for\n"
    "#     scanLimit: 20                    # how many at once, the oldest first\n"
    "#     minInterval: 20s                 # between two counts of one entity\n"
    "#     singleFlight: [{ below: 1000, every: 2s }, { below: 1000000, every: 8s }, { every: 28s }]\n"
    "#     sizeBy: vote_count               # which counter is an entity's size\n"
    "#     driftAlert: 50                   # differences from here on are logged as warnings\n"
    "#     statementTimeout: 10s            # of one query\n";

/* Writes "section:" where a new one starts, and the same of one within it, then the indented name of
 * the setting. `*section` is the one that the setting before was in. */
static void write_name(struct buf *buf, const struct setting *setting, struct bytes *section)
{
    const char *name = strrchr(setting->path, '.');
    struct bytes path = bytes_of(setting->path, name ? (size_t)(name - setting->path) : 0);
    struct bytes rest = path;
    int depth = 0;
    for (; rest.size > 0; depth++) {
        struct bytes part = bytes_split(&rest, '.');
        struct bytes whole = bytes_of(path.data, (size_t)(part.data + part.size - path.data));
        bool open = bytes_starts(*section, whole) &&
                    (section->size == whole.size || section->data[whole.size] == '.');
        if (!open) buf_addf(buf, "%*s%.*s:\n", 2 * depth, "", (int)part.size, part.data);
    }
    *section = path;
    buf_addf(buf, "%*s%s: ", 2 * depth, "", name ? name + 1 : setting->path);
}

/* YAML looks for the ':' of a short key within 1024 characters only; each byte may take six. */
#define SHORT_KEY_SIZE 160

static void write_pair(struct buf *buf, struct bytes key, struct bytes value)
{
    bool lengthy = key.size > SHORT_KEY_SIZE;
    if (lengthy) buf_add(buf, BYTES("? "));
    setting_show_text(buf, key);
    buf_add(buf, lengthy ? BYTES("\n  : ") : BYTES(": "));
    setting_show_text(buf, value);
}

static void write_set(struct buf *buf, const struct source *sources, unsigned count)
{
    buf_add_char(buf, '[');
    for (unsigned i = 0; i < count; i++) {
        if (i > 0) buf_add(buf, BYTES(", "));
        setting_show_text(buf, sources[i].name);
    }
    buf_add_char(buf, ']');
}

static void write_rule(struct buf *buf, const struct rule *rule)
{
    buf_add(buf, BYTES("      - { on: "));
    setting_show_text(buf, rule->on);
    buf_addf(buf, ", op: %s", rule->op == OP_INCREMENT ? "increment" : "decrement");
    if (rule->amount != 1) buf_add(buf, BYTES(", amount: "));
    if (rule->amount == 0)
        setting_show_text(buf, rule->amount_from.name);
    else if (rule->amount != 1)
        buf_add_i64(buf, rule->amount);
    if (rule->where_count > 0) buf_add(buf, BYTES(", where: { "));
    for (unsigned i = 0; i < rule->where_count; i++) {
        if (i > 0) buf_add(buf, BYTES(", "));
        write_pair(buf, rule->where[i].source.name, rule->where[i].value);
    }
    buf_add(buf, rule->where_count > 0 ? BYTES(" } }\n") : BYTES(" }\n"));
}

static void write_duration(struct buf *buf, const char *name, int64_t ms)
{
    char text[DURATION_TEXT_SIZE];
    duration_format(ms, text);
    buf_addf(buf, "    %s: %s\n", name, text);
}

static void write_granularity(struct buf *buf, int32_t granularity)
{
    struct calendar calendar;
    if (zones_calendar(zones_in_force(), granularity, &calendar))
        buf_addf(buf, "{ bucket: %s, zone: %s }", calendar_kind_name(calendar.kind), calendar.name);
    else
        buf_addf(buf, "%d", granularity);
}

/* Writes what only counters of its mode have. */
static void write_mode(struct buf *buf, const struct definition *definition)
{
    buf_addf(buf, "    mode: %s\n", counter_mode_names[definition->mode]);
    if (definition->mode == MODE_WINDOWED) {
        write_duration(buf, "window", definition->window_ms);
        buf_addf(buf, "    trailing: %s\n", definition->trailing ? "true" : "false");
    }
    if (definition->mode != MODE_SERIES) return;
    buf_add(buf, BYTES("    granularities: ["));
    for (unsigned i = 0; i < definition->granularities_count; i++) {
        if (i) buf_add(buf, BYTES(", "));
        write_granularity(buf, definition->granularities[i]);
    }
    buf_add(buf, BYTES("]\n"));
    if (definition->keep_ms) write_duration(buf, "keep", definition->keep_ms);
}

static void write_sets(struct buf *buf, const struct definition *definition)
{
    buf_add(buf, BYTES("    dimensions: "));
    write_set(buf, definition->sets[0].sources, definition->sets[0].count);
    buf_add(buf, BYTES("\n    rollups: ["));
    for (unsigned i = 1; i < definition->sets_count; i++) {
        if (i > 1) buf_add(buf, BYTES(", "));
        write_set(buf, definition->sets[i].sources, definition->sets[i].count);
    }
    buf_add(buf, BYTES("]\n"));
}

static void write_counter(struct buf *buf, const struct definition *definition)
{
    buf_add(buf, BYTES("  - counterName: "));
    setting_show_text(buf, definition->name);
    buf_add_char(buf, '\n');
    write_mode(buf, definition);
    write_sets(buf, definition);
    buf_addf(buf, "    floorAtZero: %s\n    rules:%s\n",
             definition->floor_at_zero ? "true" : "false", definition->rules_count ? "" : " []");
    for (unsigned i = 0; i < definition->rules_count; i++)
        write_rule(buf, &definition->rules[i]);
    if (definition->entity_count > 0) {
        buf_add(buf, BYTES("    transition: { entity: "));
        write_set(buf, definition->entity, definition->entity_count);
        buf_add(buf, BYTES(" }\n"));
    }
    if (definition->group.size > 0) {
        buf_add(buf, BYTES("    group: "));
        setting_show_text(buf, definition->group);
        buf_add_char(buf, '\n');
    }
    if (definition->limit != LIMIT_NONE)
        buf_addf(buf, "    limit: %" PRId64 "\n", definition->limit);
}

static void write_counters(struct buf *buf, const struct rules *rules)
{
    buf_add(buf, rules->definitions_count ? BYTES("counters:\n") : BYTES("counters: []\n"));
    for (unsigned i = 0; i < rules->definitions_count; i++)
        if (!rules->definitions[i].frozen) write_counter(buf, &rules->definitions[i]);
}

static void write_statuses(struct buf *buf, const struct rules *rules)
{
    buf_add(buf, rules->statuses_count ? BYTES("statuses:\n") : BYTES("statuses: {}\n"));
    for (unsigned i = 0; i < rules->statuses_count; i++) {
        buf_add(buf, BYTES("  "));
        write_pair(buf, rules->statuses[i].on, rules->statuses[i].status);
        buf_add_char(buf, '\n');
    }
}

void config_write(const struct config *config, struct buf *buf)
{
    struct bytes section = BYTES_NONE;
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        write_name(buf, &settings[i], &section);
        setting_show(&settings[i], config, buf);
        buf_add_char(buf, '\n');
    }
    if (!config->rules) return;
    config_write_rules(config, buf);
    config_write_reconcile(config, buf);
}

void config_write_rules(const struct config *config, struct buf *buf)
{
    write_counters(buf, config->rules);
    write_statuses(buf, config->rules);
}

static bool section_starts(unsigned index)
{
    struct bytes path = bytes_str(settings[index].path);
    struct bytes section = bytes_split(&path, '.');
    if (!path.data) return index == 0;
    return index == 0 || !bytes_starts(bytes_str(settings[index - 1].path), section);
}

static void write_default(struct buf *buf, const struct setting *setting)
{
    bool quoted = setting->kind == SETTING_TEXT || setting->kind == SETTING_SECRET ||
                  setting->kind == SETTING_LISTEN || setting->kind == SETTING_DATABASES;
    if (quoted)
        buf_add_json(buf, bytes_str(setting->standard));
    else
        buf_add(buf, bytes_str(setting->standard));
}

/* The comment stands in a column of its own after the value, as people write such files. */
#define COMMENT_COLUMN 34

void config_write_manual(struct buf *buf)
{
    struct bytes section = BYTES_NONE;
    buf_add(buf, bytes_str(manual_head));
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        if (section_starts(i)) buf_add_char(buf, '\n');
        struct buf line;
        buf_init(&line, 8192);
        write_name(&line, &settings[i], &section);
        write_default(&line, &settings[i]);
        const char *newline = memrchr(line.data, '\n', line.size);
        size_t column = line.size - (newline ? (size_t)(newline + 1 - line.data) : 0);
        buf_add(buf, buf_bytes(&line));
        buf_release(&line);
        int pad = column < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - column) : 1;
        buf_addf(buf, "%*s# %s\n", pad, "", settings[i].sentence);
    }
    buf_add(buf, bytes_str(manual_tail));
}
