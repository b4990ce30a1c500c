/* lend.h -- a snapshot of the store that a follower copies, file by file (SPEC 13).
 *
 * One follower at a time has one; the next one waits until it has been given back, or nobody has
 * asked for a piece of it for LEND_IDLE_NS. It is a directory of links below the store's own, so it
 * takes no room but that of files which the store lets go of meanwhile.
 *
 * Its listing is text:
 *
 *   tally-snapshot 1
 *   number 17                      names this snapshot in every question for a piece
 *   sequence 1234                  the last change that is in it
 *   file 4096 state/000012.sst     size and path; a piece is asked for by the file's place here
 *   end <64 bits in hex>           checksum of all lines before
 *
 * A piece ends with the checksum of its bytes. Any thread may call. */
#ifndef TALLY_REPLICA_LEND_H
#define TALLY_REPLICA_LEND_H

#include "base/clock.h"
#include "base/codec.h"
#include "base/reason.h"
#include "store/store.h"

#define LEND_IDLE_NS INT64_C(30000000000)
#define LEND_PIECE_BYTES (4u << 20)
#define LEND_CHECKSUM_SIZE 8u

struct lend;

/* `dir` is on the store's own file system; it is made and removed here. */
struct lend *lend_new(struct store *store, const char *dir, const struct clock *clock);
void lend_free(struct lend *lend);

/* Takes a snapshot and lists it. ERR_BUSY: another follower has one; ERR_STORAGE with a sentence.
 */
MUST_USE enum err lend_begin(struct lend *lend, struct buf *listing_out, struct reason *why);

/* Adds bytes of a file from `offset` on, LEND_PIECE_BYTES at most, and their checksum; of nothing
 * where the file ends. ERR_NOT_FOUND: that snapshot has been given back, or has no such file. */
MUST_USE enum err lend_piece(struct lend *lend, uint64_t number, uint64_t file, uint64_t offset,
                             struct buf *out);

void lend_end(struct lend *lend, uint64_t number);

#endif
