/* client.c -- a client's beginning and end: what its options mean. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TIMEOUT_MS 30000
#define CONNECT_MS 5000
#define ATTEMPTS 5

/* -- Whose token it is ------------------------------------------------------------------------- */

static int base64url_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool base64url_decode(const char *data, size_t size, struct text *out)
{
    unsigned bits = 0, count = 0;
    for (size_t i = 0; i < size; i++) {
        int digit = base64url_digit(data[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (unsigned)digit;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        char byte = (char)(bits >> count & 0xff);
        text_add(out, &byte, 1);
    }
    return !out->failed && out->data;
}

/* The `sub` of a JWT, taken on trust: the server is the one that checks. NULL: it has none. */
static char *token_tenant(const char *token)
{
    const char *begin = token ? strchr(token, '.') : NULL;
    const char *end = begin ? strchr(begin + 1, '.') : NULL;
    struct text claims = {0};
    char *tenant = NULL;
    if (end && base64url_decode(begin + 1, (size_t)(end - begin - 1), &claims)) {
        json_t *json = json_loadb(claims.data, claims.size, 0, NULL);
        const char *sub = json_string_value(json_object_get(json, "sub"));
        if (sub) tenant = strdup(sub);
        json_decref(json);
    }
    text_release(&claims);
    return tenant;
}

/* -- Where the server is ----------------------------------------------------------------------- */

static bool is_loopback(CURLU *url)
{
    char *host = NULL;
    if (curl_url_get(url, CURLUPART_HOST, &host, 0)) return false;
    bool loopback = strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0 ||
                    strcasecmp(host, "localhost") == 0;
    curl_free(host);
    return loopback;
}

static char *url_text(CURLU *url)
{
    char *text = NULL;
    if (curl_url_get(url, CURLUPART_URL, &text, CURLU_NO_DEFAULT_PORT)) return NULL;
    char *copy = strdup(text);
    curl_free(text);
    size_t size = copy ? strlen(copy) : 0;
    while (size && copy[size - 1] == '/')
        copy[--size] = '\0';
    return copy;
}

static bool is_http(CURLU *url)
{
    char *scheme = NULL;
    if (curl_url_get(url, CURLUPART_SCHEME, &scheme, 0)) return false;
    bool http = strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0;
    curl_free(scheme);
    return http;
}

/* A user and password in the URL are dropped: the Authorization header is the token's, and nothing
 * secret can then show in a message. The text itself is never repeated, for the same reason. */
static enum tally_end read_url(struct tally *tally, const char *text, struct tally_error *error)
{
    CURLU *url = curl_url();
    if (!url) return fail_memory(error);
    enum tally_end end = TALLY_OK;
    if (!text || curl_url_set(url, CURLUPART_URL, text, 0) || !is_http(url)) {
        end = fail_argument(error, "The URL must look like http://127.0.0.1:8787.");
    } else {
        static const CURLUPart dropped[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY,
                                            CURLUPART_FRAGMENT};
        for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
            curl_url_set(url, dropped[i], NULL, 0);
        tally->address = url_text(url);
        if (!tally->address) end = fail_memory(error);
        /* A proxy of the environment cannot reach this machine's own loopback. */
        if (is_loopback(url)) curl_easy_setopt(tally->curl, CURLOPT_PROXY, "");
    }
    curl_url_cleanup(url);
    return end;
}

static enum tally_end read_token(struct tally *tally, const char *token, struct tally_error *error)
{
    if (!token) return TALLY_OK;
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~') /* a line break would add headers */
            return fail_argument(error, "The token has characters that no token has.");
    struct text header = {0};
    text_add_str(&header, "Authorization: Bearer ");
    text_add_str(&header, token);
    if (!header.failed) tally->authorization = curl_slist_append(NULL, header.data);
    text_release(&header);
    return tally->authorization ? TALLY_OK : fail_memory(error);
}

static enum tally_end read_tenant(struct tally *tally, const struct tally_options *options,
                                  struct tally_error *error)
{
    tally->tenant = options->tenant ? strdup(options->tenant) : token_tenant(options->token);
    if (!tally->tenant) tally->tenant = strdup("");
    return tally->tenant ? TALLY_OK : fail_memory(error);
}

static void read_limits(struct tally *tally, const struct tally_options *options)
{
    tally->limits = (struct tally_options){
        .timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS,
        .attempt_ms = options->attempt_ms,
        .connect_ms = options->connect_ms ? options->connect_ms : CONNECT_MS,
        .attempts = options->attempts ? options->attempts : ATTEMPTS,
        .stop = options->stop,
        .stop_context = options->stop_context,
        .consistency = options->consistency,
    };
}

/* -- Beginning and end ------------------------------------------------------------------------- */

struct tally *tally_new(const struct tally_options *options, struct tally_error *error)
{
    struct tally *tally = calloc(1, sizeof *tally);
    if (tally) tally->curl = curl_easy_init(); /* which is thread-safe, global part included */
    enum tally_end end = tally && tally->curl ? TALLY_OK : fail_memory(error);
    if (!end) end = read_url(tally, options->url, error);
    if (!end) end = read_token(tally, options->token, error);
    if (!end) end = read_tenant(tally, options, error);
    if (!end) read_limits(tally, options);
    if (!end) return tally;
    tally_free(tally);
    return NULL;
}

void tally_free(struct tally *tally)
{
    if (!tally) return;
    curl_easy_cleanup(tally->curl);
    curl_slist_free_all(tally->authorization);
    free(tally->address);
    free(tally->tenant);
    text_release(&tally->reply);
    text_release(&tally->path);
    free(tally);
}

const char *tally_tenant(const struct tally *tally)
{
    return tally->tenant;
}

const char *tally_address(const struct tally *tally)
{
    return tally->address;
}
