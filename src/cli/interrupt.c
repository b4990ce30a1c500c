/* interrupt.c -- Ctrl-C for commands that take a while. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

atomic_bool interrupted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    interrupted = true;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}
