/* io_sim.c -- see io_sim.h. Files are numbered and never reused; names point to them twice, as they
 * are now and as they would be after a power cut, with the changes between the two in a list. */
#include "support/io_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define SECTOR 512u
#define PAGE 4096u
#define NAME_SIZE 64
#define FD_COUNT 64
#define NO_FILE (-1)

struct sim_file {
    unsigned char *now;
    unsigned char *safe;
    uint64_t now_size;
    uint64_t safe_size;
    uint64_t capacity; /* of both */
    bool *dirty;       /* one for each sector of the capacity */
};

struct sim_name {
    char text[NAME_SIZE];
    int file;
};

struct sim_names {
    struct sim_name *items;
    size_t count;
};

/* `from` empty: create; `to` empty: unlink. */
struct sim_change {
    char from[NAME_SIZE];
    char to[NAME_SIZE];
    int file;
};

struct io_sim {
    struct io io;
    struct sim_file *files;
    int files_count;
    struct sim_names now;
    struct sim_names safe;
    struct sim_change *changes;
    size_t changes_count;
    int fds[FD_COUNT]; /* file, or NO_FILE */
    bool direct[FD_COUNT];
    uint64_t calls;
    uint64_t syncs;
    uint64_t fail_call; /* 0: none */
    uint64_t stop_call; /* from this one on nothing is done; 0: none */
    uint64_t fail_sync;
    uint64_t reads;
    uint64_t fail_read;
    uint64_t reads_failed;
    int fail_error;
    enum io_sim_loss fail_loss;
    uint64_t room;
    uint64_t random;
};

static uint64_t sim_random(struct io_sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static struct io_sim *sim_of(struct io *io)
{
    return (struct io_sim *)io; /* its first member */
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    must(strlen(name) < NAME_SIZE);
    return name;
}

static struct sim_name *names_find(struct sim_names *names, const char *text)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i].text, text) == 0) return &names->items[i];
    return NULL;
}

static void names_remove(struct sim_names *names, const char *text)
{
    struct sim_name *name = names_find(names, text);
    if (name) *name = names->items[--names->count];
}

static void names_put(struct sim_names *names, const char *text, int file)
{
    names_remove(names, text);
    names->items = must_realloc(names->items, (names->count + 1) * sizeof *names->items);
    struct sim_name *name = &names->items[names->count++];
    strncpy(name->text, text, NAME_SIZE - 1);
    name->text[NAME_SIZE - 1] = '\0';
    name->file = file;
}

/* Done to the names as they are now, or to the safe ones. What cannot be done any more because an
 * earlier change did not survive is left out. */
static void change_apply(struct sim_names *names, const struct sim_change *change)
{
    if (*change->from) {
        struct sim_name *name = names_find(names, change->from);
        if (!name || name->file != change->file) return;
        names_remove(names, change->from);
    }
    if (*change->to) names_put(names, change->to, change->file);
}

static void change_add(struct io_sim *sim, const char *from, const char *to, int file)
{
    sim->changes = must_realloc(sim->changes, (sim->changes_count + 1) * sizeof *sim->changes);
    struct sim_change *change = &sim->changes[sim->changes_count++];
    memset(change, 0, sizeof *change);
    strncpy(change->from, from, NAME_SIZE - 1);
    strncpy(change->to, to, NAME_SIZE - 1);
    change->file = file;
    change_apply(&sim->now, change);
}

/* Counts a call that changes something. Returns 0, or the error to fail with; then `*skip_out` says
 * whether it must do nothing. */
static int sim_fault(struct io_sim *sim, bool is_sync, bool *skip_out)
{
    sim->calls++;
    if (is_sync) sim->syncs++;
    bool stopped = sim->stop_call && sim->calls >= sim->stop_call;
    bool hit = stopped || sim->calls == sim->fail_call || (is_sync && sim->syncs == sim->fail_sync);
    *skip_out = hit && sim->fail_loss != IO_SIM_KEPT;
    return hit ? -sim->fail_error : 0;
}

uint64_t io_sim_bytes(const struct io_sim *sim)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sim->now.count; i++)
        bytes += sim->files[sim->now.items[i].file].now_size;
    return bytes;
}

