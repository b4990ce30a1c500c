/* request.c -- one call over HTTP, sent again until there is an answer or the time is over.
 *
 * Sent again: what certainly had no effect (no connection, 429), and what may have had one (a
 * connection that broke, 502 to 504) if it is safe to repeat: a GET, something with a key, or
 * something whose parts have keys or ids of their own. The bytes are the same each time. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#define PAUSE_MS_FIRST 100
#define PAUSE_MS_MAX 5000
#define STOP_LOOK_MS 100 /* how often a pause asks whether to stop */
#define REPLY_SIZE_MAX (256u << 20)

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool stopped(const struct tally *tally)
{
    return tally->limits.stop && tally->limits.stop(tally->limits.stop_context);
}

/* -- One attempt ------------------------------------------------------------------------------- */

static size_t take_reply(char *data, size_t size, size_t count, void *context)
{
    struct tally *tally = context;
    size *= count;
    if (tally->reply.size + size > REPLY_SIZE_MAX) return 0;
    text_add(&tally->reply, data, size);
    return tally->reply.failed ? 0 : size;
}

static int watch(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return stopped(context);
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    struct text header = {0};
    text_add_str(&header, name);
    text_add_str(&header, value);
    struct curl_slist *longer = header.failed ? NULL : curl_slist_append(*list, header.data);
    text_release(&header);
    if (longer) *list = longer;
    return longer;
}

/* "Expect:" without a value switches off the wait for "100 Continue" that curl would make. */
static bool make_headers(const struct tally *tally, const struct tally_request *request,
                         struct curl_slist **list_out)
{
    *list_out = NULL;
    bool good = add_header(list_out, "Expect:", "") && add_header(list_out, "Accept:", "");
    if (tally->authorization) good = good && add_header(list_out, tally->authorization->data, "");
    if (request->body)
        good = good &&
               add_header(list_out,
                          "Content-Type: ", request->type ? request->type : "application/json");
    if (request->key) good = good && add_header(list_out, "Idempotency-Key: ", request->key);
    return good;
}

static void set_transport(struct tally *tally, long left_ms)
{
    CURL *curl = tally->curl;
    long connect_ms = (long)tally->limits.connect_ms, attempt_ms = (long)tally->limits.attempt_ms;
    if (attempt_ms && attempt_ms < left_ms) left_ms = attempt_ms;
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* "." and ".." are names of counters */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "libtally/0.1");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, tally->curl_error);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, left_ms);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms < left_ms ? connect_ms : left_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_reply);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, tally);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, tally);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, tally->limits.stop ? 0L : 1L);
}

static void set_request(struct tally *tally, const struct tally_request *request,
                        struct curl_slist *headers)
{
    CURL *curl = tally->curl;
    const char *method = request->method ? request->method : "GET";
    bool head = strcmp(method, "HEAD") == 0;
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L); /* forget the body of the call before */
    curl_easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
    if (request->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    } else if (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, head ? NULL : method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
}

static CURLcode attempt(struct tally *tally, const struct tally_request *request, const char *url,
                        struct curl_slist *headers, long left_ms)
{
    text_reset(&tally->reply);
    tally->curl_error[0] = '\0';
    set_transport(tally, left_ms);
    set_request(tally, request, headers);
    if (curl_easy_setopt(tally->curl, CURLOPT_URL, url)) return CURLE_OUT_OF_MEMORY;
    return curl_easy_perform(tally->curl);
}

/* -- What it means ----------------------------------------------------------------------------- */

static enum tally_end explain_failure(struct tally *tally, CURLcode code, struct tally_error *error)
{
    const char *why = tally->curl_error[0] ? tally->curl_error : curl_easy_strerror(code);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return fail(error, TALLY_UNKNOWN, "stopped", "The call was stopped.");
    case CURLE_OPERATION_TIMEDOUT:
        return fail(error, TALLY_UNKNOWN, "timeout", "No answer from %s in time.", tally->address);
    case CURLE_OUT_OF_MEMORY:
        return fail_memory(error);
    default:
        return fail(error, TALLY_UNKNOWN, "unreachable", "Cannot reach tally at %s: %s",
                    tally->address, why);
    }
}

