/* resume.c -- a small text file: version, then five numbers. */
#include "cli/resume.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define NOTE_SIZE_MAX 256
#define NOTE_VERSION "tally-ingest-1"

/* Makes each folder of the path; what is there already is fine. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

static void find_path(struct resume *resume, struct bytes identity)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    uint64_t name = hash_checksum(identity);
    int size = 0;
    if (state && state[0] == '/')
        size =
            snprintf(resume->path, sizeof resume->path, "%s/tally/ingest-%016" PRIx64, state, name);
    else if (home && home[0] == '/')
        size = snprintf(resume->path, sizeof resume->path,
                        "%s/.local/state/tally/ingest-%016" PRIx64, home, name);
    if (size <= 0 || (size_t)size >= sizeof resume->path - 4) resume->path[0] = '\0';
}

static bool read_note(struct resume *resume)
{
    char text[NOTE_SIZE_MAX] = "";
    uint64_t *numbers[] = {&resume->line, &resume->digest, &resume->applied, &resume->duplicates,
                           &resume->rejected};
    int fd = open(resume->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0 || strncmp(text, NOTE_VERSION " ", sizeof NOTE_VERSION) != 0) return false;
    char *at = text + sizeof NOTE_VERSION;
    for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++) {
        char *end;
        *numbers[i] = strtoull(at, &end, 10);
        if (end == at || (*end != ' ' && *end != '\n')) return false;
        at = end;
    }
    return true;
}

void resume_load(struct resume *resume, struct bytes identity)
{
    *resume = (struct resume){.line = 0};
    find_path(resume, identity);
    if (resume->path[0] && read_note(resume)) return;
    resume->line = resume->digest = resume->applied = resume->duplicates = resume->rejected = 0;
}

void resume_save(const struct resume *resume)
{
    char fresh[RESUME_PATH_SIZE + 8], text[NOTE_SIZE_MAX];
    if (!resume->path[0]) return;
    int size = snprintf(
        text, sizeof text,
        NOTE_VERSION " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", resume->line,
        resume->digest, resume->applied, resume->duplicates, resume->rejected);
    snprintf(fresh, sizeof fresh, "%s.new", resume->path);
    make_folders(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool written = write(fd, text, (size_t)size) == size;
    written = close(fd) == 0 && written;
    if (!written || rename(fresh, resume->path) != 0) unlink(fresh);
}

void resume_remove(const struct resume *resume)
{
    if (resume->path[0]) unlink(resume->path);
}
