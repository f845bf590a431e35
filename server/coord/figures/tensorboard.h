/* tensorboard.h: event files that TensorBoard reads:
 * DIR/JOB-NUMBER/events.out.tfevents.SECONDS.HOST.PROCESS, one for each job and start of the
 * coordinator; several in one folder are one run to TensorBoard. Records are handed to the system
 * as they come, without a sync: they survive a kill. The daemon's half of output.h; thread: that of
 * an errand, one at a time. */
#ifndef SERVER_COORD_FIGURES_TENSORBOARD_H
#define SERVER_COORD_FIGURES_TENSORBOARD_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "server/coord/fleet/options.h"

#include <stdint.h>
#include <stdio.h>

struct coord_tensorboard {
    char dir[LIMIT_PATH];
    struct coord_tensorboard_run {
        char name[LIMIT_NAME + 24]; /* empty: none */
        FILE *file;                 /* owned; NULL: none */
        uint64_t written;           /* the number of the write that it was last used for */
    } run[COORD_JOBS];              /* whose files are open */
    uint64_t writes;
};

/* dir: made when it is missing, with the first figures. */
void coord_tensorboard_open(struct coord_tensorboard *t, const char *dir);
void coord_tensorboard_close(struct coord_tensorboard *t);
/* Appends figures of a run. A run whose file is not open begins one; of those that are open, the
 * one that was written to least lately then closes.  CANTCREATE, IO, TOO_BIG (more than
 * EVENT_SCALARS_MAX figures). */
int coord_tensorboard_write(struct coord_tensorboard *t, const char *run, uint64_t step,
                            const struct coord_scalar *scalar, uint32_t count, struct err *e);

#endif
