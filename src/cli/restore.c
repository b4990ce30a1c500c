/* restore.c -- `tally restore`: a backup becomes a data directory again. Offline. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "store/embedded/backup/backup.h"

#define LOOK_MS 50

static const char help[] =
    "usage: tally restore NAME [--data DIR] [--config FILE] [--set key=value]... [--json]\n"
    "\n"
    "Lays the backup NAME of ops.dir out as a data directory, checking every file on the way, so\n"
    "that `tally serve` goes on from the moment of the backup. The directory must be empty or not\n"
    "there; nothing is ever overwritten. Ids and keys remembered then are remembered again; what\n"
    "was acknowledged after that moment is not in it.\n"
    "\n"
    "  --data DIR        where to (default: data of the config)\n"
    "  --config FILE     the server's config, which says where ops.dir and the data are\n"
    "  --set key=value   any setting; may be repeated\n"
    "  --json            one JSON object instead of a sentence\n";

struct restoring {
    const char *dir;
    const char *name;
    const char *data;
    unsigned lanes;
    struct effort effort;
    struct reason why;
    enum err err;
    atomic_bool done;
};

static void *restore_main(void *context)
{
    struct restoring *restoring = context;
    restoring->err = backup_restore(restoring->dir, restoring->name, restoring->data,
                                    &restoring->effort, &restoring->lanes, &restoring->why);
    atomic_store(&restoring->done, true);
    return NULL;
}

static void watch(struct restoring *restoring, bool quiet)
{
    struct progress progress;
    progress_begin(&progress, "restore");
    progress.quiet = quiet;
    while (!atomic_load(&restoring->done)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        uint64_t total = atomic_load(&restoring->effort.total);
        uint64_t done = atomic_load(&restoring->effort.done);
        if (total)
            progress_show(&progress, (double)done / (double)total, "%llu of %llu MiB",
                          (unsigned long long)(done >> 20), (unsigned long long)(total >> 20));
    }
    progress_clear(&progress);
}

static int say(const struct restoring *restoring, bool json)
{
    if (restoring->err != ERR_OK) return cli_failure("restore", "%s", restoring->why.text);
    unsigned long long bytes = (unsigned long long)atomic_load(&restoring->effort.total);
    if (json) {
        struct buf text;
        buf_init(&text, 16384);
        buf_add(&text, BYTES("{\"restored\":"));
        buf_add_json(&text, bytes_str(restoring->name));
        buf_add(&text, BYTES(",\"data\":"));
        buf_add_json(&text, bytes_str(restoring->data));
        printf("%.*s,\"bytes\":\"%llu\",\"lanes\":%u}\n", (int)text.size, text.data, bytes,
               restoring->lanes);
        buf_release(&text);
    } else if (restoring->lanes > 1) {
        printf("restored %s into %s: %llu bytes, all checked; serve it with store.lanes %u\n",
               restoring->name, restoring->data, bytes, restoring->lanes);
    } else {
        printf("restored %s into %s: %llu bytes, all checked\n", restoring->name, restoring->data,
               bytes);
    }
    return EXIT_GOOD;
}

static int restore(const struct config *config, const char *name, const char *data, bool json)
{
    char dir[TREE_PATH_MAX];
    struct restoring restoring = {.dir = dir, .name = name, .data = data ? data : config->data};
    pthread_t thread;
    if (config->store_kind == CONFIG_STORE_POSTGRES)
        return cli_failure("restore", "%s", err_sentence(ERR_DATABASE_BACKUP));
    if (tree_path(dir, config->ops_dir, "backups") != ERR_OK)
        return cli_failure("restore", "the path of ops.dir is too long");
    reason_clear(&restoring.why);
    must(pthread_create(&thread, NULL, restore_main, &restoring) == 0);
    watch(&restoring, json);
    pthread_join(thread, NULL);
    return say(&restoring, json);
}

int cli_restore(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    const char *data = NULL;
    const char *name = NULL;
    bool json = false;
    const struct cli_option options[] = {{"--data", &data, NULL}, {"--json", NULL, &json}};
    struct cli_arguments arguments = {.command = "restore",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &name,
                                      .positional_max = 1};
    struct config config;
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help) {
        fputs(help, stdout);
    } else if (!code && !name) {
        code = cli_usage_error("restore", "the name of a backup is needed");
    } else if (!code) {
        code = cli_load_config(&source, &config);
        if (!code) code = restore(&config, name, data, json);
        config_release(&config);
    }
    cli_source_release(&source);
    return code;
}
