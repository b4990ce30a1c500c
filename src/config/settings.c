/* settings.c -- one row a setting, one pair of functions a kind. */
#include "config/settings.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/listen.h"
#include "base/quantity.h"
#include "base/scope.h"
#include "base/size.h"

#define KiB (INT64_C(1) << 10)
#define MiB (INT64_C(1) << 20)
#define GiB (INT64_C(1) << 30)
#define TiB (INT64_C(1) << 40)
#define SECOND INT64_C(1000)
#define DAY (24 * 3600 * SECOND)

#ifdef TALLY_SMALL_WORLD
#define INITIAL(standard, small) small
#else
#define INITIAL(standard, small) standard
#endif

const struct setting settings[SETTING_COUNT] = {
#define SETTING(field, path, kind, least, most, standard, small, sentence) \
    {path, SETTING_##kind, offsetof(struct config, field), least,          \
     most, standard,       INITIAL(standard, small),       sentence},
#include "config/settings.def"
#undef SETTING
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const store_names[] = {"embedded", "memory", "postgres"};
static const char *const pooler_names[] = {"none", "session", "transaction"};
static const char *const id_scope_names[] = {"tenant", "installation"};
static const char *const unknown_names[] = {"refuse", "warn"};
_Static_assert(ARRAY_COUNT(level_names) == LOG_LEVEL_COUNT, "a name for each level");
_Static_assert(ARRAY_COUNT(store_names) == CONFIG_STORE_COUNT, "a name for each store");
_Static_assert(ARRAY_COUNT(pooler_names) == CONFIG_POOLER_COUNT, "a name for each pooler");
_Static_assert(ARRAY_COUNT(id_scope_names) == CONFIG_IDS_COUNT, "a name for each scope");
_Static_assert(ARRAY_COUNT(unknown_names) == CONFIG_UNKNOWN_COUNT, "a name for each way");

const struct setting *setting_find(struct bytes path)
{
    for (unsigned i = 0; i < SETTING_COUNT; i++)
        if (bytes_equal(path, bytes_str(settings[i].path))) return &settings[i];
    return NULL;
}

/* "limits" of "limits.queueOps"; empty for one without a section. */
static struct bytes section_of(const struct setting *setting)
{
    const char *dot = strchr(setting->path, '.');
    return dot ? bytes_of(setting->path, (size_t)(dot - setting->path)) : BYTES_NONE;
}

bool setting_is_section(struct bytes path)
{
    if (path.size == 0) return false;
    for (unsigned i = 0; i < SETTING_COUNT; i++)
        if (bytes_starts(bytes_str(settings[i].path), path) && settings[i].path[path.size] == '.')
            return true;
    return false;
}

static const char *const rules_names[] = {"counters", "statuses", "reconcile"};

bool setting_is_rules(struct bytes path)
{
    for (unsigned i = 0; i < ARRAY_COUNT(rules_names); i++)
        if (bytes_equal(path, bytes_str(rules_names[i]))) return true;
    return false;
}

/* Levenshtein's distance, letters compared without case: QUEUEOPS is a case error, not nine. Both
 * are shorter than SETTING_PATH_SIZE. */
static unsigned distance(struct bytes a, struct bytes b)
{
    unsigned row[SETTING_PATH_SIZE + 1];
    for (unsigned j = 0; j <= b.size; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a.size; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b.size; j++) {
            bool same =
                bytes_equal_nocase(bytes_of(a.data + i - 1, 1), bytes_of(b.data + j - 1, 1));
            unsigned best = diagonal + !same;
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.size];
}

#define CANDIDATES (2 * SETTING_COUNT + ARRAY_COUNT(rules_names))

/* Every path, every section and what else a file may hold; some are empty. */
static struct bytes candidate_at(unsigned index)
{
    if (index >= 2 * SETTING_COUNT) return bytes_str(rules_names[index - 2 * SETTING_COUNT]);
    const struct setting *setting = &settings[index / 2];
    return index % 2 ? section_of(setting) : bytes_str(setting->path);
}

const char *setting_suggest(struct bytes path, char suggestion_out[SETTING_PATH_SIZE])
{
    if (path.size >= SETTING_PATH_SIZE) return NULL;
    unsigned nearest = 4; /* further away it is a guess, not a help */
    if (path.size / 2 < nearest) nearest = (unsigned)path.size / 2 + 1;
    const char *found = NULL;
    for (unsigned i = 0; i < CANDIDATES; i++) {
        struct bytes candidate = candidate_at(i);
        if (candidate.size == 0) continue;
        unsigned far = distance(path, candidate);
        if (far >= nearest) continue;
        nearest = far;
        snprintf(suggestion_out, SETTING_PATH_SIZE, "%.*s", (int)candidate.size, candidate.data);
        found = suggestion_out;
    }
    return found;
}

static void *field_of(const struct setting *setting, struct config *config)
{
    return (char *)config + setting->offset;
}

int64_t setting_number(const struct setting *setting, const struct config *config)
{
    must(setting->kind == SETTING_INT || setting->kind == SETTING_SIZE ||
         setting->kind == SETTING_DURATION);
    return *(const int64_t *)((const char *)config + setting->offset);
}

/* A bound or a value in the words of its kind. */
static void number_format(enum setting_kind kind, int64_t value, char text_out[SIZE_TEXT_SIZE])
{
    _Static_assert(SIZE_TEXT_SIZE >= DURATION_TEXT_SIZE, "one buffer for either");
    if (kind == SETTING_SIZE)
        size_format(value, text_out);
    else if (kind == SETTING_DURATION)
        duration_format(value, text_out);
    else
        snprintf(text_out, SIZE_TEXT_SIZE, "%" PRId64, value);
}

static bool number_parse(enum setting_kind kind, struct bytes text, int64_t *value_out)
{
    if (kind == SETTING_SIZE) return size_parse(text, value_out);
    if (kind == SETTING_DURATION) return duration_parse(text, value_out);
    return quantity_digits(text, value_out);
}

static const char *number_hint(enum setting_kind kind)
{
    if (kind == SETTING_SIZE) return "a size such as 4096, 64KiB or 16MiB";
    if (kind == SETTING_DURATION) return "a duration such as 500ms, 30s, 5m, 1h or 30d";
    return "a whole number";
}

static bool set_number(const struct setting *setting, struct config *config, struct bytes text,
                       char *error_out)
{
    int64_t value;
    if (!number_parse(setting->kind, text, &value)) {
        snprintf(error_out, SETTING_ERROR_SIZE, "must be %s, not \"%.*s\"",
                 number_hint(setting->kind), (int)(text.size < 60 ? text.size : 60), text.data);
        return false;
    }
    if (value < setting->least || value > setting->most) {
        char least[SIZE_TEXT_SIZE], most[SIZE_TEXT_SIZE];
        number_format(setting->kind, setting->least, least);
        number_format(setting->kind, setting->most, most);
        snprintf(error_out, SETTING_ERROR_SIZE, "must be from %s to %s", least, most);
        return false;
    }
    *(int64_t *)field_of(setting, config) = value;
    return true;
}

static bool set_bool(const struct setting *setting, struct config *config, struct bytes text,
                     char *error_out)
{
    bool yes = bytes_equal(text, BYTES("true"));
    if (!yes && !bytes_equal(text, BYTES("false"))) {
        snprintf(error_out, SETTING_ERROR_SIZE, "must be true or false");
        return false;
    }
    *(bool *)field_of(setting, config) = yes;
    return true;
}

bool setting_text_is_plain(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f) return false;
    return true;
}

