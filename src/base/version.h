/* version.h -- which version this is. CHANGELOG.md says what is in it. */
#ifndef TALLY_BASE_VERSION_H
#define TALLY_BASE_VERSION_H

#define TALLY_VERSION "0.1.0"
#define TALLY_DATE "November 17, 2026" /* the version's, for the man page */

#endif
