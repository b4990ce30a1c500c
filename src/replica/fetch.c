/* fetch.c -- see the header. */
#include "replica/fetch.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define BODY_BYTES_MAX (1u << 30) /* a block and some; or the listing of a large store */
#define CONNECT_MS 5000L

struct fetch {
    CURL *curl;
    struct curl_slist *headers;
    const char *url;
    const atomic_bool *stop;
    struct json_parser *parser;
    struct fetch_reply reply;
    char error[CURL_ERROR_SIZE];
};

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct fetch *fetch = context;
    buf_add(&fetch->reply.body, bytes_of(data, size * count));
    return fetch->reply.body.failed ? 0 : size * count;
}

/* curl asks once a second at least, and more often while bytes come. */
static int watch(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct fetch *fetch = context;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(fetch->stop);
}

static void add_header(struct fetch *fetch, const char *text)
{
    struct curl_slist *longer = curl_slist_append(fetch->headers, text);
    must(longer != NULL);
    fetch->headers = longer;
}

struct fetch *fetch_new(const char *url, const char *token, const atomic_bool *stop)
{
    struct fetch *fetch = must_calloc(1, sizeof *fetch);
    struct buf line;
    buf_init(&line, 16384);
    fetch->url = url;
    fetch->stop = stop;
    fetch->parser = json_parser_new(64u << 10);
    buf_init(&fetch->reply.body, BODY_BYTES_MAX);
    fetch->curl = curl_easy_init();
    must(fetch->curl != NULL);
    buf_addf(&line, "Authorization: Bearer %s", token);
    buf_add_char(&line, '\0');
    must(!line.failed);
    add_header(fetch, line.data);
    explicit_bzero(line.data, line.size);
    buf_release(&line);
    curl_easy_setopt(fetch->curl, CURLOPT_HTTPHEADER, fetch->headers);
    curl_easy_setopt(fetch->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(fetch->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(fetch->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(fetch->curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(fetch->curl, CURLOPT_ERRORBUFFER, fetch->error);
    curl_easy_setopt(fetch->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(fetch->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(fetch->curl, CURLOPT_WRITEDATA, fetch);
    curl_easy_setopt(fetch->curl, CURLOPT_XFERINFOFUNCTION, watch);
    curl_easy_setopt(fetch->curl, CURLOPT_XFERINFODATA, fetch);
    curl_easy_setopt(fetch->curl, CURLOPT_NOPROGRESS, 0L);
    return fetch;
}

void fetch_free(struct fetch *fetch)
{
    curl_easy_cleanup(fetch->curl);
    curl_slist_free_all(fetch->headers);
    json_parser_free(fetch->parser);
    buf_release(&fetch->reply.body);
    free(fetch);
}

/* An error that is not tally's, a proxy's say, has a status and no more. */
static void read_error(struct fetch *fetch)
{
    enum { CODE, SENTENCE, COUNT };
    struct bytes names[COUNT] = {BYTES("code"), BYTES("error")};
    struct json_value values[COUNT] = {0};
    struct json_value root;
    struct fetch_reply *reply = &fetch->reply;
    struct bytes body = buf_bytes(&reply->body);
    reason_say(&reply->why, "it answers %d", reply->status);
    if (body.size == 0 || body.size > 16384 || !buf_reserve(&reply->body, JSON_PADDING)) return;
    body.data = reply->body.data; /* it may have moved */
    memset(reply->body.data + body.size, 0, JSON_PADDING);
    if (!json_parse(fetch->parser, body, &root) || root.type != JSON_OBJECT) return;
    json_pick(&root, names, COUNT, values);
    if (values[CODE].type != JSON_STRING || values[CODE].string.size >= sizeof reply->code) return;
    memcpy(reply->code, values[CODE].string.data, values[CODE].string.size);
    reply->code[values[CODE].string.size] = '\0';
    if (values[SENTENCE].type == JSON_STRING)
        reason_say(&reply->why, "%.*s", (int)values[SENTENCE].string.size,
                   values[SENTENCE].string.data);
}

enum err fetch_ask(struct fetch *fetch, const char *method, const char *path, int64_t timeout_ms,
                   const struct fetch_reply **reply_out)
{
    struct buf url;
    struct fetch_reply *reply = &fetch->reply;
    long status = 0;
    *reply_out = reply;
    buf_init(&url, 16384);
    buf_addf(&url, "%s%s", fetch->url, path);
    buf_add_char(&url, '\0');
    must(!url.failed);
    buf_reset(&reply->body);
    reply->code[0] = fetch->error[0] = '\0';
    reason_clear(&reply->why);
    curl_easy_setopt(fetch->curl, CURLOPT_URL, url.data);
    curl_easy_setopt(fetch->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(fetch->curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    CURLcode code = curl_easy_perform(fetch->curl);
    buf_release(&url);
    if (code == CURLE_ABORTED_BY_CALLBACK) return ERR_BUSY;
    if (code != CURLE_OK)
        return reason_err(&reply->why, ERR_STORAGE, "%s",
                          fetch->error[0] ? fetch->error : curl_easy_strerror(code));
    curl_easy_getinfo(fetch->curl, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (int)status;
    if (status != 200) read_error(fetch);
    return ERR_OK;
}
