/* lane.c: the flow of a task's batches: which step may start; tasks, and the life of a lane.
 *
 * 1. A batch moves only as `moves` allows. [test: lane_batch_move_holds_the_table]
 * 2. Batches are pulled, computed and first pushed in order, so a lane's results do not depend on
 *    the order in which reads and pulls finish. [assert: lane_pull, lane_compute, lane_push]
 * 3. Memory of a batch is reused only when every part is acknowledged and no frame borrows from it.
 *    [assert: lane_read]
 * 4. A dropped lane sends nothing; on_end is called when no thread uses any of its batches.
 *    [assert: lane_finish] [test: lane_dropped_writes_nothing_more] */
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "worker/train/lane_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define LANE_VALUES 256u /* most values of an evaluate.by field that a task counts apart */

static const char *const names[] = {
    [FREE] = "free",           [READING] = "reading",   [READ] = "read",
    [PLANNING] = "planning",   [PULLING] = "pulling",   [READY] = "ready",
    [COMPUTING] = "computing", [COMPUTED] = "computed", [PUSHING] = "pushing",
    [DRAINING] = "draining",
};
static const uint32_t moves[] = {
    [FREE] = SM_TO(READING) | SM_TO(READ),
    [READING] = SM_TO(READ) | SM_TO(DRAINING),
    [READ] = SM_TO(PLANNING) | SM_TO(PULLING) | SM_TO(READY) | SM_TO(DRAINING),
    [PLANNING] = SM_TO(PULLING) | SM_TO(DRAINING),
    [PULLING] = SM_TO(READY) | SM_TO(DRAINING),
    [READY] = SM_TO(COMPUTING) | SM_TO(COMPUTED) | SM_TO(DRAINING),
    [COMPUTING] = SM_TO(COMPUTED) | SM_TO(DRAINING),
    [COMPUTED] = SM_TO(PUSHING) | SM_TO(DRAINING),
    [PUSHING] = SM_TO(DRAINING),
    [DRAINING] = SM_TO(FREE),
};

const struct sm lane_moves = SM("a lane's batch", names, moves);

/* The time for which the lane has computed. */
static uint64_t lane_computed_ns(const struct lane *l, uint64_t now_ns)
{
    if (l->computing == NULL)
        return l->computed_ns;
    return l->computed_ns + (now_ns - l->computing_since_ns);
}

void lane_batch_turn(struct lane_batch *b, enum wire_stage stage)
{
    if (b->trace == NULL)
        return;
    uint64_t now = env_now_ns(b->lane->base->env);
    trace_turn(b->trace, stage, now, lane_computed_ns(b->lane, now));
}

/* A traced batch is in another state. */
static void lane_batch_traced(struct lane_batch *b)
{
    static const enum wire_stage stage[] = {
        [READING] = WIRE_STAGE_READ,   [READ] = WIRE_STAGE_PLACE,
        [PLANNING] = WIRE_STAGE_PLAN,  [PULLING] = WIRE_STAGE_PULL,
        [READY] = WIRE_STAGE_TURN,     [COMPUTING] = WIRE_STAGE_COMPUTE,
        [COMPUTED] = WIRE_STAGE_ORDER, [PUSHING] = WIRE_STAGE_PUSH,
    };
    if (b->state == DRAINING) {
        lane_trace_over(b, false);
        return;
    }
    SHOAL_ASSERT(b->state != FREE);
    lane_batch_turn(b, stage[b->state]);
}

void lane_batch_move(struct lane_batch *b, enum batch_state to)
{
    sm_move(&lane_moves, &b->state, to);
    if (b->trace != NULL)
        lane_batch_traced(b);
}

void lane_trace_begin(struct lane_batch *b)
{
    struct lane *l = b->lane;
    uint64_t now = env_now_ns(l->base->env);
    SHOAL_ASSERT(b->trace == NULL && b->state == FREE);
    struct trace *t = trace_begin(l->base->traces, now, lane_computed_ns(l, now));
    b->trace = b->transfer.trace = t;
    if (t == NULL)
        return;
    t->w.run = l->task.run;
    t->w.batch = b->number;
    t->w.generation = l->task.generation;
    t->w.worker = l->base->worker;
    t->w.lane = l->task.lane;
    t->w.epoch = l->task.epoch;
}