static bool sim_grow(struct io_sim *sim, struct sim_file *file, uint64_t size)
{
    if (size <= file->now_size) return true;
    if (io_sim_bytes(sim) + (size - file->now_size) > sim->room) return false;
    if (size > file->capacity) {
        uint64_t capacity = (size * 2 + PAGE - 1) / PAGE * PAGE;
        file->now = must_realloc(file->now, capacity);
        file->safe = must_realloc(file->safe, capacity);
        file->dirty = must_realloc(file->dirty, capacity / SECTOR * sizeof *file->dirty);
        memset(file->now + file->capacity, 0, capacity - file->capacity);
        memset(file->safe + file->capacity, 0, capacity - file->capacity);
        memset(file->dirty + file->capacity / SECTOR, 0, (capacity - file->capacity) / SECTOR);
        file->capacity = capacity;
    }
    file->now_size = size;
    return true;
}

static struct sim_file *file_of(struct io_sim *sim, int fd)
{
    must(fd >= 0 && fd < FD_COUNT && sim->fds[fd] != NO_FILE);
    return &sim->files[sim->fds[fd]];
}

static int fd_new(struct io_sim *sim, int file, bool direct)
{
    for (int fd = 0; fd < FD_COUNT; fd++) {
        if (sim->fds[fd] != NO_FILE) continue;
        sim->fds[fd] = file;
        sim->direct[fd] = direct;
        return fd;
    }
    return -EMFILE;
}

static int sim_open(struct io *io, const char *path, bool create, bool direct)
{
    struct io_sim *sim = sim_of(io);
    struct sim_name *name = names_find(&sim->now, name_of(path));
    if (name) return fd_new(sim, name->file, direct);
    if (!create) return -ENOENT;
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (!skip) {
        sim->files = must_realloc(sim->files, (size_t)(sim->files_count + 1) * sizeof *sim->files);
        sim->files[sim->files_count] = (struct sim_file){0};
        change_add(sim, "", name_of(path), sim->files_count++);
    }
    return error ? error : fd_new(sim, sim->files_count - 1, direct);
}

static int sim_close(struct io *io, int fd)
{
    file_of(sim_of(io), fd);
    sim_of(io)->fds[fd] = NO_FILE;
    return 0;
}

static int sim_reserve(struct io *io, int fd, uint64_t size)
{
    struct io_sim *sim = sim_of(io);
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (!skip && !sim_grow(sim, file_of(sim, fd), size)) return -ENOSPC;
    return error;
}

static int64_t sim_size(struct io *io, int fd)
{
    return (int64_t)file_of(sim_of(io), fd)->now_size;
}

static int64_t sim_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    struct io_sim *sim = sim_of(io);
    struct sim_file *file = file_of(sim, fd);
    if (++sim->reads == sim->fail_read) {
        sim->reads_failed++;
        return -sim->fail_error;
    }
    if (offset >= file->now_size) return 0;
    uint64_t left = file->now_size - offset;
    size_t count = left < size ? (size_t)left : size;
    memcpy(data, file->now + offset, count);
    return (int64_t)count;
}

static int64_t sim_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    struct io_sim *sim = sim_of(io);
    struct sim_file *file = file_of(sim, fd);
    if (sim->direct[fd]) {
        must(offset % IO_ALIGN == 0 && size % IO_ALIGN == 0);
        must((uintptr_t)data % IO_ALIGN == 0);
    }
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (skip) return error;
    if (!sim_grow(sim, file, offset + size)) return -ENOSPC;
    memcpy(file->now + offset, data, size);
    uint64_t sector_end = (offset + size + SECTOR - 1) / SECTOR;
    memset(file->dirty + offset / SECTOR, true, sector_end - offset / SECTOR);
    return error ? error : (int64_t)size;
}

/* What is now becomes safe. */
static void file_settle(struct sim_file *file)
{
    for (uint64_t sector = 0; sector < file->capacity / SECTOR; sector++) {
        if (!file->dirty[sector]) continue;
        memcpy(file->safe + sector * SECTOR, file->now + sector * SECTOR, SECTOR);
        file->dirty[sector] = false;
    }
    file->safe_size = file->now_size;
}

static void sector_forget(struct sim_file *file, uint64_t sector)
{
    memcpy(file->now + sector * SECTOR, file->safe + sector * SECTOR, SECTOR);
    file->dirty[sector] = false;
}

