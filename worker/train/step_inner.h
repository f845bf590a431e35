/* step_inner.h: the struct behind a step, for step.c (lanes, sums, steps), step_ring.c (what the
 * coordinator says), step_tables.c (the network from the tables) and step_publish.c (to them). */
#ifndef WORKER_TRAIN_STEP_INNER_H
#define WORKER_TRAIN_STEP_INNER_H

#include "proto/base/assert.h"
#include "proto/base/sm.h"
#include "worker/ring/handover.h"
#include "worker/ring/network.h"
#include "worker/ring/ring.h"
#include "worker/train/step.h"

enum step_state { STEP_OUT, STEP_GATHERS, STEP_READS, STEP_OPEN, STEP_STOPS };
extern const struct sm step_moves; /* the diagram of step.h */

enum { STEP_READS_AT_ONCE = 8, STEP_ASSIGNS_AT_ONCE = 16, STEP_DIGEST_EVERY = 64 };

/* A lane of the job. */
struct step_slot {
    float *floats;          /* owned: its newest gradients, dense, then stats; NULL: none needed */
    uint64_t given, weight; /* the newest step that it has contributed to, and its weight there */
    float lr_scale;
    bool busy; /* a thread computes with the weights, and writes `floats` */
    bool runs; /* this worker has a task of it: */
    struct step_lane lane;
};

/* A tablet of the network at a shard. */
struct step_tablet {
    enum network_part part;
    uint32_t tablet;
    uint32_t table; /* number of the table on the shards */
    uint32_t shard;
};

/* A request about one tablet. */
struct step_flight {
    struct request request;
    struct steps *step;
    uint32_t index; /* index of the tablet (step_tablet_find) */
};

/* Reading the network from the tables. */
struct step_reading {
    struct step_flight flight[STEP_READS_AT_ONCE];
    uint32_t next, left; /* tablets not asked for; not answered */
    bool whole;          /* every tablet is there */
    uint64_t low, high;  /* the lowest and the highest mark of them */
};

enum step_publish_state { PUBLISH_NONE, PUBLISH_COPIED, PUBLISH_SENDS };

/* The network on its way to the tables. */
struct step_publish {
    enum step_publish_state state;
    uint64_t step, generation;
    uint64_t owned; /* shares that this worker is to assign, where the state is sharded */
    struct step_flight flight[STEP_ASSIGNS_AT_ONCE];
    uint32_t next, left;
    char *images;     /* owned (capacity): the tablets of T(step) */
    size_t *at;       /* owned (tablets + 1): where each begins in it */
    size_t *bytes;    /* owned (tablets) */
    size_t capacity;  /* bytes */
    uint64_t last_ns; /* when the last one began */
    uint64_t done;    /* the newest step that the tables have by this worker; 0: none */
};

/* A sum becomes a step, and the step's tablets are copied, on a thread. */
struct step_work {
    struct env_work work;
    bool runs;   /* the thread's, with all below, while this is true */
    bool sum;    /* a sum is to become a step */
    bool copies; /* the tablets are to be copied */
    bool bad;    /* a keeper has refused the sum of one of its chunks */
    const float *floats;
    uint64_t weight, digest; /* digest: 0: none was made */
    float lr_scale;
    int status;
    bool refused;
    struct err error;
};

