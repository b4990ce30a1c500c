/* walk.h -- a YAML document, looked at along what is expected in it.
 *
 * Every complaint names file, line and column of the node it is about. Nothing here recurses into a
 * document by itself: callers descend only where their own tables say so, which bounds the depth
 * whatever aliases do. Values keep what is written as it is written. */
#ifndef TALLY_CONFIG_WALK_H
#define TALLY_CONFIG_WALK_H

#include <yaml.h>

#include "config/parts.h"

#define WALK_WHERE_SIZE CONFIG_WHERE_SIZE

struct walk {
    struct config_load *load;
    const char *name; /* the file's, or what else holds the value */
    bool inlined;     /* a value from --set or the environment: line and column say nothing */
    yaml_document_t *document;
};

/* "file:12:3" of a mark or a node. */
void walk_place(const struct walk *walk, const yaml_mark_t *mark, char where_out[WALK_WHERE_SIZE]);
void walk_error(const struct walk *walk, const yaml_node_t *node, const char *format, ...)
    PRINTF_LIKE(3, 4);

const yaml_node_t *walk_node(const struct walk *walk, int index);
bool walk_is_scalar(const yaml_node_t *node);
struct bytes walk_scalar(const yaml_node_t *node); /* the text of a node that is one */
bool walk_is_null(const yaml_node_t *node);        /* `key:`, `key: ~` and `key: null` */
const char *walk_type(const yaml_node_t *node);    /* "a list" */

/* For messages: as much of a text as a line can take, with "%.*s". */
#define WALK_SHOWN(text) (int)((text).size < 60 ? (text).size : 60), (text).data

/* True, with an error added, if an earlier key of the mapping is the same. */
bool walk_repeated(const struct walk *walk, const yaml_node_t *map, const yaml_node_pair_t *pair,
                   const char *what);

/* The pairs of a mapping with known keys. NULL: not given, or given as null. */
struct walk_field {
    const yaml_node_t *key;
    const yaml_node_t *value;
};

/* Sorts the pairs of `node` into fields_out[i] by `names`, of which there are `count`. It complains
 * where the node is not a mapping, a key is repeated or is not in the list; `what` is "a
 * counter". */
void walk_fields(const struct walk *walk, const yaml_node_t *node, const char *what,
                 const char *const *names, unsigned count, struct walk_field *fields_out);

/* The items of a list of at most `most`. NULL, with an error added, for anything else. */
const yaml_node_item_t *walk_list(const struct walk *walk, const yaml_node_t *node,
                                  const char *what, unsigned most, unsigned *count_out);

/* The text of a scalar of 1 to `most` bytes without NUL, and not null. False, with an error added,
 * for anything else. */
MUST_USE bool walk_text(const struct walk *walk, const yaml_node_t *node, const char *what,
                        unsigned most, struct bytes *text_out);

/* These leave `*value_out` as it is, with an error added, for anything else. */
void walk_bool(const struct walk *walk, const yaml_node_t *node, const char *what, bool *value_out);
void walk_duration(const struct walk *walk, const yaml_node_t *node, const char *what,
                   int64_t least_ms, int64_t most_ms, int64_t *value_out);
void walk_integer(const struct walk *walk, const yaml_node_t *node, const char *what, int64_t most,
                  int64_t *value_out); /* from 0 */

#endif
