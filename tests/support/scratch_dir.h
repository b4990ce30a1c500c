/* scratch_dir.h -- a directory of its own for a test, gone after it. */
#ifndef TALLY_TESTS_SCRATCH_DIR_H
#define TALLY_TESTS_SCRATCH_DIR_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"

struct scratch_dir {
    char path[256];
};

static inline void scratch_dir_init(struct scratch_dir *dir)
{
    const char *parent = getenv("TMPDIR");
    snprintf(dir->path, sizeof dir->path, "%s/tally-test-XXXXXX", parent ? parent : "/tmp");
    must(mkdtemp(dir->path) != NULL);
}

static inline int scratch_dir_remove(const char *path, const struct stat *status, int type,
                                     struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static inline void scratch_dir_release(struct scratch_dir *dir)
{
    nftw(dir->path, scratch_dir_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of a file in it; valid until the next call. */
static inline const char *scratch_dir_file(const struct scratch_dir *dir, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir->path, name);
    return path;
}

#endif
