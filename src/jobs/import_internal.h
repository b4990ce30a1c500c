/* import_internal.h -- an importer's insides: import_read.c reads the file, import_definitions.c
 * and import.c make changes of what it says. */
#ifndef TALLY_JOBS_IMPORT_INTERNAL_H
#define TALLY_JOBS_IMPORT_INTERNAL_H

#include "base/json.h"
#include "jobs/file.h"
#include "jobs/import.h"

/* A line of the round. */
struct import_line {
    uint64_t number; /* in the file, from 1 */
    struct port_record record;
};

struct importer {
    char dir[TREE_PATH_MAX];
    char name[NAME_SIZE_MAX + 1];
    struct effort *effort;
    struct json_parser *parser;
    struct port_reader *reader;
    struct arena arena; /* holds the header and the definitions */
    struct port_record header;
    struct port_record *definitions;
    unsigned definitions_count;
    unsigned definitions_capacity;
    uint64_t *sequences; /* the last event's of each of the export's lanes */
    uint64_t lines;      /* how many the file has, the last not counted */
    uint64_t at;         /* how many were read */
    uint64_t sum;        /* port_sum of the lines read */
    uint64_t sum_before; /* port_sum of all but the last of them */

    struct arena round_arena;
    struct import_line *round; /* the lines that were read last */
    uint32_t round_count;
    bool ended; /* the file's last line is in the round or before it */
};

#endif
