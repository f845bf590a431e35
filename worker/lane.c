/* lane.c: the flow of a task's batches.
 *
 * 1. A batch moves only as `allowed` says.
 * 2. Batches are computed in order, and their pushes begin in order; so a lane's results do not depend on how reads and
 * pulls overtake one another.
 * 3. Memory of a batch is used again only when every part is acknowledged and no frame borrows from it.
 * 4. A dropped lane sends nothing; on_end is called when no thread has a batch of it in its hands. */
#include "worker/lane.h"
#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull

enum batch_state { FREE, READING, READ, PULLING, READY, COMPUTING, COMPUTED, PUSHING, DRAINING };
#define TO(state) (1u << (state))

static const uint16_t allowed[] = {
    /* (1) */
    [FREE] = TO(READING) | TO(READ),
    [READING] = TO(READ) | TO(DRAINING),
    [READ] = TO(PULLING) | TO(READY) | TO(DRAINING),
    [PULLING] = TO(READY) | TO(DRAINING),
    [READY] = TO(COMPUTING) | TO(COMPUTED) | TO(DRAINING),
    [COMPUTING] = TO(COMPUTED) | TO(DRAINING),
    [COMPUTED] = TO(PUSHING) | TO(DRAINING),
    [PUSHING] = TO(DRAINING),
    [DRAINING] = TO(FREE),
};

struct lane_batch {
    struct lane *lane;
    enum batch_state state;
    uint64_t number; /* in the lane, from 1 */
    uint64_t position;
    uint32_t row_count;
    struct rows *rows;        /* owned */
    struct transfer transfer; /* its pull, then its push */
    struct env_work read;
    int status; /* of batch_read */
    struct err error;
};

struct lane {
    struct lane_base *base;
    void (*on_end)(void *owner);
    void *owner;
    bool running, dropping;
    struct wire_LANE_NEXT_reply task;
    struct lane_result result;
    struct scores scores;
    uint64_t last, next_read, next_pull, next_compute, next_push; /* batch numbers */
    struct lane_batch *batch;                                     /* owned (batch_count) */
    uint32_t batch_count;
    struct model_run *run; /* owned: scratch of this lane's compute */
    struct env_work compute;
    struct lane_batch *computing; /* in the hands of a thread */
    struct model_output output;
    int compute_status;
    struct stats_clock clock;
    struct env_timer reuse_timer; /* frames come back without a word */
};

static void lane_tick(struct lane *l);
static void lane_fail(struct lane *l, int status, const char *text);

static void batch_move(struct lane_batch *b, enum batch_state to)
{
    SHOAL_ASSERT(allowed[b->state] & TO(to));
    b->state = to;
}

static bool lane_evaluates(const struct lane *l)
{
    return l->task.kind == WIRE_NEXT_EVAL;
}

static struct lane_batch *batch_of_transfer(struct transfer *t)
{
    return (struct lane_batch *)((char *)t - offsetof(struct lane_batch, transfer));
}

/* The batch with this number that is under way, or NULL. */
static struct lane_batch *lane_batch_find(struct lane *l, uint64_t number)
{
    for (uint32_t i = 0; i < l->batch_count; i++) {
        struct lane_batch *b = &l->batch[i];
        if (b->state != FREE && b->state != DRAINING && b->number == number)
            return b;
    }
    return NULL;
}

/* Batches in states from..to. */
static uint32_t lane_count(const struct lane *l, enum batch_state from, enum batch_state to)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < l->batch_count; i++)
        count += l->batch[i].state >= from && l->batch[i].state <= to;
    return count;
}

/* ---- read ------------------------------------------------------------------------------------------------- */

static void read_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane_batch *b = (struct lane_batch *)((char *)w - offsetof(struct lane_batch, read));
    const struct lane *l = b->lane;
    uint32_t epoch = lane_evaluates(l) ? 0 : l->task.epoch;

    b->status = batch_read(l->base->data[l->task.split], l->base->job->train.seed, epoch, b->position, b->row_count,
                           &b->rows->batch, &b->error);
}

static void bad_lines_count(struct lane *l, const struct batch *b)
{
    if (b->bad_lines > 0 && l->result.bad_lines == 0)
        snprintf(l->result.bad_where, sizeof l->result.bad_where, "%s", b->bad_where);
    l->result.bad_lines += b->bad_lines;
    if (!lane_evaluates(l))
        l->base->stats->bad_lines += b->bad_lines;
}

