/* scope.c -- four words and their bits. */
#include "base/scope.h"

static unsigned scope_word(struct bytes word)
{
    if (bytes_equal(word, BYTES("read"))) return SCOPE_READ;
    if (bytes_equal(word, BYTES("write"))) return SCOPE_WRITE;
    if (bytes_equal(word, BYTES("admin"))) return SCOPE_ADMIN | SCOPE_READ | SCOPE_WRITE;
    if (bytes_equal(word, BYTES("replica"))) return SCOPE_REPLICA;
    return 0;
}

unsigned scope_parse(struct bytes words, struct bytes *unknown_out)
{
    unsigned scopes = 0;
    struct bytes unknown = BYTES_NONE;
    while (words.size) {
        struct bytes word = bytes_split(&words, ' ');
        unsigned bits = scope_word(word);
        if (!bits && word.size && !unknown.data) unknown = word;
        scopes |= bits;
    }
    if (unknown_out) *unknown_out = unknown;
    return scopes;
}

const char *scope_text(unsigned scopes)
{
    static const char *const texts[] = {
        "",        "read",         "write",         "read write",
        "replica", "read replica", "write replica", "read write replica"};
    unsigned replica = scopes & SCOPE_REPLICA ? 4 : 0;
    if (scopes & SCOPE_ADMIN) return replica ? "admin replica" : "admin";
    return texts[(scopes & SCOPE_DEFAULT) + replica];
}
