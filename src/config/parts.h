/* parts.h -- what the files of the config share. */
#ifndef TALLY_CONFIG_PARTS_H
#define TALLY_CONFIG_PARTS_H

#include "config/config.h"
#include "config/settings.h"

#define CONFIG_WHERE_SIZE 512 /* "etc/x.yaml:12:3" */

/* One load under way. */
struct config_load {
    struct config *config;
    struct config_report *report;
    const char *const *environment;               /* as in config_source */
    bool given[SETTING_COUNT];                    /* it was set, so it is not adapted */
    char where[SETTING_COUNT][CONFIG_WHERE_SIZE]; /* it was set last; empty: nowhere */
};

/* Adds "where: sentence". Past CONFIG_ERRORS_MAX nothing more is added. */
void config_error(struct config_load *load, const char *where, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool config_errors_full(const struct config_load *load);

/* Complains about a path that is no setting, with a suggestion if there is a near one. */
void config_unknown(struct config_load *load, const char *where, struct bytes path);

/* Sets one value from text; lists are read as YAML in flow form. */
void config_set(struct config_load *load, const char *where, const struct setting *setting,
                struct bytes text);

/* Reads a whole file's text; `name` is what errors call it. */
void config_read_yaml(struct config_load *load, const char *name, struct bytes text);

/* Reads the text of a list, such as [{sha256: .., tenant: ..}], of a setting that is one. */
void config_read_list(struct config_load *load, const char *where, const struct setting *setting,
                      struct bytes text);

/* Takes one connection string in place of what was there; "" is none. */
void config_databases_set(struct config_load *load, const char *where,
                          const struct setting *setting, struct bytes text);
void config_databases_release(struct config_databases *databases); /* wipes them */

void config_keys_release(struct config_keys *keys);

#endif