static void read_done(struct env_work *w)
{
    struct lane_batch *b = (struct lane_batch *)((char *)w - offsetof(struct lane_batch, read));
    struct lane *l = b->lane;

    SHOAL_ASSERT(b->state == READING);
    if (l->dropping) {
        batch_move(b, DRAINING);
    } else if (b->status != 0) {
        batch_move(b, DRAINING);
        lane_fail(l, b->status, b->error.text);
        return;
    } else {
        batch_move(b, READ);
    }
    lane_tick(l);
}

/* Starts reading batch l->next_read into free memory. */
static void lane_read(struct lane *l, struct lane_batch *b)
{
    uint32_t size = l->base->job->train.batch;
    uint64_t offset = (l->next_read - l->task.first_batch) * size;
    uint64_t left = offset < l->task.rows ? l->task.rows - offset : 0;

    b->number = l->next_read++;
    b->position = l->task.position + offset;
    b->row_count = left < size ? (uint32_t)left : size;
    b->error.text[0] = '\0';
    if (b->row_count > 0) {
        batch_move(b, READING);
        env_work_start(l->base->env, &b->read);
        return;
    }
    b->rows->batch.examples = 0;
    b->rows->batch.bad_lines = 0;
    batch_move(b, READ);
}

/* ---- pull ------------------------------------------------------------------------------------------------- */

/* A lane's first batches count little: stale gradients of a model that knows nothing all point the same way, and would throw it far over
 * (warm-up: Goyal et al. 2017). A function of the batch number, so bsp stays the same bit for bit. */
static float lr_scale(const struct lane *l, uint64_t batch)
{
    uint32_t warmup = l->base->job->train.warmup;

    return batch >= warmup ? l->task.lr_scale : l->task.lr_scale * (float)batch / (float)warmup;
}

static struct transfer_name batch_name(const struct lane_batch *b)
{
    const struct lane *l = b->lane;
    const struct job *job = l->base->job;

    if (lane_evaluates(l))
        return (struct transfer_name){
            .run = l->task.run, .lane = UINT32_MAX, .bound = WIRE_BOUND_ASYNC, .lr_scale = 1.0f};
    return (struct transfer_name){.run = l->task.run,
                                  .generation = l->task.generation,
                                  .batch = b->number,
                                  .lane = l->task.lane,
                                  .bound = job->train.mode == WIRE_ASYNC ? WIRE_BOUND_ASYNC
                                           : job->train.mode == WIRE_SSP ? job->train.staleness
                                                                         : 0,
                                  .lr_scale = lr_scale(l, b->number)};
}

/* Asks the shards for the rows of a batch's keys; without keys it is ready at once. */
static void lane_pull(struct lane_batch *b)
{
    struct transfer_name name = batch_name(b);
    struct lane *l = b->lane;

    bad_lines_count(l, &b->rows->batch);
    int status = rows_reserve(b->rows, &b->error);
    if (status == 0 && b->rows->batch.examples > 0)
        status = transfer_start(&b->transfer, &name, false, &b->error);
    if (status != 0) {
        batch_move(b, DRAINING);
        lane_fail(l, status, b->error.text);
        return;
    }
    batch_move(b, b->rows->batch.examples > 0 && b->transfer.pending > 0 ? PULLING : READY);
}

static void pull_done(struct lane_batch *b)
{
    struct lane *l = b->lane;
    uint64_t now = env_now_ns(l->base->env), blocked = now - l->clock.since_ns;

    batch_move(b, READY);
    l->base->stats->keys_pulled += b->transfer.keys;
    if (l->clock.kind == STATS_PULL && b->number == l->next_compute) {
        stats_turn(l->base->stats, &l->clock, STATS_PULL, now);
        stats_held(l->base->stats, b->transfer.held_ns < blocked ? b->transfer.held_ns : blocked);
    }
    lane_tick(l);
}

/* ---- compute ---------------------------------------------------------------------------------------------- */

static void compute_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane *l = (struct lane *)((char *)w - offsetof(struct lane, compute));
    struct lane_batch *b = l->computing;
    struct model_input in;

    rows_input(b->rows, &in);
    rows_output(b->rows, &l->output);
    if (lane_evaluates(l)) {
        l->compute_status = model_predict(l->base->model, l->run, &in, &l->output);
        return;
    }
    l->compute_status =
        model_train(l->base->model, l->run, &in, l->base->job->train.seed, l->task.lane, b->number, &l->output);
    if (l->compute_status == 0)
        rows_gather(b->rows);
}

