/* trainer_job.c: builds from the job's text: the input's shape, the model, the seats, the declared
 * tables. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/data/object.h"
#include "worker/data/source.h"
#include "worker/train/known_names.h"
#include "worker/train/trainer_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (command != NULL && !t->options.commands) {
        rc = err_set(e, SHOAL_E_DENIED,
                     "%s of the job is a command: this worker runs none unless it is started with "
                     "--allow-commands",
                     command);
        job_free(&t->job);
        return rc;
    }
    t->have_job = true;
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

/* ---- a log of objects ------------------------------------------------------------------------ */

static void *lines_put(const struct string_list *lines, void *at)
{
    char *to = at;
    for (size_t i = 0; i < lines->count; i++) {
        size_t n = strlen(lines->item[i]);
        memcpy(to, lines->item[i], n);
        to[n] = '\n';
        to += n + 1;
    }
    return to;
}

/* The split to list: before the model is made split by split, then that of the growing log. */
static uint32_t split_asked(const struct trainer *t)
{
    SHOAL_ASSERT(t->known < JOB_SPLITS || t->state == WORKING);
    return t->state == WORKING ? WIRE_TRAIN : t->known;
}

/* Builds a question or, when the list is there, the answer for all workers. */
static struct msg *objects_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, objects);
    const struct dataset_listed *s = &t->inputs.got;
    size_t bytes = 0, head = 0;
    if (s->head != NULL)
        head = strlen(s->head);
    struct wire w;
    client_head(r, &w);
    w.u.OBJECTS.pass = t->host.pass;
    w.u.OBJECTS.count = (uint32_t)s->lines.count;
    w.u.OBJECTS.due = t->state == WORKING;
    w.u.OBJECTS.listed = t->listed;
    w.u.OBJECTS.token = t->list_token;
    w.u.OBJECTS.gone = s->gone_bytes;
    if (t->listed) {
        w.u.OBJECTS.fail_status = t->inputs.list_status;
        (void)snprintf(w.u.OBJECTS.fail_text, ERR_TEXT_MAX, "%s", t->inputs.list_error.text);
    }
    w.u.OBJECTS.split = split_asked(t);
    for (size_t i = 0; i < s->lines.count; i++)
        bytes += strlen(s->lines.item[i]) + 1;
    struct msg *m = wire_encode(&w);
    void *lines = NULL;
    if (m != NULL)
        lines = msg_add(m, bytes);
    char *first = NULL;
    if (lines != NULL)
        first = msg_add(m, head + s->gone_bytes);
    if (first == NULL) {
        msg_free(m);
        return NULL;
    }
    (void)lines_put(&s->lines, lines);
    if (head > 0)
        memcpy(first, s->head, head);
    if (s->gone_bytes > 0)
        memcpy(first + head, s->gone, s->gone_bytes);
    return m;
}

/* Starts a list: the worker with the token makes it; a growing log leaves out the names in
 * inputs.taken. */
static void list_begin(struct trainer *t)
{
    inputs_relist(&t->inputs, split_asked(t));
    t->listing = true;
    trainer_wake(t);
}

static struct msg *taken_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, taken);
    struct wire w;
    client_head(r, &w);
    w.u.TAKEN.pass = t->host.pass;
    w.u.TAKEN.digest = nameset_digest(&t->inputs.taken);
    return wire_encode(&w);
}

static enum request_verdict taken_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, taken);
    struct nameset *taken = &t->inputs.taken;
    if (w->status == SHOAL_E_UNAVAILABLE) {
        trainer_clear(t, true, 0, "");
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (w->status != 0) {
        trainer_end(t, w->status, wire_error(w));
        return REQUEST_DONE;
    }
    if (w->u.TAKEN_reply.digest != nameset_digest(taken)) {
        nameset_close(taken);
        if (nameset_add_all(taken, m->frame[1].data, w->u.TAKEN_reply.count) != 0) {
            nameset_close(taken);
            return REQUEST_LATER;
        }
    }
    list_begin(t);
    return REQUEST_DONE;
}

static enum request_verdict objects_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, objects);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        trainer_clear(t, true, 0, "");
        return REQUEST_DONE;
    }
    bool works = t->state == WORKING; /* a growing log */
    if (t->listed || works)
        /* the list was sent, or is not wanted any more */
        inputs_relist(&t->inputs, WIRE_TRAIN);
    t->listed = false;
    if (client_passing(w->status) && !works) /* AGAIN: another worker lists them */
        return REQUEST_LATER;
    if (client_passing(w->status)) /* they are listed again */
        return REQUEST_DONE;
    if (w->status != 0 && works) {
        log_warn("the coordinator refused the list of objects: %s", w->error);
        return REQUEST_DONE;
    }
    if (w->status != 0) {
        trainer_end(t, w->status, wire_error(w));
        return REQUEST_DONE;
    }
    if (w->u.OBJECTS_reply.list) {
        t->list_token = w->u.OBJECTS_reply.token;
        if (split_asked(t) == WIRE_TRAIN && t->job.data.objects.grow_ms > 0)
            client_start(t->client, &t->taken);
        else
            list_begin(t);
        return REQUEST_DONE;
    }
    if (works)
        return REQUEST_DONE;
    const struct frame *head = &m->frame[1];
    char *first = NULL;
    if (head->bytes != 0)
        first = strndup(head->data, head->bytes);
    if (head->bytes > 0 && first == NULL)
        return REQUEST_LATER;
    if (t->known++ == WIRE_TRAIN) {
        free(t->job.data.head);
        t->job.data.head = first;
    } else {
        free(first);
    }
    trainer_job_prepare(t);
    trainer_wake(t);
    return REQUEST_DONE;
}

