/* lane_ahead.c: looking ahead: dividing a batch's keys between a pull and earlier pushes, on a
 * thread, and the rows that come with these pushes.
 *
 * 1. A pull starts when each push of the lane is acknowledged or still to come. A shard may hold a
 *    push (a move, a cut, cold rows) and answer pulls meanwhile, and a push may have to be sent
 *    again: only an acknowledged one is sure to be in the rows. [assert: lane_ask]
 * 2. No push starts while a batch is planned: the thread writes what the lane's unpushed batches
 *    ask for. [assert: lane_push]
 * 3. A batch waits only for pushes of earlier batches, so the lane goes on. [assert: waiting_of]
 * 4. Rows that a batch awaits from a push come, or become due, before that batch's memory is free:
 *    with the answer of the part that has them, or when the push goes out without keys.
 *    [assert: push_done] */
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "proto/job/half.h"
#include "worker/train/lane_inner.h"

/* Under bsp rows of other lanes' pushes of the clock before are needed, too. */
static bool looks_ahead(const struct lane *l)
{
    const struct job *job = l->base->job;
    return job->train.prefetch > 0 && job->train.mode != WIRE_BSP && !lane_evaluates(l);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void plan_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane_plan *p = container_of(w, struct lane_plan, work);
    struct rows *r = p->batch->rows;
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t t = 0; t < r->table_count; t++)
            ahead_divide(&r->ahead, t, rows_keys(r, t), &p->earlier[i]->rows->ahead, p->keys[i][t],
                         (uint8_t)(p->batch->number - p->earlier[i]->number));
    p->status = rows_pull_due(r, 0, &p->batch->error);
}

static void plan_done(struct env_work *w)
{
    struct lane *l = container_of(w, struct lane, plan.work);
    struct lane_batch *b = l->plan.batch;
    SHOAL_ASSERT(b != NULL && b->state == PLANNING);
    l->plan.batch = NULL;
    if (b->trace != NULL)
        b->trace->w.plan_ns = w->ran_ns;
    if (l->dropping || l->plan.status != 0) {
        lane_batch_move(b, DRAINING);
        if (!l->dropping) {
            lane_fail(l, l->plan.status, b->error.text);
            return;
        }
    } else {
        lane_ask(l, b);
    }
    lane_tick(l);
}

/* Takes the lane's unpushed batches before `b`, the latest first. Their keys are noted here,
 * because a step that is skipped meanwhile takes its keys away; the push then goes out without
 * them, and no echo comes. */
static void plan_take(struct lane *l, const struct lane_batch *b)
{
    struct lane_plan *p = &l->plan;
    p->count = 0;
    for (uint64_t n = b->number; n-- > l->next_push;) {
        struct lane_batch *earlier = lane_batch_find(l, n);
        SHOAL_ASSERT(earlier != NULL && earlier->state >= PULLING && earlier->state < PUSHING &&
                     p->count < AHEAD_BATCHES);
        if (earlier->rows->batch.examples == 0)
            continue;
        for (uint32_t t = 0; t < b->rows->table_count; t++)
            p->keys[p->count][t] = rows_keys(earlier->rows, t);
        p->earlier[p->count++] = earlier;
    }
}

int lane_plan(struct lane *l, struct lane_batch *b)
{
    SHOAL_ASSERT(l->plan.batch == NULL && b->state == READ);
    if (!looks_ahead(l) || b->rows->batch.examples == 0) {
        lane_ask(l, b);
        return 0;
    }
    plan_take(l, b);
    int rc = rows_ahead(b->rows, l->plan.count > 0, &b->error);
    if (rc != 0)
        return rc;
    if (l->plan.count == 0) {
        lane_ask(l, b);
        return 0;
    }
    l->plan.batch = b;
    lane_batch_move(b, PLANNING);
    env_work_start(l->base->env, &l->plan.work);
    return 0;
}

void lane_plan_init(struct lane *l)
{
    l->plan.work = (struct env_work){.run = plan_run, .done = plan_done};
}

/* ---- echoes ---------------------------------------------------------------------------------- */

/* The batches that wait for rows of one answer. */
struct waiting {
    struct lane_batch *batch; /* NULL: not looked up yet */
    bool serves;              /* the rows are fresh enough for it */
};

static bool echo_serves(const struct lane *l, const struct wire_PUSH_reply *reply, uint32_t batches)
{
    const struct job *job = l->base->job;
    if (job->train.mode == WIRE_ASYNC)
        return true;
    return ahead_serves(reply->clock, reply->low, batches, job->train.staleness);
}

