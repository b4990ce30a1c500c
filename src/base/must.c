/* must.c -- how a broken promise ends the process. */
#include "base/must.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void die(void)
{
    void *frames[64];
    int count = backtrace(frames, (int)ARRAY_COUNT(frames));
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
    abort();
}

void must_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "{\"level\":\"fatal\",\"msg\":\"broken promise: %s at %s:%d\"}\n", what, file,
            line);
    die();
}

void must_unreachable(const char *what, long long value, const char *file, int line)
{
    fprintf(stderr, "{\"level\":\"fatal\",\"msg\":\"impossible state: %s = %lld at %s:%d\"}\n",
            what, value, file, line);
    die();
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
