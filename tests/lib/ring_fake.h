/* ring_fake.h: the network of fake workers (server_fake.h) in a job with train.dense: allreduce:
 * its steps, the ring's message, and the dense tables of the servers. There are no floats: a step
 * is complete when every lane has given its contribution to it, from the stretch of its member, in
 * the ring at hand.
 *
 * The fakes check what the coordinator promises: a lane is granted to its member, behind the ring's
 * step; nothing is published whose rows are not on the shards. */
#ifndef TESTS_LIB_RING_FAKE_H
#define TESTS_LIB_RING_FAKE_H

#include "tests/lib/server_fake.h"

/* The part of the fake network that all workers of the job share. */
struct fake_network {
    uint64_t ring, number_told; /* the newest ring that a worker was told */
    uint64_t complete;          /* the newest step of that ring */
    uint64_t given[FAKE_LANES]; /* by lane: the newest step that it has contributed to */
    uint64_t low, high;         /* marks of the dense tables */
    uint64_t publish_every;     /* steps; 0: only when told */
    uint32_t lanes, rings, rests, publishes, tables_read, refused;
    bool bsp;              /* a lane pushes a batch when its step is complete */
    bool torn;             /* the next publish stops half way */
    bool no_settle;        /* no worker says that it has settled */
    bool no_answer;        /* the coordinator gets no RING */
    uint64_t slowest_mark; /* tests: the lowest mark with which a lane was granted since the
                                  * test has set it */
    uint64_t contributions;
};

/* The part of one worker. */
struct fake_side {
    struct fake_network *network;
    struct fake_worker *worker;
    struct env_timer timer;
    bool endpoint_late; /* it joins without an endpoint */
    bool has, settled, silent;
    uint64_t digest; /* of this step, 0: of step 1; digest 0: not told */
    uint64_t digest_step;
    uint64_t run; /* of all below */
    uint64_t ring, of, step, begun, marks_low, marks_high, published, rest, unreached;
    uint64_t mine[FAKE_LANES]; /* by lane: the newest step to which this worker has contributed */
    struct wire_RING last;     /* the request that was sent last */
    uint64_t id, sent_ns, answered; /* answered: the newest request with an answer */
    struct wire_RING_reply told;
    struct wire_ring_member member[WIRE_RING_MEMBERS];
    uint32_t first, lanes; /* its stretch in `told` */
    uint64_t handed_ns;    /* when it has the network of another member; 0: it asks none */
};

/* The worker becomes one of this network; before fake_worker_start. */
void fake_side_make(struct fake_side *s, struct fake_worker *w, struct fake_network *n);
void fake_side_joined(struct fake_side *s);
void fake_side_reply(struct fake_side *s, const struct wire *r, const struct msg *m);
/* True when a lane may compute and push this batch now. */
bool fake_side_may(const struct fake_side *s, uint32_t lane, uint64_t batch);
/* True while the lane is of the worker's stretch. */
bool fake_side_holds(const struct fake_side *s, uint32_t lane);
/* The lane's batch is pushed: it contributes, unless the network has that step. */
void fake_side_given(struct fake_side *s, uint32_t lane, uint64_t batch);
/* The lane was granted, or goes on with its next task. */
void fake_side_granted(struct fake_side *s, uint32_t lane, uint64_t mark);

#endif
