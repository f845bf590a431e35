/* parts.c: a job and its parts are cleared and moved together. */
#include "server/coord/job/parts.h"

#include "proto/base/container_of.h"
#include "server/coord/keep/from.h"
#include "server/coord/work/text.h"

#include <stddef.h>
#include <stdlib.h>
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

static void clear(struct coord_job *j)
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

void coord_parts_close(struct coord_job *j)
{
    coord_task_close(j->tasks);
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        coord_objects_close(&j->objects[s]);
    coord_grow_close(j->grow);
    coord_taken_list_close(j->taken);
    coord_eval_close(j->eval);
    coord_curve_close(&j->trace->curve);
    coord_progressive_close(j->windows);
    coord_replay_close(j->replay);
    coord_guard_close(j->guard);
    coord_roll_close(&j->roll);
    for (uint32_t s = 0; s < 3; s++)
        json_free(j->details[s]);
    json_free(j->profile);
    if (j->parsed)
        job_free(&j->spec);
    free(j->yaml);
    free(j->table);
    free(j->epoch);
    free(j->valid->item);
    free(j->digest);
    free(j->report);
    coord_from_let_go(j);
    clear(j);
    j->from_hold = COORD_FOLDER_NONE;
}
