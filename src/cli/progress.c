/* progress.c -- a line about long work, for terminals and for logs. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define DRAW_EVERY_NS INT64_C(100000000)
#define LINE_EVERY_NS INT64_C(10000000000)
#define BAR_WIDTH_MAX 24u
#define BAR_WIDTH_MIN 4u /* a shorter bar says less than the number behind it */
#define LINE_SIZE 512u

void progress_begin(struct progress *progress, const char *label)
{
    const char *term = getenv("TERM");
    *progress =
        (struct progress){.label = label,
                          .out = stderr,
                          .terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0,
                          .began_ns = clock_mono_ns(&clock_system),
                          .began_share = -1};
    progress->shown_ns = progress->began_ns;
}

const char *progress_count(uint64_t count, char text_out[PROGRESS_COUNT_SIZE])
{
    char digits[24];
    unsigned size = (unsigned)snprintf(digits, sizeof digits, "%" PRIu64, count);
    unsigned at = 0;
    for (unsigned i = 0; i < size; i++) {
        if (i && (size - i) % 3 == 0) text_out[at++] = ',';
        text_out[at++] = digits[i];
    }
    text_out[at] = '\0';
    return text_out;
}

const char *progress_time(double seconds, char text_out[PROGRESS_TIME_SIZE])
{
    unsigned long s = seconds < 0 ? 0 : seconds > 1e9 ? 1000000000 : (unsigned long)(seconds + 0.5);
    if (s < 60)
        snprintf(text_out, PROGRESS_TIME_SIZE, "%lu s", s);
    else if (s < 3600)
        snprintf(text_out, PROGRESS_TIME_SIZE, "%lu min %lu s", s / 60, s % 60);
    else
        snprintf(text_out, PROGRESS_TIME_SIZE, "%lu h %lu min", s / 3600, s % 3600 / 60);
    return text_out;
}

static unsigned terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

/* The bar is as wide as `room` allows; where that is too narrow there is none. */
static void add_bar(struct buf *line, double share, size_t room)
{
    const size_t brackets = strlen("[] ");
    if (room < brackets + BAR_WIDTH_MIN) return;
    size_t width = room - brackets < BAR_WIDTH_MAX ? room - brackets : BAR_WIDTH_MAX;
    size_t full = (size_t)(share * (double)width);
    buf_add_char(line, '[');
    for (size_t i = 0; i < width; i++)
        buf_add_char(line, i < full ? '=' : i == full ? '>' : ' ');
    buf_add(line, BYTES("] "));
}

static void add_time_left(struct buf *line, const struct progress *progress, double share,
                          int64_t now_ns)
{
    char text[PROGRESS_TIME_SIZE];
    double done = share - progress->began_share;
    if (done <= 0 || share >= 1) return;
    double seconds = (double)(now_ns - progress->began_ns) / 1e9;
    buf_addf(line, "%s left  ", progress_time(seconds * (1 - share) / done, text));
}

/* Where the terminal's line is too short the bar goes first, then the time left. */
static void add_share(struct buf *line, const struct progress *progress, double share,
                      int64_t now_ns, size_t said)
{
    struct buf left;
    char percent[16];
    size_t room = progress->terminal ? terminal_width() - 1 : LINE_SIZE;
    buf_init(&left, LINE_SIZE);
    snprintf(percent, sizeof percent, progress->terminal ? "%3.0f%%  " : "%.0f%%  ", share * 100);
    add_time_left(&left, progress, share, now_ns);
    size_t rest = strlen(percent) + said;
    if (rest + left.size > room) buf_reset(&left);
    rest += left.size;
    if (progress->terminal) add_bar(line, share, room > rest ? room - rest : 0);
    buf_add(line, bytes_str(percent));
    buf_add(line, buf_bytes(&left));
    buf_release(&left);
}

static void draw(struct progress *progress, struct buf *line)
{
    size_t size = line->size;
    if (progress->terminal && size >= terminal_width()) size = terminal_width() - 1;
    if (progress->terminal)
        fprintf(progress->out, "\r%.*s\033[K", (int)size, line->data);
    else
        fprintf(progress->out, "%.*s\n", (int)size, line->data);
    fflush(progress->out);
    progress->drawn = progress->terminal;
}

void progress_show(struct progress *progress, double share, const char *format, ...)
{
    int64_t now_ns = clock_mono_ns(&clock_system);
    if (progress->began_share < 0 && share >= 0) progress->began_share = share;
    int64_t every_ns = progress->terminal ? DRAW_EVERY_NS : LINE_EVERY_NS;
    if (progress->quiet || now_ns - progress->shown_ns < every_ns) return;
    progress->shown_ns = now_ns;

    char said[LINE_SIZE / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);

    struct buf line;
    buf_init(&line, LINE_SIZE);
    if (share > 1) share = 1;
    if (!progress->terminal || share < 0) buf_addf(&line, "%s: ", progress->label);
    if (share >= 0) add_share(&line, progress, share, now_ns, strlen(said));
    buf_add(&line, bytes_str(said));
    if (!line.failed) draw(progress, &line);
    buf_release(&line);
}

void progress_clear(struct progress *progress)
{
    if (!progress->drawn) return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn = false;
}
