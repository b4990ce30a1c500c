/* reason.c -- sentences of a bounded length. */
#include "base/reason.h"

#include <stdarg.h>
#include <stdio.h>

static void add(struct reason *why, size_t at, const char *format, va_list args)
{
    vsnprintf(why->text + at, sizeof why->text - at, format, args);
}

void reason_clear(struct reason *why)
{
    why->text[0] = '\0';
}

void reason_say(struct reason *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(why, 0, format, args);
    va_end(args);
}

void reason_add(struct reason *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(why, strlen(why->text), format, args);
    va_end(args);
}
