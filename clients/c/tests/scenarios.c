/* scenarios.c -- libtally against a real server: `scenarios NAME URL TOKEN [COUNT]`.
 *
 * Each scenario checks what it is told and ends with 0, or says what does not hold and ends with 1.
 * tests/e2e/client-c.test.mjs starts the server, breaks it now and then, and runs these. */
#include <tally.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;
static struct tally_error error;

#define CHECK(holds)                                                                   \
    do {                                                                               \
        if (holds) break;                                                              \
        printf("%s:%d: not so: %s (%s: %s)\n", __FILE__, __LINE__, #holds, error.code, \
               error.sentence);                                                        \
        failures++;                                                                    \
    } while (0)

static bool is(struct tally_value value, int64_t net, int64_t added, int64_t subbed)
{
    return value.net == net && value.added == added && value.subbed == subbed;
}

static bool code_is(const char *code)
{
    return strcmp(error.code, code) == 0;
}

/* -- Changes ----------------------------------------------------------------------------------- */

static void changes(struct tally *tally)
{
    struct tally_value value;
    struct tally_change one = {.name = "stock"};
    CHECK(tally_increment(tally, &one, &value, &error) == TALLY_OK && is(value, 1, 1, 0));
    struct tally_change many = {.name = "stock", .amount = 9, .sync = true};
    CHECK(tally_increment(tally, &many, &value, &error) == TALLY_OK && is(value, 10, 10, 0));
    many.amount = 4;
    CHECK(tally_decrement(tally, &many, &value, NULL) == TALLY_OK && is(value, 6, 10, 4));
    struct tally_change target = {.name = "stock", .amount = 0};
    CHECK(tally_set(tally, &target, &value, &error) == TALLY_OK && is(value, 0, 10, 10));
    CHECK(tally_increment(tally, &one, NULL, NULL) == TALLY_OK);
}

static void refusals(struct tally *tally)
{
    struct tally_value value;
    int64_t max = 3;
    struct tally_change capped = {.name = "quota", .amount = 3, .max = &max};
    CHECK(tally_increment(tally, &capped, &value, &error) == TALLY_OK);
    CHECK(tally_increment(tally, &capped, &value, &error) == TALLY_REFUSED);
    CHECK(code_is("limit_exceeded") && error.status == 409 && is(value, 3, 3, 0));
    struct tally_change below = {.name = "quota", .amount = 4};
    CHECK(tally_decrement(tally, &below, NULL, &error) == TALLY_REFUSED);
    CHECK(code_is("constraint_violation") && strncmp(error.sentence, "Operation failed", 16) == 0);
    struct tally_change bad = {.name = "a/b"};
    CHECK(tally_increment(tally, &bad, NULL, &error) == TALLY_REFUSED && error.status == 400);
}

static void keys(struct tally *tally)
{
    struct tally_value value;
    struct tally_change keyed = {.name = "sales", .amount = 5, .key = "order 17"};
    CHECK(tally_increment(tally, &keyed, &value, &error) == TALLY_OK && !value.replayed);
    CHECK(tally_increment(tally, &keyed, &value, &error) == TALLY_OK && value.replayed);
    CHECK(is(value, 5, 5, 0));
    keyed.amount = 6;
    CHECK(tally_increment(tally, &keyed, &value, &error) == TALLY_REFUSED);
    CHECK(code_is("idempotency_conflict"));
    keyed.key = "not\nprintable";
    CHECK(tally_increment(tally, &keyed, &value, &error) == TALLY_INVALID);
}

static void names(struct tally *tally)
{
    static const char *const all[] = {".", "..", "~", "-", "_", "A.b~C_d-9"};
    struct tally_value value;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK(tally_increment(tally, &(struct tally_change){.name = all[i]}, NULL, &error) == 0);
        CHECK(tally_get(tally, &(struct tally_where){.name = all[i]}, &value, &error) == 0);
        CHECK(is(value, 1, 1, 0));
    }
}

/* -- Reads ------------------------------------------------------------------------------------- */

struct seen {
    unsigned count;
    int64_t net;
    char first[32];
};

static void see(void *context, const char *start, const struct tally_value *value)
{
    struct seen *seen = context;
    if (seen->count++ == 0) snprintf(seen->first, sizeof seen->first, "%s", start);
    seen->net += value->net;
}

static void reads(struct tally *tally)
{
    struct tally_value value;
    struct tally_change hourly = {.name = "visits", .duration_seconds = 3600};
    for (int i = 0; i < 3; i++) {
        char at[TALLY_TIME_SIZE];
        tally_time(1767225600000 + i * 7200000, at);
        hourly.timestamp = at;
        CHECK(tally_increment(tally, &hourly, NULL, &error) == TALLY_OK);
    }
    struct tally_where where = {.name = "visits",
                                .duration_seconds = 3600,
                                .timestamp = "2026-01-01T02:59:00Z",
                                .start_time = "2026-01-01T00:00:00Z",
                                .end_time = "2026-01-01T04:00:00Z"};
    struct seen some = {0}, all = {0};
    CHECK(tally_get(tally, &where, &value, &error) == TALLY_OK && value.net == 1);
    CHECK(tally_sum(tally, &where, &value, &error) == TALLY_OK && value.net == 3);
    CHECK(tally_series(tally, &where, see, &some, &error) == TALLY_OK && some.count == 3);
    CHECK(strcmp(some.first, "2026-01-01T00:00:00.000Z") == 0 && some.net == 3);
    where.fill = true;
    CHECK(tally_series(tally, &where, see, &all, &error) == TALLY_OK && all.count == 5);
    where.name = "nothing";
    CHECK(tally_get(tally, &where, &value, &error) == TALLY_REFUSED && code_is("not_found"));
    where.start_time = NULL;
    CHECK(tally_sum(tally, &where, &value, &error) == TALLY_INVALID);
}

