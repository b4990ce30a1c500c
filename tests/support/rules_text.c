/* rules_text.c -- see rules_text.h. */
#include "support/rules_text.h"

#include <stdio.h>

#include "config/config.h"

struct rules *rules_of_text(const char *text, uint32_t generation)
{
    struct config config;
    struct config_report report;
    const struct config_source source = {.file = "test.yaml", .text = bytes_str(text)};
    config_report_init(&report);
    enum err e = config_load(&config, &source, &report);
    if (e != ERR_OK) fprintf(stderr, "%s\n%s\n", text, report.text.data);
    must(e == ERR_OK);
    struct rules *rules = rules_hold(config.rules);
    config_release(&config);
    config_report_release(&report);
    for (unsigned i = 0; i < rules->definitions_count; i++)
        rules->definitions[i].generation = generation;
    rules_seal(rules);
    return rules;
}
