/* resp.h -- Redis's protocol, as the wire's second handler. */
#ifndef TALLY_API_RESP_RESP_H
#define TALLY_API_RESP_RESP_H

#include "api/api.h"

/* For connections that come in at `resp.listen`. Its `turn_end` is api_handler's. */
struct wire_handler resp_handler(struct api *api);

/* The commands of tally_resp_commands_total; the last one stands for what nobody knows. */
const char *const *resp_command_names(unsigned *count_out);

#endif
