/* ingest.c -- `tally ingest`: NDJSON events or operations in bulk. */
#include "cli/ingest.h"

#include <inttypes.h>
#include <limits.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/duration.h"
#include "cli/arguments.h"
#include "cli/interrupt.h"

static const char help[] =
    "usage: tally ingest FILE|- [--as events|ops] [--id NAME] [--make-ids] [--parallel N]\n"
    "                    [--batch N] [--give-up DURATION] [--no-resume] [--json]\n"
    "\n"
    "Sends a file of events, or of operations as in a batch, one JSON object a line. A file whose\n"
    "name ends in .gz is decompressed; - is standard input. Rejected lines are printed with their\n"
    "number and reason, and make the exit code 1.\n"
    "\n"
    "It is safe to repeat. Events count once by their ids. Operations count once by their\n"
    "idempotencyKey; one without gets a key made of the file's path, the line's number and the\n"
    "line, good for as long as the server keeps keys (idempotency.keep, 30 days). After Ctrl-C, a\n"
    "lost connection or a restart of the server the same command goes on where it was.\n"
    "\n"
    "  --as KIND            events or ops (default: what the first line looks like)\n"
    "  --id NAME            what the work is called, instead of the file's path: the same name and\n"
    "                       lines count once; standard input without one is new each time\n"
    "  --make-ids           events without an eventId get one, made like an operation's key\n"
    "  --parallel N         requests under way at a time (1 to 16, default 1); with more than one\n"
    "                       the server may see lines in another order\n"
    "  --batch N            lines in one request, at most (1 to 100000, default 5000)\n"
    "  --give-up DURATION   how long to wait for a server that is away (default 10m)\n"
    "  --no-resume          begin at the first line, and leave no note of how far it got\n" CLIENT_HELP;

struct ingest_flags {
    struct client_flags client;
    const char *file;
    const char *as;
    const char *id;
    const char *parallel;
    const char *batch;
    const char *give_up;
    bool make_ids;
    bool no_resume;
};

/* -- What the work is called ------------------------------------------------------------------- */

