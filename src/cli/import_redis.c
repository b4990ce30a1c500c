/* import_redis.c -- `tally import-redis`: the counters of a Redis, each under its own name.
 *
 *     SCAN a page -> PTTL and the first bytes of each value -> SET with the time that is left
 *
 * What is set is absolute, so a page may be set twice, and where the last run ended only saves
 * time. The note of it is written once a page is in tally. A key that SCAN shows twice is set
 * twice. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/redis_peer.h"
#include "cli/resume.h"
#include "core/name.h"

#define VALUE_SHOWN "24" /* bytes of a value that are asked for: more than an integer has */
#define PAGE_BYTES_MAX (256u << 20)
#define TRIES_MAX 300
#define TRY_AGAIN_US 200000

static const char help[] =
    "usage: tally import-redis URL [--resp HOST:PORT] [--new] [--report FILE] [--page N]\n"
    "                          [--ca FILE] [--no-resume] [--token TOKEN] [--tenant T] [--json]\n"
    "\n"
    "Copies the counters of a Redis: every key that holds an integer from 0 on becomes the counter\n"
    "of that name without a duration, with the time that it has left. URL is\n"
    "redis://[user:password@]host[:port][/db], or rediss:// for TLS; a password may stand in\n"
    "REDISCLI_AUTH instead. Other keys are counted, and named in the report with the reason.\n"
    "\n"
    "The values are exact if nobody changes the source meanwhile: keys are read one after the\n"
    "other, and one that changes after it was read has its old value in tally. So stop the writers,\n"
    "run it, and change the address; or run it before, and again once they are stopped. It sets\n"
    "values: do not run it once tally counts, except with --new. After Ctrl-C, a lost connection or\n"
    "a restart of tally the same command goes on where it was.\n"
    "\n"
    "  --resp HOST:PORT     where tally speaks Redis's protocol (resp.listen; default\n"
    "                       127.0.0.1:6780)\n"
    "  --new                leave counters alone that tally has already\n"
    "  --report FILE        keys that are no counters, a line each (default import-redis.report)\n"
    "  --page N             keys at a time, about (1 to 10000, default 1000)\n"
    "  --ca FILE            whom to believe over TLS (default: whom the system does)\n"
    "  --no-resume          begin at the first key, and leave no note of how far it got\n"
    "  --token TOKEN        default $TALLY_TOKEN, which keeps it out of the list of processes\n"
    "  --tenant T           default: the token's own\n"
    "  --json               print JSON, for programs\n";

struct import_flags {
    struct client_flags client;
    const char *resp, *report, *page, *ca;
    bool only_new, no_resume;
};

/* What becomes of a key. */
enum key_fate { FATE_COUNTER, FATE_GONE, FATE_OTHER };

struct key {
    size_t at; /* in `names` */
    size_t size;
    enum key_fate fate;
    int64_t left_ms; /* below 0: for ever */
    char value[32];
};

struct import {
    const struct import_flags *flags;
    struct peer source;
    struct peer target;
    struct resume note;
    FILE *report;
    struct progress progress;
    int64_t total; /* keys in the source when it began */
    char cursor[24];
    struct buf names;
    struct key *keys;
    size_t count, capacity;
    uint64_t seen, imported, kept, left_out;
    unsigned page;
    const char *who; /* the connection that failed */
    struct peer *failed;
};

static bool source_failed(struct import *import)
{
    import->who = "Redis";
    import->failed = &import->source;
    return false;
}

static bool target_failed(struct import *import)
{
    import->who = "tally";
    import->failed = &import->target;
    return false;
}

/* -- What is no counter ------------------------------------------------------------------------ */

static struct bytes name_of(const struct import *import, const struct key *key)
{
    return bytes_of(import->names.data + key->at, key->size);
}

static void leave_out(struct import *import, struct key *key, const char *why)
{
    struct buf line;
    buf_init(&line, PAGE_BYTES_MAX);
    buf_addf(&line, "%s\t", why);
    buf_add_json(&line, name_of(import, key));
    buf_add_char(&line, '\n');
    fwrite(line.data, 1, line.size, import->report);
    buf_release(&line);
    key->fate = FATE_OTHER;
    import->left_out++;
}

/* A report that is gone on with has a line for each key that the note knows of, and may have more:
 * those come again. */
static bool open_report(struct import *import, const char *path)
{
    bool fresh = import->left_out == 0;
    import->report = fopen(path, fresh ? "we" : "r+e");
    if (!import->report) return false;
    uint64_t lines = 0;
    for (int c = 0; lines < import->left_out && c != EOF;) {
        c = fgetc(import->report);
        lines += c == '\n';
    }
    long at = ftell(import->report);
    return fresh ||
           (lines == import->left_out && at >= 0 && ftruncate(fileno(import->report), at) == 0 &&
            fseek(import->report, at, SEEK_SET) == 0);
}

