/* rules_text.h -- rules from the text of a config file, as a test writes them. */
#ifndef TALLY_TESTS_SUPPORT_RULES_TEXT_H
#define TALLY_TESTS_SUPPORT_RULES_TEXT_H

#include "core/rules.h"

/* One reference, to be released; sealed; every counter has this generation (0: not yet given, for
 * enact_plan). A text that is refused ends the program. */
struct rules *rules_of_text(const char *text, uint32_t generation);

#endif