static void past_64_bits(struct tally *tally)
{
    struct tally_value value;
    struct tally_change huge = {.name = "huge", .amount = INT64_MAX, .duration_seconds = 60};
    huge.at = "0";
    CHECK(tally_increment(tally, &huge, NULL, &error) == TALLY_OK);
    huge.timestamp = "60";
    CHECK(tally_increment(tally, &huge, &value, &error) == TALLY_OK && value.net == INT64_MAX);
    struct tally_where where = {
        .name = "huge", .duration_seconds = 60, .start_time = "0", .end_time = "60"};
    CHECK(tally_sum(tally, &where, &value, &error) == TALLY_REFUSED && code_is("out_of_range"));
}

/* -- Events and batches ------------------------------------------------------------------------ */

static void events(struct tally *tally)
{
    struct tally_event_result result;
    struct tally_value value;
    const struct tally_dimension page = {"page", "/a b&c=\"d\""};
    struct tally_event viewed = {.event_id = "e1",
                                 .type = "page.viewed",
                                 .dimensions = &page,
                                 .dimensions_count = 1,
                                 .payload = "{\"ms\":12}"};
    CHECK(tally_send_event(tally, &viewed, &result, &error) == TALLY_OK);
    CHECK(!result.duplicate && result.counters == 1 && result.id > 0);
    uint64_t id = result.id;
    CHECK(tally_send_event(tally, &viewed, &result, &error) == TALLY_OK);
    CHECK(result.duplicate && !result.conflict && result.id == id);
    viewed.payload = "7";
    CHECK(tally_send_event(tally, &viewed, &result, &error) == TALLY_OK && result.conflict);
    struct tally_where where = {.name = "views", .dimensions = &page, .dimensions_count = 1};
    CHECK(tally_get(tally, &where, &value, &error) == TALLY_OK && value.net == 1);
    viewed.payload = "{";
    CHECK(tally_send_event(tally, &viewed, NULL, &error) == TALLY_INVALID);
    CHECK(tally_send_event(tally, &(struct tally_event){0}, NULL, &error) == TALLY_INVALID);
}

static void note_refused(void *context, uint64_t number, const struct tally_error *why)
{
    if (strcmp(why->code, "constraint_violation") == 0) *(uint64_t *)context += number;
}

static void batches(struct tally *tally)
{
    uint64_t refused = 0;
    struct tally_batch *batch = tally_batch_new(tally, 100, note_refused, &refused);
    for (int i = 0; i < 250; i++) {
        struct tally_change change = {.name = i == 207 ? "none" : "many"};
        if (i == 207)
            CHECK(tally_batch_decrement(batch, &change, &error) == TALLY_OK);
        else
            CHECK(tally_batch_increment(batch, &change, &error) == TALLY_OK);
    }
    CHECK(tally_batch_totals(batch).waiting == 50 && tally_batch_totals(batch).applied == 200);
    struct tally_event event = {.type = "page.viewed"};
    CHECK(tally_batch_event(batch, &event, &error) == TALLY_INVALID);
    CHECK(tally_batch_flush(batch, &error) == TALLY_OK);
    struct tally_batch_totals totals = tally_batch_totals(batch);
    CHECK(totals.applied == 249 && totals.refused == 1 && totals.waiting == 0 && refused == 207);
    CHECK(tally_batch_set(batch, &(struct tally_change){.name = "many", .amount = 7}, &error) == 0);
    CHECK(tally_batch_flush(batch, &error) == TALLY_OK);
    event.event_id = "same";
    CHECK(tally_batch_event(batch, &event, &error) == TALLY_OK);
    CHECK(tally_batch_event(batch, &event, &error) == TALLY_OK);
    CHECK(tally_batch_flush(batch, &error) == TALLY_OK && tally_batch_flush(batch, NULL) == 0);
    CHECK(tally_batch_totals(batch).duplicates == 1);
    tally_batch_free(batch);
}

/* -- Everything else --------------------------------------------------------------------------- */

