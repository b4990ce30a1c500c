/* rules.h -- `counters:`, `statuses:` and `events.types` of a config file, compiled.
 *
 * yaml.c calls these where it meets such a node; config.c makes the struct rules before and seals
 * it after. Everything is made in the rules' own arena, from nodes that do not outlive the call.
 * What is wrong is complained about with its line and column; rules with an error are never used,
 * so they may be left half made. */
#ifndef TALLY_CONFIG_RULES_H
#define TALLY_CONFIG_RULES_H

#include "config/walk.h"
#include "core/event.h"
#include "core/rules.h"

#define RULES_TYPES_MAX 1000    /* in events.types; in statuses */
#define RULES_RULES_MAX 256     /* one counter's */
#define RULES_CONDITIONS_MAX 16 /* one rule's */
#define RULES_CONDITION_SIZE_MAX 1024
#define RULES_KEY_SIZE_MAX 255 /* a dimension's key, or payload.<path> */
#define RULES_STATUS_SIZE_MAX 64
#define RULES_WINDOW_MS_MAX (366 * INT64_C(86400000))
#define RULES_KEEP_MS_MAX (36500 * INT64_C(86400000))

/* A list may repeat an alias, so a small file can ask for much: this is where it ends. */
#define RULES_BYTES_MAX (16u << 20)

/* rules.c */
void config_read_counters(const struct walk *walk, const yaml_node_t *node);
void config_read_statuses(const struct walk *walk, const yaml_node_t *node);
void config_read_types(const struct walk *walk, const yaml_node_t *node);

/* rule.c: parts of one counter. */

/* A list of dimension keys and payload.<path>, as a set sorted by name, without repeats. False: it
 * is not one, and that was said. */
MUST_USE bool config_read_dimensions(const struct walk *walk, const yaml_node_t *node,
                                     const char *what, struct dimension_set *set_out);
/* One entry of a counter's `rules`. */
void config_read_rule(const struct walk *walk, const yaml_node_t *node, struct rule *rule_out);

#endif
