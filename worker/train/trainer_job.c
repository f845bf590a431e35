/* trainer_job.c: PREPARING: makes what the worker needs for the job's text: the input's shape, the
 * model, the seats. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "worker/data/source.h"
#include "worker/train/known_names.h"
#include "worker/train/trainer_inner.h"

#include <stdlib.h>

/* ---- the text -------------------------------------------------------------------------------- */

void trainer_model_drop(struct trainer *t)
{
    SHOAL_ASSERT(!t->preparing);
    for (uint32_t i = 0; i < t->seat_count; i++)
        seat_free(t->seat[i]);
    free(t->seat);
    t->seat = NULL;
    t->seat_count = 0;
    trainer_step_drop(t);
    if (t->have_model)
        model_free(t->model);
    t->have_model = false;
}

void trainer_job_drop(struct trainer *t)
{
    trainer_model_drop(t);
    if (t->have_job) {
        (void)door_admit(&t->door, NULL,
                         0); /* short of memory: the former members may still come */
        inputs_close(&t->inputs);
        job_free(&t->job);
    }
    t->have_job = t->listing = t->listed = false;
    t->known = 0;
}

static void inputs_changed(void *context)
{
    trainer_wake(context);
}

void trainer_job_forget(struct trainer *t)
{
    trainer_job_drop(t);
    source_streams_forget();
}

/* The hash of a job's text without its line of names. */
static uint64_t bare_hash(const char *text, size_t bytes)
{
    struct err e;
    char *bare;
    size_t left;
    if (legend_put(text, bytes, NULL, &bare, &left, &e) != 0)
        return 0;
    uint64_t hash = hash_bytes(bare, left, 1);
    free(bare);
    return hash;
}

/* True where the worker goes on with what it has made of the job. Names come into the text when the
 * first worker has declared the tables: a model that was made before has the same, or this worker
 * would have been refused. */
static bool job_known(struct trainer *t, const char *text, size_t bytes)
{
    uint64_t hash = hash_bytes(text, bytes, 1), bare = bare_hash(text, bytes);
    bool same =
        t->have_job && (hash == t->job_hash || (t->have_model && bare != 0 && bare == t->job_bare));
    t->job_hash = hash;
    t->job_bare = bare;
    return same;
}

/* This worker has no network for the job, or the job none for the program: others take it. */
static int outside_refuse(const struct trainer *t, struct err *e)
{
    if (t->options.outside == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "job %s has model.kind: external: its network is in a program that works "
                       "through libshoal (shoal local JOB --worker COMMAND, or the program itself "
                       "beside the fleet), and shoal-worker has none for it",
                       t->job.name);
    return err_set(e, SHOAL_E_CONFIG,
                   "job %s has model.kind: %s, which shoal-worker trains; a program with its own "
                   "network needs a job with model.kind: external",
                   t->job.name, job_model_name(t->job.model.kind));
}

