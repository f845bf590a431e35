/* worker.h: the workers of a job by number, and when each was last heard. Pure: time is an
 * argument.
 *
 * Worker numbers are the fleet's, and are never used again. A worker is dead when its lease has run
 * out. */
#ifndef SERVER_COORD_CORE_WORKER_H
#define SERVER_COORD_CORE_WORKER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/core/roll.h"
#include "server/coord/fleet/member.h"
#include "server/coord/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/* How fast a worker is, and which lanes left it for that (work/pace.h). */
struct coord_pace {
    /* the window at hand: since when, and the figures and lanes with which it began */
    uint64_t since_ns, batches;
    double busy_s;
    uint32_t lanes, epoch;
    double step_s;       /* seconds of a batch of one lane in the last window; 0: not known */
    uint32_t step_lanes; /* lanes that it held in that window */
    uint64_t span_ns;    /* length of that window */
    uint64_t idle_ns;    /* when it last asked for a lane and got none; 0: not yet */
    /* scratch of the deal: the lanes that it holds, can hold, and is dealt; its step with one more;
     * the worker at the place of the deal's heap that has this one's index (pace.c) */
    uint32_t held, places, share;
    double next_s;
    uint32_t at_place;
    /* the step and the lanes with which a lane last left it; how often in a row, 0: it has
     * recovered */
    double left_s;
    uint32_t left_lanes, rests;
    bool bound;       /* until rest_ns: the fleet is the one that the lane left it in */
    uint64_t rest_ns; /* when it is tried again; 0: it was */
};

struct coord_worker {
    uint64_t number;
    uint64_t pass; /* shown with each of its requests; told to no other peer; not 0 */
    char name[LIMIT_NAME];
    uint32_t pid;
    peer_t peer;
    char key[48];    /* the key that it joined with; empty: none */
    char holder[48]; /* that key, else the user or address: LIMIT_WORKERS_HOLDER */
    struct coord_compute by;
    char build[WIRE_BUILD]; /* its version and build id; "": it does not tell */
    char endpoint[256];     /* where other workers reach it (train.dense); "": nowhere */
    uint32_t lanes_max;
    bool stays;                  /* it joins again when it is told END */
    bool released;               /* it is told END when it next asks for work (job/crew.h) */
    uint64_t joined_ns, beat_ns; /* beat_ns: when it was last heard */
    uint64_t reported_id;      /* newest request that was neither a beat nor a request for a lane */
    uint64_t asked_id;         /* newest request for a lane: older ones are late copies */
    uint32_t asked_lane;       /* the lane granted for it; void without a generation */
    uint64_t asked_generation; /* 0: no lane was granted */
    double rate;               /* examples a second; 0 while it is not known */
    bool rated;                /* the rate is known, though it may be 0 */
    /* rate_ns: the last beat with more examples; before the first such beat, its first lane; 0:
     * none yet. rate_examples: how many. rate_span_ns: time since the beat before */
    uint64_t rate_ns, rate_examples, rate_span_ns;
    uint64_t refused; /* batches that it reported, with a push that was refused for its values */
    uint32_t failed_before; /* failed rounds of workers when it joined (handle.c) */
    /* stall.h: when it last made progress or got work; until when it gets none, 0: it may have
     * some; how often in a row its work was taken away */
    uint64_t moved_ns, barred_ns;
    uint32_t stalls;
    struct coord_pace pace;
    struct wire_WORKER_BEAT figures;
};

struct coord_workers {
    struct coord_worker *worker; /* (count), sorted by number, owned */
    uint32_t count, capacity;
    struct wire_WORKER_BEAT gone; /* sums over the workers that are no longer there */
};

void coord_worker_close(struct coord_workers *ws);

/* A worker that joins: its connection, the time, and the pass that it will have. */
struct coord_caller {
    peer_t peer;
    uint64_t now_ns, pass;
    const char *key, *address; /* borrowed; NULL: none */
};

/* Gives a worker a number, synced before it is told; a join repeated over one connection gets the
 * same worker. BUSY when there are LIMIT_WORKERS, or one key or connection has more than its share,
 * so that others find a place. */
int coord_worker_join(struct coord_workers *ws, struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, const struct coord_caller *caller,
                      struct coord_worker **out, struct err *e);
/* NULL: dead or never was */
struct coord_worker *coord_worker_find(struct coord_workers *ws, uint64_t number);
/* Returns the worker with this pass, if the peer has the key that the worker joined with; else
 * NULL. */
struct coord_worker *coord_worker_of_pass(struct coord_workers *ws, uint64_t pass, const char *key);
/* Returns the worker that joined over the connection, or NULL. */
struct coord_worker *coord_worker_of_peer(struct coord_workers *ws, peer_t peer);
/* Removes a worker; its figures stay in `gone`. */
void coord_worker_remove(struct coord_workers *ws, uint64_t number);
/* Removes all workers: what they compute is of another job or another state. They join again. */
void coord_worker_remove_all(struct coord_workers *ws);
/* Makes the error of a job that fails because the worker does, for the reason that the worker
 * gave. */
int coord_worker_failed(const struct coord_worker *w, int status, const char *text, struct err *e);
/* Returns the number of a worker not heard for lease_ns, or 0. The caller takes its work back and
 * calls coord_worker_remove. */
uint64_t coord_worker_expired(const struct coord_workers *ws, uint64_t now_ns, uint64_t lease_ns);
/* Returns how many workers have been heard since the last one joined. A worker whose process has
 * ended is there until its lease is over, perhaps beside the process that replaces it. */
uint32_t coord_worker_heard(const struct coord_workers *ws);
/* Sums the figures of all workers, also of those that are gone. */
void coord_worker_sums(const struct coord_workers *ws, struct wire_WORKER_BEAT *out);
/* Another job begins: the figures of workers, also of those that are gone, are cleared. */
void coord_worker_forget_figures(struct coord_workers *ws);
/* The coordinator stood still for the gap: no worker's silence in that time counts. */
void coord_worker_forgive(struct coord_workers *ws, uint64_t gap_ns, uint64_t now_ns);

#endif
