/* interrupt.h -- Ctrl-C for commands that take a while and can go on later. */
#ifndef TALLY_CLI_INTERRUPT_H
#define TALLY_CLI_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set by SIGINT and SIGTERM once they are caught. A second one ends the command at once: nothing is
 * lost by that either. */
extern atomic_bool interrupted;
void interrupt_catch(void);

#endif
