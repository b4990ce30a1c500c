/* config.c -- puts the settings together: which value wins, what fits, what follows from what.
 *
 * Values come in the order default, file, environment, --set, flags; each later one replaces the
 * earlier. Then come the relations between settings. A limit that was left at its default gives way
 * to one that was set (a queue of 100 makes batches of at most 80), but two that were set and
 * contradict each other are refused: tally does not guess which one was meant. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "config/dsn.h"
#include "config/follow.h"
#include "config/origins.h"
#include "config/parts.h"
#include "config/reconcile.h"
#include "config/tzdata.h"

#define FILE_BYTES_MAX (1u << 20)
#define REPORT_BYTES_MAX (256u << 10)
#define SEGMENT_ALIGN 4096
#define POSTGRES_LANES 16
#define POSTGRES_BATCH_BYTES (4u << 20) /* events; what they change is as much again */

/* What one operation may take in a journal block at most: names, key and after-images, and the
 * counter's list of granularities. It is generous, because a batch that does not fit cannot be
 * written. */
#define OP_BLOCK_BYTES 2048
#define GRANULARITY_BLOCK_BYTES 24

void config_report_init(struct config_report *report)
{
    *report = (struct config_report){0};
    buf_init(&report->text, REPORT_BYTES_MAX);
    buf_add_char(&report->text, 0);
    report->text.size = 0;
}

void config_report_release(struct config_report *report)
{
    buf_release(&report->text);
}

bool config_errors_full(const struct config_load *load)
{
    return load->report->count >= CONFIG_ERRORS_MAX;
}

void config_error(struct config_load *load, const char *where, const char *format, ...)
{
    if (config_errors_full(load)) return;
    load->report->count++;
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    struct buf *text = &load->report->text;
    buf_addf(text, "%s%s%s\n", where, where[0] ? ": " : "", sentence);
    if (config_errors_full(load)) buf_addf(text, "(and perhaps more)\n");
}

void config_unknown(struct config_load *load, const char *where, struct bytes path)
{
    if (setting_is_rules(path)) {
        config_error(load, where, "%.*s can only be given in a config file", (int)path.size,
                     path.data);
        return;
    }
    char suggestion[SETTING_PATH_SIZE];
    const char *meant = setting_suggest(path, suggestion);
    int size = (int)(path.size < 200 ? path.size : 200);
    config_error(load, where, "unknown setting %.*s%s%s%s", size, path.data,
                 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

void config_set(struct config_load *load, const char *where, const struct setting *setting,
                struct bytes text)
{
    snprintf(load->where[setting - settings], CONFIG_WHERE_SIZE, "%s", where);
    if (setting_is_list(setting)) {
        if (bytes_equal(text, BYTES("*")))
            text = BYTES("\"*\""); /* or YAML takes it for an alias */
        if (setting->kind == SETTING_DATABASES && !bytes_starts(text, BYTES("["))) {
            config_databases_set(load, where, setting, text);
            return;
        }
        config_read_list(load, where, setting, text);
        return;
    }
    char error[SETTING_ERROR_SIZE];
    if (!setting_set(setting, load->config, text, error))
        config_error(load, where, "%s %s", setting->path, error);
}

static void set_defaults(struct config *config)
{
    *config = (struct config){.rules = rules_new()};
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        char error[SETTING_ERROR_SIZE];
        if (setting_is_list(&settings[i])) continue; /* a list is empty at first */
        must(setting_set(&settings[i], config, bytes_str(settings[i].initial), error));
    }
}

/* Sets a value from the environment or the command line, where even a default counts as chosen. */
static void override(struct config_load *load, const char *where, const struct setting *setting,
                     struct bytes text)
{
    load->given[setting - settings] = true;
    config_set(load, where, setting, text);
}

/* False, with an error added, if the file cannot be read whole. */
static bool read_file(struct config_load *load, const char *name, struct buf *text)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        char *at = buf_reserve(text, 4096);
        if (!at) break;
        got = read(fd, at, 4096);
        if (got > 0) text->size += (size_t)got;
        if (got < 0 && errno == EINTR) got = 1;
    }
    if (got < 0)
        config_error(load, name, "%s", strerror(errno));
    else if (text->failed)
        config_error(load, name, "larger than 1 MiB, which no config is");
    if (fd >= 0) close(fd);
    return got >= 0 && !text->failed;
}