static int sim_sync(struct io *io, int fd)
{
    struct io_sim *sim = sim_of(io);
    struct sim_file *file = file_of(sim, fd);
    bool skip;
    int error = sim_fault(sim, true, &skip);
    bool lost = skip && sim->fail_loss == IO_SIM_LOST;
    for (uint64_t sector = 0; lost && sector < file->capacity / SECTOR; sector++)
        if (file->dirty[sector]) sector_forget(file, sector);
    if (!skip) file_settle(file);
    return error;
}

static int sim_sync_dir(struct io *io, const char *path)
{
    (void)path;
    struct io_sim *sim = sim_of(io);
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (skip) return error;
    for (size_t i = 0; i < sim->changes_count; i++)
        change_apply(&sim->safe, &sim->changes[i]);
    sim->changes_count = 0;
    return error;
}

static int sim_rename(struct io *io, const char *from, const char *to)
{
    struct io_sim *sim = sim_of(io);
    struct sim_name *name = names_find(&sim->now, name_of(from));
    if (!name) return -ENOENT;
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (!skip) change_add(sim, name_of(from), name_of(to), name->file);
    return error;
}

static int sim_unlink(struct io *io, const char *path)
{
    struct io_sim *sim = sim_of(io);
    struct sim_name *name = names_find(&sim->now, name_of(path));
    if (!name) return -ENOENT;
    bool skip;
    int error = sim_fault(sim, false, &skip);
    if (!skip) change_add(sim, name_of(path), "", name->file);
    return error;
}

static int sim_list(struct io *io, const char *path, void (*visit)(void *, const char *),
                    void *context)
{
    (void)path;
    struct io_sim *sim = sim_of(io);
    for (size_t i = 0; i < sim->now.count; i++)
        visit(context, sim->now.items[i].text);
    return 0;
}

static const struct io_ops sim_ops = {
    .open = sim_open,
    .close = sim_close,
    .reserve = sim_reserve,
    .size = sim_size,
    .read = sim_read,
    .write = sim_write,
    .sync = sim_sync,
    .sync_dir = sim_sync_dir,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .list = sim_list,
};

struct io_sim *io_sim_new(void)
{
    struct io_sim *sim = must_calloc(1, sizeof *sim);
    sim->io.ops = &sim_ops;
    io_sim_kill(sim);
    return sim;
}

void io_sim_free(struct io_sim *sim)
{
    for (int i = 0; i < sim->files_count; i++) {
        free(sim->files[i].now);
        free(sim->files[i].safe);
        free(sim->files[i].dirty);
    }
    free(sim->files);
    free(sim->now.items);
    free(sim->safe.items);
    free(sim->changes);
    free(sim);
}

static void *copy_of(const void *data, size_t size)
{
    if (!data) return NULL;
    void *copy = must_alloc(size);
    memcpy(copy, data, size);
    return copy;
}

struct io_sim *io_sim_copy(const struct io_sim *sim)
{
    struct io_sim *copy = copy_of(sim, sizeof *sim);
    copy->files = copy_of(sim->files, (size_t)sim->files_count * sizeof *sim->files);
    for (int i = 0; i < sim->files_count; i++) {
        const struct sim_file *file = &sim->files[i];
        copy->files[i].now = copy_of(file->now, file->capacity);
        copy->files[i].safe = copy_of(file->safe, file->capacity);
        copy->files[i].dirty = copy_of(file->dirty, file->capacity / SECTOR * sizeof *file->dirty);
    }
    copy->now.items = copy_of(sim->now.items, sim->now.count * sizeof *sim->now.items);
    copy->safe.items = copy_of(sim->safe.items, sim->safe.count * sizeof *sim->safe.items);
    copy->changes = copy_of(sim->changes, sim->changes_count * sizeof *sim->changes);
    return copy;
}

struct io *io_sim_io(struct io_sim *sim)
{
    return &sim->io;
}

/* A size that did not survive takes the sectors beyond it along. */
static void crash_file(struct io_sim *sim, struct sim_file *file)
{
    if (file->now_size > file->safe_size && sim_random(sim) % 2) file->now_size = file->safe_size;
    for (uint64_t page = 0; page < file->capacity / PAGE; page++) {
        unsigned fate = (unsigned)(sim_random(sim) % 3); /* old, new, torn */
        uint64_t first = page * (PAGE / SECTOR);
        for (uint64_t sector = first; sector < first + PAGE / SECTOR; sector++) {
            bool beyond = sector * SECTOR >= file->now_size;
            bool old = beyond || fate == 0 || (fate == 2 && sim_random(sim) % 2);
            if (file->dirty[sector] && old) sector_forget(file, sector);
        }
    }
    file_settle(file);
}