/* -- A page ------------------------------------------------------------------------------------ */

static void add_key(struct import *import, struct bytes name)
{
    if (import->count == import->capacity) {
        import->capacity = import->capacity ? 2 * import->capacity : 1024;
        import->keys = must_realloc(import->keys, import->capacity * sizeof *import->keys);
    }
    import->keys[import->count++] = (struct key){.at = import->names.size, .size = name.size};
    buf_add(&import->names, name);
}

/* The next page of names. An error of Redis's is one of the connection: nothing can go on. */
static bool read_names(struct import *import)
{
    char count[16];
    struct peer_reply reply;
    snprintf(count, sizeof count, "%u", import->page);
    const struct bytes scan[] = {BYTES("SCAN"), bytes_str(import->cursor), BYTES("COUNT"),
                                 bytes_str(count)};
    buf_reset(&import->names);
    import->count = 0;
    if (!peer_ask(&import->source, 4, scan, &reply)) return source_failed(import);
    if (!peer_read(&import->source, &reply)) return source_failed(import);
    if (reply.kind != PEER_TEXT || reply.text.size >= sizeof import->cursor) {
        reason_say(&import->source.why, "its cursor cannot be understood");
        return source_failed(import);
    }
    snprintf(import->cursor, sizeof import->cursor, "%.*s", (int)reply.text.size, reply.text.data);
    if (!peer_read(&import->source, &reply)) return source_failed(import);
    for (int64_t left = reply.number; left > 0; left--) {
        struct peer_reply name;
        if (!peer_read(&import->source, &name)) return source_failed(import);
        add_key(import, name.text);
    }
    return true;
}

/* As Redis's INCR reads one: no sign but '-', no leading zero, nothing around it. */
static bool is_counter(struct bytes text)
{
    if (text.size == 0 || text.size > 19) return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    if (text.data[0] == '0') return text.size == 1;
    return text.size < 19 || memcmp(text.data, "9223372036854775807", 19) <= 0;
}

static void judge(struct import *import, struct key *key, const struct peer_reply *value)
{
    bool below = value->kind == PEER_TEXT && value->text.size > 1 && value->text.data[0] == '-' &&
                 is_counter(bytes_of(value->text.data + 1, value->text.size - 1));
    key->fate = FATE_COUNTER;
    if (key->left_ms == -2)
        key->fate = FATE_GONE;
    else if (value->kind == PEER_ERROR)
        leave_out(import, key, "no string");
    else if (below)
        leave_out(import, key, "below zero");
    else if (!is_counter(value->text))
        leave_out(import, key, "no integer");
    else if (!counter_name_valid(name_of(import, key)))
        leave_out(import, key, "no counter's name");
    else
        snprintf(key->value, sizeof key->value, "%.*s", (int)value->text.size, value->text.data);
}

/* A key that goes between the two questions is gone; that is no mistake. */
static bool read_values(struct import *import)
{
    for (size_t i = 0; i < import->count; i++) {
        struct bytes name = name_of(import, &import->keys[i]);
        const struct bytes left[] = {BYTES("PTTL"), name};
        const struct bytes value[] = {BYTES("GETRANGE"), name, BYTES("0"), BYTES(VALUE_SHOWN)};
        peer_add(&import->source, 2, left);
        peer_add(&import->source, 4, value);
    }
    if (!peer_send(&import->source)) return source_failed(import);
    for (size_t i = 0; i < import->count; i++) {
        struct key *key = &import->keys[i];
        struct peer_reply left, value;
        if (!peer_read(&import->source, &left)) return source_failed(import);
        key->left_ms = left.kind == PEER_NUMBER ? left.number : -1;
        if (!peer_read(&import->source, &value)) return source_failed(import);
        judge(import, key, &value);
    }
    return true;
}

static void add_set(struct import *import, const struct key *key)
{
    char ms[24];
    struct bytes words[6] = {BYTES("SET"), name_of(import, key), bytes_str(key->value)};
    unsigned count = 3;
    snprintf(ms, sizeof ms, "%" PRId64, key->left_ms > 0 ? key->left_ms : 1);
    if (import->flags->only_new) words[count++] = BYTES("NX");
    if (key->left_ms >= 0) {
        words[count++] = BYTES("PX");
        words[count++] = bytes_str(ms);
    }
    peer_add(&import->target, count, words);
}

static bool may_pass(struct bytes error)
{
    return bytes_starts(error, BYTES("BUSY")) || bytes_starts(error, BYTES("UNAVAILABLE"));
}

