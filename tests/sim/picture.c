/* picture.c -- tables are never changed once written, so a link does; the rest is copied.
 *
 * RocksDB's own threads may add and remove tables meanwhile, and say so in the manifest. If that
 * did not change while the picture was taken, the picture is one of a moment; else it is taken
 * again. */
#include "picture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "disk.h"

#define PATH_SIZE 600
#define TRIES_MAX 1000

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    return size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

/* False: it went away while being looked at. */
static bool copy_file(const char *from, const char *to)
{
    char buffer[16384];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return false;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(out >= 0);
    ssize_t got;
    while ((got = read(in, buffer, sizeof buffer)) > 0)
        must(write(out, buffer, (size_t)got) == got);
    close(in);
    close(out);
    return got == 0;
}

static bool take_file(const char *from, const char *to, const char *name)
{
    char source[PATH_SIZE], target[PATH_SIZE];
    snprintf(source, sizeof source, "%s/%s", from, name);
    snprintf(target, sizeof target, "%s/%s", to, name);
    if (ends_with(name, ".sst")) return link(source, target) == 0;
    return copy_file(source, target);
}

static bool take_files(const char *from, const char *to)
{
    DIR *dir = opendir(from);
    if (!dir) return true; /* not made yet */
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') ok = take_file(from, to, entry->d_name);
    closedir(dir);
    return ok;
}

/* Which manifests there are and how long they have become. */
static uint64_t manifest_state(const char *from)
{
    uint64_t sum = 0;
    DIR *dir = opendir(from);
    if (!dir) return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[PATH_SIZE];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
        if (strncmp(entry->d_name, "MANIFEST", 8) == 0 && stat(path, &status) == 0)
            sum += (uint64_t)status.st_size * 1000003 + status.st_ino;
    }
    closedir(dir);
    return sum;
}

void picture_take(const char *from, const char *to)
{
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint64_t before = manifest_state(from);
        must(mkdir(to, 0700) == 0);
        if (take_files(from, to) && manifest_state(from) == before) return;
        remove_tree(to);
    }
    must(!"RocksDB never rests");
}
