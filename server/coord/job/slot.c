/* slot.c: the jobs at hand, one in each slot. */
#include "server/coord/job/slot.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/lost.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/back.h"
#include "server/coord/job/course.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/parts.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/submit.h"

#include <stdio.h>
#include <string.h>

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
    if (f->cluster.taken_over && j->at.phase == PHASE_NONE && j->slot == 0)
        coord_lost_look(f); /* the coordinator has started again since then */
    j->watch.left_ns = coord_phase_running(j) ? j->watch.begun_ns : 0;
    return 0;
}

/* Answers what a space's job does. */
static struct coord_space_use use_of(const struct coord_fleet *f, const struct coord_space *s)
{
    struct coord *c = container_of(f, struct coord, fleet);
    struct coord_space_use use = {0};
    COORD_EACH_JOB (c, j) {
        if (j->space != s || !coord_phase_running(j))
            continue;
        use.runs = true;
        use.needs = coord_back_needs(j);
        use.brings = j->at.phase == PHASE_SETUP && !use.needs;
        use.loads = j->at.phase == PHASE_SETUP && coord_from_loading(&j->at);
    }
    return use;
}

void coord_slot_wire(struct coord *c)
{
    c->fleet.spaces.use = use_of;
    c->fleet.jobs = &c->beside.jobs;
    c->fleet.queue = &c->beside.queue;
    c->fleet.taken = &c->beside.versions;
    c->fleet.visitors = &c->beside.visitors;
    c->fleet.hold_line = &c->beside.hold_line;
    for (uint32_t i = 0; i <= LIMIT_SPACES; i++) {
        c->fleet.spaces.space[i].made = &c->beside.made[i];
        c->fleet.spaces.space[i].taken = &c->beside.taken[i];
        c->fleet.spaces.space[i].fresh_fields = &c->beside.fresh_fields[i];
    }
    for (uint32_t i = 0; i < COORD_SLOTS; i++) {
        c->slot[i].fleet = &c->fleet;
        c->slot[i].slot = i;
        c->slot[i].space = coord_space_none(&c->fleet.spaces);
        c->slot[i].end = &coord_course_end;
        coord_parts_join(&c->slot[i], &c->part[i]);
    }
    coord_aside_wire(c);
}

/* Opens a slot's part of the store; NULL: no memory. The first slot has the keys of every release's
 * store; each other slot has a part of its own. */
static struct coord_store *part_open(const struct coord *c, uint32_t slot)
{
    char prefix[16];
    (void)snprintf(prefix, sizeof prefix, "job%u/", slot + 1);
    return slot == 0 ? c->fleet.store : coord_store_part(c->fleet.store, prefix);
}

/* Gives the job its part of the store. */
static int slot_make(struct coord *c, struct coord_job *j, struct err *e)
{
    j->from_hold = COORD_FOLDER_NONE; /* coord_slot_close may follow before flow.c sets it */
    j->watch.begun_ns = j->watch.worker_ns = c->ticked_ns;
    j->store = part_open(c, j->slot);
    if (j->store == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a job's part of the store");
    return coord_setup_open(j, j->slot == 0, e);
}

static int progress_of(const struct coord_job *j, struct coord_progress *at, struct err *e)
{
    memset(at, 0, sizeof *at);
    return coord_store_optional(coord_store_get_fixed(j->store, "progress", at, sizeof *at, e));
}

static bool is_over(const struct coord_progress *at)
{
    return at->phase == PHASE_NONE || at->phase == PHASE_DONE || at->phase == PHASE_FAILED;
}

/* One of two slots gives up the space that both have stored: the one whose job has ended, or had
 * ended before the other's began. While the file allowed fewer jobs, its slot was not there, and
 * a job of the space took another one. */
static int space_settle(struct coord_job *one, struct coord_job *two, struct err *e)
{
    struct coord_space *s = one->space;
    struct coord_progress first, second;
    if (s != two->space || s->number >= LIMIT_SPACES)
        return 0;
    int rc = progress_of(one, &first, e);
    if (rc == 0)
        rc = progress_of(two, &second, e);
    if (rc != 0)
        return rc;
    bool newer = first.number > second.number;
    if (is_over(&first) != is_over(&second))
        newer = is_over(&second);
    coord_setup_space(newer ? two : one, coord_space_none(&one->fleet->spaces));
    coord_setup_space(newer ? one : two, s);
    return 0;
}

/* Raises *slots above the last slot in which a stored job runs: the coordinator's file may allow
 * fewer jobs than before. */
static int stored_count(const struct coord *c, uint32_t *slots, struct err *e)
{
    struct coord_progress at;
    for (uint32_t i = COORD_SLOTS; i > *slots; i--) {
        struct coord_store *part = part_open(c, i - 1);
        if (part == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for a job's part of the store");
        int rc = coord_store_get_fixed(part, "progress", &at, sizeof at, e);
        coord_store_close(part);
        if (rc == 0 && !is_over(&at))
            *slots = i;
        if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
            return rc;
    }
    return 0;
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
        if (rc == 0 && !table_set_any(s->numbers) && coord_made_known(&c->fleet, s))
            s->numbers = s->made->numbers;
        coord_spaces_hold(&c->fleet);
    }
    return rc;
}

int coord_slot_open(struct coord *c, uint32_t slots, struct err *e)
{
    SHOAL_ASSERT(slots >= 1 && slots <= COORD_SLOTS);
    int rc = spaces_open(c, e);
    if (rc == 0)
        rc = stored_count(c, &slots, e);
    while (rc == 0 && c->slots < slots)
        rc = slot_make(c, &c->slot[c->slots++], e);
    COORD_EACH_JOB (c, j)
        for (struct coord_job *other = c->slot; other < j; other++)
            if (rc == 0)
                rc = space_settle(other, j, e);
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
        coord_parts_close(j);
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

/* ---- which one ------------------------------------------------------------------------------- */

struct coord_job *coord_slot_again(struct coord *c, peer_t from, const struct coord_submit *submit)
{
    COORD_EACH_JOB (c, j)
        if (coord_submit_again(j, from, submit))
            return j;
    return NULL;
}

/* Returns the job that a new one waits for, whatever slot it would take; NULL: for none. */
static const struct coord_job *in_the_way(struct coord *c, const struct coord_space *s,
                                          const char *space)
{
    COORD_EACH_JOB (c, j) {
        bool same = j->space == s || strcmp(j->spec.space, space) == 0;
        if (coord_phase_running(j) && same)
            return j;
    }
    return NULL;
}

/* Returns how well the slot suits a job of the space: 0 is the best. A slot whose job ended counts
 * by its number, since reports of the last jobs are asked for most. */
static uint64_t rank(const struct coord_job *j, const struct coord_space *s)
{
    if (s != NULL && j->space == s)
        return 0;
    if (j->at.number == 0)
        return 1;
    if (!coord_space_holds(j->fleet, j->space))
        return 2;
    return 3 + j->at.number;
}

struct coord_job *coord_slot_free(struct coord *c, const char *space, const struct coord_job **why)
{
    const struct coord_space *s = coord_space_find(&c->fleet, space);
    struct coord_job *best = NULL;
    *why = in_the_way(c, s, space);
    if (*why == NULL && coord_slot_running(c) >= MAX(c->fleet.options.jobs, 1))
        *why = coord_slot_newest(c);
    if (*why != NULL)
        return NULL;
    COORD_EACH_JOB (c, j)
        if (!coord_phase_running(j) && (best == NULL || rank(j, s) < rank(best, s)))
            best = j;
    SHOAL_ASSERT(best != NULL); /* fewer run than there are slots */
    return best;
}
