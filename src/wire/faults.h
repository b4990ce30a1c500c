/* faults.h -- what a connection is told before it is closed, from one table, wire/faults.def. */
#ifndef TALLY_WIRE_FAULTS_H
#define TALLY_WIRE_FAULTS_H

#include "wire/exchange.h"

enum fault {
#define FAULT(name, error, status, sentence) FAULT_##name,
#include "wire/faults.def"
#undef FAULT
    FAULT_COUNT
};

/* Fills the exchange's reply with the fault's status, code and sentence, and marks it to close. */
void faults_reply(enum fault fault, struct exchange *exchange);

/* The fault's sentence, or that of its error. */
const char *faults_sentence(enum fault fault);

#endif
