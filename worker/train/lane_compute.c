/* lane_compute.c: forward and backward of a batch, and what is counted of it.
 *
 *   lane_compute --> step_run, on a thread: step, count, close --> step_done
 *   lane_compute --> slices.h: steps, count, on threads --> close_run, on a thread --> close_done
 *
 * The second is the way of a job with a window. */
#include "proto/base/container_of.h"
#include "worker/train/lane_inner.h"

#include <inttypes.h>
#include <math.h>

/* Adds the batch's predictions, made before it is learnt; on a thread of the pool. */
static void tally_batch(struct lane *l, const struct batch *b)
{
    const float *score = l->output.scores, *label = b->label;
    double loss[LIMIT_TASKS];
    for (uint32_t i = 0; i < b->examples; i++, score += b->tasks, label += b->tasks) {
        for (uint32_t t = 0; t < b->tasks; t++) {
            struct metric_tally *tally = &l->result.tally[t];
            loss[t] = metric_loss_of(tally->is_real, score[t], label[t]);
            if (!isnan(label[t]))
                metric_tally_add(tally, score[t], label[t], loss[t]);
        }
        for (uint32_t f = 0; f < b->by_count; f++)
            metric_by_add(&l->result.by[f], b->by[(size_t)i * b->by_count + f], score, label, loss);
    }
}

/* Counts the scores of a computed batch; on a thread of the pool. */
static void scores_count(struct lane *l)
{
    struct rows *r = l->computing->rows;
    if (lane_evaluates(l) && l->task.unseen)
        rows_unseen(r, &l->scores.unseen);
    bool scored = l->base->job->model.kind != MODEL_PROBE &&
                  !(l->base->outside != NULL && l->output.skipped); /* its scores are none */
    if (!lane_evaluates(l) && scored)
        tally_batch(l, &r->batch);
}

/* Makes a batch's gradients ready for its push; on a thread of the pool. */
static void gradients_close(struct lane *l)
{
    const struct lane_batch *b = l->computing;
    if (lane_evaluates(l) || l->output.skipped)
        return;
    rows_gather(b->rows);
    lane_step_close(l);
    if (l->base->job->train.mode == WIRE_BSP)
        rows_check(b->rows);
    rows_pack(b->rows, l->base->job->net.gradients, l->task.lane, b->number);
}

static void step_run(struct env_work *w) /* on a thread of the pool */
{
    struct lane *l = container_of(w, struct lane, compute);
    const struct lane_batch *b = l->computing;
    SHOAL_ASSERT(b->state == COMPUTING && b->rows->batch.examples > 0);
    if (l->base->outside != NULL)
        l->compute_status = lane_outside_run(l, b);
    else if (lane_evaluates(l))
        l->compute_status = model_predict(l->base->model, l->run, &l->input, &l->output);
    else
        l->compute_status = model_train(l->base->model, l->run, &l->input, l->base->job->train.seed,
                                        l->task.lane, b->number, &l->output);
    if (l->compute_status != 0)
        return;
    scores_count(l);
    gradients_close(l);
}

/* The message about a step whose result is not a finite number. */
static const char *not_finite_text(const struct lane *l)
{
    if (l->base->outside != NULL)
        return "a score that the program gave is not a finite number";
    if (l->base->job->train.precision == PRECISION_FP16)
        return "the loss is not finite, or gradients overflow at a loss scale of 1: set "
               "train.precision to bf16, look "
               "at the input there or lower the learning rate";
    return "the loss is not finite: look at the input there or lower the learning rate";
}

/* The error of the device. */
static const char *step_error(const struct lane *l)
{
    if (l->slices != NULL)
        return slices_error(l->slices);
    if (l->run == NULL) /* another program has the network */
        return "";
    return model_run_error(l->run);
}

/* A failed device concerns this worker, any other error the job. */
static void compute_failed(struct lane *l, const struct lane_batch *b)
{
    struct err e = {0};
    int status = l->compute_status;
    if (status == SHOAL_E_UNAVAILABLE || status == SHOAL_E_INTERNAL || status == SHOAL_E_NOMEM) {
        const char *why = step_error(l);
        if (why[0] == '\0')
            why = err_text(status);
        l->result.broken = true;
        err_set(&e, status, "the device failed at lane %u batch %" PRIu64 ": %s", l->task.lane,
                b->number, why);
    } else {
        const char *why = err_text(status);
        if (status == SHOAL_E_NOT_FINITE)
            why = not_finite_text(l);
        if (status == SHOAL_E_AGAIN)
            why = "the program gave the batch back undone";
        err_set(&e, status,
                "lane %u batch %" PRIu64 " (epoch %u, rows from position %" PRIu64 "): %s",
                l->task.lane, b->number, l->task.epoch, b->position, why);
    }
    lane_fail(l, status, e.text);
}

/* A norm that is not finite would spoil the sum. */
static bool norms_known(const struct model_output *o)
{
    return !o->skipped && (o->dense_norm > 0 || o->row_norm > 0) && isfinite(o->dense_norm) &&
           isfinite(o->row_norm);
}

static void result_add(struct lane *l, const struct lane_batch *b)
{
    const struct model_output *o = &l->output;
    struct lane_result *r = &l->result;
    r->examples += b->rows->batch.examples;
    r->loss_sum += o->loss_sum;
    r->weight_sum += o->weight_sum;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++) {
        r->loss_task[t] += o->loss_task[t];
        r->weight_task[t] += o->weight_task[t];
    }
    r->experts = model_loads(l->base->model);
    for (uint32_t i = 0; i < r->experts; i++)
        r->load[i] += o->load[i];
    r->batches++;
    r->skipped += o->skipped;
    if (norms_known(o)) {
        r->measured++;
        r->dense_norm += o->dense_norm;
        r->row_norm += o->row_norm;
    }
    r->lr_scale = lane_lr_scale(l, b->number);
}

