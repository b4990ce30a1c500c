/* config_world.h -- load a config from a text, and say what should have come of it. */
#ifndef TALLY_TESTS_CONFIG_WORLD_H
#define TALLY_TESTS_CONFIG_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"

/* The head of a counter, and of a rule, that is good but for what follows. */
#define GOOD "counters:\n- counterName: c\n  rules: [{on: e, op: increment}]\n  "
#define RULE "counters:\n- counterName: c\n  rules:\n  - "

static struct config config;
static struct config_report report;

static enum err load(const struct config_source *source)
{
    config_release(&config);
    config_report_release(&report);
    config_report_init(&report);
    return config_load(&config, source, &report);
}

static enum err load_text(const char *text)
{
    return load(&(struct config_source){.file = "x.yaml", .text = bytes_str(text)});
}

static void loads(const char *text)
{
    if (load_text(text) != ERR_OK) fail_msg("refused:\n%s\n%s", text, report.text.data);
    assert_non_null(config.rules);
}

static inline void loads_file(const char *name)
{
    if (load(&(struct config_source){.file = name}) != ERR_OK) fail_msg("%s", report.text.data);
}

/* The report is exactly `expected` and a line break. */
static void refuses(const char *text, const char *expected)
{
    if (load_text(text) == ERR_OK) fail_msg("took:\n%s", text);
    assert_non_null(config.rules);
    struct buf wanted;
    buf_init(&wanted, 8192);
    buf_addf(&wanted, "%s\n", expected);
    buf_add_char(&wanted, 0);
    assert_string_equal(report.text.data, wanted.data);
    buf_release(&wanted);
}

static int teardown(void **state)
{
    (void)state;
    config_release(&config);
    config_report_release(&report);
    return 0;
}

static inline const struct definition *counter(unsigned index)
{
    assert_true(index < config.rules->definitions_count);
    return &config.rules->definitions[index];
}

static inline void is(struct bytes text, const char *expected)
{
    if (!bytes_equal(text, bytes_str(expected)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)text.size, text.data, expected);
}

#endif
