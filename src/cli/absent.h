/* absent.h -- what to say beside a read that found nothing: which option would find something, or
 * that there is no such counter. It goes to stderr and changes neither the output nor the exit
 * code, because a sum of nothing is zero; but a person who mistyped a name should not believe it.
 */
#ifndef TALLY_CLI_ABSENT_H
#define TALLY_CLI_ABSENT_H

#include "cli/client.h"

/* For a refused read: where the reply says in which granularities the counter is kept, says
 * how to read these. With --json it says nothing, for stderr then holds the error as JSON
 * and nothing else. */
void absent_hint(const struct client *client);

/* For a sum or series without anything in it: asks whether the counter is there at all. The
 * client's path is that of a `get` of one of its cells; the reply is gone afterwards. */
void absent_explain(struct client *client, const char *name);

#endif
