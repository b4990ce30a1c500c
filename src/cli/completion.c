/* completion.c -- `tally completion`: scripts for bash, zsh and fish, made from the command table
 * and the help texts. */
#include <stdlib.h>

#include "cli/manual.h"

static const char help[] =
    "usage: tally completion SHELL\n"
    "\n"
    "Prints a script that teaches a shell to complete tally's commands and options. To try it:\n"
    "\n"
    "    source <(tally completion bash)\n"
    "\n"
    "`make install` puts the scripts where the shells look for them.\n"
    "\n"
    "  bash             for /usr/share/bash-completion/completions/tally\n"
    "  zsh              for a file _tally in a folder of $fpath\n"
    "  fish             for ~/.config/fish/completions/tally.fish\n";

/* -- What can be completed --------------------------------------------------------------------- */

/* True for words that stand for a file in a usage or as an option's value. */
static bool is_file(struct bytes value)
{
    return value.size >= 4 && bytes_starts(value, BYTES("FILE"));
}

static bool is_directory(struct bytes value)
{
    return bytes_equal(value, BYTES("DIR"));
}

static void add_piece(struct buf *out, struct bytes text)
{
    if (out->size) buf_add_char(out, ' ');
    buf_add(out, text);
}

static bool contains(struct bytes text, struct bytes part)
{
    return memmem(text.data, text.size, part.data, part.size) != NULL;
}

/* " FILE" after a space is an argument; the value of an option stands in brackets or after one. */
static bool usage_takes_file(struct bytes usage)
{
    return contains(usage, BYTES(" FILE")) && !contains(usage, BYTES("--config FILE"));
}

/* One command: what its help says, gathered for the scripts. */
struct completion_entry {
    struct buf text;
    struct buf options;  /* "--url --token .." */
    struct buf words;    /* "bash zsh fish" */
    struct buf valued;   /* options that take a value no shell can guess: "--url|--token" */
    struct buf filed;    /* options that take a file */
    struct buf directed; /* options that take a directory */
    bool takes_file;
};

static void add_alternative(struct buf *out, struct bytes text)
{
    if (out->size) buf_add_char(out, '|');
    buf_add(out, text);
}

static void entry_add(struct completion_entry *entry, const struct manual_line *line)
{
    if (line->kind == MANUAL_USAGE && usage_takes_file(line->text)) entry->takes_file = true;
    if (line->kind != MANUAL_ITEM) return;
    add_piece(manual_is_option(line) ? &entry->options : &entry->words, line->name);
    if (!manual_is_option(line) || !line->value.size) return;
    struct buf *list = is_file(line->value)        ? &entry->filed
                       : is_directory(line->value) ? &entry->directed
                                                   : &entry->valued;
    add_alternative(list, line->name);
}

#define LIST_SIZE_MAX 4096

static void entry_init(struct completion_entry *entry, const struct cli_command *command)
{
    *entry = (struct completion_entry){.takes_file = false};
    struct buf *lists[] = {&entry->options, &entry->words, &entry->valued, &entry->filed,
                           &entry->directed};
    for (unsigned i = 0; i < ARRAY_COUNT(lists); i++)
        buf_init(lists[i], LIST_SIZE_MAX);
    manual_read(command, &entry->text);
    struct bytes rest = buf_bytes(&entry->text);
    for (struct manual_line line = {0}; manual_next(&rest, &line);)
        entry_add(entry, &line);
    add_piece(&entry->options, BYTES("--help"));
}

static void entry_release(struct completion_entry *entry)
{
    buf_release(&entry->text);
    buf_release(&entry->options);
    buf_release(&entry->words);
    buf_release(&entry->valued);
    buf_release(&entry->filed);
    buf_release(&entry->directed);
}

static void print_buf(const struct buf *buf)
{
    if (buf->size) fwrite(buf->data, 1, buf->size, stdout);
}

/* Prints in single quotes for sh, zsh and fish alike; the characters of `also` get a backslash. */
static void print_quoted(struct bytes text, const char *also)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '\'')
            fputs("’", stdout); /* three shells, three ways to quote a quote: none is needed */
        else if (strchr(also, c))
            printf("\\%c", c);
        else
            putchar(c);
    }
}

static void print_names(void)
{
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) printf("%s ", cli_commands[i].name);
}

static void print_topics(void)
{
    for (unsigned i = 0; i < cli_topics_count; i++)
        printf("%s ", cli_topics[i].name);
}

/* -- bash -------------------------------------------------------------------------------------- */

static void bash_case(const struct buf *options, const char *action)
{
    if (!options->size) return;
    fputs("        ", stdout);
    print_buf(options);
    printf(") %s; return ;;\n", action);
}

static void bash_command(const struct cli_command *command)
{
    struct completion_entry entry;
    entry_init(&entry, command);
    printf("    %s)\n        options='", command->name);
    print_buf(&entry.options);
    fputs("'\n        words='", stdout);
    print_buf(&entry.words);
    printf("'\n        files=%s\n        case $prev in\n", entry.takes_file ? "yes" : "");
    bash_case(&entry.filed, "_tally_files -f");
    bash_case(&entry.directed, "_tally_files -d");
    bash_case(&entry.valued, ":");
    fputs("        esac ;;\n", stdout);
    entry_release(&entry);
}

