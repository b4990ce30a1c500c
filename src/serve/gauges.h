/* gauges.h -- what the metrics say about the parts as they are now. */
#ifndef TALLY_SERVE_GAUGES_H
#define TALLY_SERVE_GAUGES_H

struct ship;
struct follow;

struct gauges {
    const struct lanes *lanes;
    struct reconciler *reconciler;
    struct wire *wire;
    struct ship *ship;     /* NULL: nobody can follow */
    struct follow *follow; /* NULL: it follows nobody */
};

/* Asks each of them and sets its metrics. */
void gauges_update(const struct gauges *gauges);

#endif
