/* tree.h -- files and directories as backups need them: listed, copied with a checksum, removed.
 *
 * Calls that can fail on the disk return ERR_STORAGE and leave the reason in errno. */
#ifndef TALLY_BASE_TREE_H
#define TALLY_BASE_TREE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"

#define TREE_PATH_MAX 4096

/* "DIR/NAME" into `out`. ERR_STORAGE (ENAMETOOLONG) if it does not fit. */
MUST_USE enum err tree_path(char out[TREE_PATH_MAX], const char *dir, const char *name);

/* Makes the directory if it is not there, and its name durable. */
MUST_USE enum err tree_make(const char *dir);
MUST_USE enum err tree_sync_dir(const char *dir);

/* Whether the directory is empty or not there; what file systems put into a new one ("lost+found")
 * does not count. */
bool tree_is_empty(const char *dir);

/* Removes the directory and all that is in it. It need not be there. */
MUST_USE enum err tree_remove(const char *path);
/* Removes what is in the directory, and not the directory. */
MUST_USE enum err tree_clear(const char *dir);

struct tree_file {
    char *path; /* below the directory that was listed, "state/000012.sst" */
    uint64_t size;
    struct checksum checksum;
};

struct tree_list {
    struct tree_file *files;
    size_t count;
    size_t capacity;
};

void tree_list_add(struct tree_list *list, const char *path, uint64_t size);
void tree_list_sort(struct tree_list *list); /* by path */
void tree_list_release(struct tree_list *list);
/* Every plain file below `dir`, sorted by path, without checksums. */
MUST_USE enum err tree_list_read(struct tree_list *list, const char *dir);
/* NULL: it is not in the list, which is sorted. */
struct tree_file *tree_list_find(const struct tree_list *list, const char *path);

/* How far a long piece of work is, and whether it is to stop: shared with other threads. */
struct effort {
    atomic_uint_fast64_t done; /* bytes */
    atomic_uint_fast64_t total;
    atomic_bool stop;
    const char *keep_free_of; /* a copy fails (ENOSPC) before this directory's disk is full */
};

/* ERR_STORAGE (ENOSPC): what is being written is to stop here. `effort` may be NULL. */
MUST_USE enum err tree_has_room(const struct effort *effort);

/* The checksum of a file's bytes. ERR_BUSY: told to stop. `effort` may be NULL. */
MUST_USE enum err tree_checksum(const char *path, struct checksum *checksum_out,
                                struct effort *effort);
/* Copies the file `from` to the new file `to`, synced, and says its checksum. The directories above
 * `to` are there already. ERR_BUSY: told to stop. */
MUST_USE enum err tree_copy(const char *from, const char *to, struct checksum *checksum_out,
                            struct effort *effort);

#endif
