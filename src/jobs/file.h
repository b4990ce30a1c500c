/* file.h -- an export as lines of a file, compressed as its name says: .gz, .zst, or plain.
 *
 * A new file is written beside its place and gets its name when it is closed well, synced: half an
 * export is never taken for one. */
#ifndef TALLY_JOBS_FILE_H
#define TALLY_JOBS_FILE_H

#include "base/bytes.h"
#include "base/err.h"

#define PORT_LINE_MAX (64u << 20) /* one line, its end not counted */

struct port_writer;
struct port_reader;

/* Errors here and below are ERR_STORAGE with errno. `dir` exists; `name` is a name, not a path. */
MUST_USE enum err port_writer_open(struct port_writer **writer_out, const char *dir,
                                   const char *name);
/* Writes a line, given without its end. */
MUST_USE enum err port_writer_line(struct port_writer *writer, struct bytes line);
/* Frees the writer. `keep` false: nothing is left of the file. */
MUST_USE enum err port_writer_close(struct port_writer *writer, bool keep);

/* ERR_NOT_FOUND: there is no such file. */
MUST_USE enum err port_reader_open(struct port_reader **reader_out, const char *dir,
                                   const char *name);
void port_reader_close(struct port_reader *reader); /* may be NULL */
/* The line is good until the next call, with room behind it for the JSON parser. ERR_NOT_FOUND: the
 * file is at its end. ERR_CORRUPT: it does not unpack, or a line is too long. */
MUST_USE enum err port_reader_line(struct port_reader *reader, struct bytes *line_out);
uint64_t port_reader_offset(struct port_reader *reader); /* bytes of the file taken in */
uint64_t port_reader_size(struct port_reader *reader);   /* bytes of the whole file */

#endif