static void load_file(struct config_load *load, const struct config_source *source)
{
    if (source->text.data) {
        config_read_yaml(load, source->file ? source->file : "config", source->text);
        return;
    }
    if (!source->file) return;
    struct buf text;
    buf_init(&text, FILE_BYTES_MAX);
    if (read_file(load, source->file, &text))
        config_read_yaml(load, source->file, text.data ? buf_bytes(&text) : BYTES(""));
    buf_release(&text);
}

/* limits.queueOps -> TALLY_LIMITS_QUEUEOPS */
static void environment_name(const struct setting *setting, char name_out[SETTING_PATH_SIZE + 8])
{
    int size = snprintf(name_out, SETTING_PATH_SIZE + 8, "TALLY_%s", setting->path);
    for (int i = 0; i < size; i++) {
        char c = name_out[i];
        if (c == '.') name_out[i] = '_';
        if (c >= 'a' && c <= 'z') name_out[i] = (char)(c - 'a' + 'A');
    }
}

/* Other TALLY_ variables are left alone: clients use some, and container platforms invent more. */
static void load_environment(struct config_load *load, const char *const *environment)
{
    for (; environment && *environment; environment++) {
        struct bytes value = bytes_str(*environment);
        struct bytes name = bytes_split(&value, '=');
        if (!value.data || !bytes_starts(name, BYTES("TALLY_"))) continue;
        for (unsigned i = 0; i < SETTING_COUNT; i++) {
            char wanted[SETTING_PATH_SIZE + 8];
            environment_name(&settings[i], wanted);
            if (bytes_equal(name, bytes_str(wanted))) override(load, wanted, &settings[i], value);
        }
    }
}

static void load_sets(struct config_load *load, const struct config_source *source)
{
    for (unsigned i = 0; i < source->sets_count; i++) {
        struct bytes value = bytes_str(source->sets[i]);
        struct bytes path = bytes_split(&value, '=');
        const struct setting *setting = setting_find(path);
        if (!value.data)
            config_error(load, "--set", "\"%.200s\" must have the form key=value", path.data);
        else if (!setting)
            config_unknown(load, "--set", path);
        else
            override(load, "--set", setting, value);
    }
}

static void load_flags(struct config_load *load, const struct config_source *source)
{
    const struct setting *listen = &settings[SETTING_ID_listen];
    const struct setting *data = &settings[SETTING_ID_data];
    if (source->listen) override(load, "--listen", listen, bytes_str(source->listen));
    if (source->data) override(load, "--data", data, bytes_str(source->data));
    if (source->follow)
        override(load, "--follow", &settings[SETTING_ID_follow_url], bytes_str(source->follow));
    if (source->fallback_secret && !load->config->auth_jwt_secret[0])
        override(load, "--dev", &settings[SETTING_ID_auth_jwt_secret],
                 bytes_str(source->fallback_secret));
    if (source->fallback_resp && !load->given[SETTING_ID_resp_listen])
        override(load, "--dev", &settings[SETTING_ID_resp_listen],
                 bytes_str(source->fallback_resp));
}

