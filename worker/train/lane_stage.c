/* lane_stage.c: the stages of a batch around its computing: read, pull, push. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/bad_lines.h"
#include "worker/train/lane_inner.h"
#include "worker/train/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* file_ns is an estimate and may exceed the total. */
static void read_busy(struct lane *l, uint64_t ran_ns, uint64_t file_ns)
{
    if (file_ns > ran_ns)
        file_ns = ran_ns;
    lane_busy(l, STAGE_FILE, file_ns);
    lane_busy(l, STAGE_PARSE, ran_ns - file_ns);
}

/* ---- read ------------------------------------------------------------------------------------ */

static void read_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane_batch *b = container_of(w, struct lane_batch, read);
    const struct lane *l = b->lane;
    uint32_t epoch = l->task.epoch;
    if (lane_evaluates(l))
        epoch = 0;
    b->status = batch_read(l->data, l->base->job->train.seed, epoch, b->position, b->row_count,
                           &b->rows->batch, &b->error);
}

static void read_trace(struct lane_batch *b, uint64_t ran_ns, uint64_t file_ns)
{
    struct wire_trace *t = &b->trace->w;
    t->file_ns = MIN(file_ns, ran_ns);
    t->parse_ns = ran_ns - t->file_ns;
    if (b->status == 0) {
        t->examples = b->rows->batch.examples;
        t->keys = b->rows->batch.key_count;
    }
}

static void read_done(struct env_work *w)
{
    struct lane_batch *b = container_of(w, struct lane_batch, read);
    struct lane *l = b->lane;
    SHOAL_ASSERT(b->state == READING);
    uint64_t file_ns = 0;
    if (b->status == 0)
        file_ns = b->rows->batch.file_ns;
    read_busy(l, w->ran_ns, file_ns);
    if (b->trace != NULL)
        read_trace(b, w->ran_ns, file_ns);
    if (l->dropping) {
        lane_batch_move(b, DRAINING);
    } else if (b->status != 0) {
        lane_batch_move(b, DRAINING);
        lane_fail(l, b->status, b->error.text);
        return;
    } else {
        lane_batch_move(b, READ);
    }
    lane_tick(l);
}

void lane_read(struct lane *l, struct lane_batch *b)
{
    uint32_t size = job_batch_rows(l->base->job);
    uint64_t offset = (l->next_read - l->task.first_batch) * size;
    uint64_t left = 0;
    if (offset < l->task.rows)
        left = l->task.rows - offset;

    SHOAL_ASSERT(rows_quiet(b->rows) && b->transfer.pending == 0); /* lane.c, 3 */
    b->number = l->next_read++;
    b->position = l->task.position + offset;
    b->row_count = size;
    if (left < size)
        b->row_count = (uint32_t)left;

    b->error.text[0] = '\0';
    rows_use(b->rows, l->base->step == NULL || lane_evaluates(l));
    if (b->row_count > 0) {
        if (traces_want(l->base->traces, b->number) && !lane_evaluates(l))
            lane_trace_begin(b);
        lane_batch_move(b, READING);
        b->rows->batch.time_limit = l->task.time_limit;
        env_work_start(l->base->env, &b->read);
        return;
    }
    b->rows->batch.examples = 0;
    b->rows->batch.bad_lines = b->rows->batch.drawn = b->rows->batch.event_time = 0;
    b->rows->batch.clamped = b->rows->batch.outside = 0;
    b->rows->batch.first_time = b->rows->batch.last_time = 0;
    lane_batch_move(b, READ);
}

/* ---- pull ------------------------------------------------------------------------------------ */

float lane_lr_scale(const struct lane *l, uint64_t batch)
{
    return l->task.lr_scale * schedule_scale(l->base->job, batch);
}

/* The most clocks by which a pull may be ahead of the slowest lane. */
static uint32_t bound_of(const struct job *job)
{
    if (job->train.mode == WIRE_ASYNC)
        return WIRE_BOUND_ASYNC;
    if (job->train.mode == WIRE_SSP)
        return job->train.staleness;
    return 0;
}

