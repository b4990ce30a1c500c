/* recover.c -- reading the journal back: at opening, and for journal_scan.
 *
 * The live chain runs through the journal-* files in the order of their numbers. Each holds blocks
 * up to the one that the next file names as its predecessor; what follows in it is void. That name
 * is also a proof: everything up to it was durable. So only in the last file can a missing block be
 * a torn tail, and there it is one unless a later block of the file says it was durable, or the
 * state holds it already. A disk that cannot be read is neither: the opening is refused and nothing
 * is cut.
 *
 * Before the end of the last file becomes some segment's predecessor that file is synced: after a
 * kill its last blocks may have been read from a cache that the next power cut empties. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/embedded/journal/internal.h"

/* Numbers of files of one kind. */
struct numbers {
    uint64_t *items;
    size_t count;
    size_t capacity;
};

static void numbers_add(struct numbers *numbers, uint64_t number)
{
    if (numbers->count == numbers->capacity) {
        numbers->capacity = numbers->capacity * 2 + 16;
        numbers->items = must_realloc(numbers->items, numbers->capacity * sizeof number);
    }
    numbers->items[numbers->count++] = number;
}

static int numbers_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

struct journal_listing {
    struct numbers kinds[SEGMENT_MAKING + 1];
};

static void listing_visit(void *context, const char *name)
{
    struct journal_listing *listing = context;
    enum segment_kind kind;
    uint64_t number;
    if (segment_name_parse(name, &kind, &number)) numbers_add(&listing->kinds[kind], number);
}

static enum err listing_init(struct journal_listing *listing, struct journal *journal,
                             struct reason *why)
{
    *listing = (struct journal_listing){0};
    int result = journal->io->ops->list(journal->io, journal->config.dir, listing_visit, listing);
    if (result < 0) {
        reason_say(why, "%s: cannot be listed: %s", journal->config.dir, strerror(-result));
        return ERR_STORAGE;
    }
    struct numbers *live = &listing->kinds[SEGMENT_LIVE];
    if (live->count) qsort(live->items, live->count, sizeof *live->items, numbers_compare);
    return ERR_OK;
}

static void listing_release(struct journal_listing *listing)
{
    for (size_t kind = 0; kind < ARRAY_COUNT(listing->kinds); kind++)
        free(listing->kinds[kind].items);
}

/* Opens the segment and says what is wrong if it cannot. Close the reader in every case. */
static enum err open_segment(struct segment_reader *reader, struct journal *journal,
                             uint64_t number, struct reason *why)
{
    char path[JOURNAL_PATH_MAX];
    const char *reason;
    journal_path(journal, path, SEGMENT_LIVE, number);
    enum err e =
        segment_reader_open(reader, journal->io, path, journal->config.installation, &reason);
    if (e == ERR_OK && reader->header.number != number) {
        reason = "has the header of another segment";
        e = ERR_CORRUPT;
    }
    if (e != ERR_OK)
        reason_say(why, "%s: %s", path, e == ERR_CORRUPT ? reason : strerror(reader->error));
    return e;
}

static enum err load_segment(struct journal *journal, uint64_t number, struct reason *why)
{
    struct segment_reader reader;
    enum err e = open_segment(&reader, journal, number, why);
    if (e != ERR_OK) goto out;
    const struct segment_header *header = &reader.header;
    size_t count = journal->segments_count;
    if (count && journal->segments[count - 1].previous.sequence > header->previous.sequence) {
        reason_say(why,
                   "%s: segment %016" PRIx64 " names an earlier predecessor than the one before it",
                   journal->config.dir, number);
        e = ERR_CORRUPT;
        goto out;
    }
    journal_add_segment(journal, &(struct segment){.number = number,
                                                   .previous = header->previous,
                                                   .size = reader.size,
                                                   .used = reader.size});
    journal->number_next = number + 1;
    if (header->epoch > journal->epoch) journal->epoch = header->epoch;
out:
    segment_reader_close(&reader);
    return e;
}

static enum err load_segments(struct journal *journal, const struct numbers *live,
                              struct reason *why)
{
    journal->number_next = 1;
    enum err e = ERR_OK;
    for (size_t i = 0; i < live->count && e == ERR_OK; i++)
        e = load_segment(journal, live->items[i], why);
    journal->epoch++;
    return e;
}

/* One way through the chain, for recovery and for scans. */
struct chain_walk {
    struct journal *journal;
    uint64_t after;       /* blocks with a sequence above this are visited */
    uint64_t durable;     /* must be there; a scan ends here */
    bool recovering;      /* goes on past `durable`, as far as there are blocks */
    struct chain_end end; /* where the blocks walked through end */
    uint64_t used;        /* where the last segment's blocks end */
    journal_replay_fn *visit;
    void *context;
    struct reason *why;
};

static bool walk_arrived(const struct chain_walk *walk, const struct segment_reader *reader,
                         const struct chain_end *until)
{
    if (until && reader->end.sequence >= until->sequence) return true;
    return !walk->recovering && reader->end.sequence >= walk->durable;
}