static void compute_failed(struct lane *l, const struct lane_batch *b)
{
    struct err e = {0};

    err_set(&e, l->compute_status,
            "lane %u batch %llu (epoch %u, rows from position %llu): %s: look at the input there or lower the learning "
            "rate",
            l->task.lane, (unsigned long long)b->number, l->task.epoch, (unsigned long long)b->position,
            l->compute_status == SHOAL_E_NOT_FINITE ? "the loss is not finite" : err_text(l->compute_status));
    lane_fail(l, l->compute_status, e.text);
}

static void compute_done(struct env_work *w)
{
    struct lane *l = (struct lane *)((char *)w - offsetof(struct lane, compute));
    struct lane_batch *b = l->computing;

    SHOAL_ASSERT(b != NULL && b->state == COMPUTING);
    l->computing = NULL;
    if (l->dropping || l->compute_status != 0) {
        batch_move(b, DRAINING);
        if (!l->dropping) {
            compute_failed(l, b);
            return;
        }
    } else {
        l->result.examples += b->rows->batch.examples;
        l->result.loss_sum += l->output.loss_sum;
        batch_move(b, lane_evaluates(l) ? DRAINING : COMPUTED);
        if (lane_evaluates(l))
            scores_add(&l->scores, l->output.scores, b->rows->batch.label, b->rows->batch.examples);
        else
            l->base->stats->examples += b->rows->batch.examples;
    }
    lane_tick(l);
}

/* Forward and backward of the next batch in order (2), on a thread. An empty batch has nothing to compute. */
static void lane_compute(struct lane *l, struct lane_batch *b)
{
    l->next_compute++;
    if (b->rows->batch.examples == 0) {
        batch_move(b, lane_evaluates(l) ? DRAINING : COMPUTED);
        return;
    }
    batch_move(b, COMPUTING);
    l->computing = b;
    env_work_start(l->base->env, &l->compute);
}

/* ---- push ------------------------------------------------------------------------------------------------- */

static void push_done(struct lane_batch *b)
{
    struct stats *s = b->lane->base->stats;

    batch_move(b, DRAINING);
    s->batches++;
    s->skipped += b->transfer.skipped;
    s->recomputed += b->transfer.recomputed;
    s->keys_pushed += b->transfer.keys;
    lane_tick(b->lane);
}

/* Gradients of the next batch in order (2) to all shards; ticks where there are none. */
static void lane_push(struct lane *l, struct lane_batch *b)
{
    struct transfer_name name = batch_name(b);
    int status = transfer_start(&b->transfer, &name, true, &b->error);

    if (status != 0) {
        lane_fail(l, status, b->error.text);
        return;
    }
    l->next_push++;
    batch_move(b, PUSHING);
}

static void transfer_done(struct transfer *t)
{
    struct lane_batch *b = batch_of_transfer(t);

    if (t->push)
        push_done(b);
    else
        pull_done(b);
}

static void transfer_refused(struct transfer *t, int status, const char *text)
{
    lane_fail(batch_of_transfer(t)->lane, status, text);
}

/* Earlier pushes of the lane are sent again, oldest first. */
static uint32_t transfer_gap(struct transfer *t, const struct part *p, uint64_t order)
{
    struct lane *l = batch_of_transfer(t)->lane;
    uint32_t waiting = 0;

    for (uint64_t n = t->name.batch > l->batch_count ? t->name.batch - l->batch_count : 1; n < t->name.batch; n++) {
        struct lane_batch *earlier = lane_batch_find(l, n);
        if (earlier != NULL && earlier->state == PUSHING)
            waiting += transfer_resend(&earlier->transfer, p, order);
    }
    return waiting;
}

/* ---- the machine ------------------------------------------------------------------------------------------ */

/* Memory whose frames are back is free again (3). */
static void lane_reuse(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count; i++)
        if (l->batch[i].state == DRAINING && rows_quiet(l->batch[i].rows))
            batch_move(&l->batch[i], FREE);
}

static struct lane_batch *lane_free_batch(struct lane *l)
{
    for (uint32_t i = 0; i < l->batch_count; i++)
        if (l->batch[i].state == FREE)
            return &l->batch[i];
    return NULL;
}

/* Reading runs one batch ahead of pulling: lines do not grow stale. */
static bool lane_may_read(const struct lane *l)
{
    return l->next_read <= l->last && lane_count(l, READING, COMPUTED) <= 1 + l->base->job->train.prefetch;
}

