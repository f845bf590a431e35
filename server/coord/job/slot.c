/* slot.c: the jobs at hand, one in each slot. */
#include "server/coord/job/slot.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/lost.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/course.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/submit.h"

#include <stdio.h>

static int job_open(struct coord_job *j, struct err *e)
{
    struct coord_fleet *f = j->fleet;
    int rc = coord_lease_open(j->leases, j->store, e);
    if (rc == 0)
        rc = coord_flow_open(j, e);
    if (rc == 0)
        rc = coord_checkpoint_open(j, e);
    if (rc != 0)
        return rc;
    if (f->cluster.taken_over && j->at.phase == PHASE_NONE)
        coord_lost_look(f); /* the coordinator has started again since then */
    j->watch.left_ns = coord_phase_running(j) ? j->watch.begun_ns : 0;
    return 0;
}

void coord_slot_wire(struct coord *c)
{
    c->fleet.jobs = &c->beside.jobs;
    c->fleet.queue = &c->beside.queue;
    c->fleet.taken = &c->beside.taken;
    c->fleet.visitors = &c->beside.visitors;
    c->fleet.fresh_fields = &c->beside.fresh_fields;
    for (uint32_t i = 0; i <= LIMIT_SPACES; i++)
        c->fleet.spaces.space[i].made = &c->beside.made[i];
    for (uint32_t i = 0; i < COORD_SLOTS; i++) {
        c->slot[i].fleet = &c->fleet;
        c->slot[i].space = coord_space_none(&c->fleet.spaces);
        c->slot[i].end = &coord_course_end;
        coord_parts_join(&c->slot[i], &c->part[i]);
    }
    coord_aside_wire(c);
}

/* Gives the job its part of the store. The first slot has the keys of every release's store; each
 * other slot has a part of its own. */
static int slot_make(struct coord *c, struct coord_job *j, struct err *e)
{
    char prefix[16];
    j->from_hold = COORD_FOLDER_NONE; /* coord_slot_close may follow before flow.c sets it */
    j->watch.begun_ns = j->watch.worker_ns = c->ticked_ns;
    (void)snprintf(prefix, sizeof prefix, "job%u/", (uint32_t)(j - c->slot) + 1);
    j->store = j == c->slot ? c->fleet.store : coord_store_part(c->fleet.store, prefix);
    if (j->store == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a job's part of the store");
    return coord_setup_open(j, j == c->slot, e);
}

/* Reads back what each space holds. A store of a release without names of spaces has one, with the
 * name that its job gave. */
static int spaces_open(struct coord *c, struct err *e)
{
    int rc = 0;
    COORD_EACH_SPACE (&c->fleet, s) {
        if (rc == 0)
            rc = coord_made_open(s, e);
        if (rc == 0 && s->name[0] == 0 && s->made->number != 0)
            text_copy(s->name, sizeof s->name, s->made->spec.space);
        /* release 0.2.0 stored no numbers, and its last job may have ended before it had tables */
        if (rc == 0 && s->numbers == 0 && coord_made_known(&c->fleet, s))
            s->numbers = s->made->numbers;
        coord_spaces_hold(&c->fleet);
    }
    return rc;
}

int coord_slot_open(struct coord *c, uint32_t slots, struct err *e)
{
    SHOAL_ASSERT(slots >= 1 && slots <= COORD_SLOTS);
    int rc = spaces_open(c, e);
    while (rc == 0 && c->slots < slots)
        rc = slot_make(c, &c->slot[c->slots++], e);
    COORD_EACH_JOB (c, j)
        if (rc == 0)
            rc = job_open(j, e);
    if (rc == 0)
        rc = coord_aside_open(c, e);
    return rc;
}

void coord_slot_close(struct coord *c)
{
    COORD_EACH_JOB (c, j) {
        coord_output_close(j);
        coord_checkpoint_close(j);
    }
    coord_checkpoint_close(&c->aside);
    coord_call_cancel_all(&c->fleet.calls);
    COORD_EACH_JOB (c, j) {
        coord_submit_close(j);
        coord_home_close(j);
        coord_lease_close(j->leases);
        coord_worker_close(&j->workers);
        if (j != c->slot) /* the first slot has the store itself */
            coord_store_close(j->store);
    }
    coord_aside_close(c);
    COORD_EACH_SPACE (&c->fleet, s)
        coord_made_close(s->made);
}

struct coord_job *coord_slot_newest(struct coord *c)
{
    struct coord_job *newest = c->slot;
    COORD_EACH_JOB (c, j)
        if (j->at.number > newest->at.number)
            newest = j;
    return newest;
}

struct coord_job *coord_slot_for(struct coord *c, peer_t from, const struct coord_submit *submit)
{
    COORD_EACH_JOB (c, j)
        if (coord_submit_again(j, from, submit))
            return j;
    COORD_EACH_JOB (c, j)
        if (!coord_phase_running(j))
            return j;
    return coord_slot_newest(c);
}

struct coord_job *coord_slot_of(struct coord *c, peer_t from, const uint64_t *pass, const char *key)
{
    COORD_EACH_JOB (c, j)
        if ((pass != NULL && coord_worker_of_pass(&j->workers, *pass, key) != NULL) ||
            (pass == NULL && coord_worker_of_peer(&j->workers, from) != NULL))
            return j;
    return coord_slot_newest(c);
}

struct coord_job *coord_slot_to_join(struct coord *c, peer_t from)
{
    struct coord_job *least = coord_slot_newest(c);
    COORD_EACH_JOB (c, j) {
        if (coord_phase_running(j) && coord_worker_of_peer(&j->workers, from) != NULL)
            return j;
        if (coord_phase_running(j) &&
            (!coord_phase_running(least) || j->workers.count < least->workers.count))
            least = j;
    }
    return least;
}
