/* checkpoint_sweep.c: removes the files of removed checkpoints, a few at each step. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_NS UINT64_C(50000000)

struct sweeping {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    bool more;
};

static int sweep_run(struct coord_errand *r, struct err *e)
{
    struct sweeping *s = container_of(r, struct sweeping, errand);
    (void)e;
    s->more = s->ops->sweep(r->folder);
    return 0;
}

static void sweep_undo(struct coord_errand *r)
{
    (void)r;
}

static void sweep_free(struct coord_errand *r)
{
    free(container_of(r, struct sweeping, errand));
}

static void sweep_done(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct coord_checkpoint *k = j->checkpoint;
    (void)e;
    SHOAL_ASSERT(k->sweeper == r);
    k->sweeper = NULL;
    k->sweep = rc == 0 && container_of(r, struct sweeping, errand)->more;
    k->swept_ns = env_now_ns(j->fleet->env);
    if (rc == 0)
        coord_errand_leave(j->fleet, r);
}

void coord_checkpoint_sweep(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (k->sweep || k->dir[0] == 0)
        return; /* each checkpoint asks again */
    memcpy(k->swept, k->dir, sizeof k->swept);
    k->sweep = true;
}

void coord_checkpoint_sweep_step(struct coord_job *j)
{
    struct coord_checkpoint *k = j->checkpoint;
    if (!k->sweep || k->sweeper != NULL || env_now_ns(j->fleet->env) - k->swept_ns < SWEEP_NS)
        return;
    struct sweeping *s = calloc(1, sizeof *s);
    k->sweep = s != NULL;
    if (s == NULL)
        return;
    s->errand.run = sweep_run;
    s->errand.undo = sweep_undo;
    s->errand.free = sweep_free;
    s->ops = j->fleet->options.folder;
    memcpy(s->errand.folder, k->swept, sizeof k->swept);
    k->sweeper = &s->errand;
    if (coord_errand_start(j->fleet, &s->errand, j, sweep_done, NULL) != 0) {
        k->sweeper = NULL;
        k->sweep = false;
    }
}
