/* errand.h: errands to folders of checkpoints, reports and figures, on a thread of the pool: a file
 * system of a network may not answer for minutes, and leases, beats and the status go on meanwhile.
 *
 *   start --> WAITS --> RUNS --> done, on the loop: the owner has it again, and may start it anew
 *               |         |
 *               +----+----+-- leave, or not done within COORD_ERRAND_MOST_NS: when it has run, undo
 *                             runs, too, and it is freed
 *
 * Errands run one at a time, in the order of their start. One that has run for
 * COORD_ERRAND_HANGS_NS hangs, and so does its folder: the next one of another folder runs beside
 * it. For its own folder nothing is begun until it has come back, so that the threads that hang are
 * few and the list is short. An errand owns all that run and undo touch.
 *
 * Invariants:
 *  1. At most COORD_ERRAND_THREADS run, of as many folders. [assert: errand_run]
 *  2. Whatever an errand has made is told to its owner or undone. [test: errand_left_is_undone] */
#ifndef SERVER_COORD_ERRAND_H
#define SERVER_COORD_ERRAND_H

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
#define COORD_ERRAND_THREADS 2u /* of the pool's four */
#define COORD_ERRAND_LIST 16u   /* so many at once; more are refused */

/* rc 0: the owner has the errand again: it leaves it, or starts it anew. Else `e` says why, and the
 * errand is gone once this returns. */
typedef void (*coord_errand_done)(void *context, struct coord_errand *r, int rc,
                                  const struct err *e);

struct coord_errand {
    /* set by the owner; run and undo are called on another thread */
    int (*run)(struct coord_errand *r, struct err *e);
    void (*undo)(struct coord_errand *r); /* also after a run that failed, or was none */
    void (*free)(struct coord_errand *r);
    char folder[LIMIT_PATH]; /* whose answer is waited for */
    const char *what;        /* folder that is, borrowed; NULL: "checkpoint folder" */
    /* of errand.c */
    struct env_work work;
    struct coord_fleet *fleet;
    coord_errand_done done; /* NULL: nothing waits for it */
    void *context;          /* borrowed: what waits, first argument of done */
    enum { ERRAND_IDLE, ERRAND_WAITS, ERRAND_RUNS } state;
    bool ran, undoes, told; /* told: it hangs, which was logged */
    uint64_t asked_ns, begun_ns;
    int rc;
    struct err e;
    struct coord_errand *next;
};

struct coord_errands {
    struct coord_errand *head; /* those that wait or run, in order; owned */
    uint32_t count, running;
    bool ends; /* nothing is begun any more (coord_errand_end) */
};

/* Whether one to that folder can be started. UNAVAILABLE: the folder hangs; BUSY: there are too
 * many. */
int coord_errand_check(const struct coord_fleet *f, const char *folder, struct err *e);
/* What coord_errand_check says: the errand is then left; one that never ran has nothing to undo,
 * and is freed. */
int coord_errand_start(struct coord_fleet *f, struct coord_errand *r, void *context,
                       coord_errand_done done, struct err *e);
/* Nobody waits for it any more; NULL is fine. One that was never started is undone alone. */
void coord_errand_leave(struct coord_fleet *f, struct coord_errand *r);
/* Nobody waits for its end, but it is to be run; then it is undone. */
void coord_errand_detach(struct coord_errand *r);
/* Closes what keeps a folder from being removed: *hold becomes COORD_FOLDER_NONE. */
void coord_errand_let_go(struct coord_fleet *f, const char *folder, int *hold);
/* Time passes. */
void coord_errand_tick(struct coord_fleet *f);
/* Whether the errand of a folder hangs, the nth (from 0): "checkpoint folder .. has not answered
 * for 7 s". */
bool coord_errand_hangs(const struct coord_fleet *f, uint32_t nth, char *text, size_t bytes);
/* The env is gone, and nothing runs any more: what is left from now on waits for
 * coord_errand_close, which undoes it. */
void coord_errand_end(struct coord_fleet *f);
void coord_errand_close(struct coord_fleet *f);

#endif
