/* ring_job.h: a network kept by the workers (train.dense: allreduce): the ring of a job (ring.h),
 * its rests (ring_rest.h), and the message RING.
 *
 * A worker that can be a member has told its endpoint (WORKER_JOIN) and asks RING. Each step of the
 * coordinator compares these workers with the members. When a member has gone, or a worker has come
 * and there are more lanes than members, the ring gathers anew. The first ring of a run, and the
 * first one after all members have gone, waits for the workers that the job expects, at most a
 * lease.
 *
 *   gathers: "ring" is stored; each lane whose holder changes is fenced (grant.h), so its former
 *            holder pushes and assigns nothing any more; all members are told.
 *   stands:  all have reported. "ring" is stored with the step. A lane that no worker holds goes on
 *            behind that step, even if its tasks are done: the network may lack them
 *            (coord_task_again). A member that has the network of that step gets the lanes of its
 *            stretch.
 *   rests:   a cut, or the end of a stretch of training (the tasks up to their stop), wants the
 *            tables to have the network of one step. The first member assigns it (ASSIGN), with the
 *            generation of lane 0 that the coordinator tells. With sharded state all members assign
 *            their shares, and the ring also rests every train.dense_publish.
 *
 * Where no member has the network, or the state of one of its shares has gone, all read it from the
 * tables. They report the marks that they found. If all marks are equal, that step is the published
 * one: so a job that resumes learns its step. If they differ, the last publish was cut off half
 * way, and the job goes back to its newest checkpoint (back.h). Under bsp it goes back, too, where
 * the rows are ahead of the tables' network: batches since then would be computed with newer rows
 * than before.
 *
 * Members tell digests of their networks (ring_digest.h). One that differs from most leaves; where
 * no digest is that of most, the job goes back.
 *
 *  1. A gathering is stored before a worker is told of it. [test: ring_is_stored_before_it_is_told]
 *     [assert: coord_ring_step]
 *  2. A lane is granted to the member of whose stretch it is, and to no other, once that member has
 *     the network of the ring's step. [test: ring_grants_each_lane_to_its_member] [assert:
 *     coord_ring_mark]
 *  3. A cut is made, and training ends or pauses, only when the tables have the network of the last
 *     step. [test: ring_rests_before_a_cut] [test: ring_rests_before_an_evaluation] So no epoch
 *     begins whose tasks before it could be needed again. [assert: coord_ring_go]
 *  4. Under bsp the rows of a cut are of the step of its network, also where all workers died
 *     before. [test: ring_checkpoint_is_of_one_step_whoever_dies]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_RING_JOB_H
#define SERVER_COORD_WORK_RING_JOB_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"
#include "server/coord/work/ring.h"
#include "server/coord/work/ring_digest.h"
#include "server/coord/work/ring_rest.h"
#include "server/coord/work/ring_unable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_job;
struct coord_ask;
struct coord_worker;

/* Members, and spare workers that take their places. */
#define COORD_RING_ASKERS 256u

/* A worker that asks RING, and what it has said last. */
struct coord_ring_asker {
    uint64_t worker, id; /* id: of its newest request */
    peer_t peer;
    bool waits; /* the request is not answered */
    bool has;
    uint64_t since_ns, answered_ns; /* when the request came; when the last answer went */
    uint64_t seen, answered;        /* news that it has obeyed; news of the last answer */
    uint64_t ring, step, begun, unreached, of, published, keeps;
    uint64_t wrong; /* its network differs from that of most after this step; 0: it does not */
};

/* The reasons for a rest: a cut, a pause of training, or a publish of sharded state. */
enum coord_ring_for { RING_FOR_CUT = 1, RING_FOR_PAUSE = 2, RING_FOR_PUBLISH = 4 };

