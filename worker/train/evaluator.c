/* evaluator.c: scores one split. */
#include "worker/train/evaluator.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/bad_lines.h"
#include "worker/data/inputs.h"
#include "worker/train/known_names.h"
#include "worker/train/lane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
enum { LANES_DEFAULT = 2, PIECE_BATCHES = 8, LANE_PIECES = 4 };

struct piece_lane {
    struct evaluator *owner;
    struct lane *lane;
    uint64_t position; /* start of its piece */
};

struct waiting {
    struct scores scores;
    bool done;
};

struct evaluator {
    struct evaluator_options options;
    struct lane_base base;
    struct stats stats;
    struct client *client;
    struct inputs inputs;
    struct dataset *data; /* the split; NULL until it is open */
    struct model_shape shape;
    struct model *model;
    struct table_schema schema[MODEL_TABLES_MAX];
    struct piece_lane *lane; /* owned (lanes) */
    uint32_t lanes;
    /* the part: rows [first, rows); next: the first row that is not assigned */
    uint64_t split_rows, first, rows, next;
    uint64_t piece_rows, measured; /* rows of a piece; number of pieces measured, in order */
    struct waiting
        /* owned; (LANE_PIECES * lanes): pieces that were finished early; piece i at i modulo the
         * room */
        *waiting;
    uint32_t waiting_room;
    struct measure measure;
    uint64_t bad_lines;
    char bad_where[256];  /* the first malformed line of the file */
    struct request names; /* JOB_TEXT */
    char *text;           /* owned; (text_bytes): its reply, for `prepare` */
    size_t text_bytes;
    bool shaped, preparing, done;
    int status;
    struct err error;
    struct env_work prepare;
    /* set by the thread of `prepare`; separate, because the loop may fail for another reason
     * meanwhile */
    int prepare_status;
    struct err prepare_error;
    struct env_timer wait_timer, tick_timer;
};

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

/* ---- preparing
 * -------------------------------------------------------------------------------- */

static void prepare_run(struct env_work *w) /* on a thread of the pool */
{
    struct evaluator *v = container_of(w, struct evaluator, prepare);
    struct job *job = v->options.job;
    v->prepare_status = known_names_take(job, v->text, v->text_bytes, &v->prepare_error);
    if (v->prepare_status == 0)
        v->prepare_status = dataset_shape(job, &v->shape, &v->prepare_error);
    if (v->prepare_status == 0)
        v->prepare_status = known_names_complete(job, &v->shape, true, &v->prepare_error);
}

static void prepare_done(struct env_work *w)
{
    struct evaluator *v = container_of(w, struct evaluator, prepare);
    SHOAL_ASSERT(v->preparing);
    v->preparing = false;
    v->shaped = v->prepare_status == 0;
    if (!v->shaped)
        evaluator_fail(v, v->prepare_status, v->prepare_error.text);
    evaluator_wake(v);
}

static struct msg *names_build(struct request *r)
{
    struct evaluator *v = container_of(r, struct evaluator, names);
    struct wire w;
    client_head(r, &w);
    text_copy(w.u.JOB_TEXT.space, LIMIT_NAME, v->options.job->space);
    return wire_encode(&w);
}

static enum request_verdict names_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct evaluator *v = container_of(r, struct evaluator, names);
    if (w->status != 0 && client_passing(w->status))
        return REQUEST_LATER;
    if (w->status != 0) {
        evaluator_fail(v, w->status, w->error);
        return REQUEST_DONE;
    }
    size_t bytes = m->frame[1].bytes;
    v->text = malloc(bytes + 1);
    if (v->text == NULL) {
        evaluator_fail(v, SHOAL_E_NOMEM, "no memory for the job's text");
        return REQUEST_DONE;
    }
    memcpy(v->text, m->frame[1].data, bytes);
    v->text_bytes = bytes;
    v->preparing = true;
    env_work_start(v->base.env, &v->prepare);
    return REQUEST_DONE;
}

static int scores_measure(struct evaluator *v, const struct scores *s, struct err *e)
{
    unseen_add(&v->measure.unseen, s->unseen.of, s->unseen.fields);
    if (v->options.take != NULL)
        return v->options.take(v->options.context, s, v->split_rows, e);
    return measure_add(&v->measure, s->score, s->label, s->group, s->by, s->count, e);
}

/* Measures a piece when all earlier ones were measured, then the pieces that waited for it. */
static int piece_take(struct evaluator *v, uint64_t piece, const struct scores *s, struct err *e)
{
    struct waiting *w = &v->waiting[piece % v->waiting_room];
    SHOAL_ASSERT(!w->done && piece - v->measured < v->waiting_room);
    if (piece != v->measured) {
        w->done = true;
        return evaluate_scores_copy(&w->scores, s, v->options.job, e);
    }
    int rc = scores_measure(v, s, e);
    for (v->measured++; rc == 0 && v->waiting[v->measured % v->waiting_room].done; v->measured++) {
        w = &v->waiting[v->measured % v->waiting_room];
        w->done = false;
        rc = scores_measure(v, &w->scores, e);
    }
    return rc;
}