static bool set_text(const struct setting *setting, struct config *config, struct bytes text,
                     char *error_out)
{
    struct listen listen;
    const char *wrong = NULL;
    bool nowhere = setting->least == 0 && text.size == 0;
    if (setting->kind == SETTING_LISTEN && !nowhere && !listen_parse(text, &listen))
        wrong = "must be a numeric address and a port, such as 127.0.0.1:8787 or [::1]:8787";
    else if (setting->least > 0 && text.size == 0)
        wrong = "must not be empty";
    else if (!setting_text_is_plain(text))
        wrong = "must not contain line breaks or other control characters";
    if (wrong || text.size > (size_t)setting->most) {
        if (wrong)
            snprintf(error_out, SETTING_ERROR_SIZE, "%s", wrong);
        else
            snprintf(error_out, SETTING_ERROR_SIZE, "must not be longer than %" PRId64 " bytes",
                     setting->most);
        return false;
    }
    char **field = field_of(setting, config);
    free(*field);
    *field = strndup(text.size ? text.data : "", text.size);
    must(*field != NULL);
    return true;
}

/* Enums are stored through their compatible type. */
_Static_assert(sizeof(enum log_level) == sizeof(unsigned), "choices are unsigned");
_Static_assert(sizeof(enum config_store) == sizeof(unsigned), "choices are unsigned");
_Static_assert(sizeof(enum config_pooler) == sizeof(unsigned), "choices are unsigned");
_Static_assert(sizeof(enum config_id_scope) == sizeof(unsigned), "choices are unsigned");
_Static_assert(sizeof(enum config_unknown) == sizeof(unsigned), "choices are unsigned");

