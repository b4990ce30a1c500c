/* prepare.c -- see the header. */
#include "jobs/prepare.h"

#include <errno.h>
#include <string.h>

#include "jobs/file.h"
#include "jobs/record.h"
#include "store/embedded/backup/backup.h"
#include "store/embedded/lanes_dir.h"

enum err port_header(const char *dir, const char *name, struct arena *arena,
                     struct port_record *header_out, struct reason *why)
{
    struct port_reader *reader = NULL;
    struct bytes line;
    const char *wrong = "is no header";
    enum err e =
        backup_name_valid(bytes_str(name)) ? port_reader_open(&reader, dir, name) : ERR_NOT_FOUND;
    if (e != ERR_OK) {
        reason_say(why, "there is no export %s in %s", name, dir);
        return e;
    }
    struct json_parser *parser = json_parser_new(PORT_LINE_MAX);
    e = port_reader_line(reader, &line);
    bool good = e == ERR_OK && port_record_read(parser, line, arena, header_out, &wrong) &&
                header_out->kind == PORT_HEADER;
    if (!good) reason_say(why, "line 1 of the export %s", wrong ? wrong : "is no header");
    json_parser_free(parser);
    port_reader_close(reader);
    return good ? ERR_OK : ERR_CORRUPT;
}

enum err import_prepare_check(const struct port_record *header, const char *name, unsigned lanes,
                              struct reason *why)
{
    if (!header->ids && !header->events)
        return reason_err(why, ERR_CONFLICT,
                          "the export %s has no ids and no events; any server can take it", name);
    if (header->ids_shared && lanes > 1)
        return reason_err(why, ERR_CONFLICT,
                          "the export %s was made with events.idScope installation, which needs "
                          "store.lanes 1, not %u",
                          name, lanes);
    return ERR_OK;
}

static enum err make_data(const char *data, const struct port_record *header, unsigned lanes,
                          struct reason *why)
{
    const struct lanes_make make = {.count = lanes,
                                    .ids_shared = header->ids_shared,
                                    .secret = header->ids ? &header->secret : NULL,
                                    .last = port_highest(header)};
    if (tree_make(data) == ERR_OK) return lanes_dir_make(data, &make, why);
    return reason_err(why, ERR_STORAGE, "%s cannot be made: %s", data, strerror(errno));
}

enum err import_prepare(const char *dir, const char *name, const char *data, unsigned lanes,
                        struct reason *why_out)
{
    struct arena arena;
    struct port_record header;
    arena_init(&arena, 4096);
    enum err e = port_header(dir, name, &arena, &header, why_out);
    if (e == ERR_OK) e = import_prepare_check(&header, name, lanes, why_out);
    if (e == ERR_OK && !tree_is_empty(data))
        e = reason_err(why_out, ERR_CONFLICT, "%s is not empty", data);
    if (e == ERR_OK) e = make_data(data, &header, lanes, why_out);
    arena_release(&arena);
    return e;
}
