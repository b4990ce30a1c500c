/* screen.h -- the terminal as a page that is drawn again and again.
 *
 * Between screen_enter and screen_leave the alternate screen is shown and keys come one by one.
 * Whatever ends the program, SIGTERM included, the screen is to be left first: screen_signals
 * arranges that screen_key then returns SCREEN_QUIT. */
#ifndef TALLY_CLI_SCREEN_H
#define TALLY_CLI_SCREEN_H

#include "base/bytes.h"

enum screen_key { SCREEN_NOTHING, SCREEN_QUIT, SCREEN_RESIZED, SCREEN_OTHER };

/* False: standard input or output is no terminal. */
bool screen_enter(void);
void screen_leave(void);

/* Columns and rows now. */
void screen_size(unsigned *columns_out, unsigned *rows_out);

/* Waits up to `wait_ms` for a key, a signal or a new size. q, Q, Escape, Ctrl-C and the end of
 * input mean SCREEN_QUIT. */
enum screen_key screen_key(int wait_ms);

/* True when a key is waiting or a signal came; for work that may be broken off then. */
bool screen_wants_attention(void);

/* Shows the page's lines, cut to the screen's size; what was there before is gone. */
void screen_draw(struct bytes page);

#endif