static const char *const *choices(enum setting_kind kind, unsigned *count_out)
{
    switch (kind) {
    case SETTING_LEVEL:
        *count_out = LOG_LEVEL_COUNT;
        return level_names;
    case SETTING_STORE:
        *count_out = CONFIG_STORE_COUNT;
        return store_names;
    case SETTING_POOLER:
        *count_out = CONFIG_POOLER_COUNT;
        return pooler_names;
    case SETTING_SCOPE:
        *count_out = CONFIG_IDS_COUNT;
        return id_scope_names;
    case SETTING_UNKNOWN:
        *count_out = CONFIG_UNKNOWN_COUNT;
        return unknown_names;
    default:
        unreachable_state(kind);
    }
}

static bool set_choice(const struct setting *setting, struct config *config, struct bytes text,
                       char *error_out)
{
    unsigned count;
    const char *const *names = choices(setting->kind, &count);
    for (unsigned i = 0; i < count; i++) {
        if (!bytes_equal(text, bytes_str(names[i]))) continue;
        *(unsigned *)field_of(setting, config) = i;
        return true;
    }
    int size = snprintf(error_out, SETTING_ERROR_SIZE, "must be one of");
    for (unsigned i = 0; i < count; i++)
        size += snprintf(error_out + size, SETTING_ERROR_SIZE - (size_t)size, "%s %s", i ? "," : "",
                         names[i]);
    return false;
}

bool setting_set(const struct setting *setting, struct config *config, struct bytes text,
                 char error_out[SETTING_ERROR_SIZE])
{
    switch (setting->kind) {
    case SETTING_INT:
    case SETTING_SIZE:
    case SETTING_DURATION:
        return set_number(setting, config, text, error_out);
    case SETTING_BOOL:
        return set_bool(setting, config, text, error_out);
    case SETTING_TEXT:
    case SETTING_SECRET:
    case SETTING_LISTEN:
        return set_text(setting, config, text, error_out);
    case SETTING_LEVEL:
    case SETTING_STORE:
    case SETTING_POOLER:
    case SETTING_SCOPE:
    case SETTING_UNKNOWN:
        return set_choice(setting, config, text, error_out);
    case SETTING_KEYS:
    case SETTING_ORIGINS:
    case SETTING_TYPES:
    case SETTING_DATABASES:
        break;
    }
    unreachable_state(setting->kind);
}

/* True: YAML takes these three bytes of UTF-8 for a line break, or for none of its characters. */
static bool wide_unprintable(unsigned code)
{
    return code == 0x2028 || code == 0x2029 || code == 0xfeff || code >= 0xfffe;
}