void trainer_job_list(struct trainer *t)
{
    struct err e = {0};
    int rc = inputs_list(&t->inputs, &e);
    if (rc == SHOAL_E_AGAIN)
        return;
    t->listing = false;
    t->listed = split_asked(t) == WIRE_TRAIN && t->job.data.objects.grow_ms > 0;
    /* if there never was a list, the job file is wrong; a list that existed, here or at another
     * worker, will come back */
    bool was = t->state == WORKING || t->inputs.known;
    if (rc != 0 && !(t->listed && was))
        trainer_end(t, rc, e.text);
    else
        client_start(t->client, &t->objects);
}

void trainer_job_list_again(struct trainer *t)
{
    if (t->state == WORKING && !t->listing && !request_active(&t->objects) &&
        !request_active(&t->taken))
        client_start(t->client, &t->objects);
}

/* ---- another backend ------------------------------------------------------------------------- */

static void replace_run(struct env_work *w) /* on a thread of the pool */
{
    struct trainer *t = container_of(w, struct trainer, replace);
    t->replace_status = t->options.replace(t->options.context, &t->replacement, &t->replace_error);
}

static void replace_done(struct env_work *w)
{
    struct trainer *t = container_of(w, struct trainer, replace);
    t->replacing = false;
    trainer_replaced(t);
}

void trainer_job_replace(struct trainer *t)
{
    SHOAL_ASSERT(!t->preparing && !t->replacing);
    t->replacing = true;
    env_work_start(t->env, &t->replace);
}

/* ---- declaring ------------------------------------------------------------------------------- */

static struct msg *tell_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, tell);
    struct wire w;
    char *line;
    size_t bytes;
    client_head(r, &w);
    w.u.LEGEND.pass = t->host.pass;
    if (legend_put("", 0, &t->job.legend, &line, &bytes, NULL) != 0)
        return NULL; /* no memory, because they fit: names_fit */
    struct msg *m = wire_encode(&w);
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data != NULL)
        memcpy(data, line, bytes);
    free(line);
    if (data != NULL)
        return m;
    msg_free(m);
    return NULL;
}

/* Handles the reply to a request about the tables; false: the request is finished. */
static bool answered_well(struct trainer *t, const struct wire *w, enum request_verdict *verdict)
{
    *verdict = REQUEST_DONE;
    if (w->status == SHOAL_E_UNAVAILABLE)
        trainer_clear(t, true, 0, "");
    else if (client_passing(w->status))
        *verdict = REQUEST_LATER;
    else if (w->status != 0)
        trainer_end(t, w->status, wire_error(w));
    return w->status == 0;
}

static enum request_verdict tell_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, tell);
    enum request_verdict verdict;
    (void)m;
    if (answered_well(t, w, &verdict))
        client_start(t->client, &t->declare);
    return verdict;
}

static struct msg *declare_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, declare);
    const struct table_schema *schema = &t->schema[t->declared];
    SHOAL_ASSERT(t->declared < t->host.base.table_count);
    struct wire_TABLE_CREATE create;
    struct wire w;
    client_head(r, &w);
    wire_schema_to(schema, &create);
    _Static_assert(offsetof(struct wire_TABLE_DECLARE, declared_total) <= sizeof create,
                   "DECLARE is CREATE and one more field");
    memcpy(&w.u.TABLE_DECLARE, &create, offsetof(struct wire_TABLE_DECLARE, declared_total));
    w.u.TABLE_DECLARE.declared_total = t->host.base.table_count;
    struct msg *m = wire_encode(&w);
    size_t bytes = schema->field_rule_count * sizeof schema->field_rule[0];
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data == NULL) {
        msg_free(m);
        return NULL;
    }
    memcpy(data, schema->field_rule, bytes);
    return m;
}

static enum request_verdict declare_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, declare);
    enum request_verdict verdict;
    (void)m;
    if (answered_well(t, w, &verdict) && ++t->declared < t->host.base.table_count)
        client_start(t->client, r);
    return verdict;
}

/* ---- the profile of the input
 * ----------------------------------------------------------------- */

static struct msg *profile_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, profile);
    struct wire w;
    client_head(r, &w);
    w.u.PROFILE.pass = t->host.pass;
    size_t bytes = strlen(t->inputs.profile);
    struct msg *m = wire_encode(&w);
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data != NULL) {
        memcpy(data, t->inputs.profile, bytes);
        return m;
    }
    msg_free(m);
    return NULL;
}

