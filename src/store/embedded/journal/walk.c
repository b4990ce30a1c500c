/* walk.c -- see the header. */
#include "store/embedded/journal/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/embedded/journal/segment.h"

#define PATH_SIZE 4096

/* The live segments, in order. */
struct listed_segments {
    uint64_t number;
    struct segment_header header;
};

struct files_walk {
    const char *dir;
    uint64_t installation;
    uint64_t after;
    journal_replay_fn *visit;
    void *context;
    struct journal_extent *extent;
    struct reason *why;
    struct listed_segments *items;
    size_t count;
    size_t capacity;
};

static void list_name(void *context, const char *name)
{
    struct files_walk *walk = context;
    enum segment_kind kind;
    uint64_t number;
    if (!segment_name_parse(name, &kind, &number) || kind != SEGMENT_LIVE) return;
    if (walk->count == walk->capacity) {
        walk->capacity = walk->capacity * 2 + 16;
        walk->items = must_realloc(walk->items, walk->capacity * sizeof *walk->items);
    }
    walk->items[walk->count++] = (struct listed_segments){.number = number};
}

static int compare_listed(const void *a, const void *b)
{
    uint64_t left = ((const struct listed_segments *)a)->number;
    uint64_t right = ((const struct listed_segments *)b)->number;
    return (left > right) - (left < right);
}

static void segment_path(const struct files_walk *walk, uint64_t number, char path[PATH_SIZE])
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, SEGMENT_LIVE, number);
    snprintf(path, PATH_SIZE, "%s/%s", walk->dir, name);
}

static enum err open_listed(struct files_walk *walk, size_t index, struct segment_reader *reader)
{
    char path[PATH_SIZE];
    const char *reason;
    segment_path(walk, walk->items[index].number, path);
    enum err e = segment_reader_open(reader, &io_system, path, walk->installation, &reason);
    if (e == ERR_OK && reader->header.number != walk->items[index].number) {
        reason = "has the header of another segment";
        e = ERR_CORRUPT;
    }
    if (e != ERR_OK)
        reason_say(walk->why, "%s %s", path, e == ERR_CORRUPT ? reason : strerror(reader->error));
    return e;
}

static enum err read_headers(struct files_walk *walk)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < walk->count && e == ERR_OK; i++) {
        struct segment_reader reader;
        e = open_listed(walk, i, &reader);
        walk->items[i].header = reader.header;
        if (e == ERR_OK && reader.header.epoch > walk->extent->epoch)
            walk->extent->epoch = reader.header.epoch;
        segment_reader_close(&reader);
    }
    return e;
}

static enum err damaged(struct files_walk *walk, size_t index, uint64_t offset, const char *how)
{
    char path[PATH_SIZE];
    segment_path(walk, walk->items[index].number, path);
    reason_say(walk->why, "%s: the block at offset %" PRIu64 " %s", path, offset, how);
    return ERR_CORRUPT;
}

/* There is no good block where the reader is: finds out whether one is missing that had been
 * durable. */
static enum err judge_end(struct files_walk *walk, size_t index, struct segment_reader *reader,
                          const struct chain_end *until)
{
    uint64_t claim = 0;
    if (until) {
        bool whole =
            reader->end.sequence == until->sequence && reader->end.checksum == until->checksum;
        if (whole) return ERR_OK;
        return damaged(walk, index, reader->offset, "is damaged: the next segment names it");
    }
    enum err e = segment_reader_claim(reader, &claim);
    if (e == ERR_OK && claim > reader->end.sequence)
        return damaged(walk, index, reader->offset, "is damaged: a later one says it was durable");
    return e;
}

static enum err visit_block(struct files_walk *walk, const struct journal_block *block)
{
    walk->extent->blocks++;
    walk->extent->last = block->first_sequence + block->count - 1;
    walk->extent->time_ms = block->time_ms;
    if (!walk->visit || walk->extent->last <= walk->after) return ERR_OK;
    return walk->visit(walk->context, block);
}

static enum err walk_segment(struct files_walk *walk, size_t index)
{
    const struct chain_end *until =
        index + 1 < walk->count ? &walk->items[index + 1].header.previous : NULL;
    struct segment_reader reader;
    struct journal_block block;
    enum err e = open_listed(walk, index, &reader);
    while (e == ERR_OK && !(until && reader.end.sequence >= until->sequence)) {
        e = segment_reader_next(&reader, &block);
        if (e == ERR_CORRUPT) break;
        if (e == ERR_OK) e = visit_block(walk, &block);
    }
    if (e == ERR_OK || e == ERR_CORRUPT) {
        enum err judged = reason_given(walk->why) ? e : judge_end(walk, index, &reader, until);
        e = judged;
    }
    if (e == ERR_STORAGE && !reason_given(walk->why))
        reason_say(walk->why, "the journal cannot be read: %s", strerror(reader.error));
    segment_reader_close(&reader);
    return e;
}

static enum err walk_all(struct files_walk *walk)
{
    int result = io_system.ops->list(&io_system, walk->dir, list_name, walk);
    if (result < 0 && result != -ENOENT) {
        reason_say(walk->why, "%s cannot be listed: %s", walk->dir, strerror(-result));
        return ERR_STORAGE;
    }
    if (walk->count == 0) return ERR_OK;
    qsort(walk->items, walk->count, sizeof *walk->items, compare_listed);
    enum err e = read_headers(walk);
    if (e == ERR_OK)
        walk->extent->before = walk->extent->last = walk->items[0].header.previous.sequence;
    for (size_t i = 0; i < walk->count && e == ERR_OK; i++)
        e = walk_segment(walk, i);
    walk->extent->segments = walk->count;
    return e;
}

enum err journal_walk(const char *dir, uint64_t installation, uint64_t after,
                      journal_replay_fn *visit, void *context, struct journal_extent *extent_out,
                      struct reason *why_out)
{
    *extent_out = (struct journal_extent){0};
    reason_clear(why_out);
    struct files_walk walk = {.dir = dir,
                              .installation = installation,
                              .after = after,
                              .visit = visit,
                              .context = context,
                              .extent = extent_out,
                              .why = why_out};
    enum err e = walk_all(&walk);
    free(walk.items);
    return e;
}
