/* config.h -- what tally was told to do: defaults, file, environment, --set and flags in one
 * struct.
 *
 * Each setting is a line of settings.def, its field below has the same name. Durations are in
 * milliseconds, sizes in bytes. A loaded config is complete and consistent: bounds and relations
 * between settings have been checked, and values that mean "work it out" (threads 0, the tenants'
 * shares 0) hold what was worked out. The config holds one reference to its `rules`.
 *
 * Example:
 *
 *     static bool config_is_good(const struct config_source *source)
 *     {
 *         struct config config;
 *         struct config_report report;
 *         config_report_init(&report);
 *         enum err e = config_load(&config, source, &report);
 *         if (e != ERR_OK) fputs(report.text.data, stderr);
 *         config_report_release(&report);
 *         config_release(&config);
 *         return e == ERR_OK;
 *     }
 */
#ifndef TALLY_CONFIG_CONFIG_H
#define TALLY_CONFIG_CONFIG_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "core/rules.h"

#define CONFIG_SECRET_SIZE_MIN 32
#define CONFIG_ERRORS_MAX 20 /* errors listed; further ones are not looked for */

enum config_store {
    CONFIG_STORE_EMBEDDED,
    CONFIG_STORE_MEMORY,
    CONFIG_STORE_POSTGRES,
    CONFIG_STORE_COUNT
};
enum config_pooler {
    CONFIG_POOLER_NONE,
    CONFIG_POOLER_SESSION,
    CONFIG_POOLER_TRANSACTION,
    CONFIG_POOLER_COUNT
};
enum config_id_scope { CONFIG_IDS_TENANT, CONFIG_IDS_INSTALLATION, CONFIG_IDS_COUNT };
enum config_unknown { CONFIG_UNKNOWN_REFUSE, CONFIG_UNKNOWN_WARN, CONFIG_UNKNOWN_COUNT };

struct config_key {
    unsigned char sha256[32]; /* the API key's */
    char *tenant;
    unsigned scopes; /* bits of enum scope */
};

struct config_keys {
    struct config_key *items;
    unsigned count;
};

/* Without any origin no other site may read. */
struct config_origins {
    bool any; /* `*` */
    char **items;
    unsigned count;
};

/* Connection strings, with what `env:NAME` stood for in its place. */
struct config_databases {
    char **items;
    unsigned count;
};

/* The C type of each kind in settings.def. */
#define SETTING_TYPE_INT int64_t
#define SETTING_TYPE_SIZE int64_t
#define SETTING_TYPE_DURATION int64_t
#define SETTING_TYPE_BOOL bool
#define SETTING_TYPE_TEXT char *
#define SETTING_TYPE_SECRET char *
#define SETTING_TYPE_LISTEN char *
#define SETTING_TYPE_LEVEL enum log_level
#define SETTING_TYPE_STORE enum config_store
#define SETTING_TYPE_POOLER enum config_pooler
#define SETTING_TYPE_SCOPE enum config_id_scope
#define SETTING_TYPE_UNKNOWN enum config_unknown
#define SETTING_TYPE_KEYS struct config_keys
#define SETTING_TYPE_ORIGINS struct config_origins
#define SETTING_TYPE_DATABASES struct config_databases
#define SETTING_TYPE_TYPES bool /* there is a list; it is in `rules` */

#define CONFIG_IGNORED_SIZE 256

struct config {
#define SETTING(field, path, kind, ...) SETTING_TYPE_##kind field;
#include "config/settings.def"
#undef SETTING
    struct rules *rules; /* counters, statuses and events.types; sealed; never NULL once loaded */
    char ignored[CONFIG_IGNORED_SIZE]; /* settings that were given and have no meaning for this kind
                                        * of store: "journal.keep, checkpoint.every"; or "" */
};

/* Where the values come from; later ones win: defaults, file, environment, sets, flags. Nothing is
 * copied: the daemon keeps the source to load again at SIGHUP. */
struct config_source {
    const char *file;               /* NULL: none */
    struct bytes text;              /* instead of reading `file`, which then only names it */
    const char *const *environment; /* "NAME=value", ended by NULL; NULL: none */
    const char *const *sets;        /* "a.b=c" */
    unsigned sets_count;
    const char *listen;          /* flags; NULL: not given */
    const char *data;            /* as `listen` */
    const char *follow;          /* as `listen` */
    const char *fallback_secret; /* taken as auth.jwtSecret if there is none: --dev */
    const char *fallback_resp;   /* the same of resp.listen, unless it was set */
};

/* What was wrong, one line each: "etc/x.yaml:12:3: unknown setting ...". */
struct config_report {
    struct buf text; /* with a NUL after it; empty if all is well */
    unsigned count;
    bool usage; /* what is wrong is the command line: an option that says nothing valid by itself */
};

void config_report_init(struct config_report *report);
void config_report_release(struct config_report *report);

/* Always leaves a config to release; on ERR_INVALID it is not to be used otherwise and `report`
 * says why. */
MUST_USE enum err config_load(struct config *config_out, const struct config_source *source,
                              struct config_report *report);
void config_release(struct config *config); /* wipes the secret */

/* The bytes that the events of one batch may add to a journal block, and a single one at most. */
size_t config_batch_weight(const struct config *config);

/* A secret, a public key or an API key: something a token can be checked against. */
bool config_has_auth(const struct config *config);

/* All settings and rules as YAML that config_load reads back, except that a secret is shown as
 * "(set)". It fits a buffer of CONFIG_TEXT_SIZE_MAX, whatever the config's aliases made of it. */
#define CONFIG_TEXT_SIZE_MAX (256u << 20)
void config_write(const struct config *config, struct buf *buf);

/* Writes its counters and statuses alone. */
void config_write_rules(const struct config *config, struct buf *buf);

/* The config manual: every setting with its sentence and default, and the rules in a commented
 * example. etc/tally.yaml is this text. */
void config_write_manual(struct buf *buf);

#endif
