/* page.h -- sizes and marks that the reader and the writer of runs share; see run.h. */
#ifndef TALLY_STORE_EMBEDDED_IDS_PAGE_H
#define TALLY_STORE_EMBEDDED_IDS_PAGE_H

#include "store/embedded/ids/run.h"

#define ID_RUN_MAGIC 0x736e75726469546aull
#define ID_RUN_FORMAT 1u
#define ID_HEAD_SIZE 72u /* then its checksum */
#define ID_PAGE_HEAD 28u
#define ID_RECORD_SIZE 36u

_Static_assert(ID_PAGE_HEAD + ID_RUN_PAGE_RECORDS * ID_RECORD_SIZE == ID_RUN_PAGE,
               "records fill a page");

#endif
