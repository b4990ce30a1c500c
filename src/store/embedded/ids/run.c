/* run.c -- finding an id in a run, and walking one. writer.c writes them. */
#include "store/embedded/ids/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "store/embedded/ids/page.h"
#include "store/embedded/state/registry_record.h"

#define CURSOR_PAGES 32u /* read at once: 128 KiB */

void id_run_name(char *name, size_t size, uint64_t first, uint64_t last)
{
    snprintf(name, size, "ids-%010llu-%010llu", (unsigned long long)first,
             (unsigned long long)last);
}

/* A name that does not come out the same is not ours. */
bool id_run_name_parse(const char *name, uint64_t *first_out, uint64_t *last_out)
{
    char again[64], *end;
    if (strncmp(name, "ids-", 4) != 0) return false;
    *first_out = strtoull(name + 4, &end, 10);
    *last_out = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
    id_run_name(again, sizeof again, *first_out, *last_out);
    return strcmp(again, name) == 0;
}

static enum err read_exactly(const struct id_run *run, void *data, size_t size, uint64_t offset)
{
    int64_t got = run->io->ops->read(run->io, run->fd, data, size, offset);
    if (got < 0) return ERR_STORAGE;
    return (uint64_t)got == size ? ERR_OK : ERR_CORRUPT;
}

/* -- Opening ----------------------------------------------------------------------------------- */

static enum err head_get(struct id_run *run, const char *head, uint64_t identity)
{
    if (get_u64(head + ID_HEAD_SIZE) != hash_checksum(bytes_of(head, ID_HEAD_SIZE)))
        return ERR_CORRUPT;
    if (get_u64(head) != ID_RUN_MAGIC || get_u64(head + 8) != ID_RUN_FORMAT) return ERR_CORRUPT;
    if (get_u64(head + 16) != identity) return ERR_CORRUPT;
    if (get_u64(head + 24) != run->first || get_u64(head + 32) != run->last) return ERR_CORRUPT;
    run->count = get_u64(head + 40);
    run->pages = get_u64(head + 48);
    run->sequence_max = get_u64(head + 56);
    uint64_t pages = (run->count + ID_RUN_PAGE_RECORDS - 1) / ID_RUN_PAGE_RECORDS;
    return run->count == 0 || run->pages != pages ? ERR_CORRUPT : ERR_OK;
}

/* The size of the file bounds what is allocated, whatever the head says. */
static enum err read_index(struct id_run *run, uint64_t checksum)
{
    int64_t size = run->io->ops->size(run->io, run->fd);
    if (size < 0) return ERR_STORAGE;
    if ((uint64_t)size / ID_RUN_PAGE < run->pages || (uint64_t)size != id_run_bytes(run))
        return ERR_CORRUPT;
    size_t bytes = run->pages * sizeof *run->starts;
    run->starts = must_alloc(bytes);
    enum err e = read_exactly(run, run->starts, bytes, (run->pages + 1) * ID_RUN_PAGE);
    if (e == ERR_OK && hash_checksum(bytes_of(run->starts, bytes)) != checksum) e = ERR_CORRUPT;
    return e;
}

enum err id_run_open(struct id_run *run, const struct id_files *files, uint64_t first,
                     uint64_t last)
{
    char name[64], path[ID_RUN_PATH_MAX], head[ID_HEAD_SIZE + 8];
    *run = (struct id_run){.io = files->io, .first = first, .last = last};
    id_run_name(name, sizeof name, first, last);
    snprintf(path, sizeof path, "%s/%s", files->dir, name);
    run->fd = files->io->ops->open(files->io, path, false, false);
    if (run->fd < 0) return ERR_STORAGE;
    enum err e = read_exactly(run, head, sizeof head, 0);
    if (e == ERR_OK) e = head_get(run, head, files->identity);
    if (e == ERR_OK) e = read_index(run, get_u64(head + 64));
    if (e != ERR_OK) id_run_close(run);
    return e;
}

void id_run_close(struct id_run *run)
{
    run->io->ops->close(run->io, run->fd);
    free(run->starts);
    *run = (struct id_run){.fd = -1};
}

uint64_t id_run_bytes(const struct id_run *run)
{
    return (run->pages + 1) * ID_RUN_PAGE + run->pages * sizeof *run->starts;
}

/* -- Pages ------------------------------------------------------------------------------------- */

