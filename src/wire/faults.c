/* faults.c -- the table behind faults.h. */
#include "wire/faults.h"

static const struct {
    enum err error;
    int status;
    const char *sentence;
} faults_table[FAULT_COUNT] = {
#define FAULT(name, error, status, sentence) [FAULT_##name] = {ERR_##error, status, sentence},
#include "wire/faults.def"
#undef FAULT
};

void faults_reply(enum fault fault, struct exchange *exchange)
{
    must(fault > FAULT_NONE && fault < FAULT_COUNT);
    exchange_error(exchange, faults_table[fault].error, faults_table[fault].sentence);
    if (faults_table[fault].status) exchange->reply.status = faults_table[fault].status;
    exchange->reply.close = true;
}

const char *faults_sentence(enum fault fault)
{
    must(fault > FAULT_NONE && fault < FAULT_COUNT);
    const char *sentence = faults_table[fault].sentence;
    return sentence ? sentence : err_sentence(faults_table[fault].error);
}
