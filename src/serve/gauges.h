/* gauges.h -- what the metrics say about the parts as they are now. */
#ifndef TALLY_SERVE_GAUGES_H
#define TALLY_SERVE_GAUGES_H

struct gauges {
    const struct lanes *lanes;
    struct reconciler *reconciler;
    struct wire *wire;
};

/* Asks each of them and sets its metrics. */
void gauges_update(const struct gauges *gauges);

#endif