static void calls(struct tally *tally)
{
    struct tally_reply reply;
    char path[600] = "/api/counters/", tenant[300];
    CHECK(tally_escape(tally_tenant(tally), tenant, sizeof tenant));
    strncat(path, tenant, sizeof path - strlen(path) - 1);
    CHECK(tally_call(tally, &(struct tally_request){.path = path}, &reply, &error) == TALLY_OK);
    CHECK(reply.status == 200 && strstr(reply.body, "\"counters\""));
    CHECK(tally_call(tally, &(struct tally_request){.path = "/nothing"}, &reply, &error) != 0);
    CHECK(error.status == 404 && code_is("not_found"));
    struct tally_request deletion = {.method = "DELETE", .path = "/api/counters/x/y"};
    CHECK(tally_call(tally, &deletion, NULL, &error) == TALLY_REFUSED);
    char small[4];
    CHECK(!tally_escape("a/b", small, sizeof small));
    char room[16];
    CHECK(tally_escape("a/b %", room, sizeof room) && strcmp(room, "a%2Fb%20%25") == 0);
}

static bool at_once(void *context)
{
    ++*(int *)context;
    return true;
}

static void troubles(const char *url, const char *token)
{
    int asked = 0;
    CHECK(!tally_new(&(struct tally_options){.url = "ftp://x"}, &error));
    CHECK(!tally_new(&(struct tally_options){.url = NULL}, &error) && code_is("invalid_argument"));
    CHECK(!tally_new(&(struct tally_options){.url = url, .token = "a\r\nb: c"}, &error));
    struct tally *unnamed = tally_new(&(struct tally_options){.url = url, .token = "key"}, &error);
    CHECK(tally_increment(unnamed, &(struct tally_change){.name = "a"}, NULL, &error) ==
          TALLY_INVALID);
    tally_free(unnamed);
    struct tally *away = tally_new(&(struct tally_options){.url = "http://me:hunter2@127.0.0.1:1/",
                                                           .token = token,
                                                           .attempts = 2},
                                   &error);
    CHECK(strcmp(tally_address(away), "http://127.0.0.1:1") == 0);
    CHECK(tally_increment(away, &(struct tally_change){.name = "a"}, NULL, &error) ==
          TALLY_UNKNOWN);
    CHECK(code_is("unreachable") && !strstr(error.sentence, "hunter2"));
    tally_free(away);
    struct tally *stopped = tally_new(
        &(struct tally_options){
            .url = url, .token = token, .stop = at_once, .stop_context = &asked},
        &error);
    CHECK(tally_increment(stopped, &(struct tally_change){.name = "a"}, NULL, &error) ==
          TALLY_UNKNOWN);
    CHECK(code_is("stopped") && asked > 0);
    tally_free(stopped);
    tally_free(NULL);
    tally_batch_free(NULL);
}

/* Counts on while the server is killed and replies are lost. */
static void count_on(struct tally *tally, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(tally_increment(tally, &(struct tally_change){.name = "single"}, NULL, &error) == 0);
    struct tally_batch *batch = tally_batch_new(tally, 10, NULL, NULL);
    for (int i = 0; i < count; i++)
        CHECK(tally_batch_increment(batch, &(struct tally_change){.name = "batched"}, &error) == 0);
    CHECK(tally_batch_flush(batch, &error) == TALLY_OK);
    tally_batch_free(batch);
}

/* -- Standbys ---------------------------------------------------------------------------------- */

static int64_t net_of(const char *url, const char *token, enum tally_consistency consistency)
{
    struct tally_value value = {.net = -1};
    const struct tally_options options = {.url = url, .token = token, .consistency = consistency};
    struct tally *tally = tally_new(&options, &error);
    CHECK(tally &&
          tally_get(tally, &(struct tally_where){.name = "views"}, &value, &error) == TALLY_OK);
    tally_free(tally);
    return value.net;
}

/* The standby has stopped at 1. A client that counted reads what it counted, at another node too. */
static void consistency(const char *url, const char *token)
{
    struct tally_value value;
    const struct tally_options options = {.url = url, .token = token};
    struct tally *tally = tally_new(&options, &error);
    CHECK(tally_increment(tally, &(struct tally_change){.name = "views"}, &value, &error) ==
              TALLY_OK &&
          value.net == 2);
    for (int i = 0; i < 3; i++)
        CHECK(tally_get(tally, &(struct tally_where){.name = "views"}, &value, &error) ==
                  TALLY_OK &&
              value.net == 2);
    CHECK(net_of(url, token, TALLY_ANY) == 1);
    CHECK(net_of(url, token, TALLY_PRIMARY) == 2);
    tally_free(tally);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    struct tally_options options = {.url = argv[2], .token = argv[3]};
    bool patient = strcmp(argv[1], "count") == 0;
    if (patient) {
        options.attempts = 1000;
        options.timeout_ms = 120000;
    }
    struct tally *tally = tally_new(&options, &error);
    CHECK(tally);
    if (patient) {
        count_on(tally, argc > 4 ? atoi(argv[4]) : 10);
    } else if (strcmp(argv[1], "consistency") == 0) {
        consistency(argv[2], argv[3]);
    } else {
        changes(tally);
        refusals(tally);
        keys(tally);
        names(tally);
        reads(tally);
        past_64_bits(tally);
        events(tally);
        batches(tally);
        calls(tally);
        troubles(argv[2], argv[3]);
    }
    tally_free(tally);
    if (!failures) puts("all holds");
    return failures > 0;
}
