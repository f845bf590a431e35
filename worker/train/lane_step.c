/* lane_step.c: a lane's batches and the network that the workers keep in step (step.h).
 *
 *   READY --lane_step_admit--> COMPUTING --lane_step_close, on the thread--> lane_step_computed
 *     --lane_step_give: the pushes before are acknowledged--> step_give */
#include "proto/base/log.h"
#include "proto/job/gradient.h"
#include "worker/train/lane_inner.h"

#include <inttypes.h>
#include <stdio.h>

static bool in_step(const struct lane *l)
{
    return l->base->step != NULL && !lane_evaluates(l);
}

static struct step_lane lane_name(const struct lane *l, uint64_t mark)
{
    return (struct step_lane){
        .lane = l->task.lane, .run = l->task.run, .generation = l->task.generation, .mark = mark};
}

/* ---- computing ------------------------------------------------------------------------------- */

bool lane_step_admit(struct lane *l, struct lane_batch *b)
{
    char text[ERR_TEXT_MAX];
    if (!in_step(l))
        return true;
    SHOAL_ASSERT(b->state == READY && l->computing == NULL);
    l->step.turn = step_admit(l->base->step, l->task.lane, b->number, &l->step.arrays);
    if (l->step.turn == STEP_LATE) {
        (void)snprintf(text, sizeof text,
                       "lane %u goes on at batch %" PRIu64
                       ", and the weights from before that step are gone",
                       l->task.lane, b->number);
        lane_fail(l, SHOAL_E_GAP, text);
    }
    if (l->step.turn != STEP_GIVES && l->step.turn != STEP_ROWS)
        return false;
    l->step.batch = 0;
    l->step.refused = false;
    return true;
}

void lane_step_arrays(struct lane *l)
{
    const struct step_arrays *a = &l->step.arrays;
    if (!in_step(l))
        return;
    l->input.dense = a->dense;
    l->output.dense_gradients = a->dense_gradients;
    if (a->stats_floats == 0)
        return;
    l->input.stats = a->stats;
    l->output.stats_gradients = a->stats_gradients;
}

void lane_step_close(struct lane *l)
{
    const struct step_arrays *a = &l->step.arrays;
    uint32_t slices = 1;
    if (!in_step(l))
        return;
    if (l->slices != NULL)
        slices = slices_made(l->slices);
    for (size_t i = 0; i < a->dense_floats && slices > 1; i++)
        a->dense_gradients[i] /= (float)slices;
    l->step.refused = !gradient_floats_ok(a->dense_gradients, a->dense_floats) ||
                      !gradient_floats_ok(a->stats_gradients, a->stats_floats);
}

/* Counts a contribution that is not given, as a part of a push that a shard refuses. Under bsp a
 * bad batch changes nothing. */
static void contribution_refused(struct lane *l, struct lane_batch *b)
{
    struct lane_result *r = &l->result;
    if (l->base->job->train.mode == WIRE_BSP)
        rows_void(b->rows);
    if (l->step.turn != STEP_GIVES || b->refused)
        return;
    b->refused = true;
    if (r->refused++ > 0)
        return;
    (void)snprintf(r->refused_where, sizeof r->refused_where,
                   "lane %u batch %" PRIu64 ": the gradient of the network is not finite or beyond "
                   "%g",
                   l->task.lane, b->number, (double)LIMIT_GRADIENT);
    log_event(GRADIENT_REFUSED, r->refused_where, "a step goes without a batch: %s",
              r->refused_where);
}

void lane_step_computed(struct lane *l, struct lane_batch *b, bool good)
{
    uint32_t lane = l->task.lane;
    if (!in_step(l))
        return;
    if (good && l->step.refused)
        contribution_refused(l, b);
    good = good && !l->step.refused && !b->rows->poisoned && b->rows->batch.examples > 0;
    if (l->step.turn == STEP_GIVES && !l->dropping) {
        l->step.batch = b->number;
        l->step.weight = 0;
        if (good)
            l->step.weight = b->rows->batch.examples;
    }
    step_back(l->base->step, lane);
}

/* ---- contributing and pushing ---------------------------------------------------------------- */

void lane_step_give(struct lane *l)
{
    uint64_t batch = l->step.batch;
    if (batch == 0 || l->dropping || lane_mark(l) + 1 < batch) /* step.h, 2 */
        return;
    l->step.batch = 0;
    step_give(l->base->step, l->task.lane, batch, l->step.weight, lane_lr_scale(l, batch));
}

bool lane_step_may_push(const struct lane *l, const struct lane_batch *b)
{
    return !in_step(l) || l->base->job->train.mode != WIRE_BSP ||
           step_has(l->base->step, b->number); /* step.h, 3 */
}

/* ---- a task ---------------------------------------------------------------------------------- */

void lane_step_begin(struct lane *l)
{
    l->step.batch = 0;
    if (!in_step(l))
        return;
    const struct step_lane name = lane_name(l, l->next_read - 1);
    step_lane_begin(l->base->step, &name);
}

void lane_step_acknowledged(struct lane *l)
{
    if (!in_step(l))
        return;
    const struct step_lane name = lane_name(l, lane_mark(l));
    step_lane_acknowledged(l->base->step, &name);
}

void lane_step_drop(struct lane *l, int status)
{
    l->step.batch = 0;
    if (status == SHOAL_E_STOPPED) /* its seat has let the lane go */
        lane_step_end(l);
}

void lane_step_end(struct lane *l)
{
    l->step.batch = 0;
    if (!in_step(l))
        return;
    const struct step_lane name = lane_name(l, 0);
    step_lane_end(l->base->step, &name);
}
