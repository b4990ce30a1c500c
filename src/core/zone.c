/* zone.c -- reads TZif files, versions 2 to 4, and looks times up in what they say.
 *
 *     header, block of version 1 (32 bits, passed over), header, block, "\n" rule "\n"
 *
 *     header   "TZif" version, 15 bytes, then six counts of 32 bits, big-endian:
 *              isut, isstd, leap, time, type, char
 *     block    times (8 bytes each), the type of each (1), types (offset 4, summer 1, name 1),
 *              chars, leap seconds (12), isstd, isut */
#include "core/zone.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/must.h"
#include "core/date.h"
#include "core/zone_rule.h"

#define HEADER_SIZE 44u
#define TYPE_SIZE 6u
#define TYPES_MAX 256u
#define CHANGES_FILE_MAX 4096u
#define ERA_SECONDS ((int64_t)ERA_DAYS * DAY_SECONDS)
#define TIME_LEAST INT64_C(-100000000000000) /* files of old begin with the big bang */

struct offset_change {
    int64_t at;
    int32_t offset; /* from then on */
};

struct zone {
    int32_t first_offset; /* before the first change */
    bool repeats;         /* after the last one it is as it was an era before */
    uint32_t count;
    struct offset_change changes[];
};

/* -- Reading ----------------------------------------------------------------------------------- */

struct header {
    char version;
    uint32_t isut;
    uint32_t isstd;
    uint32_t leap;
    uint32_t time;
    uint32_t type;
    uint32_t chars;
};

static uint32_t big_u32(const char *at)
{
    return __builtin_bswap32(get_u32(at));
}

/* Takes `size` bytes off the front; NULL: there are fewer. */
static const char *take(struct bytes *bytes, size_t size)
{
    const char *at = bytes->data;
    if (bytes->size < size) return NULL;
    *bytes = bytes_of(at + size, bytes->size - size);
    return at;
}

static bool take_header(struct bytes *bytes, struct header *header_out)
{
    const char *at = take(bytes, HEADER_SIZE);
    if (!at || memcmp(at, "TZif", 4) != 0) return false;
    *header_out = (struct header){.version = at[4],
                                  .isut = big_u32(at + 20),
                                  .isstd = big_u32(at + 24),
                                  .leap = big_u32(at + 28),
                                  .time = big_u32(at + 32),
                                  .type = big_u32(at + 36),
                                  .chars = big_u32(at + 40)};
    return header_out->type > 0 && header_out->type <= TYPES_MAX &&
           header_out->time <= CHANGES_FILE_MAX && header_out->leap <= CHANGES_FILE_MAX &&
           header_out->chars <= CHANGES_FILE_MAX && header_out->isut <= TYPES_MAX &&
           header_out->isstd <= TYPES_MAX;
}

static size_t block_size(const struct header *header, size_t time_size)
{
    return header->time * (time_size + 1) + header->type * TYPE_SIZE + header->chars +
           header->leap * (time_size + 4) + header->isstd + header->isut;
}

/* What a block and the rule after it say, before it is a zone. */
struct zone_file {
    struct header header;
    const char *times;
    const char *kinds;
    const char *types;
    struct zone_rule rule;
    bool has_rule;
};

static bool take_rule(struct bytes *bytes, struct zone_file *file)
{
    const char *begin = take(bytes, 1);
    if (!begin || *begin != '\n') return false;
    const char *end = memchr(bytes->data, '\n', bytes->size);
    if (!end) return false;
    struct bytes text = bytes_of(bytes->data, (size_t)(end - bytes->data));
    file->has_rule = text.size > 0;
    return !file->has_rule || zone_rule_parse(text, &file->rule);
}

static bool take_file(struct bytes bytes, struct zone_file *file_out)
{
    struct header *header = &file_out->header;
    if (!take_header(&bytes, header) || header->version < '2') return false;
    if (!take(&bytes, block_size(header, 4)) || !take_header(&bytes, header)) return false;
    const char *block = take(&bytes, block_size(header, 8));
    if (!block) return false;
    file_out->times = block;
    file_out->kinds = block + header->time * 8;
    file_out->types = file_out->kinds + header->time;
    return take_rule(&bytes, file_out);
}

