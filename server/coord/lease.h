/* lease.h: who computed which batches from which rows: the log of what was granted, bounded,
 * over jobs and epochs. WHO reads it: that is how `shoal blame` gets from a push to a worker and to
 * rows of the input.
 *
 * An entry for each task (or the rest of one) that a worker was given: the batches from `first` to
 * `last` of a lane in a generation. A push carries lane, generation and batch, so at most one entry
 * is its. The newest COORD_LEASES are kept in memory and, noted without a sync, in the store under
 * "lease/SLOT": a loss of power may take the last ones, nothing else hangs on them. Thread: the
 * coordinator's loop. */
#ifndef SERVER_COORD_LEASE_H
#define SERVER_COORD_LEASE_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/coord/store.h"

#define COORD_LEASES 16384u

struct coord_job;
struct coord_ask;

struct coord_lease { /* as stored */
    uint64_t serial; /* from 1; slot: serial % COORD_LEASES */
    uint64_t run, generation, first, last, worker;
    uint64_t task_first;     /* first batch of the whole task: its rows begin at `position` */
    uint64_t position, rows; /* of the epoch's order */
    uint32_t lane, epoch, task, batch;
    char name[LIMIT_NAME]; /* of the worker */
};
_Static_assert(sizeof(struct coord_lease) == 152, "coord_lease is stored");

struct coord_leases {
    /* owned; (COORD_LEASES); serial 0: empty. NULL: nothing was ever noted */
    struct coord_lease *entry;
    uint64_t serial; /* of the newest */
};

/* Reads what the store has; damaged entries are left out. NOMEM. */
int coord_lease_open(struct coord_leases *l, struct coord_store *store, struct err *e);
void coord_lease_close(struct coord_leases *l);
/* The lane's current task is told to its holder; again: nothing. False: the store failed, answer
 * nothing. */
bool coord_lease_note(struct coord_job *j, uint32_t lane);
/* The entry of a batch, or NULL. */
const struct coord_lease *coord_lease_find(const struct coord_leases *l, uint64_t run,
                                           const struct wire_batch_name *of);
int coord_lease_who(struct coord_job *j, struct coord_ask *a);

#endif
