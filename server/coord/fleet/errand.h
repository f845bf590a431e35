/* errand.h: errands: work in folders of checkpoints, reports and figures, on a thread of the pool.
 * A network file system may not answer for minutes, while leases, beats and the status go on.
 *
 *   start --> WAITS --> RUNS --> done, on the loop: the owner has it again, and may start it anew
 *               |         |
 *               +----+----+-- leave, or not done within COORD_ERRAND_MOST_NS: if it has run, undo
 *                             runs too, and it is freed
 *
 * Errands run one at a time, in the order of their start. An errand that has run for
 * COORD_ERRAND_HANGS_NS hangs, and so does its folder: the next errand of another folder then runs
 * beside it. No further errand of the same folder begins until it has come back, so that few
 * threads hang and the list stays short. An errand owns all memory that run and undo use.
 *
 * Invariants:
 *  1. At most COORD_ERRAND_THREADS run, each in another folder. [assert: errand_run]
 *  2. The result of an errand is either passed to its owner or undone. [test:
 *     errand_left_is_undone] */
#ifndef SERVER_COORD_FLEET_ERRAND_H
#define SERVER_COORD_FLEET_ERRAND_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_errand;

#define COORD_ERRAND_HANGS_NS UINT64_C(5000000000)
#define COORD_ERRAND_MOST_NS UINT64_C(120000000000)
#define COORD_ERRAND_THREADS 2u /* the pool has four */
#define COORD_ERRAND_LIST 16u   /* the longest list; further errands are refused */

/* rc 0: the owner has the errand again: it leaves it, or starts it anew. Else `e` says why, and the
 * errand is freed after this returns. */
typedef void (*coord_errand_done)(void *context, struct coord_errand *r, int rc,
                                  const struct err *e);

struct coord_errand {
    /* set by the owner; run and undo are called on another thread */
    int (*run)(struct coord_errand *r, struct err *e);
    /* also called after a run that failed, or without a run */
    void (*undo)(struct coord_errand *r);
    void (*free)(struct coord_errand *r);
    char folder[LIMIT_PATH]; /* the folder that the errand works in */
    const char *what;        /* its description, borrowed; NULL: "checkpoint folder" */
    /* private to errand.c */
    struct env_work work;
    struct coord_fleet *fleet;
    coord_errand_done done; /* NULL: the owner does not wait for it */
    void *context;          /* borrowed: the first argument of done */
    enum { ERRAND_IDLE, ERRAND_WAITS, ERRAND_RUNS } state;
    bool ran, undoes, told; /* told: the log says that it hangs */
    uint64_t asked_ns, begun_ns;
    int rc;
    struct err e;
    struct coord_errand *next;
};

struct coord_errands {
    struct coord_errand *head; /* the errands that wait or run, in order; owned */
    uint32_t count, running;
    bool ends; /* no errand begins any more (coord_errand_end) */
};

/* Checks that an errand in that folder can be started. UNAVAILABLE: the folder hangs; BUSY: there
 * are too many. */
int coord_errand_check(const struct coord_fleet *f, const char *folder, struct err *e);
/* Starts an errand. Returns what coord_errand_check returns; on failure the errand is left, and one
 * that never ran is only freed, as it has nothing to undo. */
int coord_errand_start(struct coord_fleet *f, struct coord_errand *r, void *context,
                       coord_errand_done done, struct err *e);
/* The owner does not wait for the errand any more: it is undone and freed. NULL is fine. For an
 * errand that was never started only undo runs. */
void coord_errand_leave(struct coord_fleet *f, struct coord_errand *r);
/* The owner does not wait for its end, but the errand still runs; then it is undone. */
void coord_errand_detach(struct coord_errand *r);
/* Closes, in an errand, the hold that keeps a folder from being removed: *hold becomes
 * COORD_FOLDER_NONE. */
void coord_errand_let_go(struct coord_fleet *f, const char *folder, int *hold);
/* Starts the first errand that waits for a folder in which none hangs, unless an errand runs that
 * does not hang, or a change of the store is not complete. */
void coord_errand_begin(struct coord_fleet *f);
/* Called as time passes. */
void coord_errand_tick(struct coord_fleet *f);
/* True when there is an nth errand (from 0) that hangs: "checkpoint folder .. has not answered for
 * 7 s". */
bool coord_errand_hangs(const struct coord_fleet *f, uint32_t nth, char *text, size_t bytes);
/* The env is gone, and no errand runs any more: errands that are left from now on wait for
 * coord_errand_close, which undoes them. */
void coord_errand_end(struct coord_fleet *f);
void coord_errand_close(struct coord_fleet *f);

#endif
