/* origins.c -- reads cors.origins.
 *
 * An origin is compared with what browsers send, byte for byte, so it has to be written as they
 * write it (RFC 6454, 6.2): a mistake is told here and not in a visitor's browser console. */
#include "config/origins.h"

#include <stdlib.h>

#define ORIGIN_SIZE_MAX 255

/* `scheme://host` or `scheme://host:port`: in lower case, and nothing behind it. */
static bool is_origin(struct bytes text)
{
    size_t scheme = 0;
    while (scheme < text.size && text.data[scheme] >= 'a' && text.data[scheme] <= 'z')
        scheme++;
    struct bytes rest = bytes_of(text.data + scheme, text.size - scheme);
    if (scheme == 0 || rest.size <= 3 || !bytes_starts(rest, BYTES("://"))) return false;
    for (size_t i = 3; i < rest.size; i++) {
        char c = rest.data[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(".-_:[]", c));
        if (!good) return false;
    }
    return true;
}

static void read_origin(const struct walk *walk, const yaml_node_t *node,
                        struct config_origins *origins)
{
    struct bytes text;
    if (!walk_text(walk, node, "cors.origins: an entry", ORIGIN_SIZE_MAX, &text)) return;
    if (bytes_equal(text, BYTES("*"))) {
        origins->any = true;
    } else if (is_origin(text)) {
        origins->items[origins->count] = strndup(text.data, text.size);
        must(origins->items[origins->count] != NULL);
        origins->count++;
    } else {
        walk_error(walk, node,
                   "cors.origins: \"%.*s\" is not an origin as browsers send it, such as "
                   "https://app.example or http://localhost:3000, in lower case and without a path",
                   WALK_SHOWN(text));
    }
}

void config_read_origins(const struct walk *walk, const struct setting *setting,
                         const yaml_node_t *node)
{
    struct config_origins *origins = (void *)((char *)walk->load->config + setting->offset);
    unsigned count = 1;
    config_origins_release(origins);
    if (walk_is_null(node)) return;
    if (walk_is_scalar(node)) {
        origins->items = must_calloc(count, sizeof *origins->items);
        read_origin(walk, node, origins);
        return;
    }
    const yaml_node_item_t *items =
        walk_list(walk, node, setting->path, (unsigned)setting->most, &count);
    if (!items) return;
    origins->items = must_calloc(count, sizeof *origins->items);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++)
        read_origin(walk, walk_node(walk, items[i]), origins);
}

void config_origins_release(struct config_origins *origins)
{
    for (unsigned i = 0; i < origins->count; i++)
        free(origins->items[i]);
    free(origins->items);
    *origins = (struct config_origins){0};
}