static enum err page_check(const struct id_run *run, const char *page, uint64_t number,
                           uint32_t *records_out)
{
    struct bytes rest = bytes_of(page + sizeof(uint64_t), ID_RUN_PAGE - sizeof(uint64_t));
    if (get_u64(page) != hash_checksum(rest)) return ERR_CORRUPT;
    if (get_u64(page + 8) != number || get_u64(page + 16) != run->last) return ERR_CORRUPT;
    *records_out = get_u32(page + 24);
    return *records_out == 0 || *records_out > ID_RUN_PAGE_RECORDS ? ERR_CORRUPT : ERR_OK;
}

static void record_get(const char *page, uint32_t index, struct id_entry *entry)
{
    const char *at = page + ID_PAGE_HEAD + index * ID_RECORD_SIZE;
    entry->print.high = get_u64(at);
    entry->print.low = get_u64(at + 8);
    entry->sequence = get_u64(at + 16);
    entry->first_seen_ms = (int64_t)get_u64(at + 24);
    entry->digest = get_u32(at + 32);
}

/* The last page that begins at or below `high`; ids that share it may begin on an earlier one. */
static uint64_t page_of(const struct id_run *run, uint64_t high)
{
    uint64_t low = 0, end = run->pages;
    while (low < end) {
        uint64_t middle = low + (end - low) / 2;
        if (run->starts[middle] < high)
            low = middle + 1;
        else
            end = middle;
    }
    return low ? low - 1 : 0; /* before the first that begins at `high` or above */
}

static enum err page_find(const char *page, uint32_t records, struct fingerprint print,
                          struct id_entry *entry_out)
{
    uint32_t low = 0, end = records;
    while (low < end) {
        uint32_t middle = (low + end) / 2;
        record_get(page, middle, entry_out);
        int order = record_compare(entry_out->print, print);
        if (order == 0) return ERR_OK;
        if (order < 0)
            low = middle + 1;
        else
            end = middle;
    }
    return ERR_NOT_FOUND;
}

/* A lookup reads nearly always one page; more only where the id could begin the next one. */
enum err id_run_find(const struct id_run *run, struct fingerprint print, struct id_entry *entry_out)
{
    for (uint64_t at = page_of(run, print.high); at < run->pages; at++) {
        char page[ID_RUN_PAGE];
        uint32_t records;
        if (run->starts[at] > print.high) break;
        enum err e = read_exactly(run, page, sizeof page, (at + 1) * ID_RUN_PAGE);
        if (e == ERR_OK) e = page_check(run, page, at + 1, &records);
        if (e != ERR_OK) return e;
        e = page_find(page, records, print, entry_out);
        if (e != ERR_NOT_FOUND) return e;
    }
    return ERR_NOT_FOUND;
}

/* -- Walking ----------------------------------------------------------------------------------- */

void id_cursor_init(struct id_cursor *cursor, const struct id_run *run)
{
    *cursor = (struct id_cursor){.run = run, .pages = must_alloc(CURSOR_PAGES * ID_RUN_PAGE)};
}

void id_cursor_release(struct id_cursor *cursor)
{
    free(cursor->pages);
    *cursor = (struct id_cursor){0};
}

static enum err cursor_read(struct id_cursor *cursor)
{
    const struct id_run *run = cursor->run;
    uint64_t left = run->pages - cursor->pages_read;
    if (left == 0) return ERR_NOT_FOUND;
    cursor->pages_here = left < CURSOR_PAGES ? (uint32_t)left : CURSOR_PAGES;
    cursor->page = 0;
    enum err e = read_exactly(run, cursor->pages, (size_t)cursor->pages_here * ID_RUN_PAGE,
                              (cursor->pages_read + 1) * ID_RUN_PAGE);
    if (e == ERR_OK) cursor->pages_read += cursor->pages_here;
    return e;
}

/* Goes to the next page, its records checked. */
static enum err cursor_turn(struct id_cursor *cursor)
{
    cursor->page++;
    cursor->record = cursor->records = 0;
    if (cursor->page >= cursor->pages_here) {
        enum err e = cursor_read(cursor);
        if (e != ERR_OK) return e;
    }
    uint64_t number = cursor->pages_read - cursor->pages_here + cursor->page + 1;
    return page_check(cursor->run, cursor->pages + (size_t)cursor->page * ID_RUN_PAGE, number,
                      &cursor->records);
}

enum err id_cursor_next(struct id_cursor *cursor, struct id_entry *entry_out)
{
    if (cursor->record == cursor->records) {
        enum err e = cursor_turn(cursor);
        if (e != ERR_OK) return e;
    }
    record_get(cursor->pages + (size_t)cursor->page * ID_RUN_PAGE, cursor->record++, entry_out);
    return ERR_OK;
}
