/* aside.c: the slot that makes checkpoints of spaces that rest; aside.h. */
#include "server/coord/job/aside.h"

#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_remove.h"
#include "server/coord/keep/cut.h"

#include <inttypes.h>
#include <string.h>

void coord_aside_wire(struct coord *c)
{
    struct coord_job *j = &c->aside;
    j->fleet = &c->fleet;
    j->space = coord_space_none(&c->fleet.spaces);
    j->end = c->slot->end;
    j->from_hold = COORD_FOLDER_NONE;
    coord_parts_join(j, &c->aside_part);
    c->fleet.aside = j;
}

int coord_aside_open(struct coord *c, struct err *e)
{
    c->aside.store = coord_store_part(c->fleet.store, "aside/");
    if (c->aside.store == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a part of the store");
    /* a cut that a former coordinator made here goes when its shards register (setup.c) */
    return coord_checkpoint_open(&c->aside, e);
}

void coord_aside_close(struct coord *c)
{
    coord_store_close(c->aside.store);
    c->aside.store = NULL;
}

void coord_aside_step(struct coord *c)
{
    if (c->fleet.fatal != 0)
        return;
    coord_cut_tick(&c->aside);
    coord_checkpoint_step(&c->aside);
}

/* ---- which slot ------------------------------------------------------------------------------ */

static bool busy(const struct coord_job *j)
{
    return j->checkpoint->state != CHECKPOINT_IDLE || j->checkpoint->removing != NULL ||
           j->checkpoint->keeper != NULL;
}

/* Takes a space that rests. */
static int aside_take(struct coord *c, struct coord_space *s, struct coord_job **out, struct err *e)
{
    struct coord_job *j = &c->aside;
    if (j->space != s && busy(j))
        return err_set(e, SHOAL_E_BUSY,
                       "a checkpoint of space %s is being made or removed: ask again in a moment",
                       j->space->name);
    j->space = s;
    *out = j;
    return 0;
}

/* Returns the only job that runs; NULL: none does, or several do. */
static struct coord_job *only_running(struct coord *c)
{
    struct coord_job *only = NULL;
    COORD_EACH_JOB (c, j) {
        if (coord_phase_running(j) && only != NULL)
            return NULL;
        if (coord_phase_running(j))
            only = j;
    }
    return only;
}

int coord_aside_find(struct coord *c, const char *space, struct coord_job **out, struct err *e)
{
    struct coord_space *s;
    *out = only_running(c);
    if (space[0] == 0 && *out != NULL)
        return 0;
    int rc = coord_space_asked(&c->fleet, space, &s, e);
    if (rc != 0)
        return rc;
    *out = coord_slot_newest(c);
    if (s == NULL) /* no space has tables, which the slot tells */
        return 0;
    if (space[0] != 0 && s->name[0] != 0 && strcmp(s->name, space) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s here, but %s", space, s->name);
    COORD_EACH_JOB (c, j)
        if (j->space == s) {
            *out = j;
            return 0;
        }
    return aside_take(c, s, out, e);
}

int coord_aside_checkpoint(struct coord *c, struct coord_ask *a)
{
    struct coord_job *j;
    int rc = coord_aside_find(c, a->request->u.CHECKPOINT.space, &j, &a->e);
    if (rc != 0)
        return rc;
    return coord_checkpoint_request(j, a);
}

int coord_aside_check(const struct coord_fleet *f, const struct coord_space *s, struct err *e)
{
    const struct coord_checkpoint *k = f->aside->checkpoint;
    if (f->aside->space != s || k->state == CHECKPOINT_IDLE)
        return 0;
    return err_set(e, SHOAL_E_BUSY,
                   "checkpoint %s of space %s is being made: ask again when it is "
                   "there",
                   k->name, s->name);
}

/* ---- a space that is to be dropped ----------------------------------------------------------- */

static int job_uses(const struct coord_job *j, const struct coord_space *s, struct err *e)
{
    if (coord_phase_running(j) && j->space == s)
        return err_set(e, SHOAL_E_BUSY,
                       "job %s is running: wait for its end or stop it first (shoal stop)",
                       j->spec.name);
    /* its names are being told, too */
    if (j->at.phase == PHASE_SETUP)
        return err_set(e, SHOAL_E_BUSY, "job %s is being set up: ask again in a moment",
                       j->spec.name);
    if (j->space == s && j->checkpoint->state != CHECKPOINT_IDLE)
        return err_set(e, SHOAL_E_BUSY, "checkpoint %s is being made: ask again when it is there",
                       j->checkpoint->name);
    return 0;
}

int coord_aside_used(void *context, const struct coord_space *s, struct err *e)
{
    struct coord *c = context;
    const struct coord_queue *q = c->fleet.queue;
    int rc = 0;
    COORD_EACH_KEEPER(c, j)
    if (rc == 0)
        rc = job_uses(j, s, e);
    for (uint32_t i = 0; i < q->count && rc == 0; i++)
        if (strcmp(q->item[i].head.space, s->name) == 0)
            rc = err_set(e, SHOAL_E_BUSY,
                         "job %s, number %" PRIu64 ", waits for its turn with these tables: stop "
                         "it first (shoal stop %" PRIu64 ")",
                         q->item[i].head.job, q->item[i].head.number, q->item[i].head.number);
    return rc;
}
