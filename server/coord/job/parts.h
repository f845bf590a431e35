/* parts.h: the states of a job that rooms beside core keep, for the slot that the job is in. */
#ifndef SERVER_COORD_JOB_PARTS_H
#define SERVER_COORD_JOB_PARTS_H

#include "server/coord/core/core.h"
#include "server/coord/figures/guard.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/output.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/job/stop.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/lease_log.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/taken.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

/* The states of a slot's job that rooms beside core keep. */
struct coord_parts {
    struct coord_cut cut;
    struct coord_output output;
    struct coord_checkpoint checkpoint;
    struct coord_leases leases;
    struct { /* cleared with coord_job.at */
        struct coord_tasks tasks;
        struct coord_objects objects[JOB_SPLITS];
        struct coord_grow grow;
        struct coord_taken_list taken;
        struct coord_eval eval;
        struct coord_evaluations valid;
        struct coord_trace trace;
        struct coord_progressive windows;
        struct coord_replay replay;
        struct coord_guard guard;
        struct coord_times times;
        struct coord_ring_job ring;
    } run;
};

/* The job finds the states of the other rooms in these parts, which outlive it. */
void coord_parts_join(struct coord_job *j, struct coord_parts *p);
/* Moves a job, from `at` on, and the parts of its run to another slot. */
void coord_parts_take(struct coord_job *j, struct coord_job *from);
/* Frees the job, however far it was built, and clears it and the parts of its run, from `at` on. */
void coord_parts_close(struct coord_job *j);

#endif
