/* log.c -- fields to JSON, one write a line. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_BYTES_MAX 16384u
#define TEXT_BYTES_MAX 2048u /* one field: a caller's body must not become our log */

static const char *const level_names[LOG_LEVEL_COUNT] = {"debug", "info", "warn", "error"};
static _Atomic unsigned level_min = LOG_INFO;
static _Atomic int log_fd = STDERR_FILENO;

const char *log_level_name(enum log_level level)
{
    must(level < LOG_LEVEL_COUNT);
    return level_names[level];
}

void log_set_level(enum log_level level)
{
    must(level < LOG_LEVEL_COUNT);
    atomic_store_explicit(&level_min, level, memory_order_relaxed);
}

void log_set_fd(int fd)
{
    atomic_store_explicit(&log_fd, fd, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return level >= atomic_load_explicit(&level_min, memory_order_relaxed);
}

static void add_time(struct buf *line)
{
    int64_t now_ms = clock_wall_ms(&clock_system);
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    buf_addf(line, "\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(now_ms % 1000));
}

static void add_text(struct buf *line, struct bytes text)
{
    if (text.size > TEXT_BYTES_MAX) text.size = TEXT_BYTES_MAX;
    buf_add_json(line, text);
}

static void add_value(struct buf *line, const struct log_field *field)
{
    switch (field->type) {
    case LOG_TYPE_TEXT:
        add_text(line, field->text);
        break;
    case LOG_TYPE_INT:
        buf_add_i64(line, field->integer);
        break;
    case LOG_TYPE_UINT:
        buf_add_u64(line, field->natural);
        break;
    case LOG_TYPE_REAL: /* JSON has no word for the others */
        if (isfinite(field->real))
            buf_addf(line, "%.9g", field->real);
        else
            buf_add(line, BYTES("null"));
        break;
    case LOG_TYPE_BOOL:
        buf_add(line, field->boolean ? BYTES("true") : BYTES("false"));
        break;
    case LOG_TYPE_JSON:
        buf_add(line, field->text);
        break;
    default:
        unreachable_state(field->type);
    }
}

static void add_line(struct buf *line, enum log_level level, const char *msg,
                     const struct log_field *fields, size_t count)
{
    buf_addf(line, "{\"level\":\"%s\",\"ts\":", log_level_name(level));
    add_time(line);
    buf_add(line, BYTES(",\"msg\":"));
    add_text(line, bytes_str(msg));
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].key) continue;
        buf_add_char(line, ',');
        buf_add_json(line, bytes_str(fields[i].key));
        buf_add_char(line, ':');
        add_value(line, &fields[i]);
    }
    buf_add(line, BYTES("}\n"));
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t count)
{
    struct buf line;
    buf_init(&line, LINE_BYTES_MAX);
    add_line(&line, level, msg, fields, count);
    if (line.failed) { /* the message matters more than its fields */
        buf_reset(&line);
        const struct log_field cut = log_bool("fieldsLeftOut", true);
        add_line(&line, level, msg, &cut, 1);
    }
    int fd = atomic_load_explicit(&log_fd, memory_order_relaxed);
    while (write(fd, line.data, line.size) < 0 && errno == EINTR)
        ;
    buf_release(&line);
}

bool log_limit_pass(struct log_limit *limit, int64_t now_ms, uint64_t *left_out_out)
{
    int64_t second = now_ms / 1000;
    if (atomic_exchange_explicit(&limit->second, second, memory_order_relaxed) != second)
        atomic_store_explicit(&limit->lines, 0, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&limit->lines, 1, memory_order_relaxed) >= limit->lines_max) {
        atomic_fetch_add_explicit(&limit->left_out, 1, memory_order_relaxed);
        return false;
    }
    *left_out_out = atomic_exchange_explicit(&limit->left_out, 0, memory_order_relaxed);
    return true;
}
