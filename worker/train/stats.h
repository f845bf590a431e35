/* stats.h: where a worker's time goes, and what it has done. Sums since it joined; they travel with
 * every beat.
 *
 * Charged time. The time of each lane place of the worker is split without overlap: at any moment
 * it is charged to exactly one of
 *   compute  the forward and backward of a batch (queueing for a thread of the pool included)
 *   read     nothing to compute, because the next batch is still being read and parsed
 *   pull     nothing to compute, because the next batch's rows are on their way
 *   push     nothing to compute and nothing that may be pulled: only acknowledgements are missing,
 *            be it at the end of a task or because all memory for rows and gradients is with pushes
 *            under way
 *   wait     no task, or a shard held the pull back until slower lanes had come near enough (the
 *            bound); the latter is counted in held too
 * So the five add up to (places * seconds since joining). Overlapped reading, pulling and pushing
 * cost nothing and count nowhere.
 *
 * Busy time. How long each stage had work in its hands, whatever else went on meanwhile; batches
 * overlap, so a sum may pass the clock on the wall. file: reads of the input; parse: the rest of
 * batch_read on its thread (parsing, hashing, unique keys); compute: on its thread; pull, push:
 * from sending to the last part's answer, time held back for the bound not counted.
 *
 * Least time. What a stage would take of a lane place if all others were free: its busy time
 * divided by how many batches of a lane it may have in its hands at once: reading
 * lane_base.readers, pull 1 + prefetch, push 3 + prefetch (bsp: 1), compute 1.
 *
 * The report's bottleneck is worked out from the sums over all workers (server/coord/bottleneck.c):
 *   worked   = read + pull + compute + push + held: lane time with a task
 *   stage    the one of read, pull, compute, push, bound with the largest charge (bound: held);
 *            read is told as `parse` where parse has more busy time than file
 *   share    its charge / worked
 *   next     of the other stages the one that would limit if `stage` took no time: with the largest
 *            of its charge and its least time
 *   speedup_if_free = worked / max(worked - charge of stage, least time of any other stage): an
 *   estimate, since stages
 *            also compete for cores; null when nothing else was seen to take time
 *
 * Thread: the worker's loop. */
#ifndef WORKER_TRAIN_STATS_H
#define WORKER_TRAIN_STATS_H

#include "proto/wire/wire.h"

#include <stdint.h>

enum stats_kind { STATS_WAIT, STATS_READ, STATS_PULL, STATS_COMPUTE, STATS_PUSH, STATS_KINDS };
enum stats_stage { STAGE_FILE, STAGE_PARSE, STAGE_PULL, STAGE_COMPUTE, STAGE_PUSH, STAGES };

struct stats {
    uint64_t time_ns[STATS_KINDS];
    uint64_t held_ns; /* part of the waiting: for the bound */
    uint64_t busy_ns[STAGES];
    /* batches of a lane that a stage may have in its hands at once; 0 counts as 1 */
    uint32_t wide[STAGES];
    uint64_t examples; /* good lines computed for training */
    uint64_t bad_lines;
    uint64_t batches; /* batches of training acknowledged everywhere */
    uint64_t skipped; /* of these, batches that some tablets had already */
    uint64_t
        /* of these, batches whose push, sent once only, was skipped: another worker had computed
         * them */
        recomputed;
    uint64_t keys_pulled;
    uint64_t keys_pushed; /* keys of acknowledged pushes; resends not counted */
    /* batches whose gradient overflowed (precision fp16): pushed as ticks */
    uint64_t skipped_steps;
    uint64_t cache_hits;   /* keys of batches of training whose rows were in the cache */
    uint64_t cache_misses; /* ... whose rows were pulled; both 0 without a cache */
    uint64_t clamped;      /* examples of training whose event time lay in the future, */
    uint64_t outside;      /* or outside of their file's partition */
};

/* What one lane place is doing, since when it does that, and up to when that is charged. */
struct stats_clock {
    enum stats_kind kind;
    uint64_t begun_ns;
    uint64_t since_ns;
};

/* Charges the time since the last turn to what was done till now; from now on it is `kind`. */
void stats_turn(struct stats *s, struct stats_clock *c, enum stats_kind kind, uint64_t now_ns);
/* Of the pull time charged, `ns` was really waiting for the bound. Never moves more than there
 * is. */
void stats_held(struct stats *s, uint64_t ns);
void stats_to_wire(const struct stats *s, uint64_t pass, struct wire_WORKER_BEAT *out);

#endif
