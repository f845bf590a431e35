/* stats.h: where a worker's time goes, and what it has done. Sums since it joined; they travel with every beat.
 *
 * The time of each lane place of the worker is split without overlap: at any moment it is charged to exactly one of
 *   compute  the forward and backward of a batch (queueing for a thread of the pool included)
 *   read     nothing to compute, because the next batch is still being read and parsed
 *   pull     nothing to compute, because the next batch's rows are on their way
 *   push     nothing to compute and nothing left to pull: only acknowledgements are missing
 *   wait     no task, or a shard held the pull back until slower lanes had come near enough (the bound)
 * So the five add up to (places * seconds since joining). Overlapped reading, pulling and pushing cost nothing and
 * count nowhere.
 *
 * Thread: the worker's loop. */
#ifndef WORKER_STATS_H
#define WORKER_STATS_H

#include "proto/wire/wire.h"

#include <stdint.h>

enum stats_kind { STATS_WAIT, STATS_READ, STATS_PULL, STATS_COMPUTE, STATS_PUSH, STATS_KINDS };

struct stats {
    uint64_t time_ns[STATS_KINDS];
    uint64_t examples; /* good lines computed for training */
    uint64_t bad_lines;
    uint64_t batches; /* batches of training acknowledged everywhere */
    uint64_t skipped; /* of these, batches that some tablets had already */
    uint64_t
        recomputed; /* of these, batches whose push, sent once only, was skipped: another worker had computed them */
    uint64_t keys_pulled;
    uint64_t keys_pushed; /* keys of acknowledged pushes; resends not counted */
};

/* What one lane place is doing, and since when. */
struct stats_clock {
    enum stats_kind kind;
    uint64_t since_ns;
};

/* Charges the time since the last turn to what was done till now; from now on it is `kind`. */
void stats_turn(struct stats *s, struct stats_clock *c, enum stats_kind kind, uint64_t now_ns);
/* Of the pull time charged, `ns` was really waiting for the bound. Never moves more than there is. */
void stats_held(struct stats *s, uint64_t ns);
void stats_to_wire(const struct stats *s, uint64_t worker, struct wire_WORKER_BEAT *out);

#endif
