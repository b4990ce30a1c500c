/* mend.h -- what crashes leave in RocksDB's directory, and how to undo it.
 *
 * RocksDB appends to its MANIFEST, the list of its files, syncs, and only then acts on what it
 * appended. It opens a file whose end is missing, but not one whose end is there and torn: sectors
 * that reached the disk beside sectors that did not. RocksDB had not acted on a torn append, so
 * that can go; the journal still has what it stood for. Any other bytes that do not check are
 * damage to what was acted on: to cut there would have RocksDB unlink files that good records
 * name. */
#ifndef TALLY_STORE_EMBEDDED_STATE_MEND_H
#define TALLY_STORE_EMBEDDED_STATE_MEND_H

#include "base/reason.h"

/* To be called after RocksDB refused to open `dir`. True: its MANIFEST ended in a torn append,
 * which is now cut off and kept beside it (MANIFEST-000005.torn-1234, 1234 being where it began),
 * durably, and it is worth another try. False: nothing was changed; `why_out` has a sentence if the
 * MANIFEST is damaged, and is empty if that is not what is wrong.
 *
 * An append is torn if it is at the end, not longer than appends are, and either nothing good
 * follows its first bad record, or that has the end of a sector that never came: zeros. Should that
 * have been damage all the same, the store still refuses: the journal then begins after the state
 * ends. */
MUST_USE bool state_mend(const char *dir, struct reason *why_out);

/* To be called before RocksDB opens `dir`: removes the files of ingestions that a crash or an error
 * ended. */
#define STATE_INGEST_PREFIX "ingest-"
void state_mend_leftovers(const char *dir);

#endif
