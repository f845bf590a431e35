/* ring_inner.h: the functions that ring_job.c, ring_ask.c and ring_waits.c share. */
#ifndef SERVER_COORD_WORK_RING_INNER_H
#define SERVER_COORD_WORK_RING_INNER_H

#include "server/coord/work/ring_job.h"

/* The worker's requests; NULL: it has sent none. */
struct coord_ring_asker *coord_ring_asker_of(const struct coord_job *j, uint64_t worker);
/* Stores the ring, and workers are to be told. False: the store failed. */
bool coord_ring_put(struct coord_job *j);
/* The ring stands: stores that, and places the lanes. */
void coord_ring_stood(struct coord_job *j);
/* A member of a ring without the network has read these marks in the tables, not all of them the
 * ring's step. */
void coord_ring_marks(struct coord_job *j, uint64_t low, uint64_t high);
/* True when the member has the network of the ring's step. */
bool coord_ring_ready(const struct coord_job *j, uint64_t worker);
/* True when a lane that no worker holds has batches up to this step that may not be done. */
bool coord_ring_owes(const struct coord_job *j, uint64_t step);
/* Acts on the digests of the members' networks: marks the asker of each member that is wrong, or
 * lets the job go back. */
void coord_ring_verdict(struct coord_job *j, const struct coord_digest_verdict *v);
/* Answers the requests whose workers do not know the news, or that have waited for long enough. */
void coord_ring_answer_all(struct coord_job *j);

#endif