/* A JSON string is a YAML string but for the few characters that YAML wants escaped. */
void setting_show_text(struct buf *buf, struct bytes text)
{
    struct buf json;
    buf_init(&json, 6 * text.size + 2);
    buf_add_json(&json, text);
    must(!json.failed);
    const unsigned char *at = (const unsigned char *)json.data, *end = at + json.size;
    while (at < end) {
        /* What buf_add_json wrote is UTF-8, so a leading byte has all its others behind it. */
        unsigned size = at[0] < 0xc0 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
        unsigned code = at[0];
        if (size == 2) code = (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
        if (size == 3) code = (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
        if ((size < 3 && code >= 0x7f && code < 0xa0) || (size == 3 && wide_unprintable(code)))
            buf_addf(buf, "\\u%04x", code);
        else
            buf_add(buf, bytes_of(at, size));
        at += size;
    }
    buf_release(&json);
}

static void show_types(const struct rules *rules, struct buf *buf)
{
    if (!rules || !rules->types_closed) {
        buf_add_char(buf, '~');
        return;
    }
    buf_add_char(buf, '[');
    for (unsigned i = 0; i < rules->types_count; i++) {
        if (i > 0) buf_add(buf, BYTES(", "));
        setting_show_text(buf, rules->types[i]);
    }
    buf_add_char(buf, ']');
}

static void show_keys(const struct config_keys *keys, struct buf *buf)
{
    if (keys->count == 0) buf_add(buf, BYTES("[]"));
    for (unsigned i = 0; i < keys->count; i++) {
        const struct config_key *key = &keys->items[i];
        buf_add(buf, BYTES("\n    - { sha256: \""));
        for (unsigned j = 0; j < sizeof key->sha256; j++)
            buf_addf(buf, "%02x", key->sha256[j]);
        buf_addf(buf, "\", tenant: \"%s\", scope: \"%s\" }", key->tenant, scope_text(key->scopes));
    }
}

static void show_origins(const struct config_origins *origins, struct buf *buf)
{
    if (origins->any) {
        buf_add(buf, BYTES("\"*\""));
        return;
    }
    buf_add_char(buf, '[');
    for (unsigned i = 0; i < origins->count; i++) {
        if (i > 0) buf_add(buf, BYTES(", "));
        setting_show_text(buf, bytes_str(origins->items[i]));
    }
    buf_add_char(buf, ']');
}

static void show_databases(const struct config_databases *databases, struct buf *buf)
{
    if (databases->count < 2) {
        buf_add(buf, databases->count ? BYTES("\"(set)\"") : BYTES("\"\""));
        return;
    }
    for (unsigned i = 0; i < databases->count; i++)
        buf_add(buf, i ? BYTES(", \"(set)\"") : BYTES("[\"(set)\""));
    buf_add_char(buf, ']');
}

void setting_show(const struct setting *setting, const struct config *config, struct buf *buf)
{
    const void *field = (const char *)config + setting->offset;
    char number[SIZE_TEXT_SIZE];
    unsigned count;
    switch (setting->kind) {
    case SETTING_INT:
    case SETTING_SIZE:
    case SETTING_DURATION:
        number_format(setting->kind, *(const int64_t *)field, number);
        buf_add(buf, bytes_str(number));
        break;
    case SETTING_BOOL:
        buf_add(buf, *(const bool *)field ? BYTES("true") : BYTES("false"));
        break;
    case SETTING_TEXT:
    case SETTING_LISTEN:
        setting_show_text(buf, bytes_str(*(char *const *)field));
        break;
    case SETTING_SECRET:
        buf_add(buf, **(char *const *)field ? BYTES("\"(set)\"") : BYTES("\"\""));
        break;
    case SETTING_LEVEL:
    case SETTING_STORE:
    case SETTING_POOLER:
    case SETTING_SCOPE:
    case SETTING_UNKNOWN:
        buf_add(buf, bytes_str(choices(setting->kind, &count)[*(const unsigned *)field]));
        break;
    case SETTING_KEYS:
        show_keys(field, buf);
        break;
    case SETTING_ORIGINS:
        show_origins(field, buf);
        break;
    case SETTING_DATABASES:
        show_databases(field, buf);
        break;
    case SETTING_TYPES:
        show_types(config->rules, buf);
        break;
    }
}