static enum tally_end explain_reply(struct tally *tally, int status, struct tally_error *error)
{
    if (status >= 200 && status < 300) return TALLY_OK;
    json_t *body =
        json_loadb(tally->reply.data ? tally->reply.data : "", tally->reply.size, 0, NULL);
    error_read(error, status, body);
    json_decref(body);
    return status >= 400 && status < 500 ? TALLY_REFUSED : TALLY_UNKNOWN;
}

static bool had_no_effect(CURLcode code, int status)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_COULDNT_RESOLVE_PROXY || status == 429;
}

static bool may_pass(CURLcode code, int status)
{
    if (code == CURLE_OK) return status == 429 || (status >= 502 && status <= 504);
    return code != CURLE_ABORTED_BY_CALLBACK && code != CURLE_OUT_OF_MEMORY &&
           code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL &&
           code != CURLE_PEER_FAILED_VERIFICATION;
}

static bool is_repeatable(const struct tally_request *request)
{
    const char *method = request->method ? request->method : "GET";
    return request->key || request->repeatable || strcmp(method, "GET") == 0 ||
           strcmp(method, "HEAD") == 0;
}

/* -- The call ---------------------------------------------------------------------------------- */

/* Between half of `ms` and all of it, so that clients that failed together do not come back so. */
static long with_chance(long ms)
{
    uint16_t chance = 0;
    if (getentropy(&chance, sizeof chance)) chance = 0;
    return ms / 2 + ms * chance / 2 / UINT16_MAX;
}

static long pause_ms(struct tally *tally, unsigned attempts, CURLcode code)
{
    long ms = attempts > 6 ? PAUSE_MS_MAX : PAUSE_MS_FIRST << (attempts - 1);
    curl_off_t asked = 0;
    if (ms > PAUSE_MS_MAX) ms = PAUSE_MS_MAX;
    ms = with_chance(ms);
    if (code == CURLE_OK) curl_easy_getinfo(tally->curl, CURLINFO_RETRY_AFTER, &asked);
    return asked > 0 && asked * 1000 > ms ? (long)(asked * 1000) : ms;
}

static void sleep_unless_stopped(const struct tally *tally, long ms)
{
    while (ms > 0 && !stopped(tally)) {
        long piece = ms < STOP_LOOK_MS ? ms : STOP_LOOK_MS;
        nanosleep(&(struct timespec){.tv_nsec = piece * 1000000}, NULL);
        ms -= piece;
    }
}

static enum tally_end call_until_answered(struct tally *tally, const struct tally_request *request,
                                          const char *url, struct curl_slist *headers,
                                          long *status_out, struct tally_error *error)
{
    int64_t until_ms = now_ms() + tally->limits.timeout_ms;
    int64_t left_ms = tally->limits.timeout_ms;
    for (unsigned attempts = 1;; attempts++) {
        *status_out = 0;
        CURLcode code = attempt(tally, request, url, headers, (long)left_ms);
        if (code == CURLE_OK) curl_easy_getinfo(tally->curl, CURLINFO_RESPONSE_CODE, status_out);
        enum tally_end end = code == CURLE_OK ? explain_reply(tally, (int)*status_out, error)
                                              : explain_failure(tally, code, error);
        bool again = may_pass(code, (int)*status_out) &&
                     (is_repeatable(request) || had_no_effect(code, (int)*status_out));
        if (end == TALLY_OK || !again || attempts >= tally->limits.attempts) return end;
        long pause = pause_ms(tally, attempts, code);
        if (now_ms() + pause >= until_ms) return end;
        sleep_unless_stopped(tally, pause);
        left_ms = until_ms - now_ms();
        if (left_ms <= 0) return end;
    }
}

