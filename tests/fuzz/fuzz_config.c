/* fuzz_config.c -- any bytes as a config file: refused with a reason, or understood the same way
 * when printed and read again. */
#include <stdlib.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read_again(const struct config *config)
{
    struct buf text;
    struct config again;
    struct config_report report;
    buf_init(&text, CONFIG_TEXT_SIZE_MAX);
    config_report_init(&report);
    config_write(config, &text);
    must(!text.failed);
    struct config_source source = {.text = buf_bytes(&text)};
    enum err e = config_load(&again, &source, &report);
    must(e == ERR_OK || config->auth_jwt_secret[0]); /* "(set)" is no secret */
    config_release(&again);
    config_report_release(&report);
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct config_report report;
    config_report_init(&report);
    struct config_source source = {.file = "x.yaml", .text = bytes_of(data, size)};
    if (!data) source.text = BYTES("");
    enum err e = config_load(&config, &source, &report);
    must((e == ERR_OK) == (report.count == 0) && report.count <= CONFIG_ERRORS_MAX);
    must((e == ERR_OK) == (report.text.size == 0) && !report.text.failed);
    if (e == ERR_OK) print_and_read_again(&config);
    config_release(&config);
    config_report_release(&report);
    return 0;
}
