/* reason.h -- why something went wrong, in a sentence for a person: what an `enum err` cannot say.
 *
 * Example:
 *
 *     static enum err limit_read(struct bytes text, int64_t *limit_out, struct reason *why_out)
 *     {
 *         if (quantity_digits(text, limit_out)) return ERR_OK;
 *         return reason_err(why_out, ERR_INVALID, "The limit must be a whole number.");
 *     }
 *
 *     static bool limit_show(struct bytes text)
 *     {
 *         struct reason why;
 *         int64_t limit;
 *         enum err e = limit_read(text, &limit, &why);
 *         if (e != ERR_OK) puts(why.text);
 *         return e == ERR_OK;
 *     }
 *
 * The caller has one on its stack and the function that refuses fills it, so nothing is to be
 * released. It costs nothing while all is well: nobody writes to it, and it need not be empty to
 * begin with unless the callee's header says that it may refuse without a word (reason_clear,
 * reason_given). What does not fit is cut off. */
#ifndef TALLY_BASE_REASON_H
#define TALLY_BASE_REASON_H

#include "base/bytes.h"
#include "base/err.h"

struct reason {
    char text[1024]; /* two paths and a sentence */
};

void reason_clear(struct reason *why);
static inline bool reason_given(const struct reason *why)
{
    return why->text[0] != '\0';
}
/* For functions that have a sentence of their own for NULL. */
static inline const char *reason_text(const struct reason *why)
{
    return reason_given(why) ? why->text : NULL;
}

/* Writes the sentence, in place of what was said before. */
void reason_say(struct reason *why, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes the sentence behind what was said before. */
void reason_add(struct reason *why, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes the sentence and gives `e` back: the last line of a refusal. A macro, so that compilers
 * and the analyser of `make check` see that what comes back is an error. */
#define reason_err(why, e, ...) (reason_say((why), __VA_ARGS__), (enum err)(e))

#endif
