/* files.c -- the journal's files: which there are, and old ones let go. Those made ahead are in
 * spares.c.
 *
 * Each rename or unlink is synced before the next, so after a crash at most the last one is in
 * doubt and the list of segments has no hole. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/embedded/journal/internal.h"

void journal_path(const struct journal *journal, char path[JOURNAL_PATH_MAX],
                  enum segment_kind kind, uint64_t number)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, kind, number);
    int size = snprintf(path, JOURNAL_PATH_MAX, "%s/%s", journal->config.dir, name);
    must(size > 0 && size < JOURNAL_PATH_MAX);
}

void journal_add_segment(struct journal *journal, const struct segment *segment)
{
    pthread_mutex_lock(&journal->mutex);
    if (journal->segments_count == journal->segments_capacity) {
        journal->segments_capacity = journal->segments_capacity * 2 + 16;
        journal->segments =
            must_realloc(journal->segments, journal->segments_capacity * sizeof *segment);
    }
    journal->segments[journal->segments_count++] = *segment;
    pthread_mutex_unlock(&journal->mutex);
}

/* The last segment of that number: only the newest one grows. */
void journal_note_place(struct journal *journal, uint64_t number, uint64_t offset,
                        const struct chain_end *before)
{
    uint64_t step = journal->config.segment_size / SEGMENT_PLACES;
    if (offset < journal->place_next && number == journal->place_segment) return;
    pthread_mutex_lock(&journal->mutex);
    for (size_t i = journal->segments_count; i-- > 0;) {
        struct segment *segment = &journal->segments[i];
        if (segment->number != number) continue;
        if (segment->places_count < SEGMENT_PLACES)
            segment->places[segment->places_count++] =
                (struct segment_place){.offset = offset, .before = *before};
        break;
    }
    pthread_mutex_unlock(&journal->mutex);
    journal->place_segment = number;
    journal->place_next = offset + step;
}

uint64_t journal_first_sequence(struct journal *journal)
{
    pthread_mutex_lock(&journal->mutex);
    uint64_t before = journal->segments_count ? journal->segments[0].previous.sequence : 0;
    pthread_mutex_unlock(&journal->mutex);
    return before + 1;
}

struct segment *journal_copy_segments(struct journal *journal, size_t *count_out)
{
    pthread_mutex_lock(&journal->mutex);
    size_t count = journal->segments_count;
    struct segment *copy = must_alloc(count * sizeof *copy);
    if (count) memcpy(copy, journal->segments, count * sizeof *copy);
    pthread_mutex_unlock(&journal->mutex);
    *count_out = count;
    return copy;
}

void journal_file_failed(struct journal *journal, int64_t result)
{
    journal_storage_error(journal, result);
    atomic_fetch_add(&journal->files_failed, 1);
}

void journal_mark_zeroed(struct journal *journal)
{
    pthread_mutex_lock(&journal->mutex);
    journal->segments[journal->segments_count - 1].zeroed = true;
    pthread_mutex_unlock(&journal->mutex);
}

/* The mutex is held: bytes of whole files whose blocks are all applied. */
static uint64_t kept_bytes(const struct journal *journal)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i + 1 < journal->segments_count; i++)
        if (journal->segments[i + 1].previous.sequence <= journal->applied)
            bytes += journal->segments[i].size;
    return bytes;
}

/* The mutex is held: the next segment that is certainly there, or NULL. A segment is let go only
 * because of one that takes its place. */
static const struct segment *successor(const struct journal *journal, size_t index)
{
    for (size_t i = index + 1; i < journal->segments_count; i++)
        if (!journal->segments[i].doubtful) return &journal->segments[i];
    return NULL;
}

/* The mutex is held: the first segment to let go of, or the count if there is none. One without
 * live blocks goes at once, the others from the oldest on. */
static size_t trim_candidate(const struct journal *journal)
{
    size_t count = journal->segments_count;
    for (size_t i = 0; i + 1 < count; i++) {
        const struct segment *next = successor(journal, i);
        if (!next) return count;
        if (journal->segments[i].previous.sequence == next->previous.sequence) return i;
    }
    if (count < 2) return count;
    const struct chain_end *end = &successor(journal, 0)->previous;
    int64_t age_ms = journal_last_time(journal) - end->time_ms;
    if (end->sequence > journal->applied) return count;
    bool kept =
        kept_bytes(journal) <= journal->config.keep_bytes && age_ms <= journal->config.keep_ms;
    return kept ? count : 0;
}

static int let_go(struct journal *journal, const struct segment *segment)
{
    struct io *io = journal->io;
    char path[JOURNAL_PATH_MAX];
    journal_path(journal, path, SEGMENT_LIVE, segment->number);
    if (segment->zeroed && journal_spare_wanted(journal) == segment->size)
        return journal_recycle(journal, path, segment->size);
    return io_remove(io, journal->config.dir, path);
}

/* The mutex is held. */
static void forget_segment(struct journal *journal, size_t index)
{
    size_t after = journal->segments_count - index - 1;
    memmove(&journal->segments[index], &journal->segments[index + 1],
            after * sizeof *journal->segments);
    journal->segments_count--;
}

void journal_trim(struct journal *journal, uint64_t applied)
{
    pthread_mutex_lock(&journal->mutex);
    if (applied > journal->applied) journal->applied = applied;
    for (;;) {
        size_t index = trim_candidate(journal);
        if (index >= journal->segments_count) break;
        struct segment segment = journal->segments[index];
        /* No other thread takes from the list, so the index holds while the disk works. */
        pthread_mutex_unlock(&journal->mutex);
        int result = let_go(journal, &segment);
        if (result == -ENOENT) result = 0; /* gone already: an earlier call failed after it */
        if (result < 0) journal_file_failed(journal, result);
        pthread_mutex_lock(&journal->mutex);
        if (result < 0) break;
        forget_segment(journal, index);
    }
    pthread_mutex_unlock(&journal->mutex);
}
