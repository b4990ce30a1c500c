/* pack.h -- a frame's records as the disk has them: ids beside, the rest compressed.
 *
 * Most event ids are random UUIDs. As text they are 36 bytes of noise in an otherwise repetitive
 * record, and cost a compressor more than all the rest. So a UUID in the usual lower-case form is
 * taken out of its record and kept as the 16 bytes it stands for; unpacking puts the text back. */
#ifndef TALLY_STORE_EMBEDDED_ARCHIVE_PACK_H
#define TALLY_STORE_EMBEDDED_ARCHIVE_PACK_H

#include "base/bytes.h"

struct archive_packer;
struct archive_unpacker;

struct archive_packer *archive_packer_new(void);
void archive_packer_free(struct archive_packer *packer);

/* To be called while the raw bytes grow: an id stands `at` there, after all noted before. An id
 * that is no UUID stays where it is. */
void archive_pack_id(struct archive_packer *packer, struct bytes id, size_t at);

/* Adds what is stored for `raw` to `out` and forgets the ids noted. */
void archive_pack(struct archive_packer *packer, struct bytes raw, struct buf *out);

struct archive_unpacker *archive_unpacker_new(void);
void archive_unpacker_free(struct archive_unpacker *unpacker);

/* Fills `raw_out` with exactly `raw_size` bytes. False: not what a packer wrote. */
MUST_USE bool archive_unpack(struct archive_unpacker *unpacker, struct bytes stored, char *raw_out,
                             size_t raw_size);

#endif
