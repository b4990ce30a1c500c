/* reserve.c -- one file of allocated, unused blocks. */
#include "store/embedded/reserve.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The room that any checkpoint needs (ROOM_BYTES of checkpoint.c), and the room for its changed
 * rows, of which a lane has a share only. */
#ifdef TALLY_SMALL_WORLD
#define RESERVE_LEAST (1u << 20)
#define RESERVE_ROWS 0u
#else
#define RESERVE_LEAST (6u << 20)
#define RESERVE_ROWS (10u << 20)
#endif

void reserve_init(struct reserve *reserve, const char *dir, unsigned lanes)
{
    struct stat file;
    snprintf(reserve->path, sizeof reserve->path, "%s/RESERVE", dir);
    reserve->dir = dir;
    reserve->bytes = RESERVE_LEAST + RESERVE_ROWS / lanes;
    reserve->held = stat(reserve->path, &file) == 0;
}

uint64_t reserve_free_bytes(const struct reserve *reserve)
{
    struct statvfs disk;
    if (statvfs(reserve->dir, &disk) != 0) return UINT64_MAX;
    return (uint64_t)disk.f_bavail * disk.f_frsize;
}

bool reserve_make_room(struct reserve *reserve, uint64_t bytes)
{
    if (reserve_free_bytes(reserve) >= bytes) return true;
    if (reserve->held) unlink(reserve->path);
    reserve->held = false;
    return reserve_free_bytes(reserve) >= bytes;
}

void reserve_restore(struct reserve *reserve)
{
    if (reserve->held || reserve_free_bytes(reserve) < 2 * reserve->bytes) return;
    int fd = open(reserve->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    reserve->held = posix_fallocate(fd, 0, (off_t)reserve->bytes) == 0;
    close(fd);
    if (!reserve->held) unlink(reserve->path);
}
