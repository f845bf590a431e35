/* evaluator.c: one split, scored. */
#include "worker/evaluator.h"
#include "proto/base/assert.h"
#include "worker/lane.h"
#include "worker/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
enum { LANES_DEFAULT = 2, PIECE_BATCHES = 8 };

struct piece_lane {
    struct evaluator *owner;
    struct lane *lane;
    uint64_t position; /* where its piece begins */
};

struct evaluator {
    struct evaluator_options options;
    struct lane_base base;
    struct stats stats;
    struct client *client;
    struct split_set splits;
    struct model_shape shape;
    struct model *model;
    struct table_schema schema[MODEL_TABLES_MAX];
    struct piece_lane *lane; /* owned (lanes) */
    uint32_t lanes;
    uint64_t rows, next;  /* of the split; first row not dealt */
    float *score, *label; /* owned (rows): a piece's results begin at its first row */
    uint32_t *count;      /* owned (pieces): good lines of each piece */
    uint64_t piece_rows;
    bool shaped, preparing, done;
    int status;
    struct err error;
    struct metric metric;
    struct env_work prepare;
    struct env_timer wait_timer, tick_timer;
};

#define OWNER_OF(pointer, member) ((struct evaluator *)(void *)((char *)(pointer)-offsetof(struct evaluator, member)))

static void evaluator_tick(struct evaluator *v);

static void evaluator_wake(void *context)
{
    struct evaluator *v = context;
    env_timer_start(v->base.env, &v->tick_timer, 0);
}

static void evaluator_fail(struct evaluator *v, int status, const char *text)
{
    if (v->status == 0 && !v->done) {
        v->status = v->error.code = status;
        snprintf(v->error.text, sizeof v->error.text, "%s", text);
    }
    for (uint32_t i = 0; i < v->lanes; i++)
        lane_drop(v->lane[i].lane, SHOAL_E_STOPPED);
    evaluator_wake(v);
}

/* ---- making ready ----------------------------------------------------------------------------------------- */

static void prepare_run(struct env_work *w) /* on a thread of the pool */
{
    struct evaluator *v = OWNER_OF(w, prepare);

    v->status = dataset_shape(v->options.job, &v->shape, &v->error);
}

static void prepare_done(struct env_work *w)
{
    struct evaluator *v = OWNER_OF(w, prepare);

    v->preparing = false;
    v->shaped = v->status == 0;
    evaluator_wake(v);
}

static void lane_ended(void *owner)
{
    struct piece_lane *l = owner;
    struct evaluator *v = l->owner;
    const struct lane_result *result = lane_result(l->lane);
    const struct scores *scores = lane_scores(l->lane);

    if (result->status != 0) {
        evaluator_fail(v, result->status, result->text);
        return;
    }
    v->count[l->position / v->piece_rows] = scores->count;
    if (scores->count > 0) {
        memcpy(v->score + l->position, scores->score, scores->count * sizeof(float));
        memcpy(v->label + l->position, scores->label, scores->count * sizeof(float));
    }
    evaluator_wake(v);
}

