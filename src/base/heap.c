/* heap.c -- a batch of events takes some megabytes and gives them back a moment later. By its
 * defaults malloc returns them to the kernel, and faulting them in again was a twentieth of the CPU
 * that an event took. */
#include "base/heap.h"

#include <malloc.h>

#define KEPT_BYTES (128 << 20)
#define MAPPED_BYTES (32 << 20) /* the most that mallopt takes */

void heap_keep(void)
{
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}