void lane_trace_over(struct lane_batch *b, bool acknowledged)
{
    uint64_t now = env_now_ns(b->lane->base->env);
    if (acknowledged)
        trace_end(b->trace, now, lane_computed_ns(b->lane, now));
    else
        trace_drop(b->trace);
    b->trace = b->transfer.trace = NULL;
}

struct lane_batch *lane_batch_find(struct lane *l, uint64_t number)
{
    for (uint32_t i = 0; i < l->batch_count; i++) {
        struct lane_batch *b = &l->batch[i];
        if (b->state != FREE && b->state != DRAINING && b->number == number)
            return b;
    }
    return NULL;
}

uint64_t lane_mark(const struct lane *l)
{
    uint64_t first = l->next_push;
    for (uint32_t i = 0; i < l->batch_count; i++)
        if (l->batch[i].state == PUSHING)
            first = MIN(first, l->batch[i].number);
    return first - 1;
}

/* Number of batches in the states from..to. */
static uint32_t lane_count(const struct lane *l, enum batch_state from, enum batch_state to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->batch_count; i++)
        count += l->batch[i].state >= from && l->batch[i].state <= to;
    return count;
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* Frees batches whose frames came back (3). */
static void lane_reuse(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count; i++)
        if (l->batch[i].state == DRAINING && rows_quiet(l->batch[i].rows))
            lane_batch_move(&l->batch[i], FREE);
}

static struct lane_batch *lane_free_batch(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count; i++)
        if (l->batch[i].state == FREE)
            return &l->batch[i];
    return NULL;
}

/* True when another batch should be read; its memory may be missing. */
static bool lane_wants_read(const struct lane *l)
{
    return l->next_read <= l->last && lane_count(l, READING, READ) < MAX(l->base->ahead, 1) &&
           lane_count(l, READING, READING) < MAX(l->base->readers, 1);
}

/* Under bsp its shard holds a pull back until it has the pushes. */
bool lane_may_pull(const struct lane *l)
{
    return l->base->job->train.mode == WIRE_BSP || lane_count(l, PUSHING, PUSHING) == 0;
}

/* The batch to pull next, or NULL; its memory may be missing. */
static struct lane_batch *lane_wants_pull(struct lane *l)
{
    struct lane_batch *b = lane_batch_find(l, l->next_pull);
    bool may = lane_may_pull(l) && l->plan.batch == NULL &&
               lane_count(l, PLANNING, COMPUTED) <= l->base->job->train.prefetch;

    if (b != NULL && b->state == READ && may)
        return b;

    return NULL;
}

static bool lane_has_room(const struct lane *l)
{
    return lane_count(l, PLANNING, DRAINING) < lane_full_batches(l);
}

static bool lane_may_push(const struct lane *l)
{
    if (l->plan.batch != NULL) /* the thread adds to what the push asks for */
        return false;
    return l->base->job->train.mode != WIRE_BSP || lane_count(l, PUSHING, PUSHING) == 0;
}

/* The activity of a lane in which nothing moves any more. If the next batch is READ and not pulled,
 * or all that is pulled of it is there, the pushes before it are to be acknowledged first. */
static enum stats_kind lane_activity(struct lane *l)
{
    if (!l->running)
        return STATS_WAIT;
    if (l->computing != NULL)
        return STATS_COMPUTE;
    struct lane_batch *next = lane_batch_find(l, l->next_compute);
    const struct lane_batch *push = lane_batch_find(l, l->next_push);
    if ((next != NULL && next->state == READY) ||
        (push != NULL && push->state == COMPUTED && !lane_step_may_push(l, push)))
        return STATS_STEP;
    if (next == NULL)
        return STATS_PUSH;

    if (next->state == READING)
        return STATS_READ;
    if (next->state == PLANNING || (next->state == PULLING && next->transfer.pending > 0))
        return STATS_PULL;

    return STATS_PUSH;
}

