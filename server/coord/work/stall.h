/* stall.h: workers without progress. A lease detects a dead worker; a worker that beats and
 * does not work would hold its lanes, and with them the job, without end.
 *
 * A worker makes progress when its beats count more (batches, keys, bytes of the input) or when it
 * reports something. A worker that has work and has made no progress for COORD_STALL_LEASES leases
 * loses the work to the others, and gets none for as long. Both times double each time, until the
 * worker has done a batch: a worker that gets no answer from one server still pulls from the
 * others, and never completes a batch.
 *
 *     has work --COORD_STALL_LEASES leases without a step--> taken away, barred --> has work again
 *                 ^ not counted: the job is held up by a server, a disk, a request to the shards;
 *                   all lanes of the worker wait for shards that it reaches, that is for others
 *
 * One worker alone has the index of a split. Once a worker has lost it, workers of other keys come
 * first: a key that has joined many times does not get it again and again.
 *
 * Nothing is taken from the only worker that could do the work. If a stalled worker goes on after
 * all, its batches are refused like those of any worker whose lane was fenced; its reports on the
 * input are taken. Pure but for the fences (grant.h). */
#ifndef SERVER_COORD_WORK_STALL_H
#define SERVER_COORD_WORK_STALL_H

#include "server/coord/core/worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;

#define COORD_CUT_NS UINT64_C(2000000000) /* two pings of the worker, and two beats of the server */
#define COORD_STALL_LEASES 3u
#define COORD_STALL_DOUBLINGS 6u /* at most */

/* Called with a beat before it is kept: notes whether the worker has made progress since the last
 * one. */
void coord_stall_beat(struct coord_worker *w, const struct wire_WORKER_BEAT *beat, uint64_t now_ns);
/* The worker has reported, or gets work. */
void coord_stall_moved(struct coord_worker *w, uint64_t now_ns);
/* Takes work from the workers that make no progress. */
void coord_stall_tick(struct coord_job *j);
/* True while the worker gets no work. */
bool coord_stall_barred(const struct coord_job *j, const struct coord_worker *w);
/* True when the worker can do the work of others: it reaches all servers, and is not barred
 * itself. */
bool coord_stall_able(const struct coord_job *j, const struct coord_worker *w);
/* True when neither the worker nor its rows cause the lack of progress. */
bool coord_stall_excused(const struct coord_job *j, const struct coord_worker *w);
/* Returns the shard of a server that is heard here and has not answered the worker for longer than
 * a lease, or COORD_NOBODY. */
uint32_t coord_stall_cut(const struct coord_job *j, const struct coord_worker *w);
/* True when that is to be told: after COORD_CUT_NS, while the server's beats come. */
bool coord_stall_cut_seen(const struct coord_job *j, const struct coord_worker *w);
/* Writes the sentence on that: "gets no answer from server .. for 45 s, ..". */
void coord_stall_cut_text(const struct coord_fleet *f, const struct coord_worker *w, char *text,
                          size_t bytes);
/* Writes the workers that the job waits for when no worker has made progress for longer than a
 * lease; false: some have. */
bool coord_stall_waits(const struct coord_job *j, char *text, size_t bytes);
/* Returns for how long no worker has made progress; 0: some do, or the job has no work for them
 * now. */
uint64_t coord_stall_ns(const struct coord_job *j);

#endif
