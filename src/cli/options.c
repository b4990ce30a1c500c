/* options.c -- what the subcommands share: taking arguments apart, loading the config. */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static void say(const char *command, const char *format, va_list args)
{
    fprintf(stderr, "tally %s: ", command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int cli_usage_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, format, args);
    va_end(args);
    fprintf(stderr, "See `tally %s --help`.\n", command);
    return EXIT_USAGE;
}

int cli_failure(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, format, args);
    va_end(args);
    return EXIT_FAILED;
}

/* Where the secret in argument `text` begins, or NULL; `before` is the argument in front of it. */
static char *secret_in(const char *before, char *text)
{
    static const char secret[] = "auth.jwtSecret=";
    if (strcmp(before, "--token") == 0) return text;
    if (strncmp(text, "--token=", 8) == 0) return text + 8;
    bool redis = strncmp(text, "redis://", 8) == 0 || strncmp(text, "rediss://", 9) == 0;
    if (redis && strchr(text, '@')) return strstr(text, "://") + 3;
    bool joined = strncmp(text, "--set=", 6) == 0;
    if (!joined && strcmp(before, "--set") != 0) return NULL;
    if (joined) text += 6;
    return strncmp(text, secret, sizeof secret - 1) == 0 ? text + sizeof secret - 1 : NULL;
}

void cli_hide_secrets(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        must(argv[i]);
        char *secret = secret_in(argv[i - 1], argv[i]);
        if (!secret) continue;
        char *copy = must_calloc(strlen(argv[i]) + 1, 1);
        memcpy(copy, argv[i], strlen(argv[i]));
        memset(secret, '*', strlen(secret));
        argv[i] = copy;
    }
}

static void source_add_set(struct config_source *source, const char *text)
{
    unsigned count = source->sets_count++;
    const char **sets = must_realloc((void *)source->sets, (count + 1) * sizeof *sets);
    sets[count] = text;
    source->sets = sets;
}

/* An option is known by what the field is called over HTTP too: --expiresAt is --expires-at. */
static bool is_option(struct bytes name, const char *option)
{
    size_t i = 0;
    for (; i < name.size && *option; i++) {
        char byte = name.data[i];
        bool capital = byte >= 'A' && byte <= 'Z';
        if (capital && *option++ != '-') return false;
        if (*option++ != (capital ? (char)(byte - 'A' + 'a') : byte)) return false;
    }
    return i == name.size && !*option;
}

static bool is_repeated(const struct cli_arguments *arguments, struct bytes name)
{
    return arguments->repeated && bytes_equal(name, bytes_str(arguments->repeated));
}

/* Stores what an option takes. False: it was given too many times. */
static bool take_value(struct cli_arguments *arguments, struct bytes name, const char *value)
{
    struct config_source *source = arguments->source;
    if (is_repeated(arguments, name)) {
        struct cli_list *list = arguments->repeated_list;
        if (list->count == CLI_LIST_MAX) return false;
        list->items[list->count++] = value;
        return true;
    }
    if (source && bytes_equal(name, BYTES("--config"))) {
        source->file = value;
        return true;
    }
    if (source && bytes_equal(name, BYTES("--set"))) {
        source_add_set(source, value);
        return true;
    }
    for (unsigned i = 0; i < arguments->options_count; i++) {
        const struct cli_option *option = &arguments->options[i];
        if (!option->value || !is_option(name, option->name)) continue;
        *option->value = value;
        return true;
    }
    unreachable_state(name.size);
}

static bool takes_value(const struct cli_arguments *arguments, struct bytes name)
{
    bool common = bytes_equal(name, BYTES("--config")) || bytes_equal(name, BYTES("--set"));
    if (arguments->source && common) return true;
    if (is_repeated(arguments, name)) return true;
    for (unsigned i = 0; i < arguments->options_count; i++)
        if (arguments->options[i].value && is_option(name, arguments->options[i].name)) return true;
    return false;
}

static bool take_flag(struct cli_arguments *arguments, struct bytes name)
{
    if (bytes_equal(name, BYTES("--help")) || bytes_equal(name, BYTES("-h"))) {
        arguments->help = true;
        return true;
    }
    for (unsigned i = 0; i < arguments->options_count; i++) {
        const struct cli_option *option = &arguments->options[i];
        if (!option->flag || !is_option(name, option->name)) continue;
        *option->flag = true;
        return true;
    }
    return false;
}

/* Whether the option has no value, and need not: nothing follows it, or another option. */
static bool does_without(const struct cli_arguments *arguments, struct bytes name,
                         const char *following)
{
    if (following && !(following[0] == '-' && following[1])) return false;
    for (unsigned i = 0; i < arguments->options_count; i++) {
        const struct cli_option *option = &arguments->options[i];
        if (option->value && option->flag && is_option(name, option->name)) return true;
    }
    return false;
}

/* `*index` moves on when the option's value is the next word. */
static int take_option(struct cli_arguments *arguments, int argc, char **argv, int *index)
{
    struct bytes value = bytes_str(argv[*index]);
    struct bytes name = bytes_split(&value, '=');
    bool attached = value.data != NULL;
    if (!takes_value(arguments, name)) {
        if (!attached && take_flag(arguments, name)) return EXIT_GOOD;
        return cli_usage_error(arguments->command, "unknown option %s", argv[*index]);
    }
    const char *following = *index + 1 < argc ? argv[*index + 1] : NULL;
    if (!attached && does_without(arguments, name, following) && take_flag(arguments, name))
        return EXIT_GOOD;
    if (!attached && !following)
        return cli_usage_error(arguments->command, "%s needs a value", argv[*index]);
    const char *text = attached ? value.data : argv[++*index];
    if (!take_value(arguments, name, text))
        return cli_usage_error(arguments->command, "%.*s is there more than %d times",
                               (int)name.size, name.data, CLI_LIST_MAX);
    return EXIT_GOOD;
}

static int take_positional(struct cli_arguments *arguments, const char *word)
{
    if (arguments->positional_count == arguments->positional_max)
        return cli_usage_error(arguments->command, "\"%s\" is one argument too many", word);
    arguments->positional[arguments->positional_count++] = word;
    return EXIT_GOOD;
}

int cli_parse(struct cli_arguments *arguments, int argc, char **argv)
{
    bool options_over = false;
    for (int i = 1; i < argc; i++) {
        bool option = !options_over && argv[i][0] == '-' && argv[i][1];
        if (option && bytes_equal(bytes_str(argv[i]), BYTES("--"))) {
            options_over = true;
            continue;
        }
        int code =
            option ? take_option(arguments, argc, argv, &i) : take_positional(arguments, argv[i]);
        if (code) return code;
    }
    return EXIT_GOOD;
}

int cli_load_config(const struct config_source *source, struct config *config_out)
{
    struct config_report report;
    config_report_init(&report);
    enum err e = config_load(config_out, source, &report);
    if (e != ERR_OK) fputs(report.text.data, stderr);
    int code = report.usage ? EXIT_USAGE : EXIT_FAILED;
    config_report_release(&report);
    return e != ERR_OK ? code : EXIT_GOOD;
}

void cli_source_release(struct config_source *source)
{
    free((void *)source->sets);
    source->sets = NULL;
    source->sets_count = 0;
}