/* Frees what no name leads to any more; the number stays taken. */
static void forget_nameless(struct io_sim *sim)
{
    for (int i = 0; i < sim->files_count; i++) {
        bool named = false;
        for (size_t n = 0; n < sim->now.count; n++)
            named |= sim->now.items[n].file == i;
        if (named) continue;
        free(sim->files[i].now);
        free(sim->files[i].safe);
        free(sim->files[i].dirty);
        sim->files[i] = (struct sim_file){0};
    }
}

void io_sim_crash(struct io_sim *sim, uint64_t seed)
{
    sim->random = seed;
    for (int i = 0; i < sim->files_count; i++)
        crash_file(sim, &sim->files[i]);
    for (size_t i = 0; i < sim->changes_count; i++)
        if (sim_random(sim) % 2) change_apply(&sim->safe, &sim->changes[i]);
    sim->changes_count = 0;
    sim->now.count = 0;
    for (size_t i = 0; i < sim->safe.count; i++)
        names_put(&sim->now, sim->safe.items[i].text, sim->safe.items[i].file);
    forget_nameless(sim);
    io_sim_kill(sim);
}

void io_sim_kill(struct io_sim *sim)
{
    for (int fd = 0; fd < FD_COUNT; fd++)
        sim->fds[fd] = NO_FILE;
    io_sim_heal(sim);
}

void io_sim_fail(struct io_sim *sim, uint64_t nth, int error_number, enum io_sim_loss loss)
{
    sim->fail_call = sim->calls + nth;
    sim->fail_error = error_number;
    sim->fail_loss = loss;
}

void io_sim_stop(struct io_sim *sim, uint64_t nth)
{
    sim->stop_call = sim->calls + nth;
    sim->fail_error = EIO;
    sim->fail_loss = IO_SIM_CACHED;
}

void io_sim_fail_sync(struct io_sim *sim, uint64_t nth, enum io_sim_loss loss)
{
    sim->fail_sync = sim->syncs + nth;
    sim->fail_error = EIO;
    sim->fail_loss = loss;
}

void io_sim_fail_read(struct io_sim *sim, uint64_t nth, int error_number)
{
    sim->fail_read = sim->reads + nth;
    sim->fail_error = error_number;
}

void io_sim_room(struct io_sim *sim, uint64_t bytes)
{
    sim->room = bytes;
}

void io_sim_heal(struct io_sim *sim)
{
    sim->fail_call = 0;
    sim->stop_call = 0;
    sim->fail_sync = 0;
    sim->fail_read = 0;
    sim->room = UINT64_MAX;
}

uint64_t io_sim_calls(const struct io_sim *sim)
{
    return sim->calls;
}

uint64_t io_sim_reads_failed(const struct io_sim *sim)
{
    return sim->reads_failed;
}

void io_sim_damage(struct io_sim *sim, const char *name, uint64_t offset, unsigned char mask)
{
    struct sim_name *found = names_find(&sim->now, name);
    must(found != NULL);
    struct sim_file *file = &sim->files[found->file];
    must(offset < file->now_size);
    file->now[offset] ^= mask;
    file->safe[offset] ^= mask;
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(((const struct sim_name *)a)->text, ((const struct sim_name *)b)->text);
}

const char *io_sim_name(struct io_sim *sim, const char *prefix, unsigned nth)
{
    if (sim->now.count)
        qsort(sim->now.items, sim->now.count, sizeof *sim->now.items, names_compare);
    for (size_t i = 0; i < sim->now.count; i++) {
        const char *text = sim->now.items[i].text;
        if (strncmp(text, prefix, strlen(prefix)) != 0) continue;
        if (nth-- == 0) return text;
    }
    return NULL;
}

const unsigned char *io_sim_content(struct io_sim *sim, const char *name, uint64_t *size_out)
{
    struct sim_name *found = names_find(&sim->now, name);
    if (!found) return NULL;
    *size_out = sim->files[found->file].now_size;
    return sim->files[found->file].now;
}
