/* lease_log.h: the worker and the input rows of each batch: a bounded log of the tasks granted,
 * over all jobs and epochs. The answer to a request WHO is made from it, so `shoal blame` can name
 * the worker and the input rows of a push.
 *
 * Each task (or the rest of one) that a worker was given has an entry: the batches from `first` to
 * `last` of a lane in a generation. A push carries lane, generation and batch, so at most one entry
 * covers it. The newest COORD_LEASES entries are kept in memory. They are also noted in the store,
 * without a sync, under "lease/SLOT": a loss of power may take the last ones, and nothing else
 * depends on them. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_LEASE_LOG_H
#define SERVER_COORD_WORK_LEASE_LOG_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/coord/store/store.h"

#define COORD_LEASES 16384u

struct coord_job;
struct coord_ask;

struct coord_lease { /* as stored */
    uint64_t serial; /* from 1; slot: serial % COORD_LEASES */
    uint64_t run, generation, first, last, worker;
    uint64_t task_first;     /* first batch of the whole task: its rows begin at `position` */
    uint64_t position, rows; /* in the order of the epoch */
    uint32_t lane, epoch, task, batch;
    char name[LIMIT_NAME]; /* name of the worker */
};
_Static_assert(sizeof(struct coord_lease) == 152, "coord_lease is stored");

struct coord_leases {
    /* owned; (COORD_LEASES); serial 0: empty. NULL: nothing was ever noted */
    struct coord_lease *entry;
    uint64_t serial; /* serial of the newest entry */
};

/* Reads what the store has; damaged entries are left out. NOMEM. */
int coord_lease_open(struct coord_leases *l, struct coord_store *store, struct err *e);
void coord_lease_close(struct coord_leases *l);
/* Notes that the lane's current task is told to its holder; a repeated call notes nothing. False:
 * the store failed, so the request must not be answered. */
bool coord_lease_note(struct coord_job *j, uint32_t lane);
/* The entry of a batch, or NULL. */
const struct coord_lease *coord_lease_find(const struct coord_leases *l, uint64_t run,
                                           const struct wire_batch_name *of);
int coord_lease_who(struct coord_job *j, struct coord_ask *a);

#endif
