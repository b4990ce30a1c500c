/* verify.c -- `tally verify`: reads everything again and says whether it is whole. Offline. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "serve/daemon.h"
#include "store/embedded/verify/verify.h"
#include "store/embedded/backup/backup.h"

#define LOOK_MS 50

static const char help[] =
    "usage: tally verify [BACKUP] [--data DIR] [--config FILE] [--set key=value]... [--json]\n"
    "\n"
    "Reads every checksum of a data directory again, opens a copy of it, and compares its state\n"
    "with what the journal adds up to from the newest backup it reaches back to, or from an empty\n"
    "start. With BACKUP, a name in ops.dir, that backup is read again instead. Nothing is changed.\n"
    "All lanes are read, one after the other.\n"
    "Of a store in PostgreSQL what stands there twice is compared: counts, sums, ids, lanes.\n"
    "No server may be running on the directory; a backup or a database can be verified beside one.\n"
    "Exit code 1 if anything is damaged, or could not be looked at.\n"
    "\n"
    "  --data DIR        what to verify (default: data of the config)\n"
    "  --config FILE     the server's config, which says where ops.dir and the data are\n"
    "  --set key=value   any setting; may be repeated\n"
    "  --json            one JSON object a finding\n";

struct verifying {
    struct verify_config config;
    const char *backup;            /* NULL: the store, */
    const struct config *database; /* which is in PostgreSQL; NULL: in files */
    struct effort effort;
    struct progress progress;
    pthread_mutex_t printing;
    bool json;
    enum err err;
    atomic_bool done;
};

static const struct {
    const char *word; /* in JSON */
    const char *title;
} verdicts[] = {
    [VERIFY_GOOD] = {"good", "good:        "},
    [VERIFY_DAMAGED] = {"damaged", "DAMAGED:     "},
    [VERIFY_UNCHECKED] = {"unchecked", "not checked: "},
    [VERIFY_REFUSED] = {"refused", NULL}, /* an error like any command's, on stderr */
};

static void say_json(const struct verify_finding *finding)
{
    struct buf line;
    buf_init(&line, 64u << 10);
    buf_addf(&line, "{\"what\":\"%s\",\"verdict\":\"%s\"", finding->what,
             verdicts[finding->verdict].word);
    if (finding->lane >= 0) buf_addf(&line, ",\"lane\":%d", finding->lane);
    buf_add(&line, BYTES(",\"text\":"));
    buf_add_json(&line, bytes_str(finding->text));
    printf("%.*s}\n", (int)line.size, line.data);
    buf_release(&line);
}

static void say_text(const struct verify_finding *finding)
{
    char lane[32] = "";
    if (finding->lane >= 0) snprintf(lane, sizeof lane, "lane %d: ", finding->lane);
    if (finding->verdict == VERIFY_REFUSED)
        cli_failure("verify", "%s%s", lane, finding->text);
    else
        printf("%s%-9s %s%s\n", verdicts[finding->verdict].title, finding->what, lane,
               finding->text);
}

static void say(void *context, const struct verify_finding *finding)
{
    struct verifying *verifying = context;
    pthread_mutex_lock(&verifying->printing);
    progress_clear(&verifying->progress);
    if (verifying->json)
        say_json(finding);
    else
        say_text(finding);
    fflush(stdout);
    pthread_mutex_unlock(&verifying->printing);
}

static void say_database(void *context, const struct postgres_finding *finding)
{
    const struct verify_finding same = {.verdict = finding->damaged ? VERIFY_DAMAGED : VERIFY_GOOD,
                                        .lane = finding->lane,
                                        .what = finding->what,
                                        .text = finding->text};
    say(context, &same);
}

static enum err verify_database(struct verifying *verifying)
{
    struct reason why;
    enum err e = daemon_verify(verifying->database, say_database, verifying, &why);
    if (e == ERR_OK || e == ERR_CORRUPT) return e;
    say(verifying, &(struct verify_finding){VERIFY_REFUSED, -1, "database", why.text});
    return e;
}

static enum err verify_any(struct verifying *verifying)
{
    if (verifying->backup) return verify_backup(&verifying->config, verifying->backup);
    return verifying->database ? verify_database(verifying) : verify_store(&verifying->config);
}

static void *verify_main(void *context)
{
    struct verifying *verifying = context;
    verifying->err = verify_any(verifying);
    atomic_store(&verifying->done, true);
    return NULL;
}

static void watch(struct verifying *verifying)
{
    while (!atomic_load(&verifying->done)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        pthread_mutex_lock(&verifying->printing);
        progress_show(&verifying->progress, -1, "%llu MiB looked at",
                      (unsigned long long)(atomic_load(&verifying->effort.done) >> 20));
        pthread_mutex_unlock(&verifying->printing);
    }
    progress_clear(&verifying->progress);
}

static int verify(const struct config *config, const char *data, const char *backup, bool json)
{
    char backups[TREE_PATH_MAX];
    bool in_files = config->store_kind != CONFIG_STORE_POSTGRES || data != config->data;
    struct verifying verifying = {
        .backup = backup, .database = in_files ? NULL : config, .json = json};
    pthread_t thread;
    if (tree_path(backups, config->ops_dir, "backups") != ERR_OK)
        return cli_failure("verify", "a path is too long");
    verifying.config = (struct verify_config){.data = data,
                                              .backups = backups,
                                              .clock = &clock_system,
                                              .key_keep_ms = config->idempotency_keep,
                                              .effort = &verifying.effort,
                                              .say = say,
                                              .context = &verifying};
    pthread_mutex_init(&verifying.printing, NULL);
    progress_begin(&verifying.progress, "verify");
    verifying.progress.quiet = json;
    must(pthread_create(&thread, NULL, verify_main, &verifying) == 0);
    watch(&verifying);
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&verifying.printing);
    return verifying.err == ERR_OK ? EXIT_GOOD : EXIT_FAILED;
}

int cli_verify(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    const char *data = NULL;
    const char *backup = NULL;
    bool json = false;
    const struct cli_option options[] = {{"--data", &data, NULL}, {"--json", NULL, &json}};
    struct cli_arguments arguments = {.command = "verify",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &backup,
                                      .positional_max = 1};
    struct config config;
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help) {
        fputs(help, stdout);
    } else if (!code) {
        code = cli_load_config(&source, &config);
        if (!code && backup && !backup_name_valid(bytes_str(backup)))
            code = cli_usage_error(
                "verify", "'%s' is no name of a backup; --data DIR verifies a directory", backup);
        if (!code) code = verify(&config, data ? data : config.data, backup, json);
        config_release(&config);
    }
    cli_source_release(&source);
    return code;
}
