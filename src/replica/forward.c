/* forward.c -- see the header. */
#include "replica/forward.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define CONNECT_MS 5000L

struct forward {
    const char *url;
    int64_t timeout_ms;
    atomic_bool stop;
};

struct forward *forward_new(const char *url, int64_t timeout_ms)
{
    struct forward *forward = must_calloc(1, sizeof *forward);
    forward->url = url;
    forward->timeout_ms = timeout_ms;
    return forward;
}

void forward_stop(struct forward *forward)
{
    atomic_store(&forward->stop, true);
}

void forward_free(struct forward *forward)
{
    free(forward);
}

/* -- Header lines ------------------------------------------------------------------------------ */

/* What is about one connection, or the form in which a body travels on it (RFC 9110, 7.6.1). The
 * body was unpacked on its way in. */
static const char *const own_lines[] = {"connection",
                                        "keep-alive",
                                        "te",
                                        "trailer",
                                        "transfer-encoding",
                                        "upgrade",
                                        "proxy-connection",
                                        "host",
                                        "content-length",
                                        "content-encoding",
                                        "accept-encoding",
                                        "expect",
                                        "origin",
                                        "proxy-authorization",
                                        "access-control-request-method",
                                        "access-control-request-headers"};

static const char *const own_answer_lines[] = {
    "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding",
    "date",       "server",     "content-type",      "cache-control",  "vary"};

static bool is_one_of(struct bytes name, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal_nocase(name, bytes_str(lines[i]))) return true;
    return false;
}

static bool append(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    if (longer) *list = longer;
    return longer != NULL;
}

static struct bytes trim(struct bytes text)
{
    while (text.size && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = bytes_of(text.data + 1, text.size - 1);
    while (text.size && strchr(" \t\r\n", text.data[text.size - 1]))
        text.size--;
    return text;
}

/* curl takes "Name;" for a line without a value. */
static bool add_line(struct curl_slist **list, struct bytes line)
{
    struct buf text;
    struct bytes value = line;
    struct bytes name = bytes_split(&value, ':');
    if (!value.data || is_one_of(name, own_lines, ARRAY_COUNT(own_lines))) return true;
    value = trim(value);
    buf_init(&text, 64u << 10);
    buf_add(&text, name);
    buf_add(&text, value.size ? BYTES(": ") : BYTES(";"));
    buf_add(&text, value);
    buf_add_char(&text, '\0');
    bool good = !text.failed && append(list, text.data);
    buf_release(&text);
    return good;
}

/* "Expect:" and "Accept:" without a value keep curl from making lines of its own. */
static bool make_lines(struct curl_slist **list, const struct forward_request *request)
{
    static const char *const always[] = {FORWARDED_HEADER ": 1", "Expect:"};
    bool typed = false, accepts = false, good = true;
    for (struct bytes rest = request->fields; rest.size && good;) {
        struct bytes line = bytes_split(&rest, '\n');
        struct bytes value = line;
        struct bytes name = bytes_split(&value, ':');
        typed |= bytes_equal_nocase(name, BYTES("content-type"));
        accepts |= bytes_equal_nocase(name, BYTES("accept"));
        good = add_line(list, line);
    }
    for (unsigned i = 0; i < ARRAY_COUNT(always) && good; i++)
        good = append(list, always[i]);
    if (good && !typed) good = append(list, "Content-Type:");
    if (good && !accepts) good = append(list, "Accept:");
    return good;
}

/* -- The answer -------------------------------------------------------------------------------- */

struct answer {
    struct forward *forward;
    struct forward_reply *reply;
};

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    buf_add(answer->reply->body, bytes_of(data, size * count));
    return answer->reply->body->failed ? 0 : size * count;
}

/* <epoch>-<sequence> */
static uint64_t sequence_of(struct bytes text)
{
    uint64_t number = 0;
    bytes_split(&text, '-');
    for (size_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    return number;
}

/* The lines of an interim answer are not the answer's. */
static size_t take_line(char *data, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    struct forward_reply *reply = answer->reply;
    struct bytes value = trim(bytes_of(data, size * count));
    if (bytes_starts(value, BYTES("HTTP/"))) {
        buf_reset(reply->headers);
        buf_reset(reply->content_type);
        return size * count;
    }
    struct bytes name = bytes_split(&value, ':');
    value = trim(value);
    if (bytes_equal_nocase(name, BYTES("content-type"))) buf_add(reply->content_type, value);
    if (bytes_equal_nocase(name, BYTES("tally-sequence"))) reply->sequence = sequence_of(value);
    bool own =
        is_one_of(name, own_answer_lines, ARRAY_COUNT(own_answer_lines)) ||
        (name.size > 15 && bytes_equal_nocase(bytes_of(name.data, 15), BYTES("access-control-")));
    if (name.size == 0 || own) return size * count;
    buf_add(reply->headers, name);
    buf_add(reply->headers, BYTES(": "));
    buf_add(reply->headers, value);
    buf_add(reply->headers, BYTES("\r\n"));
    return size * count;
}

static int watch(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct answer *answer = context;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&answer->forward->stop);
}

/* -- One request ------------------------------------------------------------------------------- */

static void set_url(CURL *curl, const struct forward *forward,
                    const struct forward_request *request, struct buf *url)
{
    buf_addf(url, "%s", forward->url);
    buf_add(url, request->path);
    if (request->query.size) buf_add_char(url, '?');
    buf_add(url, request->query);
    buf_add_char(url, '\0');
    curl_easy_setopt(curl, CURLOPT_URL, url->data);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_body(CURL *curl, const struct forward_request *request)
{
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.size ? request->body.data : "");
}

static void set_ways(CURL *curl, struct answer *answer)
{
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)answer->forward->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_line);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, answer);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, answer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

enum err forward_send(struct forward *forward, const struct forward_request *request,
                      struct forward_reply *reply)
{
    struct answer answer = {forward, reply};
    struct curl_slist *lines = NULL;
    struct buf url;
    long status = 0;
    CURL *curl = curl_easy_init();
    buf_init(&url, 64u << 10);
    reply->sequence = 0;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl && make_lines(&lines, request)) {
        set_url(curl, forward, request, &url);
        set_body(curl, request);
        set_ways(curl, &answer);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
        code = url.failed ? CURLE_URL_MALFORMAT : curl_easy_perform(curl);
    }
    if (code == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (int)status;
    curl_easy_cleanup(curl);
    curl_slist_free_all(lines);
    buf_release(&url);
    return code == CURLE_OK && status >= 200 ? ERR_OK : ERR_PRIMARY_DOWN;
}
