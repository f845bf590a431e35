/* stats.h: how a worker spends its time, and how much it has done. Sums since it joined, sent with
 * every beat.
 *
 * Charged time. The time of each lane place of the worker is split without overlap. At any moment
 * it is charged to exactly one of
 *   compute  the forward and backward of a batch (queueing for a thread of the pool included)
 *   read     nothing to compute, because the next batch is still being read and parsed
 *   pull     nothing to compute, because the next batch's rows are in flight
 *   push     nothing to compute and nothing to pull: only acknowledgements are missing: the next
 *            batch's last rows come with them (ahead.h), the task ends, or pushes in flight use all
 *            memory for rows and gradients
 *   step     nothing to compute, or under bsp to push, because the workers have not made the step
 *            before, or its own (step.h)
 *   wait     no task, or a shard held the pull back until slower lanes were near enough (the
 *            bound); the latter is counted in held too
 * The six add up to (places * seconds since joining). Overlapped reading, pulling and pushing cost
 * nothing and count nowhere.
 *
 * Busy time. How long each stage worked on a batch, whatever else happened meanwhile; batches
 * overlap, so a sum may exceed wall-clock time. file: reads of the input; parse: the rest of
 * batch_read on its thread (parsing, hashing, unique keys); compute: on its thread, or on those of
 * its slices, added; pull, push: from sending to the last part's answer, without time held back
 * for the bound.
 *
 * Least time. The time of a lane place that a stage would take if all others were free: its busy
 * time divided by the number of a lane's batches that it may work on at once: reading
 * lane_base.readers, pull 1 + prefetch, push 1, compute 1.
 *
 * The report's bottleneck is computed from the sums over all workers (coord_bottleneck_find in
 * server/coord/job/report.c):
 *   worked   = read + pull + compute + push + held: lane time with a task
 *   stage    the one of read, pull, compute, push, bound with the largest charge (bound: held);
 *            read is reported as `parse` where parse has more busy time than file
 *   share    its charge / worked
 *   next     the other stage that would limit if `stage` took no time: the one with the largest
 *            maximum of its charge and its least time
 *   speedup_if_free = worked / max(worked - charge of stage, least time of any other stage): an
 *            estimate, since stages also compete for cores; null when no other stage took time
 *
 * Thread: the worker's loop. */
#ifndef WORKER_TRAIN_STATS_H
#define WORKER_TRAIN_STATS_H

#include "proto/meter/meter.h"
#include "proto/wire/wire.h"

#include <stdint.h>

enum stats_kind {
    STATS_WAIT,
    STATS_READ,
    STATS_PULL,
    STATS_COMPUTE,
    STATS_PUSH,
    STATS_STEP,
    STATS_KINDS
};
enum stats_stage { STAGE_FILE, STAGE_PARSE, STAGE_PULL, STAGE_COMPUTE, STAGE_PUSH, STAGES };

struct stats {
    uint64_t time_ns[STATS_KINDS];
    uint64_t held_ns; /* part of the wait that was for the bound */
    uint64_t busy_ns[STAGES];
    struct meter_times steps;         /* forward and backward of a batch */
    struct meter_times gradient_ages; /* lane_gradient_age of each batch */
    /* batches of a lane that a stage may work on at once; 0 counts as 1 */
    uint32_t wide[STAGES];
    uint64_t examples; /* good lines computed for training */
    uint64_t bad_lines;
    uint64_t batches; /* training batches that all shards acknowledged */
    uint64_t skipped; /* batches that some tablets had already */
    /* skipped batches whose push was sent only once: another worker had computed them */
    uint64_t recomputed;
    uint64_t keys_pulled;
    uint64_t keys_pushed; /* keys of acknowledged pushes; resends not counted */
    /* keys whose rows came with the answer to an earlier push, and those whose rows were awaited so
     * and were pulled after all */
    uint64_t keys_echoed, keys_missed;
    /* batches whose gradient overflowed (precision fp16), pushed as ticks */
    uint64_t skipped_steps;
    /* a network at several devices: their time in the steps that were measured, and the part of it
     * in which one waited for another */
    double site_s, site_waited_s;
    uint64_t clamped; /* training examples with an event time in the future */
    uint64_t outside; /* training examples outside the partition of their file */
};

/* The activity of one lane place, its start, and the time up to which it was charged. */
struct stats_clock {
    enum stats_kind kind;
    uint64_t begun_ns;
    uint64_t since_ns;
};

/* Charges the time since the last turn to the previous activity; from now on it is `kind`. */
void stats_turn(struct stats *s, struct stats_clock *c, enum stats_kind kind, uint64_t now_ns);
/* Moves `ns` of the charged pull time to waiting for the bound, at most what is there. */
void stats_held(struct stats *s, uint64_t ns);
void stats_to_wire(const struct stats *s, uint64_t pass, struct wire_WORKER_BEAT *out);

#endif