/* There is no good block at the reader's offset and no later segment: decides whether there may be
 * none. Law (4). */
static enum err walk_judge_tail(struct chain_walk *walk, struct segment_reader *reader,
                                const char *name)
{
    uint64_t claim;
    enum err e = segment_reader_claim(reader, &claim);
    if (e != ERR_OK) return e;
    uint64_t last = reader->end.sequence;
    if (claim > last) {
        reason_say(walk->why,
                   "%s: the block at offset %" PRIu64
                   " is damaged: it would follow sequence %" PRIu64
                   ", and a later block says that %" PRIu64 " was durable",
                   name, reader->offset, last, claim);
        return ERR_CORRUPT;
    }
    if (last < walk->durable) {
        reason_say(walk->why,
                   "%s: the journal ends at offset %" PRIu64 " with sequence %" PRIu64
                   ", but the state already holds %" PRIu64,
                   name, reader->offset, last, walk->durable);
        return ERR_CORRUPT;
    }
    int result = reader->io->ops->sync(reader->io, reader->fd);
    if (result == 0) return ERR_OK;
    reader->error = -result;
    return ERR_STORAGE;
}

/* The block at the reader's offset is bad, or the disk does not say. */
static enum err walk_judge(struct chain_walk *walk, struct segment_reader *reader,
                           const struct chain_end *until, enum err e, const char *name)
{
    if (e == ERR_CORRUPT && !until && walk->recovering)
        e = walk_judge_tail(walk, reader, name);
    else if (e == ERR_CORRUPT)
        reason_say(
            walk->why,
            "%s: the block at offset %" PRIu64 " is damaged: it would follow sequence %" PRIu64
            ", and what follows in the journal says that %" PRIu64 " was durable",
            name, reader->offset, reader->end.sequence, until ? until->sequence : walk->durable);
    if (e == ERR_STORAGE)
        reason_say(walk->why, "%s: %s at offset %" PRIu64, name, strerror(reader->error),
                   reader->offset);
    return e;
}

/* Walks the blocks of one segment, up to the one that the next segment names (NULL: there is no
 * next). */
static enum err walk_blocks(struct chain_walk *walk, struct segment_reader *reader,
                            const struct chain_end *until, const char *name)
{
    while (!walk_arrived(walk, reader, until)) {
        struct journal_block block;
        uint64_t offset = reader->offset;
        if (walk->recovering)
            journal_note_place(walk->journal, reader->header.number, offset, &reader->end);
        enum err e = segment_reader_next(reader, &block);
        if (e != ERR_OK) return walk_judge(walk, reader, until, e, name);
        if (reader->end.sequence > walk->after) e = walk->visit(walk->context, &block);
        if (e != ERR_OK) {
            reason_say(walk->why, "%s: the block at offset %" PRIu64 " was refused: %s", name,
                       offset, err_sentence(e));
            return e;
        }
    }
    if (!until || reader->end.sequence < until->sequence) return ERR_OK;
    if (reader->end.sequence == until->sequence && reader->end.checksum == until->checksum)
        return ERR_OK;
    reason_say(walk->why,
               "%s: the blocks before offset %" PRIu64
               " do not lead to the one that the next segment names",
               name, reader->offset);
    return ERR_CORRUPT;
}

/* A scan need not read a segment from its start: it begins at the place before the first wanted
 * block. */
static void skip_to_place(struct segment_reader *reader, const struct segment *segment,
                          uint64_t after)
{
    for (unsigned i = segment->places_count; i-- > 0;) {
        if (segment->places[i].before.sequence > after) continue;
        reader->offset = segment->places[i].offset;
        reader->end = segment->places[i].before;
        return;
    }
}

static enum err walk_segment(struct chain_walk *walk, const struct segment *segment,
                             const struct chain_end *until)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, SEGMENT_LIVE, segment->number);
    struct segment_reader reader;
    enum err e = open_segment(&reader, walk->journal, segment->number, walk->why);
    if (e == ERR_OK && !walk->recovering) skip_to_place(&reader, segment, walk->after);
    if (e == ERR_OK) e = walk_blocks(walk, &reader, until, name);
    walk->end = reader.end;
    walk->used = reader.offset;
    segment_reader_close(&reader);
    return e;
}

/* True for a segment without live blocks: a scan has nothing to read there, and journal_trim may
 * let go of it at any moment, whatever is pinned. */
static bool is_empty(const struct segment *segments, size_t count, size_t index)
{
    return index + 1 < count &&
           segments[index].previous.sequence == segments[index + 1].previous.sequence;
}

/* Walks from the segment that holds the block after `walk->after`. ERR_NOT_FOUND: it is not
 * there. */
