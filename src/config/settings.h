/* settings.h -- the table of settings.def as values: find one, set it from text, show it.
 *
 * For config.c and its helpers; all other code reads struct config. */
#ifndef TALLY_CONFIG_SETTINGS_H
#define TALLY_CONFIG_SETTINGS_H

#include "config/config.h"

#define SETTING_PATH_SIZE 64
#define SETTING_ERROR_SIZE 256

enum setting_kind {
    SETTING_INT,
    SETTING_SIZE,
    SETTING_DURATION,
    SETTING_BOOL,
    SETTING_TEXT,
    SETTING_SECRET,
    SETTING_LISTEN,
    SETTING_LEVEL,
    SETTING_STORE,
    SETTING_POOLER,
    SETTING_SCOPE,
    SETTING_UNKNOWN,
    SETTING_KEYS,
    SETTING_ORIGINS,
    SETTING_TYPES,
    SETTING_DATABASES,
};

enum setting_id {
#define SETTING(field, ...) SETTING_ID_##field,
#include "config/settings.def"
#undef SETTING
    SETTING_COUNT
};

struct setting {
    const char *path;
    enum setting_kind kind;
    size_t offset; /* in struct config */
    int64_t least;
    int64_t most;
    const char *standard; /* the documented default */
    const char *initial;  /* the default of this build */
    const char *sentence;
};

extern const struct setting settings[SETTING_COUNT];

const struct setting *setting_find(struct bytes path); /* NULL: none */
bool setting_is_section(struct bytes path);            /* "limits", not "limits.queueOps" */

/* "counters" or "statuses": beside the settings in a file, and nowhere else (rules.h). */
bool setting_is_rules(struct bytes path);

/* The path or section that `path` was probably meant to be, or NULL. */
const char *setting_suggest(struct bytes path, char suggestion_out[SETTING_PATH_SIZE]);

/* A list is read by yaml.c and is empty at first; the rest is for setting_set. */
static inline bool setting_is_list(const struct setting *setting)
{
    return setting->kind == SETTING_KEYS || setting->kind == SETTING_ORIGINS ||
           setting->kind == SETTING_TYPES || setting->kind == SETTING_DATABASES;
}

/* Reads `text` as the setting's kind, checks its bounds and stores it; not for a list. False:
 * nothing was changed and `error_out` ends a sentence that starts with the path. */
MUST_USE bool setting_set(const struct setting *setting, struct config *config, struct bytes text,
                          char error_out[SETTING_ERROR_SIZE]);

/* Whether a text is free of line breaks and other control characters. */
bool setting_text_is_plain(struct bytes text);

/* The value of a setting that is a number, a size in bytes or a duration in ms. */
int64_t setting_number(const struct setting *setting, const struct config *config);

/* The value as YAML, quoted where it has to be. */
void setting_show(const struct setting *setting, const struct config *config, struct buf *buf);

/* Any text as a YAML string in double quotes. */
void setting_show_text(struct buf *buf, struct bytes text);

#endif