static void lane_finish(struct lane *l)
{
    SHOAL_ASSERT(l->computing == NULL && l->plan.batch == NULL &&
                 lane_count(l, READING, READING) == 0); /* 4 */
    SHOAL_ASSERT(l->dropping || l->step.batch == 0);
    l->running = false;
    lane_step_end(l);
    for (size_t f = 0; f < l->base->job->evaluate.by.count; f++)
        metric_by_finish(&l->result.by[f], METRIC_BY_TOLD);
    stats_turn(l->base->stats, &l->clock, STATS_WAIT, env_now_ns(l->base->env));
    env_timer_stop(l->base->env, &l->reuse_timer);
    l->on_end(l->owner);
}

/* Starts every step that may start, until nothing moves. */
void lane_tick(struct lane *l)
{
    bool moved = l->running && !l->dropping;
    while (moved && !l->dropping) {
        moved = false;
        lane_reuse(l);
        struct lane_batch *b = NULL;
        if (lane_wants_read(l))
            b = lane_free_batch(l);
        if (b != NULL) {
            lane_read(l, b);
            moved = true;
        }
        moved = lane_arrivals(l) || moved;
        if (l->computing == NULL && !l->dropping)
            b = lane_batch_find(l, l->next_compute);
        else
            b = NULL;
        if (b != NULL && b->state == READY && lane_step_admit(l, b)) {
            lane_compute(l, b);
            moved = true;
        }
        if (!lane_evaluates(l) && !l->dropping && lane_may_push(l))
            b = lane_batch_find(l, l->next_push);
        else
            b = NULL;
        if (b != NULL && b->state == COMPUTED && lane_step_may_push(l, b)) {
            lane_push(l, b);
            moved = true;
        }
        lane_step_give(l);
        b = NULL;
        if (!l->dropping) /* after the push, which would wait for the plan of the pull */
            b = lane_wants_pull(l);
        if (b != NULL && lane_has_room(l)) {
            lane_pull(l, b);
            moved = true;
        }
    }
    if (!l->running)
        return;
    bool in_threads =
        lane_count(l, READING, READING) > 0 || l->plan.batch != NULL || l->computing != NULL;
    bool under_way = in_threads;
    if (!l->dropping)
        under_way = l->next_read <= l->last || lane_count(l, READING, PUSHING) > 0;
    if (!under_way) {
        lane_finish(l);
        return;
    }
    SHOAL_ASSERT(l->next_push <= l->next_compute && l->next_compute <= l->next_pull &&
                 l->next_pull <= l->next_read);
    stats_turn(l->base->stats, &l->clock, lane_activity(l), env_now_ns(l->base->env));
    if (!l->dropping && lane_count(l, DRAINING, DRAINING) > 0 &&
        /* only memory is missing: look again soon */
        (lane_wants_read(l) || lane_wants_pull(l) != NULL))
        env_timer_start(l->base->env, &l->reuse_timer, 5 * MS);
}

static void reuse_fire(struct env_timer *t)
{
    lane_tick(container_of(t, struct lane, reuse_timer));
}

void lane_drop(struct lane *l, int status)
{
    if (!l->running || l->dropping)
        return;
    SHOAL_ASSERT(status != 0);
    l->dropping = true;
    l->result.status = status;
    lane_step_drop(l, status);
    for (uint32_t i = 0; i < l->batch_count; i++) {
        struct lane_batch *b = &l->batch[i];
        transfer_cancel(&b->transfer);
        if (b->state != FREE && b->state != DRAINING && b->state != READING &&
            b->state != PLANNING && b->state != COMPUTING)
            lane_batch_move(b, DRAINING);
    }
    lane_tick(l);
}

void lane_fail(struct lane *l, int status, const char *text)
{
    if (l->dropping)
        return;
    snprintf(l->result.text, sizeof l->result.text, "%s", text);
    lane_drop(l, status);
}

void lane_remap(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count && l->running && !l->dropping; i++) {
        struct lane_batch *b = &l->batch[i];
        if (b->state == PUSHING || (b->state == PULLING && b->transfer.pending > 0))
            lane_send_again(l, b);
    }
}

void lane_look(struct lane *l)
{
    lane_tick(l);
}

/* ---- tasks and life -------------------------------------------------------------------------- */

