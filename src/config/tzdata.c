/* tzdata.c -- reads the system's time zone data.
 *
 * The folders posix and right hold every zone once more, the latter by a time that counts leap
 * seconds; localtime, posixrules and Factory are no names of places. */
#include "config/tzdata.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SYSTEM_DIRECTORY "/usr/share/zoneinfo"
#define FILE_SIZE_MAX (64u << 10)
#define PATH_SIZE 1024
#define DEPTH_MAX 3 /* America/Argentina/Buenos_Aires */

struct tzdata {
    struct zones *zones;
    const char *directory;
    char file[FILE_SIZE_MAX];
};

static bool is_left_out(const char *name)
{
    static const char *const names[] = {"posix", "right", "localtime", "posixrules", "Factory"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return name[0] == '.' || name[0] == '+' || strchr(name, '.') != NULL;
}

static size_t read_file(const char *path, char *into, size_t size_max)
{
    FILE *stream = fopen(path, "rbe");
    if (!stream) return 0;
    size_t size = fread(into, 1, size_max, stream);
    fclose(stream);
    return size;
}

static void read_zone(struct tzdata *data, const char *name, const char *path)
{
    struct zone *zone;
    size_t size = read_file(path, data->file, sizeof data->file);
    if (zone_new(&zone, bytes_of(data->file, size)) == ERR_OK)
        (void)zones_add(data->zones, name, zone);
}

static void read_folder(struct tzdata *data, const char *folder, unsigned depth);

static void read_entry(struct tzdata *data, const char *name, unsigned depth)
{
    char path[PATH_SIZE];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", data->directory, name);
    if (stat(path, &found) != 0) return;
    if (S_ISREG(found.st_mode)) read_zone(data, name, path);
    if (S_ISDIR(found.st_mode) && depth < DEPTH_MAX) read_folder(data, name, depth + 1);
}

static void read_folder(struct tzdata *data, const char *folder, unsigned depth)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", data->directory, folder);
    DIR *listing = opendir(path);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char name[ZONE_NAME_MAX + 1];
        if (is_left_out(entry->d_name)) continue;
        int size =
            snprintf(name, sizeof name, "%s%s%s", folder, folder[0] ? "/" : "", entry->d_name);
        if (size > 0 && size <= ZONE_NAME_MAX) read_entry(data, name, depth);
    }
    closedir(listing);
}

/* The first line of tzdata.zi is "# version 2026b". Where there is none, +VERSION may say it. */
static void read_version(const char *directory, char version_out[static ZONES_VERSION_MAX + 1])
{
    static const char before[] = "# version ";
    char path[PATH_SIZE], text[128] = "";
    snprintf(path, sizeof path, "%s/tzdata.zi", directory);
    size_t size = read_file(path, text, sizeof text - 1);
    const char *at =
        strncmp(text, before, sizeof before - 1) == 0 ? text + sizeof before - 1 : NULL;
    if (size == 0) {
        snprintf(path, sizeof path, "%s/+VERSION", directory);
        if (read_file(path, text, sizeof text - 1) > 0) at = text;
    }
    snprintf(version_out, ZONES_VERSION_MAX + 1, "%.*s", at ? (int)strcspn(at, " \r\n") : 0,
             at ? at : "");
}

static const char *system_directory(void)
{
    const char *own = getenv("TZDIR");
    return own && own[0] ? own : SYSTEM_DIRECTORY;
}

void tzdata_refresh(void)
{
    char version[ZONES_VERSION_MAX + 1];
    const struct zones *zones = zones_in_force();
    read_version(system_directory(), version);
    if (zones_count(zones) > 1 && strcmp(version, zones_version(zones)) == 0) return;
    zones_put_in_force(tzdata_read(NULL));
}

struct zones *tzdata_read(const char *directory)
{
    struct tzdata *data = must_calloc(1, sizeof *data);
    char version[ZONES_VERSION_MAX + 1];
    data->directory = directory ? directory : system_directory();
    read_version(data->directory, version);
    data->zones = zones_new(version);
    read_folder(data, "", 0);
    (void)zones_add(data->zones, "UTC", zone_new_fixed(0)); /* refused where the system has one */
    struct zones *zones = data->zones;
    free(data);
    return zones;
}
