/* unknown.c -- names that a call does not know, and which of those it knows was probably meant. */
#include "api/unknown.h"

#include <strings.h>

#define SHOWN_SIZE_MAX 64u /* a name in a sentence */
#define ALIKE_SIZE_MAX 32u /* longer names are not compared */
#define PART_SIZE_MIN 3u   /* "start" means startTime; "at" may be the end of anything */

/* -- What was meant ---------------------------------------------------------------------------- */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* The distance of two names: letters to put in, leave out, change or swap with a neighbour; case
 * does not count. */
static unsigned distance(struct bytes a, struct bytes b)
{
    unsigned rows[3][ALIKE_SIZE_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (unsigned j = 0; j <= b.size; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a.size; i++) {
        unsigned *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (unsigned j = 1; j <= b.size; j++) {
            char x = lower(a.data[i - 1]), y = lower(b.data[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            bool swapped = i > 1 && j > 1 && x == lower(b.data[j - 2]) && y == lower(a.data[i - 2]);
            if (swapped) row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[b.size];
}

/* "expires" for expiresAt, "value" for targetValue; the other way round, "maximum" for max. */
static bool is_part(struct bytes name, struct bytes of)
{
    if (name.size < PART_SIZE_MIN || name.size > of.size) return false;
    return strncasecmp(of.data, name.data, name.size) == 0 ||
           strncasecmp(of.data + of.size - name.size, name.data, name.size) == 0;
}

/* BYTES_NONE: nothing is near. A third of the letters may be wrong. */
static struct bytes nearest(struct bytes name, const struct known *known)
{
    struct bytes found = BYTES_NONE;
    if (name.size > ALIKE_SIZE_MAX) return found;
    unsigned best = (unsigned)(name.size + 2) / 3 + 1;
    for (unsigned i = 0; i < known->count; i++) {
        if (known->elsewhere >> i & 1 || known->names[i].size > ALIKE_SIZE_MAX) continue;
        unsigned far = distance(name, known->names[i]);
        bool part = is_part(name, known->names[i]) || is_part(known->names[i], name);
        if (part) far = least(far, 1);
        if (far >= best) continue;
        best = far;
        found = known->names[i];
    }
    return found;
}

/* -- Saying it --------------------------------------------------------------------------------- */

/* A long name is cut between two characters. */
static int shown_size(struct bytes name)
{
    size_t size = name.size < SHOWN_SIZE_MAX ? name.size : SHOWN_SIZE_MAX;
    while (size < name.size && size > 0 && ((unsigned char)name.data[size] & 0xc0) == 0x80)
        size--;
    return (int)size;
}

static void say(struct reason *why, const char *what, struct bytes name, struct bytes meant)
{
    int size = shown_size(name);
    const char *rest = (size_t)size < name.size ? "..." : "";
    reason_say(why, "Unknown %s \"%.*s%s\"", what, size, name.data, rest);
    if (meant.data)
        reason_add(why, ": did you mean \"%.*s\"?", (int)meant.size, meant.data);
    else
        reason_add(why, ".");
}

/* -- Looking ----------------------------------------------------------------------------------- */

static unsigned find(struct bytes name, const struct known *known)
{
    unsigned i = 0;
    while (i < known->count && !bytes_equal(known->names[i], name))
        i++;
    return i;
}

static bool is_known_everywhere(struct bytes name)
{
    return bytes_equal(name, BYTES("minSequence")) || bytes_equal(name, BYTES("consistency"));
}

bool unknown_field(const struct json_value *object, const struct known *known, struct reason *why)
{
    struct json_iter iter;
    if (object->type != JSON_OBJECT) return false;
    for (json_each(object, &iter); json_next(&iter);) {
        unsigned index = find(iter.key, known);
        bool here = index < known->count && !(known->elsewhere >> index & 1);
        if (here || bytes_starts(iter.key, BYTES("x-")) || is_known_everywhere(iter.key)) continue;
        if (index < known->count && iter.value.type == JSON_NULL) continue;
        say(why, "field", iter.key, nearest(iter.key, known));
        return true;
    }
    return false;
}

bool unknown_param(const struct params *params, const struct known *known, struct reason *why)
{
    for (unsigned i = 0; i < params->count; i++) {
        struct bytes name = params->items[i].name;
        if (find(name, known) < known->count || is_known_everywhere(name)) continue;
        if (bytes_starts(name, BYTES("_"))) continue;
        if (known->dimensions && bytes_starts(name, BYTES("dim."))) continue;
        say(why, "query parameter", name, nearest(name, known));
        return true;
    }
    return false;
}
