/* must.c -- how a broken promise ends the process. */
#include "base/must.h"

#include <execinfo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local const struct must_place *must_at;

/* Ends the report's line, which the caller began. */
static _Noreturn void die(void)
{
    if (must_at)
        fprintf(stderr,
                ",\"lane\":%u,\"batch\":%" PRIu64 ",\"state\":\"%s\",\"firstSequence\":%" PRIu64
                ",\"ops\":%" PRIu32,
                must_at->lane, must_at->batch, must_at->state, must_at->first_sequence,
                must_at->ops);
    fprintf(stderr, "}\n");
    void *frames[64];
    int count = backtrace(frames, (int)ARRAY_COUNT(frames));
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
    abort();
}

void must_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "{\"level\":\"fatal\",\"msg\":\"broken promise: %s at %s:%d\"", what, file,
            line);
    die();
}

void must_unreachable(const char *what, long long value, const char *file, int line)
{
    fprintf(stderr, "{\"level\":\"fatal\",\"msg\":\"impossible state: %s = %lld at %s:%d\"", what,
            value, file, line);
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
