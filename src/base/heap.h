/* heap.h -- how malloc behaves in a server. */
#ifndef TALLY_BASE_HEAP_H
#define TALLY_BASE_HEAP_H

#include <stddef.h>

/* Makes malloc keep freed memory for the next request. To be called before the first thread
 * starts. */
void heap_keep(void);

/* What malloc takes for `size` bytes: its own word in front, in steps of 16. */
static inline size_t heap_bytes(size_t size)
{
    return size <= 24 ? 32 : (size + 8 + 15) / 16 * 16;
}

#endif