/* The batch to pull next, or NULL. */
static struct lane_batch *lane_may_pull(struct lane *l)
{
    struct lane_batch *b = lane_batch_find(l, l->next_pull);

    return b != NULL && b->state == READ && lane_count(l, PULLING, COMPUTED) <= l->base->job->train.prefetch ? b : NULL;
}

static bool lane_may_push(const struct lane *l)
{
    return l->base->job->train.mode != WIRE_BSP || lane_count(l, PUSHING, PUSHING) == 0;
}

static enum stats_kind lane_activity(struct lane *l)
{
    if (!l->running)
        return STATS_WAIT;
    if (l->computing != NULL)
        return STATS_COMPUTE;
    struct lane_batch *next = lane_batch_find(l, l->next_compute);
    if (next == NULL)
        return STATS_PUSH;
    return next->state == READING ? STATS_READ : next->state <= PULLING ? STATS_PULL : STATS_PUSH;
}

static void lane_finish(struct lane *l)
{
    l->running = false;
    stats_turn(l->base->stats, &l->clock, STATS_WAIT, env_now_ns(l->base->env));
    env_timer_stop(l->base->env, &l->reuse_timer);
    l->on_end(l->owner);
}

/* Starts everything that may start, until nothing moves. */
static void lane_tick(struct lane *l)
{
    bool moved = l->running && !l->dropping;

    while (moved && !l->dropping) {
        moved = false;
        lane_reuse(l);
        struct lane_batch *b = lane_may_read(l) ? lane_free_batch(l) : NULL;
        if (b != NULL) {
            lane_read(l, b);
            moved = true;
        }
        b = l->dropping ? NULL : lane_may_pull(l);
        if (b != NULL) {
            l->next_pull++;
            lane_pull(b);
            moved = true;
        }
        b = l->computing == NULL && !l->dropping ? lane_batch_find(l, l->next_compute) : NULL;
        if (b != NULL && b->state == READY) {
            lane_compute(l, b);
            moved = true;
        }
        b = !lane_evaluates(l) && !l->dropping && lane_may_push(l) ? lane_batch_find(l, l->next_push) : NULL;
        if (b != NULL && b->state == COMPUTED) {
            lane_push(l, b);
            moved = true;
        }
    }
    if (!l->running)
        return;
    bool under_way = l->dropping ? lane_count(l, READING, READING) + lane_count(l, COMPUTING, COMPUTING) > 0
                                 : l->next_read <= l->last || lane_count(l, READING, PUSHING) > 0;
    if (!under_way) {
        lane_finish(l);
        return;
    }
    stats_turn(l->base->stats, &l->clock, lane_activity(l), env_now_ns(l->base->env));
    if (!l->dropping && lane_may_read(l) &&
        lane_count(l, DRAINING, DRAINING) > 0) /* only memory is missing: look again soon */
        env_timer_start(l->base->env, &l->reuse_timer, 5 * MS);
}

static void reuse_fire(struct env_timer *t)
{
    lane_tick((struct lane *)((char *)t - offsetof(struct lane, reuse_timer)));
}

void lane_drop(struct lane *l, int status)
{
    if (!l->running || l->dropping)
        return;
    l->dropping = true;
    l->result.status = status;
    for (uint32_t i = 0; i < l->batch_count; i++) {
        struct lane_batch *b = &l->batch[i];
        transfer_cancel(&b->transfer);
        if (b->state != FREE && b->state != DRAINING && b->state != READING && b->state != COMPUTING)
            batch_move(b, DRAINING);
    }
    lane_tick(l);
}

static void lane_fail(struct lane *l, int status, const char *text)
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
        if (b->state != PULLING && b->state != PUSHING)
            continue;
        struct transfer_name name = b->transfer.name;
        int status = transfer_start(&b->transfer, &name, b->state == PUSHING, &b->error);
        if (status != 0)
            lane_fail(l, status, b->error.text);
    }
}

/* ---- tasks and life --------------------------------------------------------------------------------------- */

