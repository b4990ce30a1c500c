/* fuzz_http.c -- feeds bytes through the request parser as a connection does, cut at places the
 * input chooses, and checks what must hold for any bytes at all:
 *
 *     the verdict does not depend on the cuts; nothing is read past the bytes that are here;
 *     every view lies inside the head; a head is at most 16 KiB; a body at most its limit;
 *     what a connection remembers of one request changes nothing about the next.
 *
 * The first byte seeds the cuts, the rest is the stream. Build with
 * clang -fsanitize=fuzzer,address and run on tests/fuzz/corpus/http. */
#include <stdint.h>
#include <stdlib.h>

#include "wire/chunks.h"
#include "wire/habit.h"

#define BODY_BYTES_MAX 4096u
#define HEAD_BYTES_MIN (sizeof "M / HTTP/1.0\r\n\r\n" - 1) /* a method is one letter or more */
#define PIPELINED_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum http_progress progress;
    enum fault fault;
    size_t used;
    size_t body_size;
};

struct feed {
    struct bytes stream;
    uint64_t random; /* 0: all at once */
};

/* How many bytes are here after the next read. */
static size_t feed_next(struct feed *feed, size_t here)
{
    if (feed->random == 0) return feed->stream.size;
    feed->random = feed->random * 6364136223846793005u + 1442695040888963407u;
    size_t more = 1 + (feed->random >> 33) % ((feed->random >> 60) ? 7 : 200);
    return here + more < feed->stream.size ? here + more : feed->stream.size;
}

static void check_view(struct bytes view, const char *base, size_t head_size)
{
    if (!view.data) return;
    must(view.data >= base && view.data + view.size <= base + head_size);
    for (size_t i = 0; i < view.size; i++)
        must(view.data[i] != '\r' && view.data[i] != '\n' && view.data[i] != 0);
}

/* Every line is walked once, and none but the empty one is left. */
static void check_fields(struct bytes fields)
{
    struct bytes name, value, rest = fields;
    while (request_field_next(&rest, &name, &value)) {
        must(name.size > 0 && name.data >= fields.data);
        must(value.data + value.size <= fields.data + fields.size);
        must(!memchr(name.data, ':', name.size));
        check_view(value, fields.data, fields.size);
    }
    must(rest.data == NULL && !request_field_next(&rest, &name, &value));
}

static void check_head(const struct http_head *head, const char *base)
{
    struct request request;
    http_head_request(head, base, &request);
    must(head->size >= HEAD_BYTES_MIN && head->size <= HTTP_HEAD_BYTES_MAX);
    must(request.path.size > 0);
    if (head->path.size) check_view(request.path, base, head->size);
    check_view(request.query, base, head->size);
    check_view(request.authorization, base, head->size);
    check_view(request.content_type, base, head->size);
    check_view(request.idempotency_key, base, head->size);
    check_view(request.accept, base, head->size);
    check_fields(request.fields);
    must(request.path.data[0] == '/' || request.method == HTTP_OPTIONS);
    must(!head->chunked || head->content_length == 0);
    must(!(head->close && head->keep_alive));
}

/* Copies what is here to memory of exactly that size: a look too far is seen. */
static char *copy_of(const char *data, size_t size)
{
    char *copy = must_alloc(size);
    if (size) memcpy(copy, data, size);
    return copy;
}

static struct outcome run_head(struct feed *feed, struct http_head *head, size_t *here_out)
{
    struct outcome outcome = {.progress = HTTP_MORE};
    size_t here = 0;
    while (outcome.progress == HTTP_MORE && here < feed->stream.size) {
        here = feed_next(feed, here);
        char *copy = copy_of(feed->stream.data, here);
        outcome.progress = http_head_read(head, copy, here);
        if (outcome.progress == HTTP_DONE) check_head(head, copy);
        if (outcome.progress == HTTP_MORE) must(here < HTTP_HEAD_BYTES_MAX);
        free(copy);
    }
    outcome.fault = head->fault;
    outcome.used = head->size;
    *here_out = here;
    return outcome;
}

