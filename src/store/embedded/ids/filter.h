/* filter.h -- a chain of blocked Bloom filters: "never seen" in one cache miss a filter.
 *
 * A fingerprint's bits all lie in one 64-byte block, one in each of its eight words. Each filter is
 * made for a number of ids at 16 bits each; a full one is sealed and a larger one opened, so the
 * chain stays short and no id is ever hashed again. Ids come in the order of their sets (runs.h),
 * so each filter stands for a few neighbouring sets and says which: a lookup that it sends to the
 * runs looks only there.
 *
 * One thread adds, saves and loads; any thread may ask meanwhile. A thread that needs to find an id
 * that another thread added orders the two by a lock of its own.
 *
 * (1) What was added is found, always. What was not is found in about one of a thousand cases for
 *     each filter of the chain.
 * (2) Saved files are complete up to the sequence they name, or do not load. */
#ifndef TALLY_STORE_EMBEDDED_IDS_FILTER_H
#define TALLY_STORE_EMBEDDED_IDS_FILTER_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/hash.h"
#include "store/embedded/ids/run.h"
#include "store/embedded/io.h"

#ifdef TALLY_SMALL_WORLD
#define FILTER_IDS_FIRST 64u
#define FILTER_IDS_CALM 1024u
#define FILTER_TAIL_MAX 16u
#else
#define FILTER_IDS_FIRST (1u << 20) /* each holds four times as many, from here... */
#define FILTER_IDS_CALM (16u << 20) /* ...to here, then a quarter of all at a time */
#define FILTER_TAIL_MAX (32u << 10)
#endif
#define FILTER_COUNT_MAX 64u /* tens of thousands of millions of ids; a bit each */

struct filter_block {
    _Atomic uint64_t words[8];
};

struct filter {
    struct filter_block *blocks;
    uint64_t block_count;
    uint64_t ids_max;
    uint64_t ids;
    uint64_t ids_saved;     /* as in its file; 0: no file */
    _Atomic uint64_t first; /* every id of a run is from a set of this span */
    _Atomic uint64_t last;
};

struct filter_chain {
    struct filter filters[FILTER_COUNT_MAX];
    _Atomic uint32_t count; /* the last one is open, the others are sealed */
    _Atomic uint64_t ids;
    /* Added since every filter was last written. While they are few a save writes only them. */
    struct fingerprint *tail;
    uint64_t tail_count;  /* over FILTER_TAIL_MAX: too many, the filters have to be written */
    uint32_t saved_count; /* filters that the files describe; the tail holds what they lack */
};

/* Zeroed blocks; for filter_file.c. */
MUST_USE struct filter_block *filter_blocks_new(uint64_t block_count);

void filter_chain_init(struct filter_chain *chain);
void filter_chain_release(struct filter_chain *chain);

/* `span`: where in the runs the id is; ID_SPAN_NONE if it is in none. */
void filter_chain_add(struct filter_chain *chain, struct id_span span, struct fingerprint print);
/* A hint that `print` is about to be added or asked for. */
void filter_chain_prefetch(const struct filter_chain *chain, struct fingerprint print);
/* A bit for each filter that may contain it, the newest the highest; 0: was never added. */
uint64_t filter_chain_ask(const struct filter_chain *chain, struct fingerprint print);
/* The sets among which the ids of a filter lie. */
struct id_span filter_chain_span(const struct filter_chain *chain, uint32_t index);
/* The newest set that any id of the chain is from; 0: there is none. */
uint64_t filter_chain_last(const struct filter_chain *chain);
uint64_t filter_chain_bytes(const struct filter_chain *chain);

/* Where a chain is kept. `identity` names the state it belongs to. */
struct filter_files {
    struct io *io;
    const char *dir;
    uint64_t identity;
};

/* Writes down that the chain holds every id up to `complete_to`. ERR_STORAGE: what was saved before
 * is still there. */
MUST_USE enum err filter_chain_save(struct filter_chain *chain, const struct filter_files *files,
                                    uint64_t complete_to);

/* Fills an empty chain. ERR_NOT_FOUND: nothing saved. ERR_CORRUPT: cut short, damaged or of
 * another state; the chain is empty. ERR_STORAGE: could not be read, empty too. */
MUST_USE enum err filter_chain_load(struct filter_chain *chain, const struct filter_files *files,
                                    uint64_t *complete_to_out);

/* Reads one of a chain's files again. ERR_NOT_FOUND: a file of that name is none of a chain's. */
MUST_USE enum err filter_file_check(const struct filter_files *files, const char *name);

/* To be called before a chain is built anew: voids the old files, which the new ones would be mixed
 * up with. */
MUST_USE enum err filter_chain_forget(const struct filter_files *files);

#endif