int trainer_job_take(struct trainer *t, uint64_t number, const char *text, size_t bytes,
                     struct err *e)
{
    /* the text may equal that of yesterday's job, but the input does not */
    if (number != t->job_number && t->job_number != 0)
        trainer_job_forget(t);
    t->job_number = number;
    if (job_known(t, text, bytes))
        return 0;
    trainer_job_drop(t);
    int rc = job_parse(text, bytes, "the submitted job", t->options.set, &t->job, e);
    if (rc != 0)
        return rc;
    const char *command = job_command(&t->job);
    if (t->options.replay && !t->job.replay.on) {
        job_free(&t->job);
        t->broken = true; /* this worker alone: the job continues */
        return err_set(e, SHOAL_E_CONFIG,
                       "the coordinator's job is no replay, it has no section `replay`: "
                       "`shoal-worker train` works on any job");
    }
    if ((t->job.model.kind == MODEL_EXTERNAL) != (t->options.outside != NULL)) {
        rc = outside_refuse(t, e);
        job_free(&t->job);
        t->broken = true;
        return rc;
    }
    if (command != NULL && !t->options.commands) {
        rc = err_set(e, SHOAL_E_DENIED,
                     "%s of the job is a command: this worker runs none unless it is started with "
                     "--allow-commands",
                     command);
        job_free(&t->job);
        return rc;
    }
    t->have_job = true;
    if (t->options.outside != NULL && t->options.outside->job != NULL)
        t->options.outside->job(t->options.outside->context, text, bytes);
    client_set_resend(t->client, t->job.net.resend_ms > 0 ? t->job.net.resend_ms : 1000);
    inputs_init(&t->inputs, t->env, &t->job, inputs_changed, t);
    return 0;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* A seat for each lane that this worker may run; for every lane of the job where a clock, or a step
 * of the network, needs all of them even if only this worker is left. */
static uint32_t seats_wanted(const struct trainer *t)
{
    uint32_t seats = t->options.lanes_max;
    bool all = t->job.train.mode == WIRE_BSP || t->job.train.allreduce;
    if (all && t->lanes > seats)
        seats = MIN(t->lanes, LIMIT_LANES);
    return seats;
}

/* Sets the parameters of lanes that do not depend on the model. */
static void base_set(struct trainer *t)
{
    struct lane_base *base = &t->host.base;
    uint32_t readers = lane_readers(t->options.cores, seats_wanted(t));
    turns_init(&base->turns, t->env, lane_computing(t->options.cores, seats_wanted(t)));
    base->ahead = t->job.train.read_ahead;
    if (base->ahead == 0)
        base->ahead = readers;
    base->readers = MIN(readers, base->ahead);
    SHOAL_ASSERT(base->readers > 0 && base->readers <= base->ahead);
    base->clock_ns = t->options.clock_ns;
    base->job = &t->job;
    base->backend = t->options.backend;
    base->schema = t->schema;
    base->outside = t->options.outside;
}

/* The names travel to the coordinator as one line, which must fit into a message. */
static int names_fit(const struct job *job, struct err *e)
{
    char *line;
    size_t bytes;
    int rc = legend_put("", 0, &job->legend, &line, &bytes, e);
    if (rc == 0)
        free(line);
    return rc;
}

static int model_make(struct trainer *t, struct trainer_made *m)
{
    struct lane_base *base = &t->host.base;
    int rc = model_schemas(&t->job, &t->shape, t->schema, &base->table_count, &m->error);
    if (rc == 0)
        rc = model_new(&t->job, &t->shape, t->options.backend, &m->model, &m->error);
    base->model = m->model;
    if (rc == 0)
        rc = trainer_step_make(t, m);
    return rc;
}

static int seats_make(struct trainer *t, struct trainer_made *m)
{
    uint32_t seats = seats_wanted(t);
    int rc = 0;
    m->seat = calloc(seats, sizeof *m->seat);
    if (m->seat == NULL)
        return err_set(&m->error, SHOAL_E_NOMEM, "no memory for %u lanes", seats);
    for (; rc == 0 && m->seat_count < seats; m->seat_count += rc == 0)
        rc = seat_new(&t->host, &m->seat[m->seat_count], &m->error);
    return rc;
}

/* on a thread of the pool: the loop uses none of this meanwhile */
static void prepare_run(struct env_work *w)
{
    struct trainer *t = container_of(w, struct trainer, prepare);
    struct trainer_made *m = &t->made;
    m->status = dataset_shape(&t->job, &t->shape, &m->error);
    if (m->status == 0)
        m->status = known_names_complete(&t->job, &t->shape, job_reads_only(&t->job), &m->error);
    if (m->status == 0)
        m->status = names_fit(&t->job, &m->error);
    if (m->status != 0)
        return;
    m->status = model_make(t, m);
    bool seats = m->status == 0;
    if (seats)
        m->status = seats_make(t, m);
    m->device = m->status == SHOAL_E_UNAVAILABLE || m->status == SHOAL_E_INTERNAL ||
                (seats && m->status == SHOAL_E_NOMEM);
}

static void made_take(struct trainer *t)
{
    SHOAL_ASSERT(!t->have_model && t->seat_count == 0);
    t->model = t->made.model;
    t->have_model = t->model != NULL;
    t->step = t->host.base.step = t->made.step;
    t->seat = t->made.seat;
    t->seat_count = t->made.seat_count;
    for (uint32_t i = 0; i < t->seat_count; i++)
        seat_begin(t->seat[i]);
}

static void prepare_done(struct env_work *w)
{
    struct trainer *t = container_of(w, struct trainer, prepare);
    struct err e = {0};
    t->preparing = false;
    made_take(t);
    if (t->made.status != 0 && t->made.device) {
        err_set(&e, t->made.status, "the device failed while model and lanes were made: %s",
                t->made.error.text);
        trainer_break(t, e.code, e.text);
    } else if (t->made.status != 0) {
        trainer_end(t, t->made.status, t->made.error.text);
    }
    trainer_tick(t);
}

/* True when the objects of this split must be known before the model is made. */
static bool lists(const struct trainer *t, uint32_t split)
{
    bool unread = split == WIRE_TRAIN && dataset_goes_by_names(&t->job);
    return t->job.data.objects.of[split].on && !unread;
}

void trainer_job_prepare(struct trainer *t)
{
    while (t->known < JOB_SPLITS && !lists(t, t->known))
        t->known++;
    /* forget the list of the previous split */
    inputs_relist(&t->inputs, t->known < JOB_SPLITS ? t->known : WIRE_TRAIN);
    if (t->known < JOB_SPLITS) {
        t->listing = t->listed = false;
        client_start(t->client, &t->objects);
        return;
    }
    t->preparing = !t->have_model;
    if (!t->preparing)
        return;
    t->made = (struct trainer_made){.status = 0};
    base_set(t);
    env_work_start(t->env, &t->prepare);
}

void trainer_job_init(struct trainer *t)
{
    t->prepare = (struct env_work){.run = prepare_run, .done = prepare_done};
}
