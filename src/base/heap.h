/* heap.h -- how malloc behaves in a server. */
#ifndef TALLY_BASE_HEAP_H
#define TALLY_BASE_HEAP_H

/* From now on memory that was given back is kept for the next request. Before the first thread. */
void heap_keep(void);

#endif