static bool type_offset(const struct zone_file *file, uint32_t type, int32_t *offset_out)
{
    if (type >= file->header.type) return false;
    *offset_out = (int32_t)big_u32(file->types + type * TYPE_SIZE);
    return *offset_out >= -ZONE_OFFSET_MAX && *offset_out <= ZONE_OFFSET_MAX;
}

static int32_t last_offset(const struct zone *zone)
{
    return zone->count ? zone->changes[zone->count - 1].offset : zone->first_offset;
}

/* Changes of names or of what is called summer are none of ours. */
static void add_change(struct zone *zone, int64_t at, int32_t offset)
{
    if (offset != last_offset(zone))
        zone->changes[zone->count++] = (struct offset_change){at, offset};
}

static bool add_changes(struct zone *zone, const struct zone_file *file)
{
    int64_t before = INT64_MIN;
    for (uint32_t i = 0; i < file->header.time; i++) {
        int64_t at = (int64_t)get_ordered_u64(file->times + i * 8);
        int32_t offset;
        if (at <= before || !type_offset(file, (unsigned char)file->kinds[i], &offset))
            return false;
        before = at;
        if (at >= TIME_LEAST)
            add_change(zone, at, offset);
        else
            zone->first_offset = offset;
    }
    return true;
}

/* Writes the rule out for an era, and a year more, so that an era ends with what it began with. */
static void add_rule(struct zone *zone, const struct zone_file *file)
{
    const struct zone_rule *rule = &file->rule;
    uint32_t times = file->header.time;
    int64_t last = times ? (int64_t)get_ordered_u64(file->times + (times - 1) * 8) : TIME_LEAST;
    int64_t first_year = times ? date_of(floor_div(last, DAY_SECONDS)).year : 1;
    if (!rule->has_summer) {
        if (times == 0) zone->first_offset = rule->standard;
        return;
    }
    for (int64_t year = first_year; year <= first_year + ERA_YEARS + 1; year++) {
        struct zone_year turns = zone_rule_year(rule, year);
        if (turns.first_at > last) add_change(zone, turns.first_at, turns.first_offset);
        if (turns.second_at > last) add_change(zone, turns.second_at, turns.second_offset);
    }
    zone->repeats = true;
}

enum err zone_new(struct zone **zone_out, struct bytes bytes)
{
    struct zone_file file = {0};
    int32_t first;
    if (!take_file(bytes, &file) || !type_offset(&file, 0, &first)) return ERR_CORRUPT;
    size_t room = file.header.time + (file.has_rule ? 2u * (ERA_YEARS + 2) : 0u);
    struct zone *zone = must_calloc(1, sizeof *zone + room * sizeof zone->changes[0]);
    zone->first_offset = first;
    if (!add_changes(zone, &file)) {
        free(zone);
        return ERR_CORRUPT;
    }
    if (file.has_rule) add_rule(zone, &file);
    *zone_out = must_realloc(zone, sizeof *zone + zone->count * sizeof zone->changes[0]);
    return ERR_OK;
}

struct zone *zone_new_fixed(int32_t offset)
{
    struct zone *zone = must_calloc(1, sizeof *zone);
    zone->first_offset = offset;
    return zone;
}

void zone_free(struct zone *zone)
{
    free(zone);
}

/* -- Looking up -------------------------------------------------------------------------------- */

/* How much earlier the same happened within what is written out. */
static int64_t eras_before(const struct zone *zone, int64_t seconds)
{
    if (!zone->repeats) return 0;
    int64_t past = seconds - zone->changes[zone->count - 1].at;
    return past < 0 ? 0 : (past / ERA_SECONDS + 1) * ERA_SECONDS;
}

/* The number of changes at or before that time. */
static uint32_t changes_upto(const struct zone *zone, int64_t seconds)
{
    uint32_t low = 0, high = zone->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at <= seconds)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t zone_offset(const struct zone *zone, int64_t seconds)
{
    uint32_t upto = changes_upto(zone, seconds - eras_before(zone, seconds));
    return upto ? zone->changes[upto - 1].offset : zone->first_offset;
}

int64_t zone_next_change(const struct zone *zone, int64_t seconds)
{
    int64_t before = eras_before(zone, seconds);
    uint32_t upto = changes_upto(zone, seconds - before);
    return upto == zone->count ? INT64_MAX : zone->changes[upto].at + before;
}
