/* panic.c -- see panic.h. */
#include "support/panic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"

static void run_in_child(void (*act)(void), int report)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    /* cmocka would take them for a failed test of the parent. */
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    dup2(report, STDERR_FILENO);
    act();
    _exit(0);
}

const char *panic_report(void (*act)(void))
{
    static char report[16384];
    size_t size = 0;
    int ends[2];
    must(pipe(ends) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) run_in_child(act, ends[1]);
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], report + size, sizeof report - 1 - size)) > 0;)
        size += (size_t)got;
    report[size] = 0;
    close(ends[0]);
    int status;
    must(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status)) {
        fprintf(stderr, "no panic, but status %x: %s\n", (unsigned)status, report);
        abort();
    }
    return report;
}

void expect_panic(void (*act)(void), const char *text)
{
    const char *report = panic_report(act);
    if (strstr(report, text)) return;
    fprintf(stderr, "expected a panic about \"%s\", not: %s\n", text, report);
    abort();
}
