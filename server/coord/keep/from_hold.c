/* from_hold.c: the hold on the folder of the checkpoint that the job loads: taken again after a
 * restart of the coordinator, and released. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/core.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/keep/from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct holding {
    struct coord_errand errand;
    const struct coord_folder_ops *ops;
    uint64_t run; /* the run that loads it */
    int hold;
};

static struct holding *holding_of(struct coord_errand *r)
{
    return container_of(r, struct holding, errand);
}

static int holding_run(struct coord_errand *r, struct err *e)
{
    struct holding *h = holding_of(r);
    return h->ops->hold(r->folder, &h->hold, e);
}

static void holding_undo(struct coord_errand *r)
{
    struct holding *h = holding_of(r);
    h->ops->let_go(&h->hold);
}

static void holding_free(struct coord_errand *r)
{
    free(holding_of(r));
}

static void held(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    struct holding *h = holding_of(r);
    if (rc != 0) { /* the folder is gone: LOAD reports it too */
        log_warn("the checkpoint that the job loads is not kept from being removed: %s", e->text);
        return;
    }
    if (j->at.run == h->run && coord_from_loading(&j->at) && j->from_hold == COORD_FOLDER_NONE) {
        j->from_hold = h->hold;
        h->hold = COORD_FOLDER_NONE;
    }
    coord_errand_leave(j->fleet, r);
}

void coord_from_hold(struct coord_job *j)
{
    if (j->fleet->options.folder == NULL)
        return;
    struct holding *h = calloc(1, sizeof *h);
    struct err e = {0};
    if (h == NULL)
        return;
    h->errand.run = holding_run;
    h->errand.undo = holding_undo;
    h->errand.free = holding_free;
    h->ops = j->fleet->options.folder;
    h->run = j->at.run;
    h->hold = COORD_FOLDER_NONE;
    text_copy(h->errand.folder, LIMIT_PATH, j->at.from_path);
    if (coord_errand_start(j->fleet, &h->errand, j, held, &e) != 0)
        log_warn("the checkpoint that the job loads is not kept from being removed: %s", e.text);
}

void coord_from_let_go(struct coord_job *j)
{
    if (j->fleet->options.folder != NULL)
        coord_errand_let_go(j->fleet, j->at.from_path, &j->from_hold);
}
