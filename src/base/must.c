/* must.c -- how a broken promise ends the process. */
#include "base/must.h"

#include <execinfo.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

_Thread_local const struct must_place *must_at;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define REPORT_BYTES_MAX 1024u

/* Behind `size` bytes of the line: which thread it was and where it was in its work. */
static size_t place_add(char *line, size_t size)
{
    const struct must_place *at = must_at;
    char thread[16] = "";
    int printed;
    prctl(PR_GET_NAME, thread);
    if (at && at->batch)
        printed = snprintf(line + size, REPORT_BYTES_MAX - size,
                           ",\"thread\":\"%s\",\"lane\":%u,\"batch\":%" PRIu64 ",\"state\":\"%s\""
                           ",\"firstSequence\":%" PRIu64 ",\"ops\":%" PRIu32 "}\n",
                           thread, at->lane, at->batch, at->state, at->first_sequence, at->ops);
    else if (at)
        printed = snprintf(line + size, REPORT_BYTES_MAX - size,
                           ",\"thread\":\"%s\",\"lane\":%u,\"doing\":\"%s\"}\n", thread, at->lane,
                           at->state);
    else
        printed = snprintf(line + size, REPORT_BYTES_MAX - size, ",\"thread\":\"%s\"}\n", thread);
    if (printed > 0) size += (size_t)printed;
    return size > REPORT_BYTES_MAX - 1 ? REPORT_BYTES_MAX - 1 : size;
}

/* One line and one write, because threads may die together; nothing is allocated, because a signal
 * may have come at any point. */
static void report(const char *format, ...) PRINTF_LIKE(1, 2);
static void report(const char *format, ...)
{
    char line[REPORT_BYTES_MAX];
    size_t size = 0;
    va_list args;
    va_start(args, format);
    int printed = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (printed > 0) size = (size_t)printed < sizeof line ? (size_t)printed : sizeof line - 1;
    size = place_add(line, size);
    ssize_t written = write(STDERR_FILENO, line, size);
    (void)written;
    void *frames[64];
    int count = backtrace(frames, (int)ARRAY_COUNT(frames));
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

void must_failed(const char *what, const char *file, int line)
{
    report("{\"level\":\"fatal\",\"msg\":\"broken promise: %s at %s:%d\"", what, file, line);
    abort();
}

void must_unreachable(const char *what, long long value, const char *file, int line)
{
    report("{\"level\":\"fatal\",\"msg\":\"impossible state: %s = %lld at %s:%d\"", what, value,
           file, line);
    abort();
}

/* The default handler is back, so the signal raised here ends the process once this returns. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    report("{\"level\":\"fatal\",\"msg\":\"%s at address %p\"", strsignal(signal), info->si_addr);
    raise(signal);
}

void must_report_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    const struct sigaction action = {.sa_sigaction = on_fault,
                                     .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)};
    void *frame;
    backtrace(&frame, 1); /* loads what it needs, which a handler could not */
    for (size_t i = 0; !SANITIZED && i < ARRAY_COUNT(faults); i++)
        sigaction(faults[i], &action, NULL);
}

void *must_alloc(unsigned long size)
{
    void *memory = malloc(size ? size : 1);
    must(memory != NULL);
    return memory;
}

void *must_calloc(unsigned long count, unsigned long size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    must(memory != NULL);
    return memory;
}

void *must_realloc(void *old, unsigned long size)
{
    void *memory = realloc(old, size ? size : 1);
    must(memory != NULL);
    return memory;
}