static void lane_ended(void *owner)
{
    struct piece_lane *l = owner;
    struct evaluator *v = l->owner;
    const struct lane_result *result = lane_result(l->lane);
    struct err e = {0};
    if (result->status != 0) {
        evaluator_fail(v, result->status, result->text);
        return;
    }
    v->bad_lines += result->bad_lines;
    bad_lines_least(v->bad_where, sizeof v->bad_where, result->bad_where);
    int rc = 0;
    if (v->status == 0)
        rc = piece_take(v, l->position / v->piece_rows, lane_scores(l->lane), &e);
    if (rc != 0)
        evaluator_fail(v, rc, e.text);
    evaluator_wake(v);
}

/* Chooses the rows of its part: whole pieces. */
static void rows_choose(struct evaluator *v, uint64_t rows)
{
    uint32_t batch = job_batch_rows(v->options.job), part = v->options.part,
             parts = v->options.parts;
    uint32_t batches = PIECE_BATCHES;
    if (LIMIT_BATCH / batch < PIECE_BATCHES)
        batches = LIMIT_BATCH / batch;
    v->piece_rows = (uint64_t)batches * batch;
    SHOAL_ASSERT(v->piece_rows > 0 && v->piece_rows <= LIMIT_BATCH);
    uint64_t pieces = (rows + v->piece_rows - 1) / v->piece_rows, last = pieces;
    if (parts > 0) {
        SHOAL_ASSERT(part < parts);
        v->measured = pieces * part / parts;
        last = pieces * (part + 1) / parts;
    }
    v->first = v->next = v->measured * v->piece_rows;
    if (last == pieces)
        v->rows = rows;
    else
        v->rows = last * v->piece_rows;
    if (v->first > v->rows) /* a part behind the last piece is empty */
        v->first = v->next = v->rows;
}

