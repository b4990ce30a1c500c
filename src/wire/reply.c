/* reply.c -- formats reply heads. */
#include "wire/reply.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

#define DATE_LINE_SIZE 37 /* "Date: Sun, 06 Nov 1994 08:49:37 GMT" and CRLF */

#define USUAL_STATUS "HTTP/1.1 200 OK\r\n"
#define USUAL_CONTENT "Content-Type: application/json\r\nContent-Length: "

/* Writes the date by hand, because strftime would follow the locale. */
void reply_date_update(struct reply_date *date, int64_t mono_ns)
{
    if (mono_ns < date->until_ns) return;
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t wall_ms = clock_wall_ms(&clock_system);
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    must(gmtime_r(&seconds, &tm) != NULL);
    int size =
        snprintf(date->line, sizeof date->line, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
                 (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
    must(size == DATE_LINE_SIZE);
    size = snprintf(date->usual, sizeof date->usual, USUAL_STATUS "%s" USUAL_CONTENT, date->line);
    must(size > 0 && (size_t)size < sizeof date->usual);
    date->usual_size = (size_t)size;
    date->until_ns = mono_ns + (1000 - wall_ms % 1000) * 1000000;
}

static const struct {
    int status;
    const char *phrase;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < ARRAY_COUNT(reasons); i++)
        if (reasons[i].status == status) return reasons[i].phrase;
    return ""; /* the phrase may be empty: RFC 9112, 4 */
}

static void render_status(struct buf *out, int status)
{
    buf_add(out, BYTES("HTTP/1.1 "));
    buf_add_i64(out, status);
    buf_add_char(out, ' ');
    buf_add(out, bytes_str(reason_of(status)));
    buf_add(out, BYTES("\r\n"));
}

static void render_content(struct buf *out, const struct reply *reply)
{
    if (reply->status == 204 || reply->status == 304) return;
    if (reply->content_type) {
        buf_add(out, BYTES("Content-Type: "));
        buf_add(out, bytes_str(reply->content_type));
        if (reply->stream) {
            buf_add(out, BYTES("\r\n"));
            return;
        }
        buf_add(out, BYTES("\r\nContent-Length: "));
    } else {
        buf_add(out, BYTES(USUAL_CONTENT));
    }
    buf_add_u64(out, reply_body(reply).size);
    buf_add(out, BYTES("\r\n"));
}

void reply_render(struct buf *out, const struct reply *reply, const struct reply_date *date,
                  enum reply_connection connection)
{
    must(reply->status >= 200 && reply->status <= 599);
    must(!reply->headers.failed && !reply->body.failed);
    if (reply->status == 200 && !reply->content_type) {
        buf_add(out, bytes_of(date->usual, date->usual_size));
        buf_add_u64(out, reply_body(reply).size);
        buf_add(out, BYTES("\r\n"));
    } else {
        render_status(out, reply->status);
        buf_add(out, bytes_of(date->line, DATE_LINE_SIZE));
        render_content(out, reply);
    }
    buf_add(out, buf_bytes(&reply->headers));
    if (connection == REPLY_CLOSES) buf_add(out, BYTES("Connection: close\r\n"));
    if (connection == REPLY_STAYS_SAYING_SO) buf_add(out, BYTES("Connection: keep-alive\r\n"));
    if (reply->cache_control)
        buf_addf(out, "Cache-Control: %s\r\n\r\n", reply->cache_control);
    else
        buf_add(out, BYTES("Cache-Control: no-store\r\n\r\n"));
}
