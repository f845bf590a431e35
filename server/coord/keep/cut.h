/* cut.h: cuts: HOLD and GO on all shards, RESTORE, CUT_DROP. One cut is made at a time, for a best
 * epoch (at an epoch's end, when no lane is held) or for a checkpoint (at any moment). An order
 * that comes meanwhile waits.
 *
 *   IDLE --coord_cut_order: a cut--> HOLDING --held: all hold, and `held` returns 0--> GOING
 *   IDLE --coord_cut_order: a lean cut--> WRITING --ahead_done, or AHEAD_MAX_NS--> HOLDING
 *   IDLE, WRITING, PAUSED --rest_begin: the workers keep the network--> RESTING --resting_step: the
 *                           tables have the network of the last step (ring_job.h)--> HOLDING
 *   IDLE --coord_cut_order: a restore--> RETURNING --returning_step: the tablets are where the cut
 *                                                    has them (home.h)--> RESTORING
 *   RESTORING --restored--> OPENING --opening_step: all shards have the new run: cut_end--> IDLE
 *
 *   IDLE, WRITING, RESTING, PAUSED --hold_begin: another job holds--> QUEUED --its turn--> HOLDING
 *   IDLE, WRITING, PAUSED --rest_begin: another job loads--> QUEUED --loaded--> RESTING or HOLDING
 *
 *   RESTING --cut_end: no worker is there any more--> IDLE
 *   RESTING --cut_again: not at rest in time---------------+
 *   HOLDING --cut_again: refused, or not all held in time--+--> PAUSED --coord_cut_tick--> WRITING,
 *   GOING   --cut_again: refused---------------------------+        RESTING or HOLDING, as before
 *   HOLDING, GOING --cut_end: complete (gone), not wanted (held), no attempt is left--> IDLE
 *   any but IDLE --coord_cut_withdraw, coord_cut_cancel--> IDLE, without `done`
 *
 * A shard holds for one cut at a time. Two jobs that each hold a part of the shards would wait for
 * one another, so the jobs hold one after the other, in the order in which they want to
 * (coord_hold_line).
 *
 * In WRITING, QUEUED and PAUSED pushes go on, but for those of a ring that rests. A ring rests
 * from RESTING to the end of the attempt. From PAUSED the cut is tried again under a new number,
 * ATTEMPTS times in all; for a patient order, an attempt that fails while a server is away does not
 * count. HOLD ends by itself after 10 s: a shard that let go in between reports another sequence at
 * GO than at HOLD, and the cut is made again.
 *
 * Invariants:
 *  1. A cut's number is stored before a shard is told of it, and never used twice. [test:
 *     coord_refused_cut_is_made_again_under_a_new_number] [assert: cut_call, cut_begin]
 *  2. A cut is complete when every shard has answered GO; otherwise it is dropped and does not
 *     count. [test: coord_death_at_the_cut_keeps_the_best_epoch] [assert: gone, cut_end]
 *  3. `held` runs while every shard holds: the coordinator's state is then that of the instant
 *     of the cut. A shard that did not hold throughout refuses GO, and the cut is made again.
 *     [test: checkpoint_goes_on_at_the_very_batch] [assert: held]
 *  4. No shard restores before every shard has read the whole of its part of the cut: if a part
 *     is damaged, all shards stay as they were. A shard that led none of the job's tablets then has
 *     no part: it may have joined later. [test: coord_rotten_cut_leaves_all_as_they_were]
 *     [assert: looked]
 *  5. One job holds at a time. [test: cuts_of_two_jobs_hold_in_turn] [assert: hold_begin]
 *  6. No attempt begins while the shards load a checkpoint for another job: they refuse HOLD until
 *     all rows are there, which may last longer than all attempts.
 *     [test: cut_waits_for_the_load_of_another_job] */
#ifndef SERVER_COORD_KEEP_CUT_H
#define SERVER_COORD_KEEP_CUT_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/sm.h"
#include "server/coord/keep/home.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_call;
struct coord_job;

enum coord_cut_state {
    CUT_IDLE,
    CUT_WRITING,
    CUT_HOLDING,
    CUT_GOING,
    CUT_PAUSED,
    CUT_RETURNING,
    CUT_RESTORING,
    CUT_OPENING,
    CUT_RESTING,
    CUT_QUEUED
};
extern const struct sm coord_cut_moves;

/* status 0: the cut is complete, or restored. Else the text says why not. */
typedef void (*coord_cut_done)(struct coord_job *j, int status, const char *text, uint64_t cut);

/* Returns 0, or why the cut is not wanted any more: the order then ends with that status. */
typedef int (*coord_cut_held)(struct coord_job *j, struct err *e);

struct coord_cut_order {
    bool restore;
    uint64_t cut, run; /* for a restore; run: newly drawn, so that no shard has rows of it */
    /* the longest time that pushes wait in one attempt; 0: as long as HOLD lasts */
    uint64_t hold_max_ns;
    bool lean;    /* the shards write rows before HOLD, so that the cut has few records */
    bool tables;  /* the cut belongs to no run: the shards need not be set up for one */
    bool patient; /* waits for a server that is away, however long */
    /* shards that the cut does without: their rows are not wanted */
    uint8_t without[LIMIT_SHARDS / 8];
    coord_cut_held held; /* called at the instant of the cut; NULL: none */
    coord_cut_done done;
};

/* The jobs that hold the shards, or want to: one of each slot, and the one aside (job/aside.h). */
#define COORD_HOLD_LINE 9u
struct coord_hold_line {
    const struct coord_job *job[COORD_HOLD_LINE]; /* (count): the first one holds; borrowed */
    uint32_t count;
};

struct coord_cut {
    enum coord_cut_state state;
    uint64_t cut, stored; /* the current cut; the newest stored one, of which a shard may know */
    uint32_t attempt;
    uint64_t since_ns;
    struct coord_cut_order order, waiting; /* the current one; the next one */
    bool waits;                            /* there is a next one */
    uint64_t sequence[LIMIT_SHARDS];       /* each shard's, when it held */
    bool uneven;                           /* a shard reported another sequence at GO */
    struct coord_home_kept home;           /* owners of the tablets in the kept cut */
};

/* Makes a cut, or restores one: at once, or after the current one. */
void coord_cut_order(struct coord_job *j, const struct coord_cut_order *order);
/* Asks the present shards to drop the cut; a shard that comes back is told by CUT_KEEP. */
void coord_cut_drop(struct coord_job *j, uint64_t cut);
/* Returns a number below which only the cut *keep (0: none) is wanted: a shard can drop all
 * others. */
uint64_t coord_cut_known(const struct coord_job *j, uint64_t *keep);
void coord_cut_tick(struct coord_job *j);
/* Withdraws the order that would end in `done`, current or waiting; `done` is not called. */
void coord_cut_withdraw(struct coord_job *j, coord_cut_done done);
void coord_cut_cancel(struct coord_job *j); /* withdraws all orders; no `done` is called */
/* After a restart: drops the cut that the coordinator was making when it died, unless it is
 * `kept`. */
int coord_cut_open(struct coord_job *j, uint64_t kept, struct err *e);
/* Removes the job's marks and cuts. The coordinator does not wait for that, except for rows of a
 * checkpoint that not all servers could load: they go before another job begins (flow.c), so that
 * the same restore can be tried again. */
void coord_cut_run_drop(struct coord_job *j);
/* The end of a call of RUN_DROP, whose owner is the run: a failure is logged. */
void coord_cut_run_dropped(void *context, const struct coord_call *call, int status,
                           const char *text);

#endif
