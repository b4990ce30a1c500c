/* http.h -- the strict HTTP/1.1 request head, as a pure function over bytes.
 *
 * Example:
 *
 *     static enum http_progress read_head(int fd, struct http_head *head, char *data, size_t room)
 *     {
 *         enum http_progress progress = HTTP_MORE;
 *         *head = (struct http_head){0};
 *         for (size_t size = 0; progress == HTTP_MORE && size < room;) {
 *             ssize_t got = read(fd, data + size, room - size);
 *             if (got <= 0) break;
 *             size += (size_t)got;
 *             progress = http_head_read(head, data, size);
 *         }
 *         return progress;
 *     }
 *
 * Each byte is looked at once however the bytes are cut: the head remembers where it stopped. The
 * bytes may move between calls, since the head holds offsets from the request's first byte and no
 * pointers. The verdict depends on the bytes only, never on how they arrived.
 *
 * Refused are: bare CR or LF, control bytes, folded lines, white space around a field name, a
 * missing or repeated Host, a repeated or malformed Content-Length, any transfer encoding but
 * `chunked`, both of them at once, repeats of fields that carry one value. What two servers could
 * read in two ways is read in none here (RFC 9112, 11.2: request smuggling). */
#ifndef TALLY_WIRE_HTTP_H
#define TALLY_WIRE_HTTP_H

#include "wire/accept.h"
#include "wire/exchange.h"
#include "wire/faults.h"

#define HTTP_HEAD_BYTES_MAX 16384u /* request line and header block, with the empty line */

enum http_progress {
    HTTP_MORE,  /* all bytes were taken; more are needed */
    HTTP_DONE,  /* complete */
    HTTP_FAULT, /* refused; `fault` says why, and the connection must be closed */
};

struct http_view {
    uint32_t at; /* from the request's first byte; 0: absent, since the method is there */
    uint32_t size;
};

enum http_coding {
    CODING_NONE, /* or `identity` */
    CODING_GZIP,
    CODING_OTHER, /* or several, one upon the other */
};

struct habit; /* wire/habit.h */

struct http_head {             /* all zero, but for `habit`: nothing read yet */
    const struct habit *habit; /* what this client said last time, or NULL */
    uint32_t fields_at;        /* where the header lines begin, once the request line is read */
    bool recalled;             /* they were the habit */
    uint32_t line;             /* where the line being read begins */
    uint32_t scan;             /* up to here the line has no end and nothing forbidden */
    uint32_t seen;             /* which fields were there, one bit each */
    bool blank_skipped;
    bool request_line_done;

    enum fault fault;
    enum http_method method;
    bool minor_zero; /* HTTP/1.0 */
    bool chunked;
    bool expect_continue;
    bool close;                  /* the client wants this to be its last request, or 1.0 says so */
    bool keep_alive;             /* it asked for keep-alive: worth an answer in 1.0 */
    enum http_coding coding;     /* the body's */
    struct accept accept_coding; /* what the reply may be coded in */
    uint64_t content_length;
    struct http_view path; /* size 0: "/" (an absolute-form target without a path) */
    struct http_view query;
    struct http_view authorization;
    struct http_view content_type;
    struct http_view idempotency_key;
    struct http_view accept;
    uint32_t size; /* the whole head's, once done */
};

/* Reads on in the head that begins at `data`, of which `size` bytes are here, those of earlier
 * calls included. */
enum http_progress http_head_read(struct http_head *head, const char *data, size_t size);

/* The head's fields as views on `data`, where its bytes are now. `body` becomes BYTES_NONE. */
void http_head_request(const struct http_head *head, const char *data, struct request *request_out);

#endif