static struct transfer_name batch_name(const struct lane *l, const struct lane_batch *b)
{
    if (lane_evaluates(l))
        return (struct transfer_name){
            .run = l->task.run, .lane = UINT32_MAX, .bound = WIRE_BOUND_ASYNC, .lr_scale = 1.0f};
    return (struct transfer_name){.run = l->task.run,
                                  .generation = l->task.generation,
                                  .batch = b->number,
                                  .lane = l->task.lane,
                                  .bound = bound_of(l->base->job),
                                  .values = l->base->job->net.values,
                                  .lr_scale = lane_lr_scale(l, b->number),
                                  .event_time = b->rows->batch.event_time,
                                  .worker = l->base->worker,
                                  .task = l->task.task};
}

static void lines_count(struct lane *l, const struct batch *b)
{
    bad_lines_least(l->result.bad_where, sizeof l->result.bad_where, b->bad_where);
    l->result.bad_lines += b->bad_lines;
    l->result.drawn += b->drawn;
    l->result.clamped += b->clamped;
    if (b->first_time != 0 && (b->first_time < l->result.first_time || l->result.first_time == 0))
        l->result.first_time = b->first_time;
    if (b->last_time > l->result.last_time)
        l->result.last_time = b->last_time;
    if (!lane_evaluates(l)) {
        l->base->stats->bad_lines += b->bad_lines;
        l->base->stats->clamped += b->clamped;
        l->base->stats->outside += b->outside;
    }
}

/* Gives a batch without arrays for rows and gradients those of another batch that does not need
 * them now. */
static void floats_lend(struct lane *l, struct lane_batch *b)
{
    for (uint32_t i = 0; i < l->batch_count && !rows_has_floats(b->rows); i++) {
        struct lane_batch *other = &l->batch[i];
        if (other->state <= READ && rows_has_floats(other->rows))
            rows_floats_swap(b->rows, other->rows);
    }
}

void lane_ask(struct lane *l, struct lane_batch *b)
{
    struct transfer_name name = batch_name(l, b);
    bool empty = b->rows->batch.examples == 0;
    SHOAL_ASSERT(b->state == READ || b->state == PLANNING || b->again);
    SHOAL_ASSERT(lane_may_pull(l)); /* lane_ahead.c, 1 */
    b->sent_ns = env_now_ns(l->base->env);
    lane_batch_turn(b, WIRE_STAGE_PULL);
    int rc = 0;
    if (!empty)
        rc = transfer_start(&b->transfer, &name, false, &b->error);
    if (rc != 0) {
        lane_batch_move(b, DRAINING);
        lane_fail(l, rc, b->error.text);
        return;
    }
    if (empty)
        lane_batch_move(b, READY);
    else if (b->state != PULLING)
        lane_batch_move(b, PULLING);
}

/* Pulls the rows of a batch's keys; a batch without keys is ready at once. */
void lane_pull(struct lane *l, struct lane_batch *b)
{
    SHOAL_ASSERT(b->number == l->next_pull && b->state == READ); /* lane.c, 2 */
    lines_count(l, &b->rows->batch);
    l->next_pull++;
    floats_lend(l, b);
    b->again = b->refused = false;
    b->rows_ns = 0;
    int rc = rows_reserve(b->rows, &b->error);
    if (rc == 0)
        rc = lane_plan(l, b);
    if (rc == 0)
        return;
    lane_batch_move(b, DRAINING);
    lane_fail(l, rc, b->error.text);
}

void lane_rows_came(struct lane_batch *b, uint64_t now_ns)
{
    if (b->rows_ns == 0 || now_ns < b->rows_ns)
        b->rows_ns = now_ns;
}

static void pull_done(struct lane *l, struct lane_batch *b)
{
    uint64_t now = env_now_ns(l->base->env), blocked = now - l->clock.begun_ns,
             took = now - b->sent_ns;
    lane_rows_came(b, b->transfer.first_ns);
    lane_busy(l, STAGE_PULL, SAT_SUB(took, b->transfer.held_ns));
    l->base->stats->keys_pulled += b->transfer.keys;
    if (l->clock.kind == STATS_PULL && b->number == l->next_compute) {
        stats_turn(l->base->stats, &l->clock, STATS_PULL, now);
        stats_held(l->base->stats, MIN(b->transfer.held_ns, blocked));
    }
    lane_tick(l);
}

/* ---- push ------------------------------------------------------------------------------------ */

