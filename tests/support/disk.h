/* disk.h -- the disk below an embedded store in a test: the journal on a simulated one, which wants
 * every write in whole pages; the id filters, which write as they like, on the real one. */
#ifndef TALLY_TESTS_SUPPORT_DISK_H
#define TALLY_TESTS_SUPPORT_DISK_H

#include "support/io_sim.h"

struct disk {
    struct io io;
    struct io_sim *sim;
};

void disk_init(struct disk *disk);
void disk_release(struct disk *disk);

#endif