/* Takes the predictions of a batch, and the number of its rows even without a good line. */
static void scores_take(struct lane *l, struct lane_batch *b)
{
    if (evaluate_scores_add(&l->scores, l->output.scores, &b->rows->batch) != 0)
        lane_fail(l, SHOAL_E_NOMEM, "no memory for what the prediction passes on");
}

/* Adds the result of a computed batch. A skipped step pushes only its tick. */
static void compute_count(struct lane *l, struct lane_batch *b)
{
    result_add(l, b);
    if (lane_evaluates(l)) {
        scores_take(l, b);
        return;
    }
    l->base->stats->examples += b->rows->batch.examples;
    l->base->stats->site_s += l->output.site_time;
    l->base->stats->site_waited_s += l->output.site_waited;
    if (l->output.skipped) {
        l->base->stats->skipped_steps++;
        rows_void(b->rows);
    }
}

/* The batch is computed, or dropped. busy_ns: the time of all threads; path_ns: of those that
 * waited for each other. */
static void compute_done(struct lane *l, uint64_t busy_ns, uint64_t path_ns)
{
    struct lane_batch *b = l->computing;
    SHOAL_ASSERT(b != NULL && b->state == COMPUTING);
    l->computing = NULL;
    l->computed_ns += env_now_ns(l->base->env) - l->computing_since_ns;
    if (b->trace != NULL)
        b->trace->w.compute_ns = path_ns;
    lane_busy(l, STAGE_COMPUTE, busy_ns);
    meter_time(&l->base->stats->steps, path_ns);
    if (l->dropping || l->compute_status != 0) {
        lane_batch_move(b, DRAINING);
        lane_step_computed(l, b, false);
        if (!l->dropping) {
            compute_failed(l, b);
            return;
        }
    } else {
        compute_count(l, b);
        lane_batch_move(b, lane_evaluates(l) ? DRAINING : COMPUTED);
        lane_step_computed(l, b, !l->output.skipped);
    }
    lane_tick(l);
}

static void step_done(struct env_work *w)
{
    compute_done(container_of(w, struct lane, compute), w->ran_ns, w->ran_ns);
}

/* ---- with a window --------------------------------------------------------------------------- */

static void slices_step(struct lane *l)
{
    const struct slices_batch batch = {.in = &l->input,
                                       .out = &l->output,
                                       .rows = l->computing->row_count,
                                       .train = !lane_evaluates(l),
                                       .seed = l->base->job->train.seed,
                                       .lane = l->task.lane,
                                       .batch = l->computing->number};
    slices_start(l->slices, &batch);
}

static void slices_count(void *owner) /* on a thread of the pool */
{
    scores_count(owner);
}

static void close_run(struct turn *t) /* on a thread of the pool */
{
    gradients_close(container_of(t, struct lane, close));
}

static void close_done(struct turn *t)
{
    struct lane *l = container_of(t, struct lane, close);
    struct slices_time took = slices_time(l->slices);
    compute_done(l, took.busy_ns + t->ran_ns, took.path_ns + t->ran_ns);
}

static void slices_done(void *owner)
{
    struct lane *l = owner;
    struct slices_time t = slices_time(l->slices);
    l->compute_status = slices_status(l->slices);
    if (l->compute_status == 0 && !lane_evaluates(l) && !l->dropping)
        turns_start(&l->base->turns, &l->close);
    else
        compute_done(l, t.busy_ns, t.path_ns);
}

/* ---- a batch, a lane ------------------------------------------------------------------------- */

/* Runs forward and backward of the next batch in order, on threads. An empty batch needs
 * neither. */
void lane_compute(struct lane *l, struct lane_batch *b)
{
    SHOAL_ASSERT(b->number == l->next_compute && b->state == READY); /* lane.c, 2 */
    l->next_compute++;
    if (b->rows->batch.examples == 0) {
        if (lane_evaluates(l))
            scores_take(l, b);
        lane_batch_move(b, lane_evaluates(l) ? DRAINING : COMPUTED);
        lane_step_computed(l, b, false);
        return;
    }
    lane_batch_move(b, COMPUTING);
    l->computing = b;
    l->computing_since_ns = env_now_ns(l->base->env);
    rows_input(b->rows, &l->input);
    rows_output(b->rows, &l->output);
    lane_step_arrays(l);
    if (l->slices != NULL)
        slices_step(l);
    else
        env_work_start(l->base->env, &l->compute);
}

int lane_compute_new(struct lane *l, struct err *e)
{
    struct lane_base *base = l->base;
    const struct slices_options options = {.turns = &base->turns,
                                           .model = base->model,
                                           .backend = base->backend,
                                           .schema = base->schema,
                                           .window = job_window(base->job),
                                           .examples = base->job->train.batch,
                                           .beside = slices_count,
                                           .done = slices_done,
                                           .owner = l};
    if (options.window == 1) {
        l->compute = (struct env_work){.run = step_run, .done = step_done};
        if (base->outside != NULL)
            return 0;
        return model_run_new(base->model, options.examples, &l->run, e);
    }
    l->close = (struct turn){.run = close_run, .done = close_done};
    return slices_new(&options, &l->slices, e);
}

void lane_compute_free(struct lane *l)
{
    model_run_free(l->run);
    slices_free(l->slices);
}
