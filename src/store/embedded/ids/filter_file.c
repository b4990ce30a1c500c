/* filter_file.c -- the chain on disk: one file a filter and one, the list, that makes them a chain.
 *
 *   filter-<n>   magic, format, n, ids, ids_max, block count, checksum of the blocks, checksum of
 *                the header; then the blocks. A sealed filter is written once.
 *   filters      magic, format, how many filters, identity, complete_to, how many in the tail;
 *                first and last set of the tail; ids, first and last set of each filter; the
 *                tail's fingerprints; checksum of it all.
 *
 * Each is written beside, synced and renamed, the list last. A filter file may be newer than the
 * list: bits are only ever added, so what the list says of it still holds. */
#include "store/embedded/ids/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/crash.h"

#define FILTER_MAGIC 0x7265746c69665954ull
#define FILTER_LIST_MAGIC 0x737265746c696654ull
#define FILTER_FORMAT 2u
#define FILTER_HEAD_SIZE 64u
#define FILTER_LIST_HEAD_SIZE 56u
#define FILTER_LIST_ENTRY_SIZE 24u
#define FILTER_LIST_SIZE_MAX                                             \
    (FILTER_LIST_HEAD_SIZE + FILTER_LIST_ENTRY_SIZE * FILTER_COUNT_MAX + \
     FILTER_TAIL_MAX * sizeof(struct fingerprint) + 8)
#define FILTER_PATH_MAX 4096
#define FILTER_LIST_NAME "filters"