/* Compares the coordinator's task with this worker's input. */
static int task_check(struct lane *l, const struct wire_LANE_NEXT_reply *task, struct err *e)
{
    SHOAL_ASSERT(l->data != NULL || task->rows == 0);
    uint64_t have = 0;
    if (l->data != NULL)
        have = dataset_rows(l->data);

    if (l->data != NULL && task->object != 0 &&
        (have != task->object_rows || dataset_digest(l->data) != task->object_digest))
        return err_set(e, SHOAL_E_DATA,
                       "object %s is not what it was when it was indexed: %" PRIu64
                       " rows, digest %016" PRIx64 ", then %" PRIu64 " and %016" PRIx64
                       ": leave the log alone while a job runs, and start it again",
                       task->object_name, have, dataset_digest(l->data), task->object_rows,
                       task->object_digest);
    if (l->data != NULL && (task->position > have || task->rows > have - task->position))
        return err_set(e, SHOAL_E_DATA,
                       "the coordinator deals rows %" PRIu64 " to %" PRIu64
                       " of a split that has %" PRIu64 " here: do "
                       "all workers read the "
                       "same files?",
                       task->position, task->position + task->rows, have);
    if (task->kind == WIRE_NEXT_TASK && (task->first_batch == 0 || task->lane >= LIMIT_LANES))
        return err_set(e, SHOAL_E_MALFORMED,
                       "the coordinator deals batch 0 or lane %u: not this protocol", task->lane);
    return 0;
}

static size_t labels_of(const struct lane *l)
{
    return MAX(l->base->job->data.label_count, 1);
}

/* True for the next task of the same grant. */
static bool grant_goes_on(const struct wire_LANE_NEXT_reply *before,
                          const struct wire_LANE_NEXT_reply *now)
{
    return before->kind == WIRE_NEXT_TASK && now->kind == WIRE_NEXT_TASK &&
           before->run == now->run && before->lane == now->lane &&
           before->generation == now->generation;
}

void lane_start(struct lane *l, const struct wire_LANE_NEXT_reply *task, const struct dataset *data)
{
    uint32_t size = job_batch_rows(l->base->job);
    struct err e = {0};
    SHOAL_ASSERT(!l->running);
    l->running = true;
    l->dropping = false;
    if (!grant_goes_on(&l->task, task))
        l->gradient_age_ns = 0;
    l->task = *task;
    l->data = data;
    struct metric_tally *tally = l->result.tally;
    struct metric_by *by = l->result.by;
    memset(&l->result, 0, sizeof l->result);
    l->result.tally = tally;
    metric_tally_clear(tally, (uint32_t)labels_of(l), job_real_labels(l->base->job));
    l->result.by = by;
    for (size_t f = 0; f < l->base->job->evaluate.by.count; f++)
        metric_by_clear(&by[f]);
    if (lane_evaluates(l)) {
        l->task.first_batch = 1;
        l->task.mark = 0;
        l->task.batch_count = (uint32_t)((task->rows + size - 1) / size);
    }
    l->last = l->task.first_batch + l->task.batch_count - 1;
    l->next_read = l->task.first_batch;
    if (l->task.mark >= l->task.first_batch)
        l->next_read = l->task.mark + 1;
    l->next_pull = l->next_compute = l->next_push = l->next_read;
    for (uint32_t i = 0; i < l->batch_count; i++)
        l->batch[i].transfer.staleness = lane_evaluates(l) ? NULL : l->result.staleness;
    int rc = task_check(l, task, &e);
    if (rc == 0 && lane_evaluates(l))
        rc = evaluate_scores_reset(&l->scores, l->base->job, task->rows, &e);
    lane_step_begin(l);
    if (rc != 0)
        lane_fail(l, rc, e.text);
    else
        lane_tick(l);
}

uint32_t lane_readers(uint32_t cores, uint32_t lanes)
{
    uint32_t readers = cores;
    if (lanes != 0)
        readers = (cores + lanes - 1) / lanes;
    SHOAL_ASSERT(lanes == 0 || (uint64_t)readers * lanes >= cores);

    if (readers == 0)
        return 1;
    if (readers < LANE_READERS_MAX)
        return readers;

    return LANE_READERS_MAX;
}

uint32_t lane_computing(uint32_t cores, uint32_t lanes)
{
    return MAX(MAX(cores, lanes), 1);
}