static void note_answer(struct import *import, struct key *key, const struct peer_reply *reply)
{
    char why[256];
    if (reply->kind == PEER_ERROR) {
        snprintf(why, sizeof why, "%.*s", (int)reply->text.size, reply->text.data);
        leave_out(import, key, why);
        return;
    }
    import->imported += reply->kind != PEER_NOTHING;
    import->kept += reply->kind == PEER_NOTHING;
}

/* Sets what is not set yet. `*again_out`: tally had no room for some of it, or does not know. */
static bool set_values(struct import *import, bool *again_out)
{
    size_t asked = 0;
    *again_out = false;
    for (size_t i = 0; i < import->count; i++) {
        if (import->keys[i].fate != FATE_COUNTER) continue;
        add_set(import, &import->keys[i]);
        asked++;
    }
    if (!peer_send(&import->target)) return target_failed(import);
    for (size_t i = 0; i < import->count && asked > 0; i++) {
        struct key *key = &import->keys[i];
        struct peer_reply reply;
        if (key->fate != FATE_COUNTER) continue;
        asked--;
        if (!peer_read(&import->target, &reply)) return target_failed(import);
        bool again = reply.kind == PEER_ERROR && may_pass(reply.text);
        *again_out |= again;
        if (again) continue;
        note_answer(import, key, &reply);
        if (key->fate == FATE_COUNTER) key->fate = FATE_GONE; /* done */
    }
    return true;
}

static bool set_page(struct import *import)
{
    bool again = true;
    for (unsigned tries = 0; again && tries < TRIES_MAX && !interrupted; tries++) {
        if (tries) usleep(TRY_AGAIN_US);
        if (!set_values(import, &again)) return false;
    }
    if (!again) return true;
    reason_say(&import->target.why, "it cannot write now");
    return target_failed(import);
}

/* -- All of them ------------------------------------------------------------------------------- */

static void keep_note(struct import *import)
{
    fflush(import->report);
    import->note.line = strtoull(import->cursor, NULL, 10);
    import->note.applied = import->imported;
    import->note.duplicates = import->kept;
    import->note.rejected = import->left_out;
    if (!import->flags->no_resume) resume_save(&import->note);
}

static bool copy_all(struct import *import)
{
    char done[PROGRESS_COUNT_SIZE], out[PROGRESS_COUNT_SIZE];
    do {
        if (!read_names(import) || !read_values(import) || !set_page(import)) return false;
        uint64_t all = import->imported + import->kept + import->left_out;
        keep_note(import);
        double share = import->total > 0 ? (double)all / (double)import->total : 0;
        progress_show(&import->progress, share > 1 ? 1 : share, "%s imported, %s left out",
                      progress_count(import->imported, done),
                      progress_count(import->left_out, out));
    } while (strcmp(import->cursor, "0") != 0 && !interrupted);
    return true;
}

/* -- Beginning --------------------------------------------------------------------------------- */

/* A cursor is good as long as that process lives. */
static uint64_t source_identity(struct import *import)
{
    struct peer_reply reply;
    const struct bytes info[] = {BYTES("INFO"), BYTES("server")};
    static const struct bytes label = BYTES("run_id:");
    if (!peer_ask(&import->source, 2, info, &reply)) return 0; /* it may not be allowed */
    for (size_t i = 0; i + label.size + 40 <= reply.text.size; i++)
        if (memcmp(reply.text.data + i, label.data, label.size) == 0)
            return hash_checksum(bytes_of(reply.text.data + i + label.size, 40));
    return 0;
}

static void find_note(struct import *import, const struct peer_place *from)
{
    const struct import_flags *flags = import->flags;
    struct buf work;
    uint64_t identity = source_identity(import);
    snprintf(import->cursor, sizeof import->cursor, "0");
    import->note = (struct resume){.line = 0};
    if (flags->no_resume) return;
    buf_init(&work, 1u << 16);
    buf_addf(&work, "redis\n%s\n%s\n%" PRId64 "\n%s\n%s\n%s", from->host, from->port,
             from->database, flags->resp, flags->client.tenant ? flags->client.tenant : "",
             flags->client.token ? flags->client.token : "");
    resume_load(&import->note, buf_bytes(&work));
    explicit_bzero(work.data, work.size);
    buf_release(&work);
    if (import->note.line && import->note.digest == identity) {
        snprintf(import->cursor, sizeof import->cursor, "%" PRIu64, import->note.line);
        import->imported = import->note.applied;
        import->kept = import->note.duplicates;
        import->left_out = import->note.rejected;
    }
    import->note.digest = identity;
}

