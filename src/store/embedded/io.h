/* io.h -- the few file operations the journal and its sidecar files need.
 *
 * A table of functions, so that the simulator and the law tests can put a file system underneath
 * that forgets what was not synced, fails the nth call or runs full. Every call returns 0 (or a
 * byte count) or a negative errno. */
#ifndef TALLY_STORE_EMBEDDED_IO_H
#define TALLY_STORE_EMBEDDED_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IO_ALIGN 4096u /* offsets, sizes and memory of files opened `direct` are multiples of it */
/* A file written beside the journal is synced after each so many bytes: at most these are before
 * the journal's own sync at the disk. */
#define IO_PIECE (2u << 20)

struct io;

struct io_ops {
    /* Returns a descriptor. `direct` asks for O_DIRECT and falls back where it is not to be had.
     * `create` makes a file that is not there yet; one that is there is opened as it is. */
    int (*open)(struct io *io, const char *path, bool create, bool direct);
    int (*close)(struct io *io, int fd);
    /* Makes a new file `size` bytes long, reading as zeros, with room on disk for all of them. The
     * file must not be open `direct`. */
    int (*reserve)(struct io *io, int fd, uint64_t size);
    int64_t (*size)(struct io *io, int fd);
    int64_t (*read)(struct io *io, int fd, void *data, size_t size,
                    uint64_t offset); /* whole or to the end */
    int64_t (*write)(struct io *io, int fd, const void *data, size_t size,
                     uint64_t offset);  /* whole or error */
    int (*sync)(struct io *io, int fd); /* fdatasync */
    int (*sync_dir)(struct io *io, const char *path);
    int (*rename)(struct io *io, const char *from, const char *to);
    int (*unlink)(struct io *io, const char *path);
    /* Gives the room of an open file back in steps, if it has no name any more; what fails comes
     * with its closing. NULL: there is nothing to be gained by it. */
    void (*shrink)(struct io *io, int fd);
    /* Calls `visit` for each plain file name in the directory. */
    int (*list)(struct io *io, const char *path, void (*visit)(void *context, const char *name),
                void *context);
};

struct io {
    const struct io_ops *ops;
};

extern struct io io_system; /* the kernel's */

/* Unlinks `path`, a file of `dir` that nobody reads any more, and syncs the directory; then its
 * room is given back in steps. To free hundreds of megabytes at once keeps the journal's syncs
 * waiting; to shrink the file before it is sure that its name is gone could leave half of it behind
 * after a crash. */
int io_remove(struct io *io, const char *dir, const char *path);

#endif
