/* man.c -- `tally help man`: the man page, from the help texts of all commands. */
#include "cli/manual.h"

#define LINE_WIDTH 72u

/* -- Text that roff reads as text -------------------------------------------------------------- */

static void print_escaped(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout); /* a minus that can be copied, not a hyphen */
        else
            putchar(c);
    }
}

/* Keeps roff from taking a line that begins with a dot or a quote for a request. */
static void print_line_start(struct bytes text)
{
    if (text.size && (text.data[0] == '.' || text.data[0] == '\'')) fputs("\\&", stdout);
}

static void print_verbatim(struct bytes text)
{
    print_line_start(text);
    print_escaped(text);
    putchar('\n');
}

/* Prints short lines, and a new one for each sentence, as mdoc wants it. */
static void print_text(struct bytes text)
{
    size_t column = 0;
    bool sentence_over = false;
    while (text.size) {
        struct bytes word = bytes_split(&text, ' ');
        if (word.size == 0) continue;
        bool new_line = column && (sentence_over || column + word.size > LINE_WIDTH);
        if (column) putchar(new_line ? '\n' : ' ');
        if (column == 0 || new_line) print_line_start(word);
        print_escaped(word);
        column = (new_line ? 0 : column) + word.size + 1;
        sentence_over = word.data[word.size - 1] == '.';
    }
    putchar('\n');
}

/* Quotes a macro's argument, so that spaces and macro names are plain. */
static void print_argument(struct bytes text)
{
    fputs(" \"", stdout);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"')
            fputs("\\(dq", stdout);
        else
            print_escaped(bytes_of(text.data + i, 1));
    }
    putchar('"');
}

/* -- One command ------------------------------------------------------------------------------- */

enum block { BLOCK_NONE, BLOCK_LITERAL, BLOCK_LIST };

static enum block block_of(enum manual_kind kind, enum block now)
{
    switch (kind) {
    case MANUAL_USAGE:
    case MANUAL_VERBATIM:
        return BLOCK_LITERAL;
    case MANUAL_ITEM:
    case MANUAL_MORE:
        return BLOCK_LIST;
    case MANUAL_EMPTY:
        return now == BLOCK_LITERAL ? BLOCK_NONE : now;
    default:
        return BLOCK_NONE;
    }
}

static void change_block(enum block *now, enum block wanted)
{
    static const char *const ends[] = {"", ".Ed\n", ".El\n"};
    static const char *const begins[] = {"", ".Bd -literal -offset indent\n",
                                         ".Bl -tag -width Ds\n"};
    if (*now == wanted) return;
    fputs(ends[*now], stdout);
    fputs(begins[wanted], stdout);
    *now = wanted;
}

static void print_item(const struct manual_line *line)
{
    fputs(manual_is_option(line) ? ".It Sy" : ".It Cm", stdout);
    print_argument(line->name);
    if (line->value.size) {
        fputs(" Ar", stdout);
        print_argument(line->value);
    }
    putchar('\n');
    print_text(line->text);
}

static void print_command(const struct cli_command *command)
{
    struct buf help;
    enum block block = BLOCK_NONE;
    bool paragraph_due = false;
    manual_read(command, &help);
    printf(".Ss tally %s\n", command->name);
    print_text(bytes_str(command->summary));
    struct bytes rest = buf_bytes(&help);
    for (struct manual_line line = {0}; manual_next(&rest, &line);) {
        change_block(&block, block_of(line.kind, block));
        if (line.kind == MANUAL_EMPTY) {
            paragraph_due = true;
            continue;
        }
        if (line.kind == MANUAL_PARAGRAPH && paragraph_due) fputs(".Pp\n", stdout);
        paragraph_due = false;
        if (line.kind == MANUAL_ITEM)
            print_item(&line);
        else if (block == BLOCK_LITERAL)
            print_verbatim(line.text);
        else
            print_text(line.text);
    }
    change_block(&block, BLOCK_NONE);
    buf_release(&help);
}

/* -- The page ---------------------------------------------------------------------------------- */

static const char page_top[] =
    ".Dt TALLY 1\n"
    ".Os\n"
    ".Sh NAME\n"
    ".Nm tally\n"
    ".Nd counts things exactly once and never loses a count\n"
    ".Sh SYNOPSIS\n"
    ".Nm\n"
    ".Ar command\n"
    ".Op Ar argument ...\n"
    ".Nm\n"
    ".Cm help\n"
    ".Op Ar command\n"
    ".Sh DESCRIPTION\n"
    ".Nm\n"
    "is a counting service and its clients in one program.\n"
    "A tenant's counters are changed by operations or, through rules, by events.\n"
    "When the server answers, the count is on disk,\n"
    "and a repeat with the same key or event id counts once.\n"
    ".Pp\n"
    "Each command explains itself with\n"
    ".Fl \\-help .\n"
    "Options may stand anywhere after the command, as\n"
    ".Fl \\-name Ar value\n"
    "or\n"
    ".Fl \\-name Ns = Ns Ar value ;\n"
    ".Fl \\-\n"
    "ends them.\n";

static const char page_end[] =
    ".Sh ENVIRONMENT\n"
    ".Bl -tag -width Ds\n"
    ".It Ev TALLY_URL\n"
    "where the server is, for commands that talk to one\n"
    ".It Ev TALLY_TOKEN\n"
    "the token they send\n"
    ".It Ev TALLY_AUTH_JWTSECRET\n"
    "the secret that signs tokens; every other setting has a name of this kind too\n"
    ".It Ev XDG_STATE_HOME\n"
    "where\n"
    ".Cm ingest\n"
    "notes how far it is\n"
    ".El\n"
    ".Sh FILES\n"
    ".Bl -tag -width Ds\n"
    ".It Pa /etc/tally/tally.yaml , /etc/tally.yaml\n"
    "the settings and rules, if\n"
    ".Cm serve\n"
    "is told to read them;\n"
    ".Cm token\n"
    "looks there for a secret, and in\n"
    ".Pa tally.env\n"
    "beside them\n"
    ".It Pa data/dev-secret\n"
    "the secret that\n"
    ".Cm serve \\-\\-dev\n"
    "made up\n"
    ".El\n"
    ".Sh EXIT STATUS\n"
    "0 on success, 1 on failure, 2 on wrong usage.\n"
    "Errors are on standard error.\n"
    ".Sh SEE ALSO\n"
    "The HTTP interface:\n"
    ".Cm tally help openapi .\n"
    "Settings:\n"
    ".Cm tally help settings .\n"
    "Errors:\n"
    ".Cm tally help errors .\n";

int cli_help_man(void)
{
    fputs(".\\\" Made by `tally help man` from the commands' own help.\n", stdout);
    fputs(".Dd " TALLY_DATE "\n", stdout);
    fputs(page_top, stdout);
    fputs(".Sh COMMANDS\n", stdout);
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run) print_command(&cli_commands[i]);
    fputs(page_end, stdout);
    return EXIT_GOOD;
}
