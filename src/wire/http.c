/* http.c -- reads request heads line by line; http.h says what it refuses.
 *
 * One pass finds the next control byte (a vector compare, 16 bytes a step), which has to be the
 * line's CR: so finding the end of a line and refusing what must not be in it is the same work. */
#include "wire/http.h"

#include "wire/habit.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum header_field {
    FIELD_OTHER,
    FIELD_HOST,
    FIELD_ACCEPT,
    FIELD_ACCEPT_ENCODING,
    FIELD_EXPECT,
    FIELD_CONNECTION,
    FIELD_CONTENT_TYPE,
    FIELD_AUTHORIZATION,
    FIELD_CONTENT_LENGTH,
    FIELD_CE_SPECVERSION,
    FIELD_IDEMPOTENCY_KEY,
    FIELD_CONTENT_ENCODING,
    FIELD_TRANSFER_ENCODING,
};

/* Fields that are lists may come on several lines (RFC 9110, 5.3). No other known field may. */
#define FIELDS_REPEATABLE                                              \
    (1u << FIELD_OTHER | 1u << FIELD_ACCEPT | 1u << FIELD_CONNECTION | \
     1u << FIELD_CONTENT_ENCODING | 1u << FIELD_ACCEPT_ENCODING)

#define KIND_TOKEN 1 /* RFC 9110, 5.6.2 */
#define KIND_HOST 2  /* the bytes that a name, an address and a port are made of; no comma */
#define T KIND_TOKEN
#define H KIND_HOST
#define B (KIND_TOKEN | KIND_HOST)
static const unsigned char byte_kinds[256] = {
    ['!'] = B, ['#'] = T, ['$'] = B, ['%'] = B, ['&'] = B, ['\''] = B, ['('] = H, [')'] = H,
    ['*'] = B, ['+'] = B, ['-'] = B, ['.'] = B, [':'] = H, [';'] = H,  ['='] = H, ['['] = H,
    [']'] = H, ['^'] = T, ['_'] = B, ['`'] = T, ['|'] = T, ['~'] = B,  ['0'] = B, ['1'] = B,
    ['2'] = B, ['3'] = B, ['4'] = B, ['5'] = B, ['6'] = B, ['7'] = B,  ['8'] = B, ['9'] = B,
    ['A'] = B, ['B'] = B, ['C'] = B, ['D'] = B, ['E'] = B, ['F'] = B,  ['G'] = B, ['H'] = B,
    ['I'] = B, ['J'] = B, ['K'] = B, ['L'] = B, ['M'] = B, ['N'] = B,  ['O'] = B, ['P'] = B,
    ['Q'] = B, ['R'] = B, ['S'] = B, ['T'] = B, ['U'] = B, ['V'] = B,  ['W'] = B, ['X'] = B,
    ['Y'] = B, ['Z'] = B, ['a'] = B, ['b'] = B, ['c'] = B, ['d'] = B,  ['e'] = B, ['f'] = B,
    ['g'] = B, ['h'] = B, ['i'] = B, ['j'] = B, ['k'] = B, ['l'] = B,  ['m'] = B, ['n'] = B,
    ['o'] = B, ['p'] = B, ['q'] = B, ['r'] = B, ['s'] = B, ['t'] = B,  ['u'] = B, ['v'] = B,
    ['w'] = B, ['x'] = B, ['y'] = B, ['z'] = B,
};
#undef T
#undef H
#undef B

/* How many of the first bytes are of this kind. */
static size_t span_of(struct bytes text, unsigned char kind)
{
    size_t i = 0;
    while (i < text.size && (byte_kinds[(unsigned char)text.data[i]] & kind))
        i++;
    return i;
}

static bool all_of(struct bytes text, unsigned char kind)
{
    return span_of(text, kind) == text.size;
}

static bool is_control(unsigned char byte)
{
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* The first control byte (HT is none) at or after `at`, or `size`. */
static size_t control_find(const char *data, size_t at, size_t size)
{
#ifdef __SSE2__
    const __m128i low = _mm_set1_epi8(0x1f);
    const __m128i tab = _mm_set1_epi8('\t');
    const __m128i del = _mm_set1_epi8(0x7f);
    for (; at + 16 <= size; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(data + at));
        __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(bytes, low), bytes);
        below = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, tab), below);
        int mask = _mm_movemask_epi8(_mm_or_si128(below, _mm_cmpeq_epi8(bytes, del)));
        if (mask) return at + (size_t)__builtin_ctz((unsigned)mask);
    }
#endif
    while (at < size && !is_control((unsigned char)data[at]))
        at++;
    return at;
}

static struct http_view view_of(const char *base, struct bytes text)
{
    return (struct http_view){(uint32_t)(text.data - base), (uint32_t)text.size};
}

