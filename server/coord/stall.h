/* stall.h: whether workers get on. A lease tells a worker that is dead; one that beats and does not
 * work would hold its lanes, and with them the job, without end.
 *
 * A worker gets on when its beats count more (batches, keys, bytes of the input) or when it reports
 * something. One that has work and has not got on for COORD_STALL_LEASES leases loses it to the
 * others, and gets none for as long. Both times are twice as long each time, until the worker has
 * done a batch: one that a server does not answer still pulls from the others, and comes no
 * further.
 *
 *     has work --COORD_STALL_LEASES leases without a step--> taken away, barred --> has work again
 *                 ^ not counted: the job is held up by a server, a disk, a request to the shards;
 *                   all lanes of the worker wait for shards that it reaches, that is for others
 *
 * The index of a split is one worker's alone. Once a worker has lost it, workers of other keys come
 * first: a key that has joined many times does not get it again and again.
 *
 * Nothing is taken from the only worker that could do it. Its batches, should it go on after all,
 * are refused like those of any other whose lane was fenced; what it reports of the input is
 * taken. Pure but for the fences (grant.h). */
#ifndef SERVER_COORD_STALL_H
#define SERVER_COORD_STALL_H

#include "server/coord/worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;

#define COORD_STALL_LEASES 3u
#define COORD_STALL_DOUBLINGS 6u /* at most */

/* A beat has come, and is not taken yet: whether the worker has got on since the last one. */
void coord_stall_beat(struct coord_worker *w, const struct wire_WORKER_BEAT *beat, uint64_t now_ns);
/* It has reported, or gets work. */
void coord_stall_moved(struct coord_worker *w, uint64_t now_ns);
/* Takes work from those that do not get on. */
void coord_stall_tick(struct coord_job *j);
/* Whether a worker gets no work now. */
bool coord_stall_barred(const struct coord_job *j, const struct coord_worker *w);
/* Whether it can do the work of others: it reaches all servers, and is not barred itself. */
bool coord_stall_able(const struct coord_job *j, const struct coord_worker *w);
/* Whether it is no fault of the worker, or of its rows, that it does not get on. */
bool coord_stall_excused(const struct coord_job *j, const struct coord_worker *w);
/* Whether the worker has had no answer from a server that is heard here for longer than a lease:
 * the server's shard, or COORD_NOBODY. */
uint32_t coord_stall_cut(const struct coord_job *j, const struct coord_worker *w);
/* What it is told as: "gets no answer from server .. for 45 s, ..". */
void coord_stall_cut_text(const struct coord_fleet *f, const struct coord_worker *w, char *text,
                          size_t bytes);
/* Whom the job waits for, where no worker has got on for longer than a lease; false: some do. */
bool coord_stall_waits(const struct coord_job *j, char *text, size_t bytes);
/* How long no worker has got on; 0: some do, or the job has no work for them now. */
uint64_t coord_stall_ns(const struct coord_job *j);

#endif
