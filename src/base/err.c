/* err.c -- the table behind err.h. */
#include "base/err.h"

#include "base/must.h"

static const struct {
    int status;
    const char *code;
    const char *sentence;
} err_table[ERR_COUNT] = {
#define ERR(name, status, code, sentence) [ERR_##name] = {status, code, sentence},
#include "base/err.def"
#undef ERR
};

int err_status(enum err e)
{
    must(e >= 0 && e < ERR_COUNT);
    return err_table[e].status;
}

const char *err_code(enum err e)
{
    must(e >= 0 && e < ERR_COUNT);
    return err_table[e].code;
}

const char *err_sentence(enum err e)
{
    must(e >= 0 && e < ERR_COUNT);
    return err_table[e].sentence;
}