static void push_done(struct lane *l, struct lane_batch *b)
{
    struct stats *s = l->base->stats;
    SHOAL_ASSERT(lane_echo_settled(b)); /* lane_ahead.c, 4 */
    if (b->trace != NULL)
        lane_trace_over(b, true);
    lane_batch_move(b, DRAINING);
    const uint64_t now_ns = env_now_ns(l->base->env);
    lane_busy(l, STAGE_PUSH, now_ns - b->sent_ns);
    if (b->rows->batch.examples > 0) {
        l->gradient_age_ns = now_ns - b->rows_ns;
        meter_time(&s->gradient_ages, l->gradient_age_ns);
    }
    s->batches++;
    s->skipped += b->transfer.skipped;
    s->recomputed += b->transfer.recomputed;
    s->keys_pushed += b->transfer.keys;
    lane_step_acknowledged(l);
    lane_tick(l);
}

/* Pushes the gradients of the next batch in order to all shards, and ticks where there are none. */
void lane_push(struct lane *l, struct lane_batch *b)
{
    struct transfer_name name = batch_name(l, b);
    SHOAL_ASSERT(b->number == l->next_push && b->state == COMPUTED); /* lane.c, 2 */
    SHOAL_ASSERT(l->plan.batch == NULL);                             /* lane_ahead.c, 2 */
    b->sent_ns = env_now_ns(l->base->env);
    lane_batch_turn(b, WIRE_STAGE_PUSH);
    int rc = transfer_start(&b->transfer, &name, true, &b->error);
    if (rc != 0) {
        lane_fail(l, rc, b->error.text);
        return;
    }
    l->next_push++;
    lane_batch_move(b, PUSHING);
    lane_echo_void(b);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void transfer_done(struct transfer *t)
{
    struct lane_batch *b = container_of(t, struct lane_batch, transfer);
    if (t->push)
        push_done(b->lane, b);
    else
        pull_done(b->lane, b);
}

static void transfer_refused(struct transfer *t, int status, const char *text)
{
    lane_fail(container_of(t, struct lane_batch, transfer)->lane, status, text);
}

/* Counts a batch as refused once, whatever happens to its other parts. */
static void transfer_poisoned(struct transfer *t, const struct part *p, const char *text)
{
    struct lane_batch *b = container_of(t, struct lane_batch, transfer);
    struct lane_result *r = &b->lane->result;
    SHOAL_ASSERT(t->push);
    if (b->refused)
        return;
    b->refused = true;
    if (r->refused++ > 0)
        return;
    snprintf(r->refused_where, sizeof r->refused_where, "shard %u: %s", p->shard, text);
    log_event(GRADIENT_REFUSED, r->refused_where,
              "a push is refused, and sent again without gradients: %s", r->refused_where);
}

static void transfer_echoed(struct transfer *t, const struct part *p,
                            const struct wire_PUSH_reply *reply, const void *rows)
{
    lane_echoed(container_of(t, struct lane_batch, transfer), p, reply, rows);
}

static void transfer_arrived(struct transfer *t)
{
    lane_tick(container_of(t, struct lane_batch, transfer)->lane);
}

/* Sends earlier pushes of the lane again, oldest first. */
static uint32_t transfer_gap(struct transfer *t, const struct part *p, uint64_t order)
{
    struct lane *l = container_of(t, struct lane_batch, transfer)->lane;
    uint32_t waiting = 0;
    SHOAL_ASSERT(t->push && t->pending > 0);
    uint64_t first = SAT_SUB(t->name.batch, l->batch_count);
    for (uint64_t n = MAX(first, 1); n < t->name.batch; n++) {
        struct lane_batch *earlier = lane_batch_find(l, n);
        if (earlier != NULL && earlier->state == PUSHING)
            waiting += transfer_resend(&earlier->transfer, p, order);
    }
    return waiting;
}

void lane_send_again(struct lane *l, struct lane_batch *b)
{
    struct transfer_name name = b->transfer.name;
    SHOAL_ASSERT(b->transfer.push == (b->state == PUSHING));
    int rc = transfer_start(&b->transfer, &name, b->state == PUSHING, &b->error);
    if (rc != 0)
        lane_fail(l, rc, b->error.text);
}

void lane_stages_init(struct lane *l, struct lane_batch *b)
{
    b->lane = l;
    b->read = (struct env_work){.run = read_run, .done = read_done};
    lane_plan_init(l);
    transfer_init(&b->transfer, l->base->client, b->rows);
    b->transfer.done = transfer_done;
    b->transfer.refused = transfer_refused;
    b->transfer.gap = transfer_gap;
    b->transfer.poisoned = transfer_poisoned;
    b->transfer.echoed = transfer_echoed;
    b->transfer.arrived = transfer_arrived;
}
