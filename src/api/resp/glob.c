/* glob.c -- see the header. */
#include "api/resp/glob.h"

/* Where the set that begins at `at`, behind its `[`, has been read to, and whether it has `byte`.
 * One that does not end ends with the pattern. */
static size_t match_set(struct bytes pattern, size_t at, char byte, bool *found_out)
{
    bool found = false;
    bool negated = at < pattern.size && pattern.data[at] == '^';
    if (negated) at++;
    while (at < pattern.size && pattern.data[at] != ']') {
        char low = pattern.data[at];
        if (low == '\\' && at + 1 < pattern.size) low = pattern.data[++at];
        char high = low;
        if (at + 2 < pattern.size && pattern.data[at + 1] == '-') {
            high = pattern.data[at + 2];
            at += 2;
        }
        if (low > high) {
            char other = low;
            low = high;
            high = other;
        }
        found |= byte >= low && byte <= high;
        at++;
    }
    *found_out = found != negated;
    return at < pattern.size ? at + 1 : at;
}

/* Matches one byte with what stands at `*at`, and goes behind that. */
static bool match_one(struct bytes pattern, size_t *at, char byte)
{
    char wanted = pattern.data[*at];
    bool found;
    ++*at;
    if (wanted == '?') return true;
    if (wanted == '[') {
        *at = match_set(pattern, *at, byte, &found);
        return found;
    }
    if (wanted == '\\' && *at < pattern.size) wanted = pattern.data[(*at)++];
    return wanted == byte;
}

/* After a mismatch the newest `*` takes one byte more; the older ones need not be tried again. */
bool glob_match(struct bytes pattern, struct bytes text)
{
    size_t at = 0, i = 0;
    size_t star = SIZE_MAX, from = 0;
    while (i < text.size) {
        if (at < pattern.size && pattern.data[at] == '*') {
            star = ++at;
            from = i;
        } else if (at < pattern.size && match_one(pattern, &at, text.data[i])) {
            i++;
        } else if (star != SIZE_MAX) {
            at = star;
            i = ++from;
        } else {
            return false;
        }
    }
    while (at < pattern.size && pattern.data[at] == '*')
        at++;
    return at == pattern.size;
}

struct bytes glob_prefix(struct bytes pattern)
{
    size_t size = 0;
    while (size < pattern.size && !strchr("*?[\\", pattern.data[size]))
        size++;
    return bytes_of(pattern.data, size);
}