static enum http_method method_of(struct bytes token)
{
    static const struct {
        struct bytes name;
        enum http_method method;
    } methods[] = {
        {{"POST", 4}, HTTP_POST},       {{"GET", 3}, HTTP_GET},       {{"PUT", 3}, HTTP_PUT},
        {{"HEAD", 4}, HTTP_HEAD},       {{"DELETE", 6}, HTTP_DELETE}, {{"PATCH", 5}, HTTP_PATCH},
        {{"OPTIONS", 7}, HTTP_OPTIONS},
    };
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++)
        if (bytes_equal(token, methods[i].name)) return methods[i].method;
    return HTTP_OTHER;
}

static enum fault read_version(struct http_head *head, struct bytes text)
{
    if (bytes_equal(text, BYTES("HTTP/1.1"))) return FAULT_NONE;
    if (bytes_equal(text, BYTES("HTTP/1.0"))) {
        head->minor_zero = true;
        return FAULT_NONE;
    }
    bool other = text.size == 8 && bytes_starts(text, BYTES("HTTP/"));
    return other ? FAULT_VERSION : FAULT_REQUEST_LINE;
}

/* True for visible ASCII without '#': a fragment is never sent. */
static bool target_is_clean(struct bytes target)
{
    size_t at = 0;
#ifdef __SSE2__
    const __m128i low = _mm_set1_epi8(0x21);
    const __m128i del = _mm_set1_epi8(0x7f);
    const __m128i hash = _mm_set1_epi8('#');
    for (; at + 16 <= target.size; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(target.data + at));
        __m128i bad = _mm_cmplt_epi8(bytes, low); /* signed: all above 0x7f too */
        bad = _mm_or_si128(bad, _mm_cmpeq_epi8(bytes, del));
        if (_mm_movemask_epi8(_mm_or_si128(bad, _mm_cmpeq_epi8(bytes, hash)))) return false;
    }
#endif
    for (; at < target.size; at++) {
        unsigned char byte = (unsigned char)target.data[at];
        if (byte < 0x21 || byte > 0x7e || byte == '#') return false;
    }
    return true;
}

/* Cuts the scheme and authority off an absolute-form target. False: it is not one. */
static bool target_cut_authority(struct bytes *target)
{
    static const struct bytes schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < ARRAY_COUNT(schemes); i++) {
        size_t skip = schemes[i].size;
        if (target->size <= skip) continue;
        if (!bytes_equal_nocase(bytes_of(target->data, skip), schemes[i])) continue;
        struct bytes rest = bytes_of(target->data + skip, target->size - skip);
        size_t host = span_of(rest, KIND_HOST);
        if (host == 0) return false;
        if (host < rest.size && rest.data[host] != '/' && rest.data[host] != '?') return false;
        *target = bytes_of(rest.data + host, rest.size - host);
        return true;
    }
    return false;
}

static enum fault read_target(struct http_head *head, const char *base, struct bytes target)
{
    if (target.size == 0 || !target_is_clean(target)) return FAULT_TARGET;
    bool asterisk = head->method == HTTP_OPTIONS && bytes_equal(target, BYTES("*"));
    if (!asterisk && target.data[0] != '/' && !target_cut_authority(&target)) return FAULT_TARGET;

    struct bytes query = target;
    struct bytes path = bytes_split(&query, '?');
    head->path = view_of(base, path);
    if (query.data) head->query = view_of(base, query);
    return FAULT_NONE;
}

static enum fault read_request_line(struct http_head *head, const char *base, struct bytes line)
{
    struct bytes rest = line;
    struct bytes method = bytes_split(&rest, ' ');
    if (method.size == 0 || !rest.data || !all_of(method, KIND_TOKEN)) return FAULT_REQUEST_LINE;
    struct bytes target = bytes_split(&rest, ' ');
    if (!rest.data) return FAULT_REQUEST_LINE;

    enum fault fault = read_version(head, rest);
    if (fault) return fault;
    head->method = method_of(method);
    return read_target(head, base, target);
}

/* `lower` is in lower case. Setting bit 5 folds letters and moves no other token byte onto a
 * letter or '-'. */
static bool name_is(struct bytes name, const char *lower)
{
    for (size_t i = 0; i < name.size; i++)
        if ((name.data[i] | 0x20) != lower[i]) return false;
    return true;
}