static enum err filter_file_open(const struct filter_files *files, const char *name, bool create,
                                 int *fd_out)
{
    char path[FILTER_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", files->dir, name);
    *fd_out = files->io->ops->open(files->io, path, create, false);
    if (*fd_out == -ENOENT) return ERR_NOT_FOUND;
    return *fd_out < 0 ? ERR_STORAGE : ERR_OK;
}

static enum err filter_file_unlink(const struct filter_files *files, const char *name)
{
    char path[FILTER_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", files->dir, name);
    int error = files->io->ops->unlink(files->io, path);
    return error && error != -ENOENT ? ERR_STORAGE : ERR_OK;
}

static enum err filter_file_rename(const struct filter_files *files, const char *from,
                                   const char *to)
{
    char path[FILTER_PATH_MAX], target[FILTER_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", files->dir, from);
    snprintf(target, sizeof target, "%s/%s", files->dir, to);
    crash_point("registry.filter.before_rename");
    if (files->io->ops->rename(files->io, path, target)) return ERR_STORAGE;
    return files->io->ops->sync_dir(files->io, files->dir) ? ERR_STORAGE : ERR_OK;
}

static enum err filter_file_fill(const struct filter_files *files, int fd, struct bytes head,
                                 struct bytes body)
{
    struct io *io = files->io;
    if (io->ops->write(io, fd, head.data, head.size, 0) < 0) return ERR_STORAGE;
    for (size_t at = 0; at < body.size; at += IO_PIECE) {
        size_t size = body.size - at < IO_PIECE ? body.size - at : IO_PIECE;
        if (io->ops->write(io, fd, body.data + at, size, head.size + at) < 0) return ERR_STORAGE;
        if (at + size < body.size && io->ops->sync(io, fd)) return ERR_STORAGE;
    }
    return io->ops->sync(io, fd) ? ERR_STORAGE : ERR_OK;
}

static enum err filter_file_write(const struct filter_files *files, const char *name,
                                  struct bytes head, struct bytes body)
{
    static const char beside[] = "filter.tmp";
    int fd;
    enum err e = filter_file_unlink(files, beside); /* a longer one would leave its end */
    if (e != ERR_OK) return e;
    if (filter_file_open(files, beside, true, &fd) != ERR_OK) return ERR_STORAGE;
    e = filter_file_fill(files, fd, head, body);
    if (files->io->ops->close(files->io, fd) && e == ERR_OK) e = ERR_STORAGE;
    return e != ERR_OK ? e : filter_file_rename(files, beside, name);
}

static void filter_name(char *name, size_t size, uint32_t index)
{
    snprintf(name, size, "filter-%u", index);
}

static struct bytes filter_body(const struct filter *filter)
{
    return bytes_of(filter->blocks, filter->block_count * sizeof *filter->blocks);
}

static void filter_head_put(char head[FILTER_HEAD_SIZE], const struct filter *filter,
                            uint32_t index)
{
    put_u64(head, FILTER_MAGIC);
    put_u32(head + 8, FILTER_FORMAT);
    put_u32(head + 12, index);
    put_u64(head + 16, filter->ids);
    put_u64(head + 24, filter->ids_max);
    put_u64(head + 32, filter->block_count);
    put_u64(head + 40, 0);
    put_u64(head + 48, hash_checksum(filter_body(filter)));
    put_u64(head + 56, hash_checksum(bytes_of(head, 56)));
}

static enum err filter_save(struct filter *filter, uint32_t index, const struct filter_files *files)
{
    if (filter->ids_saved == filter->ids) return ERR_OK;
    char name[32], head[FILTER_HEAD_SIZE];
    filter_name(name, sizeof name, index);
    filter_head_put(head, filter, index);
    enum err e = filter_file_write(files, name, bytes_of(head, sizeof head), filter_body(filter));
    if (e == ERR_OK) filter->ids_saved = filter->ids;
    return e;
}

/* The tail's ids are in the filter that was open when it was begun, or in later ones. */
static struct id_span filter_tail_span(const struct filter_chain *chain)
{
    struct id_span span = ID_SPAN_NONE;
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_relaxed);
    for (uint32_t i = chain->saved_count ? chain->saved_count - 1 : 0; i < count; i++) {
        struct id_span here = filter_chain_span(chain, i);
        if (here.first < span.first) span.first = here.first;
        if (here.last > span.last) span.last = here.last;
    }
    return span;
}

static void filter_span_put(struct buf *list, struct id_span span)
{
    buf_add_fixed64(list, span.first);
    buf_add_fixed64(list, span.last);
}

static struct id_span filter_span_get(struct reader *reader)
{
    struct id_span span = {.first = read_fixed64(reader)};
    span.last = read_fixed64(reader);
    return span;
}

static enum err filter_list_save(const struct filter_chain *chain, const struct filter_files *files,
                                 uint64_t complete_to)
{
    struct buf list;
    buf_init(&list, FILTER_LIST_SIZE_MAX);
    buf_add_fixed64(&list, FILTER_LIST_MAGIC);
    buf_add_u32(&list, FILTER_FORMAT);
    buf_add_u32(&list, chain->saved_count);
    buf_add_fixed64(&list, files->identity);
    buf_add_fixed64(&list, complete_to);
    buf_add_fixed64(&list, chain->tail_count);
    filter_span_put(&list, filter_tail_span(chain));
    for (uint32_t i = 0; i < chain->saved_count; i++) {
        buf_add_fixed64(&list, chain->filters[i].ids_saved);
        filter_span_put(&list, filter_chain_span(chain, i));
    }
    buf_add(&list, bytes_of(chain->tail, chain->tail_count * sizeof *chain->tail));
    buf_add_fixed64(&list, hash_checksum(buf_bytes(&list)));
    must(!list.failed);
    enum err e = filter_file_write(files, FILTER_LIST_NAME, buf_bytes(&list), BYTES_NONE);
    buf_release(&list);
    return e;
}

/* Writes every filter that has changed; the tail is not needed then. */
static enum err filter_chain_save_filters(struct filter_chain *chain,
                                          const struct filter_files *files)
{
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        enum err e = filter_save(&chain->filters[i], i, files);
        if (e != ERR_OK) return e;
    }
    chain->saved_count = count;
    chain->tail_count = 0;
    return ERR_OK;
}

enum err filter_chain_save(struct filter_chain *chain, const struct filter_files *files,
                           uint64_t complete_to)
{
    if (chain->tail_count > FILTER_TAIL_MAX) {
        enum err e = filter_chain_save_filters(chain, files);
        if (e != ERR_OK) return e;
    }
    return filter_list_save(chain, files, complete_to);
}

enum err filter_chain_forget(const struct filter_files *files)
{
    enum err e = filter_file_unlink(files, FILTER_LIST_NAME);
    if (e == ERR_OK && files->io->ops->sync_dir(files->io, files->dir)) e = ERR_STORAGE;
    return e;
}

static enum err filter_read(const struct filter_files *files, int fd, void *data, size_t size,
                            uint64_t offset)
{
    int64_t got = files->io->ops->read(files->io, fd, data, size, offset);
    if (got < 0) return ERR_STORAGE;
    return (uint64_t)got == size ? ERR_OK : ERR_CORRUPT;
}

static enum err filter_head_get(const char head[FILTER_HEAD_SIZE], uint32_t index,
                                struct filter *filter_out)
{
    if (get_u64(head + 56) != hash_checksum(bytes_of(head, 56))) return ERR_CORRUPT;
    if (get_u64(head) != FILTER_MAGIC || get_u32(head + 8) != FILTER_FORMAT) return ERR_CORRUPT;
    if (get_u32(head + 12) != index) return ERR_CORRUPT;
    *filter_out = (struct filter){
        .ids = get_u64(head + 16),
        .ids_saved = get_u64(head + 16),
        .ids_max = get_u64(head + 24),
        .block_count = get_u64(head + 32),
    };
    return ERR_OK;
}

/* The size of the file bounds what is allocated, whatever the header says. */
static enum err filter_load_open(const struct filter_files *files, int fd, uint32_t index,
                                 struct filter *filter_out)
{
    char head[FILTER_HEAD_SIZE];
    enum err e = filter_read(files, fd, head, sizeof head, 0);
    if (e != ERR_OK) return e;
    e = filter_head_get(head, index, filter_out);
    if (e != ERR_OK) return e;
    int64_t size = files->io->ops->size(files->io, fd);
    if (size < 0) return ERR_STORAGE;
    uint64_t body_size = (uint64_t)size - sizeof head;
    if (filter_out->block_count == 0) return ERR_CORRUPT;
    if (body_size / sizeof(struct filter_block) != filter_out->block_count ||
        body_size % sizeof(struct filter_block) != 0)
        return ERR_CORRUPT;
    filter_out->blocks = filter_blocks_new(filter_out->block_count);
    e = filter_read(files, fd, filter_out->blocks, body_size, sizeof head);
    if (e == ERR_OK && get_u64(head + 48) != hash_checksum(filter_body(filter_out)))
        e = ERR_CORRUPT;
    if (e != ERR_OK) free(filter_out->blocks);
    return e;
}

/* The list was written after the file, so a file with fewer ids is not the one it speaks of. One
 * with more has ids that the list does not vouch for; they are added again, with their sets. */
static enum err filter_load(struct filter_chain *chain, const struct filter_files *files,
                            uint64_t ids_listed, struct id_span span)
{
    uint32_t index = chain->count;
    char name[32];
    int fd;
    filter_name(name, sizeof name, index);
    enum err e = filter_file_open(files, name, false, &fd);
    if (e != ERR_OK) return e == ERR_NOT_FOUND ? ERR_CORRUPT : e;
    struct filter filter = {0};
    e = filter_load_open(files, fd, index, &filter);
    files->io->ops->close(files->io, fd);
    if (e != ERR_OK) return e;
    filter.first = span.first;
    filter.last = span.last;
    chain->filters[index] = filter;
    chain->ids += filter.ids;
    atomic_store(&chain->count, index + 1);
    return filter.ids < ids_listed ? ERR_CORRUPT : ERR_OK;
}

static enum err filter_list_check(const struct filter_files *files, struct bytes list)
{
    if (list.size < FILTER_LIST_HEAD_SIZE + 8) return ERR_CORRUPT;
    size_t size = list.size - 8;
    if (get_u64(list.data + size) != hash_checksum(bytes_of(list.data, size))) return ERR_CORRUPT;
    struct reader reader = reader_of(bytes_of(list.data, FILTER_LIST_HEAD_SIZE));
    if (read_fixed64(&reader) != FILTER_LIST_MAGIC) return ERR_CORRUPT;
    if (read_u32(&reader) != FILTER_FORMAT) return ERR_CORRUPT;
    uint32_t count = read_u32(&reader);
    if (read_fixed64(&reader) != files->identity) return ERR_CORRUPT;
    read_fixed64(&reader); /* complete_to */
    uint64_t tail_count = read_fixed64(&reader);
    if (count > FILTER_COUNT_MAX || tail_count > FILTER_TAIL_MAX) return ERR_CORRUPT;
    size_t expected = FILTER_LIST_HEAD_SIZE + FILTER_LIST_ENTRY_SIZE * (size_t)count +
                      tail_count * sizeof(struct fingerprint);
    return size == expected ? ERR_OK : ERR_CORRUPT;
}

static enum err filter_list_apply(struct filter_chain *chain, const struct filter_files *files,
                                  struct bytes list, uint64_t *complete_to_out)
{
    enum err e = filter_list_check(files, list);
    if (e != ERR_OK) return e;
    struct reader reader = reader_of(list);
    read_bytes(&reader, 12);
    uint32_t count = read_u32(&reader);
    read_bytes(&reader, 8);
    *complete_to_out = read_fixed64(&reader);
    uint64_t tail_count = read_fixed64(&reader);
    struct id_span tail_span = filter_span_get(&reader);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ids = read_fixed64(&reader);
        e = filter_load(chain, files, ids, filter_span_get(&reader));
        if (e != ERR_OK) return e;
    }
    chain->saved_count = count;
    for (uint64_t i = 0; i < tail_count; i++) {
        struct fingerprint print = {.low = read_fixed64(&reader)};
        print.high = read_fixed64(&reader);
        filter_chain_add(chain, tail_span, print);
    }
    return ERR_OK;
}

