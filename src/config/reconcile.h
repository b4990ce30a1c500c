/* reconcile.h -- `reconcile:` of a config file, compiled (core/reconcile.h). */
#ifndef TALLY_CONFIG_RECONCILE_H
#define TALLY_CONFIG_RECONCILE_H

#include "config/rules.h"

void config_read_reconcile(const struct walk *walk, const yaml_node_t *node);

/* To be called once all of the config is read: finds the counters that entries name, and complains
 * about those that cannot be put right. */
void config_link_reconcile(struct config_load *load);

/* print_reconcile.c: writes YAML that reads back, except that a connection string that was written
 * down is shown as "(set)". */
void config_write_reconcile(const struct config *config, struct buf *buf);

#endif