static int64_t share(int64_t whole)
{
    int64_t part = whole * 8 / 10;
    return part > 0 ? part : 1;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many operations' blocks fit half a segment with certainty; the other half is for events,
 * whose bytes are counted (config_batch_weight). */
static int64_t segment_ops(const struct config *config)
{
    if (config->store_kind == CONFIG_STORE_POSTGRES) return INT64_MAX; /* it has no segments */
    int64_t each = OP_BLOCK_BYTES + config->limits_counter_granularities * GRANULARITY_BLOCK_BYTES;
    return (config->journal_segment_bytes / 2 - SEGMENT_ALIGN) / each;
}

size_t config_batch_weight(const struct config *config)
{
    if (config->store_kind == CONFIG_STORE_POSTGRES) return POSTGRES_BATCH_BYTES;
    return (size_t)config->journal_segment_bytes / 2 - SEGMENT_ALIGN;
}

/* Works out what was left open, and lets defaults give way to what was set. */
static void derive(struct config_load *load)
{
    struct config *config = load->config;
    if (config->threads == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        config->threads = cores < 2 ? 1 : least(cores - 1, 256); /* commits have the other one */
    }
    if (config->store_lanes == 0)
        config->store_lanes = config->store_kind == CONFIG_STORE_POSTGRES ? POSTGRES_LANES : 1;
    if (config->limits_tenant_queue_ops == 0)
        config->limits_tenant_queue_ops = share(config->limits_queue_ops);
    if (config->limits_tenant_connections == 0)
        config->limits_tenant_connections = share(config->limits_connections);
    if (!load->given[SETTING_ID_limits_batch_ops]) {
        int64_t room = least(config->limits_queue_ops, config->limits_tenant_queue_ops);
        room = least(room, segment_ops(config));
        config->limits_batch_ops = least(config->limits_batch_ops, room < 1 ? 1 : room);
    }
    if (!load->given[SETTING_ID_limits_atomic_ops])
        config->limits_atomic_ops = least(config->limits_atomic_ops, config->limits_batch_ops);
}

/* The place where the one was set, or else the other. */
static const char *where_of(const struct config_load *load, unsigned setting, unsigned other)
{
    return load->where[setting][0] ? load->where[setting] : load->where[other];
}

static void check_order(struct config_load *load, unsigned small_id, unsigned large_id)
{
    int64_t small = setting_number(&settings[small_id], load->config);
    int64_t large = setting_number(&settings[large_id], load->config);
    if (small > large)
        config_error(load, where_of(load, small_id, large_id),
                     "%s (%" PRId64 ") must not be more than %s (%" PRId64 ")",
                     settings[small_id].path, small, settings[large_id].path, large);
}

static void check_segment(struct config_load *load)
{
    const struct config *config = load->config;
    bool has_segments = config->store_kind != CONFIG_STORE_POSTGRES;
    if (has_segments && config->journal_segment_bytes % SEGMENT_ALIGN)
        config_error(load, load->where[SETTING_ID_journal_segment_bytes],
                     "journal.segmentBytes (%" PRId64 ") must be a multiple of %d",
                     config->journal_segment_bytes, SEGMENT_ALIGN);
    if (config->limits_batch_ops <= segment_ops(config)) return;
    char size[SIZE_TEXT_SIZE];
    size_format(config->journal_segment_bytes, size);
    config_error(
        load, where_of(load, SETTING_ID_limits_batch_ops, SETTING_ID_journal_segment_bytes),
        "limits.batchOps (%" PRId64 ") is too many for one journal segment of %s with "
        "limits.counterGranularities (%" PRId64 "): at most %" PRId64
        ", or raise journal.segmentBytes",
        config->limits_batch_ops, size, config->limits_counter_granularities, segment_ops(config));
}

/* Each granularity of a rule counter is one of the durations a counter may be kept in. */
static void check_counters(struct config_load *load)
{
    const struct rules *rules = load->config->rules;
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        if (definition_cells(definition) > load->config->limits_counter_granularities)
            config_error(load, definition->where,
                         "counter %.*s is kept in %u durations, more than "
                         "limits.counterGranularities (%" PRId64 ")",
                         (int)definition->name.size, definition->name.data,
                         definition_cells(definition), load->config->limits_counter_granularities);
    }
}

