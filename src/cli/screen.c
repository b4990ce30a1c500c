/* screen.c -- alternate screen, single keys, resizes; plain ANSI sequences, no colours needed. */
#include "cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ESCAPE_KEY 27

static struct termios before;
static volatile sig_atomic_t quit, resized;

static void on_signal(int signal_number)
{
    if (signal_number == SIGWINCH)
        resized = 1;
    else
        quit = 1;
}

static void catch_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: poll is to return */
    for (unsigned i = 0; i < ARRAY_COUNT(caught); i++)
        sigaction(caught[i], &action, NULL);
}

static void put(const char *sequence)
{
    fputs(sequence, stdout);
    fflush(stdout);
}

bool screen_enter(void)
{
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) return false;
    struct termios single = before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    catch_signals();
    tcsetattr(STDIN_FILENO, TCSANOW, &single);
    put("\033[?1049h\033[?25l\033[2J");
    return true;
}

void screen_leave(void)
{
    put("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void screen_size(unsigned *columns_out, unsigned *rows_out)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *columns_out = known ? size.ws_col : 80;
    *rows_out = known ? size.ws_row : 24;
}

enum screen_key screen_key(int wait_ms)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = quit || resized ? 0 : poll(&wait, 1, wait_ms);
    if (quit) return SCREEN_QUIT;
    if (resized) {
        resized = 0;
        return SCREEN_RESIZED;
    }
    if (ready <= 0) return SCREEN_NOTHING;
    char keys[32];
    ssize_t size = read(STDIN_FILENO, keys, sizeof keys);
    if (size <= 0) return size < 0 && errno == EINTR ? SCREEN_NOTHING : SCREEN_QUIT;
    /* An arrow key begins with Escape too, but comes with more. */
    if (keys[0] == 'q' || keys[0] == 'Q' || (keys[0] == ESCAPE_KEY && size == 1))
        return SCREEN_QUIT;
    return SCREEN_OTHER;
}

bool screen_wants_attention(void)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    return quit || resized || poll(&wait, 1, 0) > 0;
}

void screen_draw(struct bytes page)
{
    unsigned columns, rows;
    screen_size(&columns, &rows);
    fputs("\033[H", stdout);
    for (unsigned row = 0; row < rows && page.size; row++) {
        struct bytes line = bytes_split(&page, '\n');
        size_t size = line.size < columns ? line.size : columns;
        if (row) putchar('\n');
        printf("\r%.*s\033[K", (int)size, line.data ? line.data : "");
    }
    put("\033[J");
}
