/* death.h: work whose workers die. A process that the system kills says no word, and the same rows
 * may kill the next one that gets them: a value that breaks the parser, a batch that needs more
 * memory than any machine has. Without a bound such a job has workers come and die without end.
 *
 * A lane, or a task of an evaluation, whose worker is dead COORD_DEATHS_MAX times in a row at one
 * place ends the job, with a sentence that says which place. One batch that is done everywhere
 * between two deaths begins the count anew, so machines that come and go end no job, however many
 * they are. No death counts of a worker that
 *
 *     had not been told its task yet,
 *     could not go on: a server is away or its disk is full, the worker is cut from a server, or
 *       all its lanes wait for those of others,
 *     left by itself, or lost its work alive (stall.h).
 *
 * Six is as many as rounds of workers that fail with a sentence (work.c), and as returns to one
 * checkpoint (back.h). Fewer could be chance: a rack that loses power twice while a long batch is
 * under way. More would cost a lease and the start of a worker each, and tell nothing new.
 *
 * One bad machine must not end a job that others can do, and it asks again first. So from half of
 * the deaths on, those of the holder (member.h) that died there last wait for COORD_DEATHS_LEASES
 * leases, where there is a worker of another holder.
 *
 * The counts are in memory: a coordinator that starts again begins anew. Pure but for the end of
 * the job. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_DEATH_H
#define SERVER_COORD_DEATH_H

#include "server/coord/worker.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

#define COORD_DEATHS_MAX 6u
#define COORD_DEATHS_LEASES 2u

/* The worker is dead; before its work is taken back (grant.h). May end the job. */
void coord_death_note(struct coord_job *j, const struct coord_worker *w);
/* The lane has no holder any more, and all shards have said up to which batch its pushes are there.
 * True: the job has ended. */
bool coord_death_placed(struct coord_job *j, uint32_t lane, uint64_t mark);
/* True: the worker gets no lane until COORD_DEATHS_LEASES leases have passed since the last death,
 * for workers of its holder died at one place again and again. */
bool coord_death_shunned(const struct coord_job *j, const struct coord_worker *w);

#endif
