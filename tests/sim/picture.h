/* picture.h -- a copy of RocksDB's directory as a kill at this moment would leave it. */
#ifndef TALLY_TESTS_SIM_PICTURE_H
#define TALLY_TESTS_SIM_PICTURE_H

/* `to` must not be there. RocksDB may be at work in `from`. */
void picture_take(const char *from, const char *to);

#endif
