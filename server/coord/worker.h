/* worker.h: the workers of a job by number, and when each was last heard. Pure: time comes in as an
 * argument.
 *
 * Worker numbers are the fleet's, and are never used again. A worker is dead when its lease has run
 * out. */
#ifndef SERVER_COORD_WORKER_H
#define SERVER_COORD_WORKER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/member.h"
#include "server/coord/roll.h"
#include "server/coord/store.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_worker {
    uint64_t number;
    uint64_t pass; /* shown with all that it asks; told to no other peer; not 0 */
    char name[LIMIT_NAME];
    uint32_t pid;
    peer_t peer;
    char key[48];    /* that it joined with; empty: none */
    char holder[48]; /* whose place it takes: of that key, else of the user or address */
    struct coord_compute by;
    uint32_t lanes_max;
    uint64_t beat_ns;
    uint64_t reported_id;      /* newest request that was neither a beat nor a question */
    uint64_t asked_id;         /* newest question for a lane: older ones are late copies */
    uint32_t asked_lane;       /* what was granted for it; meaningless without a generation */
    uint64_t asked_generation; /* 0: nothing was */
    double rate;               /* examples a second */
    bool rated;                /* it is known, though it may be 0 */
    /* the last beat with more examples, before the first its first lane, 0: none yet; how many; how
     * long after the one before */
    uint64_t rate_ns, rate_examples, rate_span_ns;
    uint64_t refused; /* batches that it told of, of which a push was refused for its values */
    uint32_t failed_before; /* rounds of workers that had failed when it joined (work.c) */
    /* stall.h: when it was last seen to get on, or got work; until when it gets none, 0: it may
     * have some; times in a row that its work was taken away */
    uint64_t moved_ns, barred_ns;
    uint32_t stalls;
    struct wire_WORKER_BEAT figures;
};

struct coord_workers {
    struct coord_worker *worker; /* (count), sorted by number, owned */
    uint32_t count, capacity;
    struct wire_WORKER_BEAT gone; /* sums of the workers that are no longer there */
};

void coord_worker_close(struct coord_workers *ws);

/* A worker that joins: its connection, the time, and the pass that it is to have. */
struct coord_caller {
    peer_t peer;
    uint64_t now_ns, pass;
    const char *key, *address; /* borrowed; NULL: none */
};

/* A number for a worker, synced before it is known to anyone; the same worker again for a join
 * repeated over one connection. BUSY when there are LIMIT_WORKERS, or more than their share of one
 * key or connection: others find a place. */
int coord_worker_join(struct coord_workers *ws, struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, const struct coord_caller *caller,
                      struct coord_worker **out, struct err *e);
/* NULL: dead or never was */
struct coord_worker *coord_worker_find(struct coord_workers *ws, uint64_t number);
/* The worker whose pass it is, if the peer has the key that the worker joined with; else NULL. */
struct coord_worker *coord_worker_of_pass(struct coord_workers *ws, uint64_t pass, const char *key);
/* The worker that joined over the connection, or NULL. */
struct coord_worker *coord_worker_of_peer(struct coord_workers *ws, peer_t peer);
/* its figures stay in `gone` */
void coord_worker_remove(struct coord_workers *ws, uint64_t number);
/* All of them: what they compute is of another job, or of another state; they join again. */
void coord_worker_remove_all(struct coord_workers *ws);
/* The error of a job that fails because the worker does, for the reason that it gave. */
int coord_worker_failed(const struct coord_worker *w, int status, const char *text, struct err *e);
/* Number of a worker not heard for lease_ns, or 0. The caller takes its work back and calls
 * coord_worker_remove.
 */
uint64_t coord_worker_expired(const struct coord_workers *ws, uint64_t now_ns, uint64_t lease_ns);
/* Sums of all workers, gone ones too. */
void coord_worker_sums(const struct coord_workers *ws, struct wire_WORKER_BEAT *out);
/* Another job begins: the figures of workers, also of those that are gone, count no more. */
void coord_worker_forget_figures(struct coord_workers *ws);
/* The coordinator stood still for the gap: the silence of that time does not count. */
void coord_worker_forgive(struct coord_workers *ws, uint64_t gap_ns, uint64_t now_ns);

#endif
