/* test_http.c -- the request head and the chunked coding, as functions over bytes.
 *
 * Every case is read whole and cut at every position: the verdict must not depend on how the bytes
 * arrived. What is refused is refused for SPEC 3 (strict framing) and RFC 9112. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/chunks.h"
#include "wire/habit.h"

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define POST "POST /x HTTP/1.1\r\nHost: a\r\n"

/* Reads `text` from exactly sized memory, so that the address sanitizer sees one byte too far. */
static enum http_progress read_upto(struct http_head *head, struct bytes text, size_t size)
{
    char *copy = must_alloc(size);
    memcpy(copy, text.data, size);
    enum http_progress progress = http_head_read(head, copy, size);
    free(copy);
    return progress;
}

static struct http_head read_whole(struct bytes text)
{
    struct http_head head = {0};
    (void)read_upto(&head, text, text.size);
    return head;
}

static void assert_same(const struct http_head *a, const struct http_head *b)
{
    assert_int_equal(a->fault, b->fault);
    if (a->fault) return;
    assert_memory_equal(a, b, sizeof *a);
}

/* With a habit learned from `before`, which changes how it is read and nothing else. */
static void assert_same_by_habit(struct bytes text, struct bytes before)
{
    struct http_head whole = read_whole(text), first = read_whole(before);
    struct habit *habit = NULL;
    if (first.fault || !first.size) return;
    habit_learn(&habit, &first, before.data);
    for (size_t cut = 1; cut <= text.size; cut++) {
        struct http_head head = {.habit = habit};
        if (read_upto(&head, text, cut) == HTTP_MORE) (void)read_upto(&head, text, text.size);
        head.recalled = false;
        head.habit = NULL;
        assert_same(&whole, &head);
    }
    free(habit);
}

/* In two pieces, cut anywhere, and byte by byte; by its own habit and by that of the last one. */
static struct http_head read_every_way(struct bytes text)
{
    static char last[2 * HTTP_HEAD_BYTES_MAX];
    static size_t last_size;
    if (text.size < 400) { /* every cut of a long one takes long */
        assert_same_by_habit(text, text);
        assert_same_by_habit(text, bytes_of(last, last_size));
        memcpy(last, text.data, text.size);
        last_size = text.size;
    }
    struct http_head whole = read_whole(text);
    struct http_head slow = {0};
    for (size_t cut = 1; cut <= text.size; cut++) {
        struct http_head head = {0};
        if (read_upto(&head, text, cut) == HTTP_MORE) (void)read_upto(&head, text, text.size);
        assert_same(&whole, &head);
        if (!slow.fault && !slow.size) (void)read_upto(&slow, text, cut);
    }
    assert_same(&whole, &slow);
    return whole;
}

static void refused(const char *text, enum fault fault)
{
    struct http_head head = read_every_way(bytes_str(text));
    if (head.fault != fault) print_error("%s\n", text);
    assert_int_equal(head.fault, fault);
}

static struct http_head taken(const char *text)
{
    struct http_head head = read_every_way(bytes_str(text));
    if (head.fault || head.size != strlen(text)) print_error("%s\n", text);
    assert_int_equal(head.fault, FAULT_NONE);
    assert_int_equal(head.size, strlen(text));
    return head;
}

static struct request request_of(const struct http_head *head, const char *text)
{
    struct request request;
    http_head_request(head, text, &request);
    return request;
}

