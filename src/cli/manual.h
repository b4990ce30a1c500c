/* manual.h -- a command's help text taken apart, so that completions and the man page are made
 * from the very text that --help prints, and cannot say anything else.
 *
 * What is understood of a help text:
 *
 *     usage: tally ingest FILE|- [--id NAME]        up to the first empty line
 *
 *     Paragraphs of words.                          no indentation
 *
 *       --id NAME     what it means                 an option: two spaces, a dash
 *                     and goes on                   ten spaces and more
 *       bash          what it means                 a word that may be the first argument
 *
 * Anything else that is indented is shown as it stands. */
#ifndef TALLY_CLI_MANUAL_H
#define TALLY_CLI_MANUAL_H

#include "cli/cli.h"

enum manual_kind {
    MANUAL_USAGE,     /* one line of it, without "usage: " */
    MANUAL_PARAGRAPH, /* one line of one */
    MANUAL_ITEM,      /* an option or a word, with the first line of its description */
    MANUAL_MORE,      /* another line of the description */
    MANUAL_VERBATIM,
    MANUAL_EMPTY,
};

struct manual_line {
    enum manual_kind kind;
    struct bytes name;  /* MANUAL_ITEM: with its dashes */
    struct bytes value; /* MANUAL_ITEM: what the option takes, such as FILE; size 0: nothing */
    struct bytes text;  /* the rest of the line */
};

/* Calls the command with --help and keeps what it prints. */
void manual_read(const struct cli_command *command, struct buf *text_out);

/* for (struct manual_line line = {0}; manual_next(&rest, &line);) ... */
bool manual_next(struct bytes *rest, struct manual_line *line);

static inline bool manual_is_option(const struct manual_line *line)
{
    return line->kind == MANUAL_ITEM && line->name.data[0] == '-';
}

/* The first sentence of an item's text: up to the end of the line or the first "; ", "(" or ": ".
 */
struct bytes manual_brief(const struct manual_line *line);

#endif