static void print_bash(void)
{
    fputs("# bash completion for tally; made by `tally completion bash`\n"
          "_tally_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
          "}\n"
          "_tally_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
          "_tally() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local options='' words='' files=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        _tally_words '",
          stdout);
    print_names();
    fputs(
        "help --help --version'\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n    help) words='",
        stdout);
    print_names();
    print_topics();
    fputs("' ;;\n", stdout);
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) bash_command(&cli_commands[i]);
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then _tally_words \"$options\"\n"
          "    elif [ -n \"$files\" ]; then _tally_files -f\n"
          "    elif [ \"$COMP_CWORD\" -eq 2 ]; then _tally_words \"$words\"\n"
          "    fi\n"
          "}\n"
          "complete -F _tally tally\n",
          stdout);
}

/* -- zsh --------------------------------------------------------------------------------------- */

#define ZSH_SPECIAL "[]:\\"

static void zsh_option(const struct manual_line *line)
{
    bool valued = line->value.size > 0;
    printf("        '*%.*s%s[", (int)line->name.size, line->name.data, valued ? "=" : "");
    print_quoted(manual_brief(line), ZSH_SPECIAL);
    fputs("]", stdout);
    if (valued) {
        fputs(":", stdout);
        print_quoted(line->value, ZSH_SPECIAL);
        fputs(is_file(line->value)        ? ":_files"
              : is_directory(line->value) ? ":_files -/"
                                          : ": ",
              stdout);
    }
    fputs("' \\\n", stdout);
}

static void zsh_command(const struct cli_command *command)
{
    struct completion_entry entry;
    entry_init(&entry, command);
    printf("    %s) _arguments \\\n        '--help[explain it]' \\\n", command->name);
    struct bytes rest = buf_bytes(&entry.text);
    for (struct manual_line line = {0}; manual_next(&rest, &line);)
        if (manual_is_option(&line)) zsh_option(&line);
    if (entry.takes_file) {
        fputs("        '*:file:_files' ;;\n", stdout);
    } else if (entry.words.size) {
        fputs("        '1:what:(", stdout);
        print_buf(&entry.words);
        fputs(")' ;;\n", stdout);
    } else {
        fputs("        ;;\n", stdout);
    }
    entry_release(&entry);
}

static void zsh_row(const char *name, const char *summary)
{
    printf("        '%s:", name);
    print_quoted(bytes_str(summary), ":\\");
    fputs("'\n", stdout);
}

static void zsh_lists(void)
{
    fputs("    local -a commands topics\n    commands=(\n", stdout);
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) zsh_row(cli_commands[i].name, cli_commands[i].summary);
    fputs("    )\n    topics=(\n", stdout);
    for (unsigned i = 0; i < cli_topics_count; i++)
        zsh_row(cli_topics[i].name, cli_topics[i].summary);
    fputs("    )\n", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef tally\n"
          "# zsh completion for tally; made by `tally completion zsh`\n"
          "_tally() {\n",
          stdout);
    zsh_lists();
    fputs("    if (( CURRENT == 2 )); then\n"
          "        commands+=('help:explain a command or a topic')\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local name=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $name in\n"
          "    help) _describe command commands; _describe topic topics ;;\n",
          stdout);
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) zsh_command(&cli_commands[i]);
    fputs("    esac\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _tally ]; then _tally \"$@\"; else compdef _tally tally; fi\n",
          stdout);
}

/* -- fish -------------------------------------------------------------------------------------- */

static void fish_item(const char *command, const struct manual_line *line)
{
    printf("complete -c tally -n '__tally_is %s' ", command);
    if (!manual_is_option(line))
        printf("-a %.*s -d '", (int)line->name.size, line->name.data);
    else
        printf("-l %.*s %s-d '", (int)line->name.size - 2, line->name.data + 2,
               !line->value.size                                   ? ""
               : is_file(line->value) || is_directory(line->value) ? "-r -F "
                                                                   : "-x ");
    print_quoted(manual_brief(line), "\\");
    fputs("'\n", stdout);
}

static void fish_command(const struct cli_command *command)
{
    struct completion_entry entry;
    entry_init(&entry, command);
    printf("complete -c tally -n __fish_use_subcommand -a %s -d '", command->name);
    print_quoted(bytes_str(command->summary), "\\");
    fputs("'\n", stdout);
    if (entry.takes_file) printf("complete -c tally -n '__tally_is %s' -F\n", command->name);
    printf("complete -c tally -n '__tally_is %s' -l help -d 'explain it'\n", command->name);
    struct bytes rest = buf_bytes(&entry.text);
    for (struct manual_line line = {0}; manual_next(&rest, &line);)
        if (line.kind == MANUAL_ITEM) fish_item(command->name, &line);
    entry_release(&entry);
}

static void print_fish(void)
{
    fputs("# fish completion for tally; made by `tally completion fish`\n"
          "function __tally_is\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
          "end\n"
          "complete -c tally -f\n"
          "complete -c tally -n __fish_use_subcommand -a help -d 'explain a command or a topic'\n",
          stdout);
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) fish_command(&cli_commands[i]);
    fputs("complete -c tally -n '__tally_is help' -a '", stdout);
    print_names();
    print_topics();
    fputs("'\n", stdout);
}

/* -- The command ------------------------------------------------------------------------------- */

int cli_completion(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const char *wanted = NULL;
    struct cli_arguments arguments = {
        .command = "completion", .positional = &wanted, .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    for (unsigned i = 0; wanted && i < ARRAY_COUNT(shells); i++) {
        if (strcmp(shells[i].shell, wanted) != 0) continue;
        shells[i].print();
        return EXIT_GOOD;
    }
    return cli_usage_error("completion", "for which shell? There are bash, zsh and fish");
}
