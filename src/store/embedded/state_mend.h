/* state_mend.h -- what a power cut may do to the list of RocksDB's files, and how to undo it.
 *
 * RocksDB appends to its MANIFEST, syncs, and only then acts on what it appended. It opens a file
 * whose end is missing, but not one whose end is there and torn: sectors that reached the disk
 * beside sectors that did not. Whatever stands from the first record on that does not check had not
 * been acted on, so it can go; the journal still has what it stood for. */
#ifndef TALLY_STORE_EMBEDDED_STATE_MEND_H
#define TALLY_STORE_EMBEDDED_STATE_MEND_H

#include <stdbool.h>

/* After RocksDB refused to open `dir`. True: the torn end of its MANIFEST was cut off, durably, and
 * it is worth another try. False: that is not what is wrong, and nothing was changed. An end longer
 * than one append is damage, and damage is for a person to look at. Should it have been damage all
 * the same, the store still refuses: the journal then begins after the state ends. */
bool state_mend(const char *dir);

#endif
