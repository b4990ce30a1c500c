/* help.c -- the help topics that are tables printed. */
#include <stdlib.h>

#include "api/openapi/openapi.h"
#include "cli/cli.h"

int cli_help_errors(void)
{
    puts(
        "What can go wrong: the HTTP status, the code in the reply, and the sentence beside it.\n");
    for (enum err e = ERR_OK + 1; e < ERR_COUNT; e++)
        printf("%d  %-22s  %s\n", err_status(e), err_code(e), err_sentence(e));
    return EXIT_GOOD;
}

int cli_help_settings(void)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    config_write_manual(&text);
    must(!text.failed);
    fwrite(text.data, 1, text.size, stdout);
    buf_release(&text);
    return EXIT_GOOD;
}

int cli_help_openapi(void)
{
    struct bytes text = openapi_text();
    fwrite(text.data, 1, text.size, stdout);
    return EXIT_GOOD;
}
