/* follow.h -- the settings of a server that follows another (SPEC 13). */
#ifndef TALLY_CONFIG_FOLLOW_H
#define TALLY_CONFIG_FOLLOW_H

#include "config/parts.h"

enum address_fault { ADDRESS_GOOD, ADDRESS_MALFORMED, ADDRESS_INSECURE };

/* Judges http://HOST:PORT or https://HOST, without a path. ADDRESS_INSECURE: others may listen on
 * the way, for it is neither https nor this machine's own. */
enum address_fault config_address(struct bytes text);

/* Checks them, and takes the "/" off the end of follow.url. */
void config_check_follow(struct config_load *load);

#endif