/* The rows count as a pull of the later batch at the moment of the push would. */
static void echo_count(struct lane *l, const struct wire_PUSH_reply *reply, uint32_t batches)
{
    uint64_t clocks = 0, pull = reply->clock + batches;
    if (pull > reply->low)
        clocks = pull - 1 - reply->low;
    l->result.staleness[MIN(clocks, STALENESS_CELLS - 1)]++;
}

/* Looks up the batch that is so many later, at its first row in this answer. */
static struct waiting *waiting_of(struct lane_batch *b, struct waiting *all, uint32_t batches,
                                  const struct part *p, const struct wire_PUSH_reply *reply)
{
    struct waiting *w = &all[batches];
    SHOAL_ASSERT(batches >= 1 && batches <= AHEAD_BATCHES); /* 3 */
    if (w->batch != NULL)
        return w;
    w->batch = lane_batch_find(b->lane, b->number + batches);
    SHOAL_ASSERT(w->batch != NULL && w->batch->state == PULLING);
    w->serves = reply != NULL && echo_serves(b->lane, reply, batches);
    if (w->serves) {
        rows_steps_note(w->batch->rows, p->table, p->shard, reply->steps);
        lane_rows_came(w->batch, env_now_ns(b->lane->base->env));
        echo_count(b->lane, reply, batches);
    }
    return w;
}

void lane_echoed(struct lane_batch *b, const struct part *p, const struct wire_PUSH_reply *reply,
                 const void *rows)
{
    struct stats *s = b->lane->base->stats;
    struct ahead *a = &b->rows->ahead;
    struct waiting all[AHEAD_BATCHES + 1] = {0};
    const uint32_t end = p->key_first + p->key_count, at = a->first[p->table];
    const char *row = rows;
    size_t bytes = 0;
    if (rows == NULL)
        reply = NULL;
    else
        bytes = (size_t)reply->width * half_bytes((enum value_kind)reply->values);
    for (uint32_t k = ahead_next(a, p->table, p->key_first, end); k < end;
         k = ahead_next(a, p->table, k + 1, end)) {
        struct waiting *w = waiting_of(b, all, a->batches[at + k], p, reply);
        if (w->serves)
            rows_put(w->batch->rows, p->table, a->place[at + k], (enum value_kind)reply->values,
                     row);
        s->keys_echoed += w->serves;
        s->keys_missed += !w->serves;
        ahead_settle(a, p->table, k, &w->batch->rows->ahead, w->serves);
        if (row != NULL)
            row += bytes;
    }
}

void lane_echo_void(struct lane_batch *b)
{
    const struct ahead *a = &b->rows->ahead;
    for (uint32_t t = 0; t < a->tables; t++) {
        struct part whole = {.table = t, .key_count = a->first[t + 1] - a->first[t]};
        if (b->rows->table[t].key_count == 0)
            lane_echoed(b, &whole, NULL, NULL);
    }
}

bool lane_echo_settled(const struct lane_batch *b)
{
    const struct ahead *a = &b->rows->ahead;
    for (uint32_t t = 0; t < a->tables; t++)
        if (ahead_echoes(a, t, 0, a->first[t + 1] - a->first[t]) > 0)
            return false;
    return true;
}

/* Some rows did not come with a push, and are not pulled yet. */
static bool lacks_rows(const struct lane_batch *b)
{
    return b->rows->ahead.missed > 0 && !b->again;
}

/* All rows of a batch are there; those that did not come with a push are pulled now. */
static void batch_arrived(struct lane *l, struct lane_batch *b)
{
    SHOAL_ASSERT(b->state == PULLING && b->transfer.pending == 0 && b->rows->ahead.waits == 0);
    if (lacks_rows(b)) {
        b->again = true;
        int rc = rows_pull_due(b->rows, 1, &b->error);
        if (rc == 0)
            lane_ask(l, b);
        else
            lane_fail(l, rc, b->error.text);
        return;
    }
    if (b->rows_ns == 0) /* it has no keys */
        b->rows_ns = env_now_ns(l->base->env);
    lane_batch_move(b, READY);
}

bool lane_arrivals(struct lane *l)
{
    bool moved = false;
    for (uint32_t i = 0; i < l->batch_count && !l->dropping; i++) {
        struct lane_batch *b = &l->batch[i];
        if (b->state != PULLING || b->transfer.pending > 0 || b->rows->ahead.waits > 0 ||
            (lacks_rows(b) && !lane_may_pull(l)))
            continue;
        batch_arrived(l, b);
        moved = true;
    }
    return moved;
}