static int lanes_make(struct evaluator *v, const struct dataset *d, struct err *e)
{
    const struct job *job = v->options.job;
    uint32_t lanes = v->options.lanes;
    if (v->options.lanes == 0)
        lanes = LANES_DEFAULT;

    int rc = model_schemas(job, &v->shape, v->schema, &v->base.table_count, e);
    if (rc == 0)
        rc = model_new(job, &v->shape, v->options.backend, &v->model, e);
    if (rc != 0)
        return rc;
    v->base.model = v->model;
    v->base.backend = v->options.backend;
    v->base.schema = v->schema;
    v->split_rows = dataset_rows(d);
    rows_choose(v, v->split_rows);
    v->waiting_room = LANE_PIECES * lanes;
    v->waiting = calloc(v->waiting_room, sizeof *v->waiting);
    v->lane = calloc(lanes, sizeof *v->lane);
    if (v->waiting == NULL || v->lane == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u lanes", lanes);
    struct measure_options measures = measure_options_of(job, v->rows);
    rc = measure_open(&v->measure, &measures, e);
    v->base.ahead = v->base.readers = lane_readers(v->options.cores, lanes);
    turns_init(&v->base.turns, v->base.env, lane_computing(v->options.cores, lanes));
    while (rc == 0 && v->lanes < lanes) {
        v->lane[v->lanes].owner = v;
        rc = lane_new(&v->base, lane_ended, &v->lane[v->lanes], &v->lane[v->lanes].lane, e);
        if (rc == 0)
            lane_begin(v->lane[v->lanes++].lane);
    }
    return rc;
}

/* ---- assigning pieces and the end
 * ------------------------------------------------------------- */

static void piece_start(struct evaluator *v, struct piece_lane *l)
{
    uint64_t left = v->rows - v->next;
    SHOAL_ASSERT(v->next < v->rows && v->next % v->piece_rows == 0);
    struct wire_LANE_NEXT_reply task = {.kind = WIRE_NEXT_EVAL,
                                        .split = v->options.split,
                                        .position = v->next,
                                        .rows = MIN(left, v->piece_rows),
                                        .unseen = true};
    l->position = v->next;
    v->next += task.rows;
    lane_start(l->lane, &task, v->data);
}

/* True when a piece is left and has room to wait for earlier ones. */
static bool piece_left(const struct evaluator *v)
{
    return v->next < v->rows && v->next / v->piece_rows - v->measured < v->waiting_room;
}

/* Applies the coordinator's limit for the evaluation of a job (server/coord/job/epoch.c). */
static int bad_lines_judge(const struct evaluator *v, struct err *e)
{
    static const char *const names[] = {"data.train: ", "data.valid: ", "data.test: "};
    double limit = v->options.job->data.max_bad;
    if (v->options.parts > 0 || (double)v->bad_lines <= limit * (double)v->rows)
        return 0;
    return bad_lines_refuse(e, names[v->options.split], v->bad_lines, v->rows, limit, v->bad_where);
}

static void evaluator_measure(struct evaluator *v)
{
    SHOAL_ASSERT(v->measured * v->piece_rows >= v->rows);
    v->status = bad_lines_judge(v, &v->error);
    if (v->options.take != NULL || v->status != 0)
        return;
    v->status = measure_finish(&v->measure, &v->error);
    if (v->status == 0 && metric_most(v->measure.metric, v->measure.options.tasks) == 0)
        v->status = err_set(&v->error, SHOAL_E_DATA, "the split has no good line");
}

bool evaluator_settled(const struct evaluator *v)
{
    bool settled = !v->preparing && !inputs_busy(&v->inputs);
    for (uint32_t i = 0; i < v->lanes; i++)
        settled = settled && lane_idle(v->lane[i].lane);
    return settled;
}

static void evaluator_end(struct evaluator *v)
{
    SHOAL_ASSERT(!v->done);
    v->done = true;
    env_timer_stop(v->base.env, &v->wait_timer);
    env_stop(v->base.env);
}

static void evaluator_tick(struct evaluator *v)
{
    struct err e = {0};
    if (v->done || v->preparing)
        return;
    if (v->status != 0) {
        if (evaluator_settled(v))
            evaluator_end(v);
        return;
    }
    int rc;
    if (!v->shaped)
        rc = SHOAL_E_AGAIN;
    else if (v->data != NULL)
        rc = 0;
    else
        rc = inputs_open(&v->inputs, v->options.split, INPUTS_NO_OBJECT, NULL, &v->data, &e);
    if (rc == SHOAL_E_AGAIN || (rc == 0 && client_map(v->client) == NULL))
        return;
    if (rc == 0 && v->lanes == 0)
        rc = lanes_make(v, v->data, &e);
    if (rc != 0) {
        evaluator_fail(v, rc, e.text);
        return;
    }
    bool busy = false;
    for (uint32_t i = 0; i < v->lanes && v->status == 0; i++) {
        if (lane_idle(v->lane[i].lane) && piece_left(v))
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
    evaluator_tick(container_of(t, struct evaluator, tick_timer));
}

static void wait_fire(struct env_timer *t)
{
    struct evaluator *v = container_of(t, struct evaluator, wait_timer);
    struct err e = {0};
    if (client_map(v->client) != NULL && !request_active(&v->names))
        return;
    err_set(&e, SHOAL_E_UNAVAILABLE,
            "no map from the coordinator at %s: is shoal-coordinator running, and has a job made "
            "its tables?",
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

static void evaluator_on_peer_gone(void *core, peer_t peer)
{
    client_peer_gone(((struct evaluator *)core)->client, peer);
}

static void evaluator_on_drained(void *core)
{
    (void)core;
}

const struct env_handler *evaluator_handler(void)
{
    static const struct env_handler handler = {.on_message = evaluator_on_message,
                                               .on_drained = evaluator_on_drained,
                                               .on_peer_gone = evaluator_on_peer_gone};
    return &handler;
}

int evaluator_new(struct env *env, const struct evaluator_options *options, struct evaluator **out,
                  struct err *e)
{
    struct evaluator *v = calloc(1, sizeof *v);
    if (v == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the evaluation");
    v->options = *options;
    struct client_options client = {.coordinator = options->coordinator,
                                    .reads = true,
                                    .space = options->job->space,
                                    .on_map = map_changed,
                                    .context = v};
    int rc = client_new(env, &client, &v->client, e);
    if (rc != 0) {
        free(v);
        return rc;
    }
    v->base = (struct lane_base){
        .env = env, .client = v->client, .job = options->job, .stats = &v->stats};
    inputs_init(&v->inputs, env, options->job, evaluator_wake, v);
    v->wait_timer.fire = wait_fire;
    v->tick_timer.fire = tick_fire;
    v->prepare = (struct env_work){.run = prepare_run, .done = prepare_done};
    env_timer_start(env, &v->wait_timer, (options->wait_ms == 0 ? 30000 : options->wait_ms) * MS);
    client_map_refresh(v->client);
    v->names = (struct request){.type = WIRE_TYPE_JOB_TEXT,
                                .target = CLIENT_COORDINATOR,
                                .build = names_build,
                                .reply = names_reply};
    client_start(v->client, &v->names);
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
    inputs_close(&v->inputs);
    if (v->model != NULL)
        model_free(v->model);
    client_free(v->client);
    free(v->text);
    free(v->lane);
    for (uint32_t i = 0; i < v->waiting_room && v->waiting != NULL; i++)
        evaluate_scores_close(&v->waiting[i].scores);
    free(v->waiting);
    measure_close(&v->measure);
    free(v);
}

uint64_t evaluator_bad_lines(const struct evaluator *v)
{
    return v->bad_lines;
}

const char *evaluator_bad_where(const struct evaluator *v)
{
    return v->bad_where;
}

const struct unseen *evaluator_unseen(const struct evaluator *v)
{
    return &v->measure.unseen;
}

uint64_t evaluator_split_rows(const struct evaluator *v)
{
    return v->split_rows;
}

uint64_t evaluator_rows(const struct evaluator *v)
{
    return v->rows - v->first;
}

int evaluator_result(const struct evaluator *v, const struct measure **out, struct err *e)
{
    if (!v->done)
        return err_set(e, SHOAL_E_UNAVAILABLE, "stopped before the evaluation was complete");
    if (v->status != 0 && e != NULL)
        *e = v->error;
    *out = &v->measure;
    return v->status;
}