static void assert_bytes(struct bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

static void an_ordinary_request_is_understood(void **unused)
{
    (void)unused;
    const char *text = "POST /api/counters/t/n/increment?a=b&c HTTP/1.1\r\nhost: localhost:8080\r\n"
                       "AUTHORIZATION:\tBearer abc \t\r\nContent-Type: application/json\r\n"
                       "Accept: */*\r\nAccept: text/html\r\nIdempotency-Key: k 1\r\n"
                       "X-Empty:\r\nContent-Length: 0042\r\nUser-Agent: caf\xc3\xa9\r\n\r\n";
    struct http_head head = taken(text);
    struct request request = request_of(&head, text);
    assert_int_equal(request.method, HTTP_POST);
    assert_bytes(request.path, "/api/counters/t/n/increment");
    assert_bytes(request.query, "a=b&c");
    assert_bytes(request.authorization, "Bearer abc");
    assert_bytes(request.content_type, "application/json");
    assert_bytes(request.idempotency_key, "k 1");
    assert_bytes(request.accept, "*/*");
    assert_int_equal(request.content_length, 42);
    assert_null(request.body.data);
    assert_false(head.close);
}

static void absent_and_empty_fields_differ(void **unused)
{
    (void)unused;
    const char *text = "GET /? HTTP/1.1\r\nHost:\r\nAuthorization:\r\n\r\n";
    struct http_head head = taken(text);
    struct request request = request_of(&head, text);
    assert_non_null(request.authorization.data);
    assert_int_equal(request.authorization.size, 0);
    assert_non_null(request.query.data);
    assert_int_equal(request.query.size, 0);
    assert_null(request.content_type.data);
    head = taken("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_null(request_of(&head, text).query.data);
}

static void methods_are_tokens(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        enum http_method method;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_GET},
        {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_HEAD},
        {"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_PUT},
        {"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_DELETE},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OPTIONS},
        {"PATCH / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_PATCH},
        {"get / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OTHER},
        {"M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OTHER},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(taken(cases[i].text).method, cases[i].method);
    refused("G@T / HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused(" GET / HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("G\xc3\xa9T / HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
}

static void request_lines_have_three_parts_and_single_spaces(void **unused)
{
    (void)unused;
    refused("GET /\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET\r\n\r\n", FAULT_REQUEST_LINE);
    refused("GET  / HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET / HTTP/1.1 \r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET /a b HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET\t/\tHTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET / http/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET / HTTP/1.1x\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
    refused("GET /\t HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
}

static void other_versions_are_refused(void **unused)
{
    (void)unused;
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FAULT_VERSION);
    refused("GET / HTTP/1.2\r\n" HOST "\r\n", FAULT_VERSION);
    refused("GET / HTTP/0.9\r\n" HOST "\r\n", FAULT_VERSION);
}

static void one_empty_line_before_a_request_is_forgiven(void **unused)
{
    (void)unused;
    const char *text = "\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http_head head = taken(text);
    assert_bytes(request_of(&head, text).path, "/a");
    refused("\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", FAULT_REQUEST_LINE);
}

static void targets_are_paths_or_absolute(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        const char *path;
    } cases[] = {
        {"GET http://h:80/a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", "/a/b"},
        {"GET HTTPS://h/ HTTP/1.1\r\nHost: a\r\n\r\n", "/"},
        {"GET http://[::1]:80 HTTP/1.1\r\nHost: a\r\n\r\n", "/"},
        {"GET http://h?q HTTP/1.1\r\nHost: a\r\n\r\n", "/"},
        {"GET /%2F%00|{} HTTP/1.1\r\nHost: a\r\n\r\n", "/%2F%00|{}"},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct http_head head = taken(cases[i].text);
        assert_bytes(request_of(&head, cases[i].text).path, cases[i].path);
    }
    refused("GET * HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET a HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET http:// HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET http:///a HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET http://u@h/a HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET ftp://h/a HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET /a#b HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
    refused("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", FAULT_TARGET);
}

static void lines_end_in_crlf_and_have_no_control_bytes(void **unused)
{
    (void)unused;
    refused("GET / HTTP/1.1\n" HOST "\r\n", FAULT_CONTROL_BYTE);
    refused(GET "Host: a\n\r\n", FAULT_CONTROL_BYTE);
    refused(GET HOST "\n", FAULT_CONTROL_BYTE);
    refused(GET "Host: a\rX: b\r\n\r\n", FAULT_CONTROL_BYTE);
    refused(GET "Host: a\r\r\n\r\n", FAULT_CONTROL_BYTE);
    refused(GET HOST "X: a\x7f\r\n\r\n", FAULT_CONTROL_BYTE);
    refused(GET HOST "X: a\x1f\r\n\r\n", FAULT_CONTROL_BYTE);
    refused("\x16\x03\x01\x02", FAULT_CONTROL_BYTE); /* a TLS hello */
    struct bytes with_nul = BYTES(GET HOST "X: a\0b\r\n\r\n");
    assert_int_equal(read_every_way(with_nul).fault, FAULT_CONTROL_BYTE);
    taken(GET HOST "X: a\tb\r\n\r\n");
}

static void every_control_byte_at_every_offset_is_found(void **unused)
{
    (void)unused;
    for (int byte = 0; byte < 256; byte++) {
        bool control = (byte < 0x20 && byte != '\t') || byte == 0x7f;
        for (size_t at = 0; at < 40; at++) {
            char text[] = GET HOST "X: 0123456789012345678901234567890123456789\r\n\r\n";
            text[sizeof GET HOST "X: " - 1 + at] = (char)byte;
            struct http_head head = read_whole(bytes_of(text, sizeof text - 1));
            assert_int_equal(head.fault, control ? FAULT_CONTROL_BYTE : FAULT_NONE);
        }
    }
}

static void fields_have_a_token_and_a_colon(void **unused)
{
    (void)unused;
    refused(GET HOST "X : a\r\n\r\n", FAULT_FIELD);
    refused(GET HOST "X\t: a\r\n\r\n", FAULT_FIELD);
    refused(GET HOST ": a\r\n\r\n", FAULT_FIELD);
    refused(GET HOST "X\r\n\r\n", FAULT_FIELD);
    refused(GET HOST "X(y): a\r\n\r\n", FAULT_FIELD);
    refused(GET HOST "X\xc3\xa9: a\r\n\r\n", FAULT_FIELD);
    refused(GET HOST " folded: a\r\n\r\n", FAULT_FOLD);
    refused(GET HOST "X: a\r\n\tb\r\n\r\n", FAULT_FOLD);
    refused(GET " " HOST "\r\n", FAULT_FOLD);
}

static void there_is_exactly_one_host(void **unused)
{
    (void)unused;
    refused(GET "\r\n", FAULT_HOST);
    refused(GET HOST HOST "\r\n", FAULT_REPEATED);
    refused(GET "Host: a,b\r\n\r\n", FAULT_HOST);
    refused(GET "Host: a b\r\n\r\n", FAULT_HOST);
    refused(GET "Host: u@a\r\n\r\n", FAULT_HOST);
    refused(GET "Host: a/b\r\n\r\n", FAULT_HOST);
    refused("GET / HTTP/1.0\r\n" HOST HOST "\r\n", FAULT_REPEATED);
    taken("GET / HTTP/1.0\r\n\r\n");
    taken(GET "Host: [::1]:80\r\n\r\n");
    taken(GET "Host: \r\n\r\n");
}

static void fields_with_one_value_are_not_repeated(void **unused)
{
    (void)unused;
    refused(GET HOST "Authorization: a\r\nauthorization: a\r\n\r\n", FAULT_REPEATED);
    refused(GET HOST "Content-Type: a\r\nContent-Type: a\r\n\r\n", FAULT_REPEATED);
    refused(GET HOST "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n", FAULT_REPEATED);
    refused(GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", FAULT_REPEATED);
    refused(GET HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", FAULT_REPEATED);
    refused(GET HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", FAULT_REPEATED);
    refused(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            FAULT_REPEATED);
    taken(GET HOST
          "X: a\r\nX: b\r\nAccept: a\r\nAccept: b\r\nConnection: a\r\nConnection: b\r\n\r\n");
}

static void lengths_are_digits_only(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      "1 2",
                                      "1,1",
                                      "1, 1",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "a",
                                      "999999999999999999999",
                                      "18446744073709551616"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, POST "Content-Length: %s\r\n\r\n", bad[i]);
        refused(text, FAULT_LENGTH);
    }
    assert_int_equal(taken(POST "Content-Length: 16777216 \r\n\r\n").content_length, 16777216);
    assert_int_equal(taken(POST "content-length:0\r\n\r\n").content_length, 0);
}

static void the_only_encoding_is_chunked_and_stands_alone(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"gzip",      "gzip, chunked", "chunked, chunked",
                                      "chunked,",  "identity",      "",
                                      "x chunked", "chunked;q=1",   "\"chunked\""};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, POST "Transfer-Encoding: %s\r\n\r\n", bad[i]);
        refused(text, FAULT_ENCODING);
    }
    assert_true(taken(POST "Transfer-Encoding: Chunked\r\n\r\n").chunked);
    refused(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            FAULT_LENGTH_AND_ENCODING);
    refused(POST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            FAULT_LENGTH_AND_ENCODING);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FAULT_ENCODING);
}

static void the_only_expectation_is_100_continue(void **unused)
{
    (void)unused;
    assert_true(taken(POST "Expect: 100-Continue\r\n\r\n").expect_continue);
    assert_false(taken("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expect_continue);
    refused(POST "Expect: 200-ok\r\n\r\n", FAULT_EXPECT);
    refused(POST "Expect: 100-continue, x\r\n\r\n", FAULT_EXPECT);
}

static void connections_stay_unless_told_otherwise(void **unused)
{
    (void)unused;
    assert_false(taken(GET HOST "\r\n").close);
    assert_true(taken(GET HOST "Connection: close\r\n\r\n").close);
    assert_true(taken(GET HOST "Connection: x, CLOSE ,y\r\n\r\n").close);
    assert_true(taken(GET HOST "Connection: x\r\nConnection: close\r\n\r\n").close);
    assert_false(taken(GET HOST "Connection: closed\r\n\r\n").close);
    assert_true(taken("GET / HTTP/1.0\r\n\r\n").close);
    assert_false(taken("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").close);
    assert_true(taken("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n").close);
}

static void heads_end_at_16_kib(void **unused)
{
    (void)unused;
    static char text[HTTP_HEAD_BYTES_MAX + 64];
    memset(text, 'a', sizeof text);
    memcpy(text, GET HOST "X: ", sizeof GET HOST "X: " - 1);
    struct http_head head = read_whole(bytes_of(text, HTTP_HEAD_BYTES_MAX - 1));
    assert_int_equal(head.fault, FAULT_NONE);
    head = read_whole(bytes_of(text, HTTP_HEAD_BYTES_MAX));
    assert_int_equal(head.fault, FAULT_HEAD_SIZE);

    memcpy(text + HTTP_HEAD_BYTES_MAX - 4, "\r\n\r\n", 4);
    head = read_whole(bytes_of(text, sizeof text));
    assert_int_equal(head.size, HTTP_HEAD_BYTES_MAX);
    memcpy(text + HTTP_HEAD_BYTES_MAX - 4, "a\r\n\r\n", 5);
    head = read_whole(bytes_of(text, sizeof text));
    assert_int_equal(head.fault, FAULT_HEAD_SIZE);

    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    head = read_whole(bytes_of(text, sizeof text));
    assert_int_equal(head.fault, FAULT_HEAD_SIZE);
}

/* A byte at a time must not look at the whole again each time: 16 KiB in single bytes is 134
 * million byte looks if it does, and 16 thousand if it does not. */
static void a_slow_head_is_scanned_once(void **unused)
{
    (void)unused;
    static char text[HTTP_HEAD_BYTES_MAX];
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    struct http_head head = {0};
    for (size_t size = 1; size < sizeof text; size++) {
        assert_int_equal(http_head_read(&head, text, size), HTTP_MORE);
        assert_int_equal(head.scan, size);
    }
}

struct decoded {
    enum http_progress progress;
    enum fault fault;
    size_t used;
    size_t size;
    char data[256];
};

/* Decodes in pieces that end at `cut` and, past it, every `step` bytes, as a connection does. */
static struct decoded decode(struct bytes raw, size_t cut, size_t step, uint64_t max)
{
    struct decoded result = {.progress = HTTP_MORE};
    struct chunks chunks = {.body_bytes_max = max};
    size_t from = 0;
    while (result.progress == HTTP_MORE && from < raw.size) {
        size_t to = from < cut ? cut : from + step;
        if (to > raw.size) to = raw.size;
        char *piece = must_alloc(to - from);
        memcpy(piece, raw.data + from, to - from);
        size_t used, made;
        result.progress = chunks_decode(&chunks, piece, to - from, &used, &made);
        assert_true(used <= to - from && made <= used);
        if (result.progress == HTTP_MORE) assert_int_equal(used, to - from);
        assert_true(result.size + made <= sizeof result.data);
        memcpy(result.data + result.size, piece, made);
        result.size += made;
        result.used = from + used;
        from = to;
        free(piece);
    }
    result.fault = chunks.fault;
    return result;
}

static struct decoded decode_every_way(const char *text, uint64_t max)
{
    struct bytes raw = bytes_str(text);
    struct decoded whole = decode(raw, raw.size, 1, max);
    for (size_t cut = 1; cut < raw.size; cut++) {
        struct decoded other = decode(raw, cut, raw.size, max);
        assert_memory_equal(&whole, &other, offsetof(struct decoded, data));
        assert_memory_equal(whole.data, other.data, whole.size);
    }
    struct decoded slow = decode(raw, 1, 1, max);
    assert_memory_equal(&whole, &slow, offsetof(struct decoded, data));
    return whole;
}

static void chunks_become_a_body(void **unused)
{
    (void)unused;
    const char *text =
        "5\r\nhello\r\n1;ext=\"v\"\r\n,\r\n0006\r\n world\r\n0\r\nT: x\r\nU:\r\n\r\nGET";
    struct decoded result = decode_every_way(text, 100);
    assert_int_equal(result.progress, HTTP_DONE);
    assert_int_equal(result.used, strlen(text) - 3);
    assert_int_equal(result.size, 12);
    assert_memory_equal(result.data, "hello, world", 12);
    result = decode_every_way("0\r\n\r\n", 0);
    assert_int_equal(result.progress, HTTP_DONE);
    assert_int_equal(result.size, 0);
    assert_int_equal(decode_every_way("A\r\n0123456789\r\n0\r\n\r", 10).progress, HTTP_MORE);
}

static void bad_chunks_are_refused(void **unused)
{
    (void)unused;
    static const char *const bad[] = {
        "\r\n",
        "g\r\n",
        "-1\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "0x5\r\nhello",
        "5\nhello\r\n",
        "5\r\nhelloX\r\n",
        "5\r\nhello\n",
        "5\r\nhello\r\r",
        ";x\r\n",
        "5;a\x01\r\n",
        "5;a\nb\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\r\nX\r\n\r\n",
        "0\r\n a: b\r\n",
        "0\r\nX: a\n\r\n",
        "0\r\n: b\r\n",
        "0\r\nX: a\r\r\n",
        "5\rX",
        "10000000000000000\r\n",
        "fffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct decoded result = decode_every_way(bad[i], UINT64_MAX);
        if (result.fault != FAULT_CHUNK) print_error("%s\n", bad[i]);
        assert_int_equal(result.fault, FAULT_CHUNK);
    }
}

static void a_chunked_body_is_refused_once_it_is_announced_too_large(void **unused)
{
    (void)unused;
    assert_int_equal(decode_every_way("5\r\nhello\r\n6\r\n", 10).fault, FAULT_BODY_SIZE);
    assert_int_equal(decode_every_way("B\r\n", 10).fault, FAULT_BODY_SIZE);
    assert_int_equal(decode_every_way("ffffffffffffffff\r\n", 10).fault, FAULT_BODY_SIZE);
    assert_int_equal(decode_every_way("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n", 10).fault,
                     FAULT_NONE);
}

static void extensions_trailers_and_zeros_are_bounded(void **unused)
{
    (void)unused;
    static const char *const begins[] = {"1;", "0\r\nX: ", "0"};
    for (size_t i = 0; i < ARRAY_COUNT(begins); i++) {
        size_t skip = strlen(begins[i]);
        size_t size = skip + CHUNKS_EXTRA_BYTES_MAX + 8;
        char *raw = must_alloc(size);
        memset(raw, '0', size);
        memcpy(raw, begins[i], skip);
        assert_int_equal(decode(bytes_of(raw, size), size, 1, 10).fault, FAULT_CHUNK);
        free(raw);
    }
}

static void random_cuts_make_no_difference(void **unused)
{
    (void)unused;
    srand(7);
    struct bytes text = BYTES("POST http://h/a?b HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n"
                              "Transfer-Encoding: chunked\r\nConnection: a,close\r\n\r\n");
    struct http_head whole = read_whole(text);
    for (int round = 0; round < 2000; round++) {
        struct http_head head = {0};
        enum http_progress progress = HTTP_MORE;
        size_t size = 0;
        while (progress == HTTP_MORE) {
            size += 1 + (size_t)rand() % 30;
            if (size > text.size) size = text.size;
            progress = read_upto(&head, text, size);
        }
        assert_same(&whole, &head);
    }
}

static void the_same_lines_are_recalled_behind_another_request_line(void **state)
{
    static const struct bytes first = BYTES("POST /a HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\n"
                                            "Content-Length: 7\r\n\r\n");
    static const struct bytes second = BYTES("PUT /longer?q=1 HTTP/1.1\r\nHost: a\r\n"
                                             "Authorization: b\r\nContent-Length: 7\r\n\r\n");
    struct habit *habit = NULL;
    struct http_head head = read_whole(first);
    habit_learn(&habit, &head, first.data);
    struct http_head plain = read_whole(second), again = {.habit = habit};
    assert_int_equal(read_upto(&again, second, second.size), HTTP_DONE);
    assert_true(again.recalled);
    again.recalled = false, again.habit = NULL;
    assert_same(&plain, &again);
    free(habit);
}

/* 1.0 knows no chunks: the same lines are a fault there. */
static void lines_of_another_version_are_not_recalled(void **state)
{
    static const struct bytes first =
        BYTES("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    static const struct bytes second =
        BYTES("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    struct habit *habit = NULL;
    struct http_head head = read_whole(first);
    habit_learn(&habit, &head, first.data);
    struct http_head again = {.habit = habit};
    assert_int_equal(read_upto(&again, second, second.size), HTTP_FAULT);
    free(habit);
}

static void the_body_has_one_coding_or_another(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        enum http_coding coding;
    } cases[] = {
        {"", CODING_NONE},
        {"Content-Encoding:\r\n", CODING_NONE},
        {"Content-Encoding: Identity\r\n", CODING_NONE},
        {"content-encoding: GZip\r\n", CODING_GZIP},
        {"Content-Encoding: x-gzip\r\n", CODING_GZIP},
        {"Content-Encoding: identity, gzip ,\r\n", CODING_GZIP},
        {"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", CODING_GZIP},
        {"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", CODING_OTHER},
        {"Content-Encoding: gzip, br\r\n", CODING_OTHER},
        {"Content-Encoding: br, gzip\r\n", CODING_OTHER},
        {"Content-Encoding: gzip;q=1\r\n", CODING_OTHER},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, POST "%s\r\n", cases[i].lines);
        struct http_head head = read_every_way(bytes_str(text));
        if (head.fault || head.coding != cases[i].coding)
            fail_msg("wrong about %s", cases[i].lines);
    }
}

static void header_lines_can_be_walked(void **state)
{
    (void)state;
    static const char text[] = POST "CE-Id:  7 \r\nX:\r\nce-specversion: 1.0\r\n\r\nbody\r\n";
    struct http_head head = read_every_way(bytes_str(text));
    struct request request;
    struct bytes name, value;
    http_head_request(&head, text, &request);
    assert_true(request.cloud_event);
    static const char *const lines[][2] = {
        {"Host", "a"}, {"CE-Id", "7"}, {"X", ""}, {"ce-specversion", "1.0"}};
    for (unsigned i = 0; i < ARRAY_COUNT(lines); i++) {
        assert_true(request_field_next(&request.fields, &name, &value));
        assert_true(bytes_equal(name, bytes_str(lines[i][0])));
        assert_true(bytes_equal(value, bytes_str(lines[i][1])));
    }
    assert_false(request_field_next(&request.fields, &name, &value));
    refused(POST "ce-specversion: 1.0\r\nCE-Specversion: 1.0\r\n\r\n", FAULT_REPEATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_lines_are_recalled_behind_another_request_line),
        cmocka_unit_test(lines_of_another_version_are_not_recalled),
        cmocka_unit_test(an_ordinary_request_is_understood),
        cmocka_unit_test(absent_and_empty_fields_differ),
        cmocka_unit_test(methods_are_tokens),
        cmocka_unit_test(request_lines_have_three_parts_and_single_spaces),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(one_empty_line_before_a_request_is_forgiven),
        cmocka_unit_test(targets_are_paths_or_absolute),
        cmocka_unit_test(lines_end_in_crlf_and_have_no_control_bytes),
        cmocka_unit_test(every_control_byte_at_every_offset_is_found),
        cmocka_unit_test(fields_have_a_token_and_a_colon),
        cmocka_unit_test(there_is_exactly_one_host),
        cmocka_unit_test(fields_with_one_value_are_not_repeated),
        cmocka_unit_test(lengths_are_digits_only),
        cmocka_unit_test(the_only_encoding_is_chunked_and_stands_alone),
        cmocka_unit_test(the_only_expectation_is_100_continue),
        cmocka_unit_test(connections_stay_unless_told_otherwise),
        cmocka_unit_test(heads_end_at_16_kib),
        cmocka_unit_test(a_slow_head_is_scanned_once),
        cmocka_unit_test(chunks_become_a_body),
        cmocka_unit_test(bad_chunks_are_refused),
        cmocka_unit_test(a_chunked_body_is_refused_once_it_is_announced_too_large),
        cmocka_unit_test(extensions_trailers_and_zeros_are_bounded),
        cmocka_unit_test(random_cuts_make_no_difference),
        cmocka_unit_test(header_lines_can_be_walked),
        cmocka_unit_test(the_body_has_one_coding_or_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