/* The job goes on without a profile where the coordinator refuses it. */
static enum request_verdict profile_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    (void)r;
    (void)m;

    if (client_passing(w->status))
        return REQUEST_LATER;

    return REQUEST_DONE;
}

static void profile_tell(struct trainer *t)
{
    if (t->profiled || t->inputs.profile == NULL || t->state != WORKING)
        return;
    t->profiled = true;
    client_start(t->client, &t->profile);
}

void trainer_job_declare(struct trainer *t)
{
    t->declared = 0;
    client_start(t->client, &t->tell);
}

void trainer_job_init(struct trainer *t)
{
    t->objects = (struct request){.type = WIRE_TYPE_OBJECTS,
                                  .target = CLIENT_COORDINATOR,
                                  .build = objects_build,
                                  .reply = objects_reply};
    t->taken = (struct request){.type = WIRE_TYPE_TAKEN,
                                .target = CLIENT_COORDINATOR,
                                .build = taken_build,
                                .reply = taken_reply};
    t->tell = (struct request){.type = WIRE_TYPE_LEGEND,
                               .target = CLIENT_COORDINATOR,
                               .build = tell_build,
                               .reply = tell_reply};
    t->declare = (struct request){.type = WIRE_TYPE_TABLE_DECLARE,
                                  .target = CLIENT_COORDINATOR,
                                  .build = declare_build,
                                  .reply = declare_reply};
    t->profile = (struct request){.type = WIRE_TYPE_PROFILE,
                                  .target = CLIENT_COORDINATOR,
                                  .build = profile_build,
                                  .reply = profile_reply};
    t->prepare = (struct env_work){.run = prepare_run, .done = prepare_done};
    t->replace = (struct env_work){.run = replace_run, .done = replace_done};
}

/* ---- requests of seats
 * ------------------------------------------------------------------------ */

/* A worker that stays has the map of the previous job until the tables of this job are known, and
 * that map may lack tablets. Shards notice a map that is complete but old. */
static bool map_has_all(const struct trainer *t)
{
    const struct map *map = client_map(t->client);
    const struct table_schema *last = &t->schema[t->host.base.table_count - 1];
    SHOAL_ASSERT(t->host.base.table_count > 0);
    return map != NULL && last->tablet_first + (1u << last->tablet_bits) <= map->tablet_count;
}

static int host_ready(void *context, const struct wire_LANE_NEXT_reply *task, struct dataset **data,
                      struct err *e)
{
    struct trainer *t = context;
    char line[LIMIT_PATH];
    bool map = task->kind != WIRE_NEXT_INDEX, rows = !map || task->rows > 0;
    if (map && !map_has_all(t)) {
        client_map_refresh(t->client);
        return SHOAL_E_AGAIN;
    }
    object_line(task->object_name, task->object_mark, line);
    uint32_t object = INPUTS_NO_OBJECT;
    if (task->object != 0)
        object = task->object - 1;
    int rc = 0;
    if (rows)
        rc = inputs_open(&t->inputs, task->split, object, line, data, e);
    profile_tell(t); /* before the seat's report */
    return rc;
}

static void host_release(void *context, const struct dataset *data)
{
    struct trainer *t = context;
    inputs_release(&t->inputs, data);
}

static void host_freed(void *context)
{
    trainer_wake(context);
}

static bool host_held(void *context, const struct seat *but, uint32_t lane, uint64_t generation)
{
    struct trainer *t = context;
    for (uint32_t i = 0; i < t->seat_count; i++) {
        struct seat *s = t->seat[i];
        if (s == but || seat_lane(s) != lane)
            continue;
        if (seat_generation(s) >= generation)
            return true;
        seat_drop(s); /* fenced: the same lane came back under a newer generation */
    }
    return false;
}

static uint32_t host_lanes(void *context)
{
    const struct trainer *t = context;
    uint32_t held = 0;
    for (uint32_t i = 0; i < t->seat_count; i++)
        held += seat_lane(t->seat[i]) != SEAT_NO_LANE;
    return held;
}

static void host_end(void *context)
{
    trainer_end(context, 0, "");
}

static void host_unknown(void *context)
{
    trainer_forgotten(context);
}

static void host_fatal(void *context, int status, const char *text)
{
    trainer_end(context, status, text);
}

static void host_apart(void *context, const char *text)
{
    trainer_apart(context, text);
}

static void host_broken(void *context, int status, const char *text)
{
    trainer_break(context, status, text);
}

void trainer_host_init(struct trainer *t)
{
    t->host = (struct seat_host){
        .base = {.env = t->env, .client = t->client, .stats = &t->stats, .traces = &t->traces},
        .context = t,
        .ready = host_ready,
        .release = host_release,
        .freed = host_freed,
        .held = host_held,
        .lanes = host_lanes,
        .end = host_end,
        .unknown = host_unknown,
        .fatal = host_fatal,
        .apart = host_apart,
        .broken = host_broken};
}