static enum header_field field_of(struct bytes name)
{
    switch (name.size) {
    case 4:
        return name_is(name, "host") ? FIELD_HOST : FIELD_OTHER;
    case 6:
        if (name_is(name, "accept")) return FIELD_ACCEPT;
        return name_is(name, "expect") ? FIELD_EXPECT : FIELD_OTHER;
    case 10:
        return name_is(name, "connection") ? FIELD_CONNECTION : FIELD_OTHER;
    case 12:
        return name_is(name, "content-type") ? FIELD_CONTENT_TYPE : FIELD_OTHER;
    case 13:
        return name_is(name, "authorization") ? FIELD_AUTHORIZATION : FIELD_OTHER;
    case 14:
        if (name_is(name, "content-length")) return FIELD_CONTENT_LENGTH;
        return name_is(name, "ce-specversion") ? FIELD_CE_SPECVERSION : FIELD_OTHER;
    case 15:
        if (name_is(name, "idempotency-key")) return FIELD_IDEMPOTENCY_KEY;
        return name_is(name, "accept-encoding") ? FIELD_ACCEPT_ENCODING : FIELD_OTHER;
    case 16:
        return name_is(name, "content-encoding") ? FIELD_CONTENT_ENCODING : FIELD_OTHER;
    case 17:
        return name_is(name, "transfer-encoding") ? FIELD_TRANSFER_ENCODING : FIELD_OTHER;
    default:
        return FIELD_OTHER;
    }
}

/* Takes digits only: no sign, no list, nothing past 18 of them once leading zeros are off. */
static enum fault read_length(struct http_head *head, struct bytes value)
{
    if (value.size == 0) return FAULT_LENGTH;
    uint64_t length = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') return FAULT_LENGTH;
        if (length >= 100000000000000000u) return FAULT_LENGTH;
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    head->content_length = length;
    return FAULT_NONE;
}

static void read_connection(struct http_head *head, struct bytes value)
{
    while (value.data) {
        struct bytes option = bytes_trim(bytes_split(&value, ','));
        if (bytes_equal_nocase(option, BYTES("close"))) head->close = true;
        if (bytes_equal_nocase(option, BYTES("keep-alive"))) head->keep_alive = true;
    }
}

/* In HTTP/1.0 there is no 100 Continue, and the field is to be ignored (RFC 9110, 10.1.1). */
static enum fault read_expect(struct http_head *head, struct bytes value)
{
    if (head->minor_zero) return FAULT_NONE;
    if (!bytes_equal_nocase(value, BYTES("100-continue"))) return FAULT_EXPECT;
    head->expect_continue = true;
    return FAULT_NONE;
}

/* `identity` is no coding (RFC 9110, 8.4.1), and `x-gzip` is another word for gzip. */
static void read_coding(struct http_head *head, struct bytes value)
{
    while (value.data) {
        struct bytes coding = bytes_trim(bytes_split(&value, ','));
        if (coding.size == 0 || bytes_equal_nocase(coding, BYTES("identity"))) continue;
        bool gzip = bytes_equal_nocase(coding, BYTES("gzip")) ||
                    bytes_equal_nocase(coding, BYTES("x-gzip"));
        head->coding = gzip && head->coding == CODING_NONE ? CODING_GZIP : CODING_OTHER;
    }
}

static enum fault read_encoding(struct http_head *head, struct bytes value)
{
    if (head->minor_zero || !bytes_equal_nocase(value, BYTES("chunked"))) return FAULT_ENCODING;
    head->chunked = true;
    return FAULT_NONE;
}

static enum fault read_value(struct http_head *head, const char *base, enum header_field field,
                             struct bytes value)
{
    switch (field) {
    case FIELD_OTHER:
    case FIELD_CE_SPECVERSION: /* only its presence counts; see `seen` */
        return FAULT_NONE;
    case FIELD_HOST:
        return all_of(value, KIND_HOST) ? FAULT_NONE : FAULT_HOST;
    case FIELD_EXPECT:
        return read_expect(head, value);
    case FIELD_CONTENT_LENGTH:
        return read_length(head, value);
    case FIELD_TRANSFER_ENCODING:
        return read_encoding(head, value);
    case FIELD_CONNECTION:
        read_connection(head, value);
        return FAULT_NONE;
    case FIELD_ACCEPT_ENCODING:
        accept_read(&head->accept_coding, value);
        return FAULT_NONE;
    case FIELD_CONTENT_ENCODING:
        read_coding(head, value);
        return FAULT_NONE;
    case FIELD_CONTENT_TYPE:
        head->content_type = view_of(base, value);
        return FAULT_NONE;
    case FIELD_AUTHORIZATION:
        head->authorization = view_of(base, value);
        return FAULT_NONE;
    case FIELD_IDEMPOTENCY_KEY:
        head->idempotency_key = view_of(base, value);
        return FAULT_NONE;
    case FIELD_ACCEPT:
        if (!head->accept.at) head->accept = view_of(base, value);
        return FAULT_NONE;
    }
    unreachable_state(field);
}

static enum fault read_field(struct http_head *head, const char *base, struct bytes line)
{
    if (line.data[0] == ' ' || line.data[0] == '\t') return FAULT_FOLD;
    size_t name_size = span_of(line, KIND_TOKEN);
    if (name_size == 0 || name_size == line.size || line.data[name_size] != ':') return FAULT_FIELD;

