/* death.h: work whose workers die again and again; that one has died is noticed by
 * coord_handle_expire (job/handle.c). A process that the system kills reports nothing, and the same
 * rows may kill the next worker that gets them: a value that breaks the parser, or a batch that
 * needs more memory than any machine has. Without a bound the workers of such a job would come and
 * die without end.
 *
 * A lane, or a task of an evaluation, whose workers die COORD_DEATHS_MAX times in a row at one
 * place ends the job with a sentence that names the place. One batch that is done on all shards
 * between two deaths resets the count, so that machines that come and go end no job, however many
 * they are. A death does not count if the worker
 *
 *     had not been told its task yet,
 *     could not go on: a server is away or its disk is full, the worker is cut off from a server,
 *       or all its lanes wait for those of others,
 *     left by itself, or lost its work alive (stall.h).
 *
 * Six equals the rounds of workers that fail with a sentence (handle.c), and the returns to one
 * checkpoint (back.h). Fewer deaths could be chance: a rack that loses power twice during a long
 * batch. Each further death would cost a lease and the start of a worker, and tell nothing new.
 *
 * One bad machine must not end a job that other machines can do, and it is the first to ask again.
 * So from half of the deaths on, workers of the holder (member.h) of the last death get no lane for
 * COORD_DEATHS_LEASES leases, if there is a worker of another holder.
 *
 * The counts are in memory: a restarted coordinator begins at 0. Pure except for the end of the
 * job. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_DEATH_H
#define SERVER_COORD_WORK_DEATH_H

#include "server/coord/core/worker.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

#define COORD_DEATHS_MAX 6u
#define COORD_DEATHS_LEASES 2u

/* Counts the death of a worker; to be called before its work is taken back (grant.h). May end the
 * job. */
void coord_death_note(struct coord_job *j, const struct coord_worker *w);
/* The lane has no holder any more, and all shards have reported the last batch of its pushes. True:
 * the job has ended. */
bool coord_death_placed(struct coord_job *j, uint32_t lane, uint64_t mark);
/* True: the worker gets no lane until COORD_DEATHS_LEASES leases have passed since the last death,
 * because workers of its holder have died repeatedly at one place. */
bool coord_death_shunned(const struct coord_job *j, const struct coord_worker *w);

#endif
