/* trace.h: the way of some batches through the worker, with times (`shoal trace`).
 *
 * When the coordinator asks for it (replies to WORKER_JOIN and WORKER_BEAT), one batch in `every`
 * of each lane is traced, by its number. Each moment of its way is charged to one stage of wire.h,
 * so that the stages add up to the time from the start of its read to the last acknowledgement of
 * its push. The finished traces go to the coordinator with the next beat. A batch for which there
 * is no room here is not traced; nor is one that its lane drops. Other batches have one branch in
 * each place.
 *
 * The shards' shares of a pull or push stay with the shards (server/shard/span.h), under the ids of
 * its requests. They are durations, so the clocks of machines are never compared. Thread: the
 * worker's loop. */
#ifndef WORKER_TRAIN_TRACE_H
#define WORKER_TRAIN_TRACE_H

#include "proto/base/msg.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACE_PLACES 128u /* traces of a worker: between two beats no more are traced */

enum trace_state { TRACE_FREE, TRACE_OPEN, TRACE_DONE, TRACE_SENT };

struct trace {
    struct wire_trace w;
    enum trace_state state;
    enum wire_stage stage;
    uint64_t since_ns;    /* up to which the time is charged */
    uint64_t computed_ns; /* the lane's, at that time */
    uint64_t stage_ns;    /* when the present stage began */
};

struct traces {
    uint32_t every;      /* 0: no batch is traced */
    struct trace *trace; /* owned (TRACE_PLACES); NULL until the first time that every is not 0 */
    uint32_t next;       /* the place to look at first: that of the oldest */
};

/* Without memory `every` stays 0. */
void traces_set(struct traces *all, uint32_t every);
void traces_close(struct traces *all);
/* True when this batch of a lane is to be traced. */
static inline bool traces_want(const struct traces *all, uint64_t batch)
{
    return all != NULL && all->every != 0 && batch % all->every == 0;
}
/* Begins a trace, in the stage READ; its owner fills in the head. NULL: there is no room.
 * computed_ns: for how long the lane has computed batches so far. */
struct trace *trace_begin(struct traces *all, uint64_t now_ns, uint64_t computed_ns);
/* From now on the batch is in this stage, which may be the present one. */
void trace_turn(struct trace *t, enum wire_stage stage, uint64_t now_ns, uint64_t computed_ns);
/* The parts of the pull or push are sent, perhaps anew by another map. */
void trace_asked(struct trace *t, bool push);
/* A part of the present stage, a pull or a push, is answered. */
void trace_part(struct trace *t, bool push, const struct wire_trace_part *part, uint64_t now_ns);
/* The push is acknowledged: the trace waits for the next beat. */
void trace_end(struct trace *t, uint64_t now_ns, uint64_t computed_ns);
void trace_drop(struct trace *t);

/* True when traces wait to be sent. */
bool traces_wait(const struct traces *all);
/* Adds the finished traces as a frame to TRACES, whose head it makes; NULL: no memory. */
struct msg *traces_build(struct traces *all, uint64_t id, uint64_t pass);
/* The coordinator has what was built. */
void traces_sent(struct traces *all);

#endif