static void hex_of(struct bytes text, char out[33])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text.data, text.size, digest);
    for (unsigned i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* A compressed copy has the name of the file it was made of: it is the same work. */
static void name_work(const struct ingest_flags *flags, struct buf *name_out)
{
    char path[PATH_MAX], random[TALLY_KEY_SIZE];
    bool input = strcmp(flags->file, "-") == 0;
    if (flags->id) {
        buf_addf(name_out, "id:%s", flags->id);
    } else if (input) {
        tally_random_key(random);
        buf_addf(name_out, "input:%s", random);
    } else {
        struct bytes file = bytes_str(realpath(flags->file, path) ? path : flags->file);
        bool gzip = file.size > 3 && memcmp(file.data + file.size - 3, ".gz", 3) == 0;
        buf_addf(name_out, "file:%.*s", (int)(file.size - (gzip ? 3 : 0)), file.data);
    }
}

static void find_note(const struct ingest_flags *flags, const struct client *client,
                      struct buf *work, struct resume *resume)
{
    *resume = (struct resume){.line = 0};
    if (flags->no_resume || strcmp(flags->file, "-") == 0) return;
    buf_addf(work, "\n%s\n%s", tally_address(client->tally), client->tenant);
    resume_load(resume, buf_bytes(work));
}

/* -- Options ----------------------------------------------------------------------------------- */

static int read_count(const char *option, const char *text, int64_t most, unsigned *out)
{
    int64_t number;
    int code = argument_integer("ingest", option, text, 1, &number);
    if (code) return code;
    if (number > most)
        return cli_usage_error("ingest", "%s must be from 1 to %" PRId64, option, most);
    *out = (unsigned)number;
    return EXIT_GOOD;
}

static int read_flags(const struct ingest_flags *flags, struct ingest_config *config,
                      struct parcel_rules *rules)
{
    int64_t ms;
    if (!flags->file) return cli_usage_error("ingest", "which file? - is standard input");
    if (flags->as && strcmp(flags->as, "events") == 0)
        rules->kind = PARCEL_EVENTS;
    else if (flags->as && strcmp(flags->as, "ops") == 0)
        rules->kind = PARCEL_OPERATIONS;
    else if (flags->as)
        return cli_usage_error("ingest", "--as must be events or ops");
    if (!duration_parse(bytes_str(flags->give_up), &ms) || ms > INT_MAX)
        return cli_usage_error("ingest", "--give-up must be a duration such as 10m");
    config->give_up_ms = (unsigned)ms;
    rules->make_ids = flags->make_ids;
    int code = read_count("--parallel", flags->parallel, 16, &config->senders);
    return code ? code : read_count("--batch", flags->batch, 100000, &config->lines_each);
}

/* -- The report -------------------------------------------------------------------------------- */

static void print_totals(const struct ingest_flags *flags, const struct ingest_totals *totals)
{
    char lines[PROGRESS_COUNT_SIZE], applied[PROGRESS_COUNT_SIZE], duplicates[PROGRESS_COUNT_SIZE];
    char rejected[PROGRESS_COUNT_SIZE], rate[PROGRESS_COUNT_SIZE], time[PROGRESS_TIME_SIZE];
    double seconds = totals->seconds > 0.001 ? totals->seconds : 0.001;
    if (flags->client.json) {
        printf("{\"lines\":%" PRIu64 ",\"applied\":%" PRIu64 ",\"duplicates\":%" PRIu64
               ",\"rejected\":%" PRIu64 ",\"seconds\":%.3f}\n",
               totals->lines, totals->applied, totals->duplicates, totals->rejected, seconds);
        return;
    }
    printf("%s lines: %s applied, %s duplicates, %s rejected; %s, %s lines/s\n",
           progress_count(totals->lines, lines), progress_count(totals->applied, applied),
           progress_count(totals->duplicates, duplicates),
           progress_count(totals->rejected, rejected), progress_time(seconds, time),
           progress_count((uint64_t)((double)totals->lines_now / seconds), rate));
}

/* -- The command ------------------------------------------------------------------------------- */

static int run(const struct ingest_flags *flags)
{
    struct client client;
    struct resume resume;
    struct buf work;
    struct ingest_totals totals;
    struct parcel_rules rules = {.kind = PARCEL_UNDECIDED};
    struct ingest_config config = {
        .file = flags->file, .client = &flags->client, .stop = &interrupted};
    int code = read_flags(flags, &config, &rules);
    if (code) return code;
    buf_init(&work, 4 * PATH_MAX);
    code = client_open(&client, "ingest", &flags->client);
    if (!code) code = client_tenant(&client);
    if (!code) {
        name_work(flags, &work);
        hex_of(buf_bytes(&work), rules.name);
        find_note(flags, &client, &work, &resume);
        rules.parser = client.parser;
        interrupt_catch();
        code = ingest_run(&config, &rules, &resume, &totals);
        print_totals(flags, &totals);
        if (code && interrupted && resume.path[0])
            fprintf(stderr,
                    "tally ingest: ended after line %" PRIu64 "; the same command goes on there\n",
                    resume.line);
        if (!code && totals.rejected) code = EXIT_FAILED;
    }
    client_close(&client);
    buf_release(&work);
    return code;
}

int cli_ingest(int argc, char **argv)
{
    struct ingest_flags flags = {.parallel = "1", .batch = "5000", .give_up = "10m"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),
        {"--as", &flags.as, NULL},
        {"--id", &flags.id, NULL},
        {"--parallel", &flags.parallel, NULL},
        {"--batch", &flags.batch, NULL},
        {"--give-up", &flags.give_up, NULL},
        {"--make-ids", NULL, &flags.make_ids},
        {"--no-resume", NULL, &flags.no_resume},
    };
    struct cli_arguments arguments = {.command = "ingest",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &flags.file,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(&flags);
    fputs(help, stdout);
    return EXIT_GOOD;
}