struct steps {
    struct step_options options;
    enum step_state state;
    struct step_begin as;
    struct network *network; /* owned */
    size_t dense_floats, stats_floats;
    uint32_t tables;            /* number of sparse tables: index of "dense" among the job's */
    struct step_slot *slot;     /* owned (options.lanes) */
    struct exchange_part *part; /* owned (options.lanes) */
    uint32_t busy;              /* slots that are */
    /* the network: it is whole, as of step `at`; `before`: with the weights of the step before */
    bool has, before;
    uint64_t at, begun; /* begun: the newest step for which a lane here has begun to compute */
    uint64_t run;
    uint64_t known, stood, of; /* rings: stopped for; whose members are told; in which it had at */
    uint32_t first, end;       /* its stretch of lanes in `stood` */
    struct way_shape shape;    /* shape of ring `stood` */
    /* sharded (train.dense_state): shares that it is to keep in `stood`, and those that it has as
     * of `at`; the ring for which it has taken the weights from another worker */
    bool sharded;
    uint64_t keeps, kept, weights_of;
    uint64_t state_bytes; /* bytes of optimizer state, here */
    struct ring *ring;    /* owned; NULL: none */
    bool summing;
    struct handover *handover; /* owned; NULL: none */
    enum handover_what took;   /* the newest handover's */
    uint32_t from;             /* the member that it takes from */
    struct step_reading reading;
    struct step_publish publish;
    struct step_work work;
    struct request request; /* RING */
    struct wire_RING said;  /* in the newest one */
    struct wire_RING_reply told;
    struct wire_ring_member member[WIRE_RING_MEMBERS]; /* (told.members) */
    char key[WIRE_RING_MEMBERS][48];                   /* theirs */
    uint64_t digest, digest_step;                      /* the newest digest */
    uint64_t stale;        /* the newest ring of another worker, for which the request went again */
    bool turning, again;   /* step_turn is at work, and is to look again */
    struct env_timer soon; /* a turn from the loop, then `moved` */
    struct step_figures figures; /* bytes: of closed rings */
};

/* step.c */
/* Begins the next sum when all lanes of this worker have contributed. */
void step_go(struct steps *s);
/* Starts the thread, if it has work and no lane computes with the weights. */
void step_work_start(struct steps *s);
/* No sum is under way any more, and no thread is at work. False: `step_turn` is called when it is
 * so. */
bool step_stopped(struct steps *s);
/* Gives up what is under way between workers. */
void step_stop(struct steps *s);
/* Opens the ring `told`. Errors as ring_open's. */
int step_open(struct steps *s, struct err *e);
/* A turn soon, so that it never changes a lane that is calling; lanes may go on after it. */
void step_soon(struct steps *s);
/* No lane has contributed to a step after this one. */
void step_from(struct steps *s, uint64_t step);
/* The network is whole, as of this step. */
void step_whole(struct steps *s, uint64_t step, bool before);
/* The network is of no use any more. */
void step_forget(struct steps *s);

/* step_ring.c */
void step_ring_init(struct steps *s);
/* Does what the newest answer says, as far as it can be done now, and tells what has changed. */
void step_turn(struct steps *s);
/* This worker is in an open ring, and assigns the network, or its shares of it, to the tables. */
static inline bool step_leads(const struct steps *s)
{
    return s->state == STEP_OPEN && (s->told.member == 0 || s->sharded);
}

/* step_tables.c */
uint32_t step_tablets(const struct steps *s);
/* Where a tablet is, index below step_tablets; false: there is no map. */
bool step_tablet_find(const struct steps *s, uint32_t index, struct step_tablet *out);
/* Sends a request about a tablet to the shard that leads it now. */
void step_flight_remap(struct steps *s, struct step_flight *f);
void step_reading_turn(struct steps *s); /* starts it, or takes what it has read */
void step_reading_stop(struct steps *s);
void step_reading_remap(struct steps *s);

/* step_publish.c */
int step_publish_new(struct steps *s, struct err *e);
void step_publish_free(struct steps *s);
/* The step that is being made is to be copied: it is time. */
bool step_publish_due(const struct steps *s);
/* Copies the tablets of the network, on a thread. NOMEM. */
int step_publish_copy(struct steps *s, struct err *e);
void step_publish_copied(struct steps *s);
/* Begins what the coordinator asks for, and sends what may be sent now. */
void step_publish_turn(struct steps *s);
void step_publish_stop(struct steps *s);
void step_publish_remap(struct steps *s);

#endif