static enum err filter_list_read(const struct filter_files *files, char **list_out,
                                 size_t *size_out)
{
    int fd;
    enum err e = filter_file_open(files, FILTER_LIST_NAME, false, &fd);
    if (e != ERR_OK) return e;
    *list_out = must_alloc(FILTER_LIST_SIZE_MAX);
    int64_t got = files->io->ops->read(files->io, fd, *list_out, FILTER_LIST_SIZE_MAX, 0);
    files->io->ops->close(files->io, fd);
    *size_out = got < 0 ? 0 : (size_t)got;
    return got < 0 ? ERR_STORAGE : ERR_OK;
}

enum err filter_chain_load(struct filter_chain *chain, const struct filter_files *files,
                           uint64_t *complete_to_out)
{
    must(chain->count == 0);
    char *list = NULL;
    size_t size;
    enum err e = filter_list_read(files, &list, &size);
    if (e == ERR_OK) e = filter_list_apply(chain, files, bytes_of(list, size), complete_to_out);
    free(list);
    if (e != ERR_OK) {
        filter_chain_release(chain);
        filter_chain_init(chain);
    }
    return e;
}

static enum err filter_list_check_file(const struct filter_files *files)
{
    char *list = NULL;
    size_t size;
    enum err e = filter_list_read(files, &list, &size);
    if (e == ERR_OK && size < FILTER_LIST_HEAD_SIZE + 8) e = ERR_CORRUPT;
    if (e == ERR_OK && get_u64(list + size - 8) != hash_checksum(bytes_of(list, size - 8)))
        e = ERR_CORRUPT;
    free(list);
    return e;
}

enum err filter_file_check(const struct filter_files *files, const char *name)
{
    char again[32];
    int fd;
    struct filter filter = {0};
    if (strcmp(name, FILTER_LIST_NAME) == 0) return filter_list_check_file(files);
    if (strncmp(name, "filter-", 7) != 0) return ERR_NOT_FOUND;
    uint32_t index = (uint32_t)strtoul(name + 7, NULL, 10);
    filter_name(again, sizeof again, index);
    if (strcmp(name, again) != 0) return ERR_NOT_FOUND;
    enum err e = filter_file_open(files, name, false, &fd);
    if (e != ERR_OK) return e;
    e = filter_load_open(files, fd, index, &filter);
    files->io->ops->close(files->io, fd);
    if (e == ERR_OK) free(filter.blocks);
    return e;
}