static bool open_target(struct import *import)
{
    const struct import_flags *flags = import->flags;
    struct peer_place place;
    struct buf url;
    buf_init(&url, 4096);
    buf_addf(&url, "redis://%s", flags->resp);
    bool good = peer_place_read(buf_bytes(&url), &place);
    buf_release(&url);
    const char *tenant = flags->client.tenant ? flags->client.tenant : "default";
    struct peer_reply reply;
    const struct bytes auth[] = {BYTES("AUTH"), bytes_str(tenant),
                                 bytes_str(flags->client.token ? flags->client.token : "")};
    if (!good) {
        reason_say(&import->target.why, "--resp must be HOST:PORT");
        return target_failed(import);
    }
    if (!peer_open(&import->target, &place) || !peer_ask(&import->target, 3, auth, &reply))
        return target_failed(import);
    return true;
}

static bool open_both(struct import *import, const struct peer_place *from)
{
    struct peer_reply reply;
    const struct bytes size[] = {BYTES("DBSIZE")};
    if (!peer_open(&import->source, from)) return source_failed(import);
    find_note(import, from);
    if (peer_ask(&import->source, 1, size, &reply)) import->total = reply.number;
    return open_target(import);
}

/* -- The command ------------------------------------------------------------------------------- */

static void print_totals(const struct import *import)
{
    char imported[PROGRESS_COUNT_SIZE], kept[PROGRESS_COUNT_SIZE], out[PROGRESS_COUNT_SIZE];
    if (import->flags->client.json) {
        printf("{\"imported\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"leftOut\":%" PRIu64 "}\n",
               import->imported, import->kept, import->left_out);
        return;
    }
    printf("%s counters imported", progress_count(import->imported, imported));
    if (import->flags->only_new)
        printf(", %s were there already", progress_count(import->kept, kept));
    printf(", %s keys left out", progress_count(import->left_out, out));
    if (import->left_out) printf(": %s names them", import->flags->report);
    printf("\n");
}

static int copy(struct import *import, const struct peer_place *from)
{
    const char *command = "import-redis";
    if (!open_both(import, from))
        return cli_failure(command, "%s: %s", import->who, reason_text(&import->failed->why));
    if (!open_report(import, import->flags->report))
        return cli_failure(command, "%s cannot be written", import->flags->report);
    interrupt_catch();
    progress_begin(&import->progress, command);
    bool good = copy_all(import);
    progress_clear(&import->progress);
    if (!good)
        return cli_failure(command, "%s: %s; the same command goes on there", import->who,
                           reason_text(&import->failed->why));
    if (strcmp(import->cursor, "0") != 0)
        return cli_failure(command, "stopped; the same command goes on there");
    resume_remove(&import->note);
    print_totals(import);
    return EXIT_GOOD;
}

static int run(const struct import_flags *flags, const char *url)
{
    struct import import = {.flags = flags};
    struct peer_place from;
    int64_t page;
    if (!url) return cli_usage_error("import-redis", "which Redis? redis://host:port/db");
    if (!peer_place_read(bytes_str(url), &from))
        return cli_usage_error("import-redis", "the URL must be like redis://host:port/db");
    int code = argument_integer("import-redis", "--page", flags->page, 1, &page);
    if (code) return code;
    if (page > 10000) return cli_usage_error("import-redis", "--page must be from 1 to 10000");
    const char *secret = getenv("REDISCLI_AUTH");
    if (!from.password[0] && secret) snprintf(from.password, sizeof from.password, "%s", secret);
    from.ca_file = flags->ca;
    import.page = (unsigned)page;
    buf_init(&import.names, PAGE_BYTES_MAX);
    code = copy(&import, &from);
    peer_close(&import.source);
    peer_close(&import.target);
    if (import.report) fclose(import.report);
    buf_release(&import.names);
    free(import.keys);
    return code;
}

int cli_import_redis(int argc, char **argv)
{
    const char *url = NULL;
    struct import_flags flags = {
        .resp = "127.0.0.1:6780", .report = "import-redis.report", .page = "1000"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        {"--token", &flags.client.token, NULL},
        {"--tenant", &flags.client.tenant, NULL},
        {"--json", NULL, &flags.client.json},
        {"--resp", &flags.resp, NULL},
        {"--report", &flags.report, NULL},
        {"--page", &flags.page, NULL},
        {"--ca", &flags.ca, NULL},
        {"--new", NULL, &flags.only_new},
        {"--no-resume", NULL, &flags.no_resume},
    };
    struct cli_arguments arguments = {.command = "import-redis",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &url,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code || arguments.help) return code ? code : (fputs(help, stdout), EXIT_GOOD);
    return run(&flags, url);
}
