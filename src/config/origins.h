/* origins.h -- cors.origins: pages of which other sites may read the replies. */
#ifndef TALLY_CONFIG_ORIGINS_H
#define TALLY_CONFIG_ORIGINS_H

#include "config/walk.h"

/* A list of origins, one alone, or `*`. The new value replaces the old one whole. */
void config_read_origins(const struct walk *walk, const struct setting *setting,
                         const yaml_node_t *node);

void config_origins_release(struct config_origins *origins);

#endif