    enum header_field field = field_of(bytes_of(line.data, name_size));
    uint32_t bit = 1u << field;
    if ((head->seen & bit) && !(bit & FIELDS_REPEATABLE)) return FAULT_REPEATED;
    head->seen |= bit;
    struct bytes value = bytes_of(line.data + name_size + 1, line.size - name_size - 1);
    return read_value(head, base, field, bytes_trim(value));
}

/* Judges what no single line could tell, once the empty line is here. */
static enum fault head_finish(struct http_head *head)
{
    if (!head->minor_zero && !(head->seen & 1u << FIELD_HOST)) return FAULT_HOST;
    if (head->chunked && (head->seen & 1u << FIELD_CONTENT_LENGTH))
        return FAULT_LENGTH_AND_ENCODING;
    if (head->minor_zero && !head->keep_alive) head->close = true;
    if (head->close) head->keep_alive = false;
    return FAULT_NONE;
}

/* One whole line, without its CRLF. `*done_out` is set by the line that ends the head. */
static enum fault read_line(struct http_head *head, const char *base, struct bytes line,
                            bool *done_out)
{
    if (head->request_line_done) {
        if (line.size) return read_field(head, base, line);
        *done_out = true;
        return head_finish(head);
    }
    /* One empty line before a request is forgiven: RFC 9112, 2.2. */
    if (line.size == 0 && !head->blank_skipped) {
        head->blank_skipped = true;
        return FAULT_NONE;
    }
    head->request_line_done = true;
    return read_request_line(head, base, line);
}

static enum http_progress head_refuse(struct http_head *head, enum fault fault)
{
    head->fault = fault;
    return HTTP_FAULT;
}

/* True once, after the request line. */
static bool fields_begin(struct http_head *head)
{
    if (!head->request_line_done || head->fields_at) return false;
    head->fields_at = head->line;
    return true;
}

enum http_progress http_head_read(struct http_head *head, const char *data, size_t size)
{
    must(head->fault == FAULT_NONE && head->size == 0);
    size_t limit = size < HTTP_HEAD_BYTES_MAX ? size : HTTP_HEAD_BYTES_MAX;
    bool done = false;

    for (;;) {
        size_t end = control_find(data, head->scan, limit);
        head->scan = (uint32_t)end;
        if (end < limit && data[end] != '\r') return head_refuse(head, FAULT_CONTROL_BYTE);
        if (end + 1 >= limit) break;
        if (data[end + 1] != '\n') return head_refuse(head, FAULT_CONTROL_BYTE);

        enum fault fault =
            read_line(head, data, bytes_of(data + head->line, end - head->line), &done);
        if (fault) return head_refuse(head, fault);
        head->line = head->scan = (uint32_t)end + 2;
        if (fields_begin(head) && head->habit && habit_recall(head->habit, head, data, limit))
            return HTTP_DONE;
        if (done) {
            head->size = head->line;
            return HTTP_DONE;
        }
    }
    return limit == HTTP_HEAD_BYTES_MAX ? head_refuse(head, FAULT_HEAD_SIZE) : HTTP_MORE;
}

/* The lines were read and judged before, so each is a name, a colon and a value, and ends in
 * CRLF. */
bool request_field_next(struct bytes *fields, struct bytes *name_out, struct bytes *value_out)
{
    struct bytes line = bytes_split(fields, '\r');
    if (line.size == 0) {
        *fields = BYTES_NONE;
        return false;
    }
    fields->data++;
    fields->size--;
    *value_out = line;
    *name_out = bytes_split(value_out, ':');
    *value_out = bytes_trim(*value_out);
    return true;
}

struct bytes request_field(const struct request *request, struct bytes wanted)
{
    struct bytes fields = request->fields, name, value;
    while (request_field_next(&fields, &name, &value))
        if (bytes_equal_nocase(name, wanted)) return value;
    return BYTES_NONE;
}

static struct bytes view_bytes(struct http_view view, const char *data)
{
    return view.at ? bytes_of(data + view.at, view.size) : BYTES_NONE;
}

void http_head_request(const struct http_head *head, const char *data, struct request *request_out)
{
    *request_out = (struct request){
        .method = head->method,
        .path = head->path.size ? view_bytes(head->path, data) : BYTES("/"),
        .query = view_bytes(head->query, data),
        .authorization = view_bytes(head->authorization, data),
        .content_type = view_bytes(head->content_type, data),
        .idempotency_key = view_bytes(head->idempotency_key, data),
        .accept = view_bytes(head->accept, data),
        .fields = bytes_of(data + head->fields_at, head->size - head->fields_at),
        .takes_gzip = accept_gzip(&head->accept_coding),
        .cloud_event = (head->seen & 1u << FIELD_CE_SPECVERSION) != 0,
        .body = BYTES_NONE,
        .content_length = head->content_length,
    };
}
