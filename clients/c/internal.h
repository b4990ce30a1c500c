/* internal.h -- what the files of libtally share. */
#ifndef TALLY_INTERNAL_H
#define TALLY_INTERNAL_H

#include <curl/curl.h>
#include <jansson.h>

#include "tally.h"

#define POSITION_SIZE 96
#define HIDDEN __attribute__((visibility("hidden")))
#define PRINTF_LIKE(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

/* Text that grows. When memory runs out it says so once, at the end. */
struct text {
    char *data;
    size_t size;
    size_t capacity;
    bool failed;
};

HIDDEN void text_add(struct text *text, const char *data, size_t size);
HIDDEN void text_add_str(struct text *text, const char *string);
HIDDEN void text_add_escaped(struct text *text, const char *string); /* percent-encoded */
HIDDEN void text_reset(struct text *text);
HIDDEN void text_release(struct text *text);

struct tally {
    CURL *curl;
    char *address; /* the URL without user and password, and no slash at its end */
    char *tenant;
    struct curl_slist *authorization; /* or NULL */
    struct tally_options limits;      /* the numbers and the stop function */
    struct text reply;
    struct text path;             /* scratch for the call being made */
    char position[POSITION_SIZE]; /* the tenant's last one; "": none */
    char curl_error[CURL_ERROR_SIZE];
};

/* tools.c: fill in `error` unless it is NULL, and return how the call ended. */
HIDDEN enum tally_end fail(struct tally_error *error, enum tally_end end, const char *code,
                           const char *format, ...) PRINTF_LIKE(4, 5);
HIDDEN enum tally_end fail_argument(struct tally_error *error, const char *sentence);
HIDDEN enum tally_end fail_memory(struct tally_error *error);
HIDDEN enum tally_end fail_reply(struct tally_error *error); /* not what the server would say */

/* From {"error":..,"code":..}. */
HIDDEN void error_read(struct tally_error *error, int status, json_t *body);

/* 64-bit values leave the server as strings. False: not one, or past 64 bits. */
HIDDEN bool read_i64(json_t *object, const char *field, int64_t *value_out);
HIDDEN bool read_triple(json_t *object, struct tally_value *value_out);

/* counters.c, events.c: a change as the body of its call, or as an op of a batch with `op` and its
 * key; an event. NULL after filling in `error`. */
enum change_kind { CHANGE_INCREMENT, CHANGE_DECREMENT, CHANGE_SET };
HIDDEN json_t *change_json(const struct tally_change *change, enum change_kind kind,
                           struct tally_error *error);
HIDDEN bool change_to_op(json_t *body, const struct tally_change *change, enum change_kind kind);
HIDDEN json_t *event_json(const struct tally_event *event, struct tally_error *error);

/* request.c: starts tally->path with /api/<kind>/<tenant>. TALLY_INVALID: there is no tenant. */
HIDDEN enum tally_end path_begin(struct tally *tally, const char *kind, struct tally_error *error);
HIDDEN void path_segment(struct tally *tally, const char *segment);

/* Adds to tally->path, a read's with a query, what the client's consistency asks for. */
HIDDEN void path_consistency(struct tally *tally);

/* Sends tally->path and reads the reply's JSON; the caller owns `*json_out`, which may also be
 * there on a refusal and is NULL otherwise. */
HIDDEN enum tally_end call_json(struct tally *tally, struct tally_request *request,
                                struct tally_reply *reply_out, json_t **json_out,
                                struct tally_error *error);

#endif
