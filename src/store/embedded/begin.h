/* begin.h -- an empty store whose sequences do not begin with 1.
 *
 * Its events get numbers above those of events that are to be imported into it. The state says that
 * it holds everything up to where the store begins, and the journal goes on from there, as in a
 * store whose older journal was let go of. */
#ifndef TALLY_STORE_EMBEDDED_BEGIN_H
#define TALLY_STORE_EMBEDDED_BEGIN_H

#include "base/reason.h"

/* Fills `dir`, which is there and has no store yet; IDENTITY is the caller's to write, afterwards.
 * The first sequence will be `last` + 1. ERR_STORAGE with a sentence. */
MUST_USE enum err begin_after(const char *dir, uint64_t installation, uint64_t last,
                              struct reason *why_out);

#endif
