/* reply.c -- formats reply heads. */
#include "wire/reply.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

#define DATE_LINE_SIZE 37 /* "Date: Sun, 06 Nov 1994 08:49:37 GMT" and CRLF */

/* By hand, because strftime would follow the locale. */
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
    date->until_ns = mono_ns + (1000 - wall_ms % 1000) * 1000000;
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 204:
        return "No Content";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 422:
        return "Unprocessable Content";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return ""; /* the phrase may be empty: RFC 9112, 4 */
    }
}

static void render_status(struct buf *out, int status)
{
    if (status == 200) { /* the usual one, without the detours */
        buf_add(out, BYTES("HTTP/1.1 200 OK\r\n"));
        return;
    }
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
        buf_add(out, BYTES("\r\nContent-Length: "));
    } else {
        buf_add(out, BYTES("Content-Type: application/json\r\nContent-Length: "));
    }
    buf_add_u64(out, reply->body.size);
    buf_add(out, BYTES("\r\n"));
}

void reply_render(struct buf *out, const struct reply *reply, const struct reply_date *date,
                  enum reply_connection connection)
{
    must(reply->status >= 200 && reply->status <= 599);
    must(!reply->headers.failed && !reply->body.failed);
    render_status(out, reply->status);
    buf_add(out, bytes_of(date->line, DATE_LINE_SIZE));
    render_content(out, reply);
    buf_add(out, buf_bytes(&reply->headers));
    if (connection == REPLY_CLOSES) buf_add(out, BYTES("Connection: close\r\n"));
    if (connection == REPLY_STAYS_SAYING_SO) buf_add(out, BYTES("Connection: keep-alive\r\n"));
    buf_add(out, BYTES("Cache-Control: no-store\r\n\r\n"));
}