static struct outcome run_chunks(struct feed *feed, size_t at, size_t here)
{
    struct outcome outcome = {.progress = HTTP_MORE, .used = at};
    struct chunks chunks = {.body_bytes_max = BODY_BYTES_MAX};
    for (;;) {
        size_t used, made;
        char *copy = copy_of(feed->stream.data + outcome.used, here - outcome.used);
        outcome.progress = chunks_decode(&chunks, copy, here - outcome.used, &used, &made);
        free(copy);
        must(made <= used && used <= here - outcome.used);
        if (outcome.progress == HTTP_MORE) must(used == here - outcome.used);
        outcome.used += used;
        outcome.body_size += made;
        must(outcome.body_size <= BODY_BYTES_MAX);
        if (outcome.progress != HTTP_MORE || here == feed->stream.size) break;
        here = feed_next(feed, here);
    }
    outcome.fault = chunks.fault;
    return outcome;
}

static struct outcome run(struct bytes stream, uint64_t random)
{
    struct feed feed = {stream, random};
    struct http_head head = {0};
    size_t here;
    struct outcome outcome = run_head(&feed, &head, &here);
    if (outcome.progress != HTTP_DONE || !head.chunked) return outcome;
    return run_chunks(&feed, head.size, here);
}

static void check_same_view(struct http_view a, struct http_view b)
{
    must(a.at == b.at && a.size == b.size);
}

static void check_same_head(const struct http_head *a, const struct http_head *b)
{
    must(a->fault == b->fault && a->size == b->size);
    if (a->fault != FAULT_NONE || a->size == 0) return;
    must(a->method == b->method && a->minor_zero == b->minor_zero && a->seen == b->seen);
    must(a->coding == b->coding);
    must(accept_gzip(&a->accept_coding) == accept_gzip(&b->accept_coding));
    must(a->chunked == b->chunked && a->content_length == b->content_length);
    must(a->expect_continue == b->expect_continue);
    must(a->close == b->close && a->keep_alive == b->keep_alive);
    check_same_view(a->path, b->path);
    check_same_view(a->query, b->query);
    check_same_view(a->authorization, b->authorization);
    check_same_view(a->content_type, b->content_type);
    check_same_view(a->idempotency_key, b->idempotency_key);
    check_same_view(a->accept, b->accept);
}

/* How many bytes the request takes, its body included; 0: nothing can follow. */
static size_t request_size(struct bytes stream, const struct http_head *head)
{
    if (head->chunked) {
        struct feed feed = {stream, 0};
        struct outcome body = run_chunks(&feed, head->size, stream.size);
        return body.progress == HTTP_DONE ? body.used : 0;
    }
    if (head->content_length > stream.size - head->size) return 0;
    return head->size + (size_t)head->content_length;
}

/* One request after the other, each by the habit of the one before and without. */
static void run_pipelined(struct bytes stream, uint64_t random)
{
    struct habit *habit = NULL;
    for (unsigned i = 0; i < PIPELINED_MAX && stream.size > 0; i++) {
        struct feed whole = {stream, 0}, cut = {stream, random};
        struct http_head plain = {0}, head = {.habit = habit};
        size_t here;
        struct outcome first = run_head(&whole, &plain, &here);
        struct outcome again = run_head(&cut, &head, &here);
        must(first.progress == again.progress);
        check_same_head(&plain, &head);
        if (first.progress != HTTP_DONE) break;
        if (!head.recalled) habit_learn(&habit, &head, stream.data);
        size_t size = request_size(stream, &plain);
        if (size == 0) break;
        stream = bytes_of(stream.data + size, stream.size - size);
    }
    free(habit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct bytes stream = bytes_of(data + 1, size - 1);
    struct outcome whole = run(stream, 0);
    for (uint64_t round = 0; round < 3; round++) {
        struct outcome cut = run(stream, ((uint64_t)data[0] << 8) + round + 1);
        must(cut.progress == whole.progress && cut.fault == whole.fault);
        must(cut.used == whole.used && cut.body_size == whole.body_size);
    }
    run_pipelined(stream, 0);
    run_pipelined(stream, (uint64_t)data[0] + 1);
    return 0;
}
