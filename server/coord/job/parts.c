/* parts.c: a job and its parts are cleared and moved together. */
#include "server/coord/job/parts.h"

#include "proto/base/container_of.h"
#include "server/coord/work/text.h"

#include <stddef.h>
#include <string.h>

void coord_parts_join(struct coord_job *j, struct coord_parts *p)
{
    j->cut = &p->cut;
    j->output = &p->output;
    j->checkpoint = &p->checkpoint;
    j->leases = &p->leases;
    j->tasks = &p->run.tasks;
    j->objects = p->run.objects;
    j->grow = &p->run.grow;
    j->taken = &p->run.taken;
    j->eval = &p->run.eval;
    j->valid = &p->run.valid;
    j->trace = &p->run.trace;
    j->windows = &p->run.windows;
    j->replay = &p->run.replay;
    j->guard = &p->run.guard;
    j->times = &p->run.times;
    j->ring = &p->run.ring;
    j->source = &coord_text_source;
}

static struct coord_parts *parts_of(struct coord_job *j)
{
    return container_of(j->tasks, struct coord_parts, run.tasks);
}

void coord_parts_clear(struct coord_job *j)
{
    memset(&j->at, 0, sizeof *j - offsetof(struct coord_job, at));
    memset(&parts_of(j)->run, 0, sizeof parts_of(j)->run);
    j->source = &coord_text_source;
}

void coord_parts_take(struct coord_job *j, struct coord_job *from)
{
    memcpy(&j->at, &from->at, sizeof *j - offsetof(struct coord_job, at));
    memcpy(&parts_of(j)->run, &parts_of(from)->run, sizeof parts_of(j)->run);
}
