/* log.h -- what happened, as one JSON object a line on stderr.
 *
 * Example:
 *
 *     static void log_opened(const char *dir, uint64_t sequence)
 *     {
 *         log_line(LOG_INFO, "store opened", LOG_KV("dir", dir), LOG_KV("sequence", sequence));
 *     }
 *
 * It writes {"level":"info","ts":"2026-01-01T00:00:00.000Z","msg":"store opened","dir":"data",...}
 *
 * LOG_KV takes text, `struct bytes`, bool, any integer or a double; another type does not compile.
 * A line is one write(2), so lines of different threads never mix. Any thread may log. Lines below
 * the level cost one load. Tokens and secrets are never passed here: nothing takes them out. */
#ifndef TALLY_BASE_LOG_H
#define TALLY_BASE_LOG_H

#include <stdatomic.h>

#include "base/bytes.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVEL_COUNT };

enum log_type {
    LOG_TYPE_TEXT,
    LOG_TYPE_INT,
    LOG_TYPE_UINT,
    LOG_TYPE_REAL,
    LOG_TYPE_BOOL,
    LOG_TYPE_JSON, /* text that is JSON already */
};

struct log_field {
    const char *key; /* NULL: none */
    enum log_type type;
    union {
        struct bytes text;
        int64_t integer;
        uint64_t natural;
        double real;
        bool boolean;
    };
};

const char *log_level_name(enum log_level level);

void log_set_level(enum log_level level);
void log_set_fd(int fd); /* instead of stderr */
bool log_enabled(enum log_level level);

void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t count);

/* The array's first element is there so that a line without fields has no empty array; nothing of
 * it is written. */
#define log_line(level, msg, ...)                                                           \
    do {                                                                                    \
        const struct log_field log_fields[] = {{.key = NULL}, ##__VA_ARGS__};               \
        if (log_enabled(level)) log_write(level, msg, log_fields, ARRAY_COUNT(log_fields)); \
    } while (0)

#define LOG_KV(key, value) \
    _Generic((value),                                                                              \
        char *: log_text,                                                                          \
        const char *: log_text,                                                                    \
        struct bytes: log_bytes,                                                                   \
        bool: log_bool,                                                                            \
        int: log_int,                                                                              \
        long: log_int,                                                                             \
        long long: log_int,                                                                        \
        unsigned: log_uint,                                                                        \
        unsigned long: log_uint,                                                                   \
        unsigned long long: log_uint,                                                              \
        double: log_real)(key, value)

static inline struct log_field log_bytes(const char *key, struct bytes text)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_TEXT, .text = text};
}
static inline struct log_field log_text(const char *key, const char *text)
{
    return log_bytes(key, text ? bytes_str(text) : BYTES_NONE);
}
static inline struct log_field log_int(const char *key, int64_t value)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_INT, .integer = value};
}
static inline struct log_field log_uint(const char *key, uint64_t value)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_UINT, .natural = value};
}
static inline struct log_field log_real(const char *key, double value)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_REAL, .real = value};
}
static inline struct log_field log_bool(const char *key, bool value)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_BOOL, .boolean = value};
}
/* An object or a list, made by the caller. */
static inline struct log_field log_json(const char *key, struct bytes json)
{
    return (struct log_field){.key = key, .type = LOG_TYPE_JSON, .text = json};
}

/* Lets through `lines_max` lines a second and counts the rest, so that one noisy cause cannot fill
 * the disk and the log still says how often it happened.
 *
 * Example:
 *
 *     static void log_dropped(int64_t now_ms)
 *     {
 *         static struct log_limit limit = {.lines_max = 10};
 *         uint64_t left_out;
 *         if (log_limit_pass(&limit, now_ms, &left_out))
 *             log_line(LOG_INFO, "duplicate dropped", LOG_KV("leftOut", left_out));
 *     }
 */
struct log_limit {
    uint32_t lines_max;
    _Atomic int64_t second; /* the one being counted */
    _Atomic uint32_t lines; /* passed in it */
    _Atomic uint64_t left_out;
};

/* True: the line is to be written. `left_out_out` is how many were left out since the last one. */
bool log_limit_pass(struct log_limit *limit, int64_t now_ms, uint64_t *left_out_out);

#endif