struct coord_ring_job {
    struct coord_ring ring;
    struct coord_rest rest;
    struct coord_digests digests;
    struct coord_unable unable;
    uint32_t wanted;       /* bits: enum coord_ring_for */
    uint64_t news;         /* rises with each change that workers are told; 0: not drawn yet */
    uint64_t stored;       /* the newest gathering in the store */
    uint64_t told;         /* the newest ring that was told to stand */
    uint64_t generation;   /* generation of lane 0, on all shards; 0: a fence is under way */
    uint64_t waits_ns;     /* since when workers wait for a first ring; 0: none does */
    uint32_t former;       /* members of the ring before all joined again; 0: none */
    bool again;            /* a member has lost a lane: the ring gathers with the same members */
    uint64_t published_ns; /* when the published step rose; at first: when it was read */
    uint64_t rested_ns;    /* sharded: when the last rest for a publish ended */
    uint64_t state_bytes;  /* the most that a worker has told */
    uint64_t gathers_ns;   /* since when the ring has not stood; 0: it stands, or none is due */
    uint32_t count;
    struct coord_ring_asker asker[COORD_RING_ASKERS];
};

/* True when the job's workers keep the network. */
bool coord_ring_on(const struct coord_job *j);
/* RING. MALFORMED: the servers keep this job's network, or no worker can have such a step. CORRUPT:
 * the worker's network has other bits than that of most members: it leaves, and the job goes on. */
int coord_ring_ask(struct coord_job *j, struct coord_ask *a);
/* Gathers, rests and answers, as far as it is due. */
void coord_ring_step(struct coord_job *j);
/* The worker is no longer known. */
void coord_ring_gone(struct coord_job *j, uint64_t worker);
/* The worker gives up its work, for this reason, and may come again. */
void coord_ring_unable(struct coord_job *j, const struct coord_worker *w, const char *text);
/* After a restart, and for a job that goes on from a checkpoint: takes the stored ring. */
int coord_ring_load(struct coord_job *j, struct err *e);
/* The record for a checkpoint: without members, for those are workers of this cluster. marks: the
 * tables of the checkpoint keep their marks. */
void coord_ring_saved(const struct coord_job *j, bool marks, struct coord_ring_record *out);

/* All workers are to join again, and keep their networks. */
void coord_ring_anew(struct coord_job *j);
/* A member has lost a lane: others may not know how far the network is. */
void coord_ring_lane_lost(struct coord_job *j);
/* Returns a free lane of the worker's stretch that has work, or COORD_NO_LANE. */
uint32_t coord_ring_pick(const struct coord_job *j, uint64_t worker);
/* True when the lane cannot be granted, because its rows (mark) do not fit the network: servers
 * that lost power have lost pushes, and the weights for those batches are gone; or under bsp the
 * rows are ahead of the network, and rows of an earlier clock cannot be had. The job goes back
 * then. */
bool coord_ring_behind(struct coord_job *j, uint32_t lane, uint64_t mark);
/* The mark behind which a lane goes on that is granted now; mark: of its rows. */
uint64_t coord_ring_mark(const struct coord_job *j, uint64_t mark);

/* True when no rest can come, since the job has had no worker for a lease: a sentence with the
 * remedy. The workers alone had the network since the published step, so the tables of this moment
 * are of no one step. */
bool coord_ring_alone(const struct coord_job *j, char *text, size_t bytes);
/* Wants a rest. True: the ring rests, and the tables have the network; or the servers keep it, or
 * nothing is trained. The caller asks again at each step, and says coord_ring_go in the end. */
bool coord_ring_rest(struct coord_job *j, enum coord_ring_for what);
void coord_ring_go(struct coord_job *j, enum coord_ring_for what);

/* True when the worker is a member, or is to be one. */
bool coord_ring_member(const struct coord_job *j, uint64_t worker);
/* True when a member is to get on: it is to report, to take the network, to ask for its lanes, to
 * make steps with them, or to assign its shares of sharded state. One that the coordinator itself
 * holds still (a rest, no task) is not. */
bool coord_ring_works(const struct coord_job *j, uint64_t worker);
/* True when the ring waits for another member, and not for this one. */
bool coord_ring_waits(const struct coord_job *j, uint64_t worker);
/* Returns the later one of two members of which one does not reach the other, 0: there are none;
 * *other: the earlier one. */
uint64_t coord_ring_apart(const struct coord_job *j, uint64_t *other);
/* Writes a sentence on a ring that has gathered for longer than a lease; false: it has not. */
bool coord_ring_late(const struct coord_job *j, char *text, size_t bytes);

#endif