/* An id that every tenant shares would have to be looked for in every lane. */
static void check_lanes(struct config_load *load)
{
    const struct config *config = load->config;
    if (config->store_lanes == 1 || config->events_id_scope != CONFIG_IDS_INSTALLATION) return;
    config_error(load, where_of(load, SETTING_ID_events_id_scope, SETTING_ID_store_lanes),
                 "events.idScope installation needs store.lanes 1, not %" PRId64,
                 config->store_lanes);
}

/* What is about files, where there are none. */
static void note_ignored(struct config_load *load)
{
    char *text = load->config->ignored;
    size_t size = 0;
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        struct bytes path = bytes_str(settings[i].path);
        bool of_files =
            bytes_starts(path, BYTES("journal.")) || bytes_starts(path, BYTES("checkpoint."));
        if (!of_files || !load->given[i]) continue;
        size += (size_t)snprintf(text + size, CONFIG_IGNORED_SIZE - size, "%s%s", size ? ", " : "",
                                 settings[i].path);
        must(size < CONFIG_IGNORED_SIZE);
    }
}

static void check_relations(struct config_load *load)
{
    const struct config *config = load->config;
    check_order(load, SETTING_ID_limits_tenant_queue_ops, SETTING_ID_limits_queue_ops);
    check_order(load, SETTING_ID_limits_batch_ops, SETTING_ID_limits_queue_ops);
    check_order(load, SETTING_ID_limits_batch_ops, SETTING_ID_limits_tenant_queue_ops);
    check_order(load, SETTING_ID_limits_atomic_ops, SETTING_ID_limits_batch_ops);
    check_order(load, SETTING_ID_limits_tenant_connections, SETTING_ID_limits_connections);
    check_segment(load);
    check_lanes(load);
    if (config->store_kind == CONFIG_STORE_POSTGRES) {
        config_check_postgres(load);
        note_ignored(load);
    }
    config_check_follow(load);
    check_counters(load);
    size_t secret_size = strlen(config->auth_jwt_secret);
    if (secret_size > 0 && secret_size < CONFIG_SECRET_SIZE_MIN)
        config_error(load, load->where[SETTING_ID_auth_jwt_secret],
                     "auth.jwtSecret must have %d bytes or more, not %zu", CONFIG_SECRET_SIZE_MIN,
                     secret_size);
}

enum err config_load(struct config *config_out, const struct config_source *source,
                     struct config_report *report)
{
    struct config_load load = {
        .config = config_out, .report = report, .environment = source->environment};
    tzdata_refresh();
    set_defaults(config_out);
    load_file(&load, source);
    load_environment(&load, source->environment);
    unsigned others = report->count;
    load_sets(&load, source);
    load_flags(&load, source);
    report->usage = others == 0 && report->count > 0;
    if (report->count == 0) {
        derive(&load);
        check_relations(&load);
    }
    if (report->count == 0) {
        rules_seal(config_out->rules);
        config_link_reconcile(&load);
    }
    return report->count ? ERR_INVALID : ERR_OK;
}

static void text_free(char *text, bool wipe)
{
    if (text && wipe) explicit_bzero(text, strlen(text));
    free(text);
}

void config_keys_release(struct config_keys *keys)
{
    for (unsigned i = 0; i < keys->count; i++)
        free(keys->items[i].tenant);
    free(keys->items);
    *keys = (struct config_keys){0};
}

void config_release(struct config *config)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        void *field = (char *)config + settings[i].offset;
        switch (settings[i].kind) {
        case SETTING_TEXT:
        case SETTING_LISTEN:
        case SETTING_SECRET:
            text_free(*(char **)field, settings[i].kind == SETTING_SECRET);
            break;
        case SETTING_KEYS:
            config_keys_release(field);
            break;
        case SETTING_ORIGINS:
            config_origins_release(field);
            break;
        case SETTING_DATABASES:
            config_databases_release(field);
            break;
        default: /* numbers own nothing */
            break;
        }
    }
    rules_release(config->rules);
    *config = (struct config){0};
}

bool config_has_auth(const struct config *config)
{
    return config->auth_jwt_secret[0] || config->auth_jwt_public_key_file[0] ||
           config->auth_keys.count > 0;
}