static enum err walk_chain(struct chain_walk *walk, const struct segment *segments, size_t count)
{
    size_t start = count;
    while (start > 0 && segments[start - 1].previous.sequence > walk->after)
        start--;
    if (start == 0) return ERR_NOT_FOUND;
    enum err e = ERR_OK;
    for (size_t i = start - 1; i < count && e == ERR_OK; i++) {
        if (i >= start && !walk->recovering && walk->end.sequence >= walk->durable) break;
        if (!walk->recovering && is_empty(segments, count, i)) continue;
        e = walk_segment(walk, &segments[i], i + 1 < count ? &segments[i + 1].previous : NULL);
    }
    return e;
}

/* The journal has to begin no later than the state ends. */
static enum err check_begin(const struct journal *journal, const struct chain_walk *walk)
{
    uint64_t applied = walk->after;
    if (journal->segments_count == 0 && applied > 0) {
        reason_say(walk->why,
                   "%s: the journal is empty, but the state already holds sequence %" PRIu64,
                   journal->config.dir, applied);
        return ERR_CORRUPT;
    }
    if (journal->segments_count > 0 && journal->segments[0].previous.sequence > applied) {
        reason_say(walk->why,
                   "%s: the journal begins after sequence %" PRIu64
                   ", but the state holds only %" PRIu64,
                   journal->config.dir, journal->segments[0].previous.sequence, applied);
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static enum err replay_segments(struct journal *journal, struct chain_walk *walk)
{
    enum err e = check_begin(journal, walk);
    if (e == ERR_OK && journal->segments_count > 0) {
        e = walk_chain(walk, journal->segments, journal->segments_count);
        journal->segments[journal->segments_count - 1].used = walk->used;
    }
    journal->last = journal->durable = walk->end;
    atomic_store(&journal->durable_sequence, walk->end.sequence);
    atomic_store(&journal->last_time_ms, walk->end.time_ms);
    return e;
}

/* A spare's file size; 0 for one that segments no longer have, because segment_size was changed. */
static uint64_t spare_size(struct journal *journal, const char *path)
{
    struct io *io = journal->io;
    int fd = io->ops->open(io, path, false, false);
    if (fd < 0) return 0;
    int64_t size = io->ops->size(io, fd);
    io->ops->close(io, fd);
    if (size < 0 || journal_size_for(journal, (uint64_t)size) != (uint64_t)size) return 0;
    return (uint64_t)size;
}

/* The directory is synced first. Before the kill a file may have become a spare by a rename that is
 * not durable yet; written with a new header it could get its old journal-* name back. */
static enum err adopt_spares(struct journal *journal, const struct journal_listing *listing,
                             struct reason *why)
{
    const struct numbers *spares = &listing->kinds[SEGMENT_SPARE];
    const struct numbers *rubbish = &listing->kinds[SEGMENT_MAKING];
    char path[JOURNAL_PATH_MAX];
    int result = journal->io->ops->sync_dir(journal->io, journal->config.dir);
    if (result < 0) {
        reason_say(why, "%s: cannot be synced: %s", journal->config.dir, strerror(-result));
        return ERR_STORAGE;
    }
    for (size_t i = 0; i < spares->count; i++) {
        journal_path(journal, path, SEGMENT_SPARE, spares->items[i]);
        struct spare spare = {spares->items[i], spare_size(journal, path)};
        if (spare.size)
            journal_add_spare(journal, &spare);
        else
            journal->io->ops->unlink(journal->io, path);
    }
    for (size_t i = 0; i < rubbish->count; i++) {
        journal_path(journal, path, SEGMENT_MAKING, rubbish->items[i]);
        journal->io->ops->unlink(journal->io, path);
    }
    return ERR_OK;
}

enum err journal_recover(struct journal *journal, uint64_t applied, journal_replay_fn *replay,
                         void *context, struct reason *why)
{
    struct journal_listing listing;
    struct chain_walk walk = {
        .journal = journal,
        .after = applied,
        .durable = applied,
        .recovering = true,
        .visit = replay,
        .context = context,
        .why = why,
    };
    enum err e = listing_init(&listing, journal, why);
    if (e == ERR_OK) e = load_segments(journal, &listing.kinds[SEGMENT_LIVE], why);
    if (e == ERR_OK) e = replay_segments(journal, &walk);
    if (e == ERR_OK) e = adopt_spares(journal, &listing, why);
    size_t count = journal->segments_count;
    journal->size = journal_size_for(journal, count ? journal->segments[count - 1].size : 0);
    listing_release(&listing);
    return e;
}

enum err journal_scan(struct journal *journal, uint64_t from_sequence, journal_replay_fn *visit,
                      void *context)
{
    /* What is durable is asked first, then the list: so the list reaches at least that far. */
    struct reason why;
    struct chain_walk walk = {
        .journal = journal,
        .after = from_sequence > 0 ? from_sequence - 1 : 0,
        .durable = journal_durable_sequence(journal),
        .visit = visit,
        .context = context,
        .why = &why,
    };
    if (walk.after >= walk.durable) return ERR_OK;
    size_t count;
    struct segment *segments = journal_copy_segments(journal, &count);
    enum err e = walk_chain(&walk, segments, count);
    free(segments);
    return e;
}