uint32_t lane_threads(uint32_t cores, uint32_t lanes)
{
    return lanes * (1 + lane_readers(cores, lanes)) + lane_computing(cores, lanes) + 1;
}

static int batches_make(struct lane *l, struct err *e)
{
    const struct lane_base *base = l->base;
    uint32_t count = lane_full_batches(l) + MAX(base->ahead, 1);
    int rc = 0;
    l->batch = calloc(count, sizeof *l->batch);
    if (l->batch == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane");
    for (; rc == 0 && l->batch_count < count; l->batch_count += rc == 0) {
        struct lane_batch *b = &l->batch[l->batch_count];
        rc = rows_new(base->model, base->backend, base->schema, base->table_count,
                      job_batch_rows(base->job), base->job->data.label_count, &b->rows, e);
        if (rc != 0)
            break;
        b->rows->batch.clock_ns = base->clock_ns;
        lane_stages_init(l, b);
    }
    return rc;
}

/* Frees its memory, on any thread: the loop no longer uses it. */
static void lane_unmake(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count; i++)
        rows_release(l->batch[i].rows);
    lane_compute_free(l);
    evaluate_scores_close(&l->scores);
    for (size_t f = 0; l->result.by != NULL && f < l->base->job->evaluate.by.count; f++)
        metric_by_close(&l->result.by[f]);
    free(l->result.by);
    free(l->result.tally);
    free(l->batch);
    free(l);
}

/* Makes the figures of examples as predicted before they are learnt. */
static int figures_make(struct lane *l, struct err *e)
{
    struct lane_result *r = &l->result;
    size_t fields = l->base->job->evaluate.by.count;
    int rc = 0;
    r->tally = calloc(labels_of(l), sizeof *r->tally);
    r->by = calloc(fields + 1, sizeof *r->by);
    if (r->tally == NULL || r->by == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane");
    for (size_t f = 0; rc == 0 && f < fields; f++)
        rc = metric_by_open(&r->by[f], (uint32_t)labels_of(l), job_real_labels(l->base->job),
                            LANE_VALUES, e);
    return rc;
}

int lane_new(struct lane_base *base, void (*on_end)(void *owner), void *owner, struct lane **out,
             struct err *e)
{
    struct lane *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane");
    l->base = base;
    l->on_end = on_end;
    l->owner = owner;
    l->reuse_timer.fire = reuse_fire;
    evaluate_scores_init(&l->scores);
    int rc = figures_make(l, e);
    if (rc == 0)
        rc = lane_compute_new(l, e);
    if (rc == 0)
        rc = batches_make(l, e);
    if (rc != 0) {
        lane_unmake(l);
        return rc;
    }
    *out = l;
    return 0;
}

void lane_begin(struct lane *l)
{
    l->clock.begun_ns = l->clock.since_ns = env_now_ns(l->base->env);
}

void lane_free(struct lane *l)
{
    if (l == NULL)
        return;
    SHOAL_ASSERT(!l->running);
    env_timer_stop(l->base->env, &l->reuse_timer);
    stats_turn(l->base->stats, &l->clock, STATS_WAIT, env_now_ns(l->base->env));
    SHOAL_ASSERT(l->computing == NULL && lane_count(l, READING, READING) == 0);
    for (uint32_t i = 0; i < l->batch_count; i++)
        transfer_close(&l->batch[i].transfer);
    lane_unmake(l);
}

uint64_t lane_gradient_age(const struct lane *l)
{
    return l->gradient_age_ns;
}

uint64_t lane_computing_ns(const struct lane *l)
{
    if (l->computing == NULL)
        return 0;

    return env_now_ns(l->base->env) - l->computing_since_ns + 1;
}

bool lane_waits(const struct lane *l)
{
    return l->running && (l->clock.kind == STATS_PULL || l->clock.kind == STATS_PUSH);
}

bool lane_idle(const struct lane *l)
{
    return !l->running;
}

void lane_account(struct lane *l)
{
    stats_turn(l->base->stats, &l->clock, l->clock.kind, env_now_ns(l->base->env));
}

const struct lane_result *lane_result(const struct lane *l)
{
    return &l->result;
}

const struct scores *lane_scores(const struct lane *l)
{
    return &l->scores;
}
