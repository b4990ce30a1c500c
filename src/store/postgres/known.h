/* known.h -- what a node knows of a lane without asking: rows that it read or wrote.
 *
 * It does not know whether it is true: its owner clears it when the lane's newest commit is not the
 * one that it knows, and when a commit failed (law (2) in postgres.h).
 *
 * (1) What is absent is known, too, but for ids and keys: most of them are new and come once.
 * (2) It takes little more than the bytes it was given, and what was used last stays. Ids and keys
 *     have a quarter of their own, so that they push nothing else out.
 * (3) One thread at a time. Values are copied in, and out to the caller's arena. */
#ifndef TALLY_STORE_POSTGRES_KNOWN_H
#define TALLY_STORE_POSTGRES_KNOWN_H

#include "base/table.h"
#include "core/sets.h"

/* Facts of about the same age: they go together, once twice as many younger ones are there. */
struct generation {
    struct table table;
    struct arena arena;
};

struct shelf {
    size_t bytes_max; /* for both generations */
    struct generation young;
    struct generation old;
};

struct known_rows {
    struct shelf rows; /* counters, cells, tenants, objects */
    struct shelf keys;
};

void known_init(struct known_rows *known, size_t bytes_max);
void known_release(struct known_rows *known);
void known_clear(struct known_rows *known);
size_t known_bytes(const struct known_rows *known);

/* Each says whether it is known. A counter or an object that is absent is known as NULL or as
 * BYTES_NONE, a tenant as one of no cells. */
MUST_USE bool known_counter(struct known_rows *known, struct fingerprint print, struct arena *arena,
                            const struct counter **counter_out);
MUST_USE bool known_cell(struct known_rows *known, uint64_t series, int64_t bucket,
                         struct cell *cell_out);
MUST_USE bool known_tenant(struct known_rows *known, struct fingerprint print, int64_t *cells_out);
MUST_USE bool known_object(struct known_rows *known, struct fingerprint print, struct arena *arena,
                           struct bytes *value_out);
MUST_USE bool known_key(struct known_rows *known, struct fingerprint print, struct arena *arena,
                        struct key_record *record_out);

void known_put_counter(struct known_rows *known, struct fingerprint print,
                       const struct counter *counter);
void known_put_cell(struct known_rows *known, uint64_t series, int64_t bucket,
                    const struct cell *cell);
void known_put_tenant(struct known_rows *known, struct fingerprint print, int64_t cells);
void known_put_object(struct known_rows *known, struct fingerprint print, struct bytes value);
void known_put_key(struct known_rows *known, struct fingerprint print,
                   const struct key_record *record);

#endif