/* What the coordinator said against what this worker has. */
static int task_check(struct lane *l, const struct wire_LANE_NEXT_reply *task, struct err *e)
{
    const struct dataset *d = task->split <= WIRE_TEST ? l->base->data[task->split] : NULL;

    SHOAL_ASSERT(d != NULL);
    uint64_t have = dataset_rows(d);
    if (task->position > have || task->rows > have - task->position)
        return err_set(e, SHOAL_E_DATA,
                       "the coordinator deals rows %llu to %llu of a split that has %llu here: do all workers read the "
                       "same files?",
                       (unsigned long long)task->position, (unsigned long long)(task->position + task->rows),
                       (unsigned long long)have);
    if (task->kind == WIRE_NEXT_TASK && (task->first_batch == 0 || task->lane >= LIMIT_LANES))
        return err_set(e, SHOAL_E_MALFORMED, "the coordinator deals batch 0 or lane %u: not this protocol", task->lane);
    return 0;
}

void lane_start(struct lane *l, const struct wire_LANE_NEXT_reply *task)
{
    uint32_t size = l->base->job->train.batch;
    struct err e = {0};

    SHOAL_ASSERT(!l->running);
    l->running = true;
    l->dropping = false;
    l->task = *task;
    memset(&l->result, 0, sizeof l->result);
    if (lane_evaluates(l)) {
        l->task.first_batch = 1;
        l->task.mark = 0;
        l->task.batch_count = (uint32_t)((task->rows + size - 1) / size);
    }
    l->last = l->task.first_batch + l->task.batch_count - 1;
    l->next_read = l->task.mark >= l->task.first_batch ? l->task.mark + 1 : l->task.first_batch;
    l->next_pull = l->next_compute = l->next_push = l->next_read;
    for (uint32_t i = 0; i < l->batch_count; i++)
        l->batch[i].transfer.staleness = lane_evaluates(l) ? NULL : l->result.staleness;
    int status = task_check(l, task, &e);
    if (status == 0 && lane_evaluates(l))
        status = scores_reset(&l->scores, task->rows, &e);
    if (status != 0)
        lane_fail(l, status, e.text);
    else
        lane_tick(l);
}

int lane_new(struct lane_base *base, void (*on_end)(void *owner), void *owner, struct lane **out, struct err *e)
{
    const struct job *job = base->job;
    struct lane *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane");
    l->base = base;
    l->on_end = on_end;
    l->owner = owner;
    l->clock.since_ns = env_now_ns(base->env);
    l->reuse_timer.fire = reuse_fire;
    l->compute = (struct env_work){.run = compute_run, .done = compute_done};
    scores_init(&l->scores);
    int status = model_run_new(base->model, job->train.batch, 0, &l->run, e);
    l->batch = calloc(3 + (size_t)job->train.prefetch, sizeof *l->batch);
    if (status == 0 && l->batch == NULL)
        status = err_set(e, SHOAL_E_NOMEM, "no memory for a lane");
    for (uint32_t i = 0; status == 0 && i < 3 + job->train.prefetch; i++) {
        struct lane_batch *b = &l->batch[i];
        b->lane = l;
        b->read = (struct env_work){.run = read_run, .done = read_done};
        status = rows_new(base->model, base->schema, base->table_count, job->train.batch, &b->rows, e);
        if (status != 0)
            break;
        transfer_init(&b->transfer, base->client, b->rows);
        b->transfer.done = transfer_done;
        b->transfer.refused = transfer_refused;
        b->transfer.gap = transfer_gap;
        l->batch_count++;
    }
    if (status != 0) {
        lane_free(l);
        return status;
    }
    *out = l;
    return 0;
}

void lane_free(struct lane *l)
{
    if (l == NULL)
        return;
    SHOAL_ASSERT(!l->running);
    env_timer_stop(l->base->env, &l->reuse_timer);
    stats_turn(l->base->stats, &l->clock, STATS_WAIT, env_now_ns(l->base->env));
    for (uint32_t i = 0; i < l->batch_count; i++) {
        transfer_close(&l->batch[i].transfer);
        rows_release(l->batch[i].rows);
    }
    model_run_free(l->run);
    scores_close(&l->scores);
    free(l->batch);
    free(l);
}

bool lane_idle(const struct lane *l)
{
    return !l->running;
}

void lane_account(struct lane *l)
{
    stats_turn(l->base->stats, &l->clock, l->clock.kind, env_now_ns(l->base->env));
}

const struct wire_LANE_NEXT_reply *lane_task(const struct lane *l)
{
    return &l->task;
}

const struct lane_result *lane_result(const struct lane *l)
{
    return &l->result;
}

const struct scores *lane_scores(const struct lane *l)
{
    return &l->scores;
}