static bool was_replayed(CURL *curl)
{
    struct curl_header *header;
    return curl_easy_header(curl, "Idempotent-Replayed", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
}

static bool key_is_printable(const char *key)
{
    size_t size = strlen(key);
    for (size_t i = 0; i < size; i++)
        if (key[i] < ' ' || key[i] > '~') return false;
    return size >= 1 && size <= 255;
}

enum tally_end tally_call(struct tally *tally, const struct tally_request *request,
                          struct tally_reply *reply, struct tally_error *error)
{
    struct text url = {0};
    struct curl_slist *headers = NULL;
    long status = 0;
    enum tally_end end;
    if (reply) *reply = (struct tally_reply){.body = ""};
    if (request->key && !key_is_printable(request->key))
        return fail_argument(error, "An idempotency key is 1 to 255 printable ASCII characters.");
    text_add_str(&url, tally->address);
    text_add_str(&url, request->path);
    if (url.failed || !make_headers(tally, request, &headers))
        end = fail_memory(error);
    else
        end = call_until_answered(tally, request, url.data, headers, &status, error);
    if (reply && status)
        *reply = (struct tally_reply){.status = (int)status,
                                      .body = tally->reply.data ? tally->reply.data : "",
                                      .body_size = tally->reply.size,
                                      .replayed = was_replayed(tally->curl)};
    curl_easy_setopt(tally->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    text_release(&url);
    return end;
}

/* -- Calls whose reply is read ----------------------------------------------------------------- */

enum tally_end path_begin(struct tally *tally, const char *kind, struct tally_error *error)
{
    text_reset(&tally->path);
    if (!tally->tenant[0])
        return fail_argument(error, "Which tenant? The token does not say, so the options must.");
    text_add_str(&tally->path, "/api");
    path_segment(tally, kind);
    path_segment(tally, tally->tenant);
    return TALLY_OK;
}

void path_segment(struct tally *tally, const char *segment)
{
    text_add_str(&tally->path, "/");
    text_add_escaped(&tally->path, segment);
}

/* -- How far the tenant's history goes that this client has seen ------------------------------- */

void path_consistency(struct tally *tally)
{
    enum tally_consistency consistency = tally->limits.consistency;
    if (consistency == TALLY_SESSION && !tally->position[0]) return;
    if (consistency == TALLY_SESSION) {
        text_add_str(&tally->path, "&minSequence=");
        text_add_escaped(&tally->path, tally->position);
    } else {
        text_add_str(&tally->path,
                     consistency == TALLY_ANY ? "&consistency=any" : "&consistency=primary");
    }
}

/* A sequence of a history has no leading zeros. Of two positions in one history the later one is
 * longer, or greater in its digits. */
static bool is_further(const char *position, const char *known)
{
    const char *dash = strrchr(position, '-'), *other = strrchr(known, '-');
    if (!dash || !other || dash - position != other - known ||
        strncmp(position, known, (size_t)(dash - position)) != 0)
        return true;
    size_t size = strlen(dash), other_size = strlen(other);
    return size != other_size ? size > other_size : strcmp(dash, other) > 0;
}

static void hear_position(struct tally *tally, int status, json_t *json)
{
    struct curl_header *header;
    const char *code = json_string_value(json_object_get(json, "code"));
    if (status == 409 && code && strcmp(code, "position_lost") == 0) tally->position[0] = '\0';
    if (status != 200 ||
        curl_easy_header(tally->curl, "Tally-Sequence", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return;
    if (strlen(header->value) < sizeof tally->position &&
        is_further(header->value, tally->position))
        memcpy(tally->position, header->value, strlen(header->value) + 1);
}

enum tally_end call_json(struct tally *tally, struct tally_request *request,
                         struct tally_reply *reply_out, json_t **json_out,
                         struct tally_error *error)
{
    *json_out = NULL;
    if (tally->path.failed) return fail_memory(error);
    request->path = tally->path.data;
    enum tally_end end = tally_call(tally, request, reply_out, error);
    if (reply_out->status) *json_out = json_loadb(reply_out->body, reply_out->body_size, 0, NULL);
    hear_position(tally, reply_out->status, *json_out);
    if (end == TALLY_OK && !json_is_object(*json_out)) return fail_reply(error);
    return end;
}