static int lanes_make(struct evaluator *v, const struct dataset *d, struct err *e)
{
    const struct job *job = v->options.job;
    uint32_t lanes = v->options.lanes == 0 ? LANES_DEFAULT : v->options.lanes;
    uint32_t batches = LIMIT_BATCH / job->train.batch < PIECE_BATCHES ? LIMIT_BATCH / job->train.batch : PIECE_BATCHES;

    int status = model_schemas(job, &v->shape, v->schema, &v->base.table_count, e);
    if (status == 0)
        status = model_new(job, &v->shape, v->options.backend, &v->model, e);
    if (status != 0)
        return status;
    v->base.model = v->model;
    v->base.schema = v->schema;
    v->rows = dataset_rows(d);
    v->piece_rows = (uint64_t)batches * job->train.batch;
    v->score = malloc((v->rows + 1) * sizeof(float));
    v->label = malloc((v->rows + 1) * sizeof(float));
    v->count = calloc(v->rows / v->piece_rows + 1, sizeof *v->count);
    v->lane = calloc(lanes, sizeof *v->lane);
    if (v->score == NULL || v->label == NULL || v->count == NULL || v->lane == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the scores of %llu rows", (unsigned long long)v->rows);
    while (status == 0 && v->lanes < lanes) {
        v->lane[v->lanes].owner = v;
        status = lane_new(&v->base, lane_ended, &v->lane[v->lanes], &v->lane[v->lanes].lane, e);
        v->lanes += status == 0;
    }
    return status;
}

/* ---- dealing and the end ---------------------------------------------------------------------------------- */

static void piece_start(struct evaluator *v, struct piece_lane *l)
{
    uint64_t left = v->rows - v->next;
    struct wire_LANE_NEXT_reply task = {.kind = WIRE_NEXT_EVAL,
                                        .split = v->options.split,
                                        .position = v->next,
                                        .rows = left < v->piece_rows ? left : v->piece_rows};

    l->position = v->next;
    v->next += task.rows;
    lane_start(l->lane, &task);
}

/* Bad lines leave holes at the ends of pieces: closed, then measured. */
static void evaluator_measure(struct evaluator *v)
{
    size_t count = 0;

    for (uint64_t at = 0, piece = 0; at < v->rows; at += v->piece_rows, piece++) {
        memmove(v->score + count, v->score + at, v->count[piece] * sizeof(float));
        memmove(v->label + count, v->label + at, v->count[piece] * sizeof(float));
        count += v->count[piece];
    }
    v->status = count == 0 ? err_set(&v->error, SHOAL_E_DATA, "the split has no good line")
                           : metric_compute(v->score, v->label, count, &v->metric);
    if (v->status == SHOAL_E_NOMEM)
        err_set(&v->error, v->status, "no memory to sort %zu scores", count);
}

bool evaluator_settled(const struct evaluator *v)
{
    bool settled = !v->preparing && !split_busy(&v->splits);

    for (uint32_t i = 0; i < v->lanes; i++)
        settled = settled && lane_idle(v->lane[i].lane);
    return settled;
}

static void evaluator_end(struct evaluator *v)
{
    v->done = true;
    env_timer_stop(v->base.env, &v->wait_timer);
    env_stop(v->base.env);
}

static void evaluator_tick(struct evaluator *v)
{
    struct dataset *d = NULL;
    struct err e = {0};

    if (v->done || v->preparing)
        return;
    if (v->status != 0) {
        if (evaluator_settled(v))
            evaluator_end(v);
        return;
    }
    int status = v->shaped ? split_open(&v->splits, v->options.split, &d, &e) : SHOAL_E_AGAIN;
    if (status == SHOAL_E_AGAIN || (status == 0 && client_map(v->client) == NULL))
        return;
    v->base.data[v->options.split] = d;
    if (status == 0 && v->lanes == 0)
        status = lanes_make(v, d, &e);
    if (status != 0) {
        evaluator_fail(v, status, e.text);
        return;
    }
    bool busy = false;
    for (uint32_t i = 0; i < v->lanes && v->status == 0; i++) {
        if (lane_idle(v->lane[i].lane) && v->next < v->rows)
            piece_start(v, &v->lane[i]);
        busy = busy || !lane_idle(v->lane[i].lane);
    }
    if (!busy && v->next >= v->rows && v->status == 0) {
        evaluator_measure(v);
        evaluator_end(v);
    }
}

static void tick_fire(struct env_timer *t)
{
    evaluator_tick(OWNER_OF(t, tick_timer));
}

static void wait_fire(struct env_timer *t)
{
    struct evaluator *v = OWNER_OF(t, wait_timer);
    struct err e = {0};

    if (client_map(v->client) != NULL)
        return;
    err_set(&e, SHOAL_E_UNAVAILABLE,
            "no map from the coordinator at %s: is shoal-coordinator running, and has a job made its tables?",
            client_coordinator(v->client));
    evaluator_fail(v, e.code, e.text);
}

static void map_changed(void *context)
{
    struct evaluator *v = context;

    for (uint32_t i = 0; i < v->lanes; i++)
        lane_remap(v->lane[i].lane);
    evaluator_wake(v);
}

static void evaluator_on_message(void *core, peer_t from, struct msg *m)
{
    client_message(((struct evaluator *)core)->client, from, m);
}

static void evaluator_on_drained(void *core)
{
    (void)core;
}

const struct env_handler *evaluator_handler(void)
{
    static const struct env_handler handler = {.on_message = evaluator_on_message, .on_drained = evaluator_on_drained};
    return &handler;
}

int evaluator_new(struct env *env, const struct evaluator_options *options, struct evaluator **out, struct err *e)
{
    struct evaluator *v = calloc(1, sizeof *v);

    if (v == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the evaluation");
    v->options = *options;
    struct client_options client = {.coordinator = options->coordinator, .on_map = map_changed, .context = v};
    int status = client_new(env, &client, &v->client, e);
    if (status != 0) {
        free(v);
        return status;
    }
    v->base = (struct lane_base){.env = env, .client = v->client, .job = options->job, .stats = &v->stats};
    split_init(&v->splits, env, options->job, evaluator_wake, v);
    v->wait_timer.fire = wait_fire;
    v->tick_timer.fire = tick_fire;
    v->prepare = (struct env_work){.run = prepare_run, .done = prepare_done};
    env_timer_start(env, &v->wait_timer, (options->wait_ms == 0 ? 30000 : options->wait_ms) * MS);
    client_map_refresh(v->client);
    v->preparing = true;
    env_work_start(env, &v->prepare);
    *out = v;
    return 0;
}

void evaluator_free(struct evaluator *v)
{
    if (v == NULL)
        return;
    SHOAL_ASSERT(evaluator_settled(v));
    env_timer_stop(v->base.env, &v->wait_timer);
    env_timer_stop(v->base.env, &v->tick_timer);
    for (uint32_t i = 0; i < v->lanes; i++)
        lane_free(v->lane[i].lane);
    split_close(&v->splits);
    if (v->model != NULL)
        model_free(v->model);
    client_free(v->client);
    free(v->lane);
    free(v->score);
    free(v->label);
    free(v->count);
    free(v);
}

int evaluator_result(const struct evaluator *v, struct metric *out, struct err *e)
{
    if (!v->done)
        return err_set(e, SHOAL_E_STOPPED, "stopped before the evaluation was complete");
    if (v->status != 0 && e != NULL)
        *e = v->error;
    *out = v->metric;
    return v->status;
}
