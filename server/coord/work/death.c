/* death.c: counts workers that die at one place; death.h has the rules. */
#include "server/coord/work/death.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ADVICE                                                                                     \
    "see the end of its log, whether the system killed it because its machine was out of memory "  \
    "(`journalctl -k`), and these rows; then go on with --resume CHECKPOINT, or submit the job "   \
    "again"

/* ---- a lane ---------------------------------------------------------------------------------- */

/* Writes the rows of a batch of the lane's task: ", rows .. to .. of data.train"; empty: the batch
 * belongs to no task. */
static void rows_text(const struct coord_job *j, const struct coord_lane *l, uint64_t batch,
                      char *text, size_t bytes)
{
    const struct coord_tasks *t = j->tasks;
    text[0] = '\0';
    if (l->task == COORD_NO_TASK)
        return;
    const struct coord_task *task = &t->task[l->task];
    uint64_t skipped = (batch - task->first_batch) * t->batch;
    if (batch < task->first_batch || skipped >= task->rows)
        return;
    uint64_t rows = MIN(task->rows - skipped, t->batch);
    uint64_t first = task->position + skipped;
    const char *object = NULL;
    if (task->object != COORD_NO_OBJECT)
        object = j->objects[WIRE_TRAIN].object[task->object].line;
    (void)snprintf(text, bytes, ", rows %" PRIu64 " to %" PRIu64 " of %s%s", first,
                   first + rows - 1, text_or(object, "data.train"),
                   text_if(object == NULL && j->spec.data.shuffle != 0, " as they are shuffled"));
}

bool coord_death_placed(struct coord_job *j, uint32_t lane, uint64_t mark)
{
    struct coord_lane *l = &j->tasks->lane[lane];
    struct coord_death *d = &l->death;
    char rows[LIMIT_PATH], what[LIMIT_PATH + ERR_TEXT_MAX];
    if (!d->open)
        return false;
    d->open = false;
    if (mark > d->mark)
        d->count = 0;
    d->count++;
    d->mark = mark;
    d->ns = coord_now_ns(j);
    if (d->count < 2)
        return false;
    rows_text(j, l, mark + 1, rows, sizeof rows);
    (void)snprintf(what, sizeof what,
                   "lane %u has lost its worker %u times in a row at one place: epoch %u, batch "
                   "%" PRIu64 " of the lane or one of the next%s; the last was %s",
                   lane, d->count, j->tasks->epoch, mark + 1, rows, d->name);
    if (d->count < COORD_DEATHS_MAX)
        log_warn("%s", what);
    else
        coord_end_fail(j, SHOAL_E_INTERNAL, "%s: " ADVICE, what);
    return d->count >= COORD_DEATHS_MAX;
}

bool coord_death_shunned(const struct coord_job *j, const struct coord_worker *w)
{
    uint64_t now = coord_now_ns(j), wait = COORD_DEATHS_LEASES * coord_lease_ns(j);
    const struct coord_tasks *t = j->tasks;
    bool shunned = false;
    for (uint32_t l = 0; l < t->lanes && !shunned; l++) {
        const struct coord_death *d = &t->lane[l].death;
        shunned = d->count >= COORD_DEATHS_MAX / 2 && now - d->ns < wait &&
                  strcmp(d->holder, w->holder) == 0;
    }
    for (uint32_t i = 0; i < j->workers.count && shunned; i++)
        if (strcmp(j->workers.worker[i].holder, w->holder) != 0 &&
            coord_stall_able(j, &j->workers.worker[i]))
            return true;
    return false;
}

/* ---- a task of an evaluation ----------------------------------------------------------------- */

static void eval_note(struct coord_job *j, const struct coord_worker *w)
{
    struct coord_eval *v = j->eval;
    for (uint32_t i = v->measured; i < v->tasks; i++) {
        struct coord_eval_task *task = &v->task[i];
        if (task->item.worker != w->number || ++task->deaths < COORD_DEATHS_MAX)
            continue;
        coord_end_fail(j, SHOAL_E_INTERNAL,
                       "an evaluation has lost its worker %u times in a row at one place: epoch "
                       "%u, rows %" PRIu64 " to %" PRIu64 " of data.%s%s; the last was %s: " ADVICE,
                       task->deaths, j->at.epoch, task->position, task->position + task->rows - 1,
                       v->split == WIRE_TEST ? "test" : "valid",
                       text_if(task->object != COORD_NO_OBJECT, ", counted over its objects"),
                       w->name);
        return;
    }
}

void coord_death_note(struct coord_job *j, const struct coord_worker *w)
{
    struct coord_tasks *t = j->tasks;
    enum coord_phase phase = j->at.phase;
    if (coord_stall_excused(j, w))
        return;
    for (uint32_t i = 0; phase == PHASE_TRAIN && i < t->lanes; i++) {
        struct coord_lane *l = &t->lane[i];
        if (l->state != LANE_HELD || l->worker != w->number || l->answered_ns == 0)
            continue;
        l->death.open = true;
        (void)snprintf(l->death.holder, sizeof l->death.holder, "%s", w->holder);
        (void)snprintf(l->death.name, sizeof l->death.name, "%s", w->name);
    }
    if (phase == PHASE_EVAL || phase == PHASE_TEST)
        eval_note(j, w);
}
