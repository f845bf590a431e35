/* seat.c: asks for work, does it, reports it. */
#include "worker/train/seat.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/task_figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
enum { WAIT_MS_MIN = 10, WAIT_MS_MAX = 5000, WAIT_MS_DEFAULT = 200 };

enum seat_state { FREE, ASKING, RESTING, OPENING, WORKING, REPORTING, DROPPING };
static const char *const names[] = {
    [FREE] = "free",         [ASKING] = "asking",   [RESTING] = "resting",
    [OPENING] = "opening",   [WORKING] = "working", [REPORTING] = "reporting",
    [DROPPING] = "dropping",
};
/* DROPPING: given up while its lane is at work; FREE when that ends. */
static const uint32_t moves[] = {
    [FREE] = SM_TO(ASKING),
    [ASKING] = SM_TO(RESTING) | SM_TO(OPENING) | SM_TO(FREE),
    [RESTING] = SM_TO(ASKING) | SM_TO(FREE),
    [OPENING] = SM_TO(WORKING) | SM_TO(REPORTING) | SM_TO(FREE),
    [WORKING] = SM_TO(REPORTING) | SM_TO(FREE) | SM_TO(DROPPING),
    [REPORTING] = SM_TO(ASKING) | SM_TO(FREE) | SM_TO(WORKING),
    [DROPPING] = SM_TO(FREE),
};
const struct sm seat_moves = SM("a seat", names, moves);

struct seat {
    struct seat_host *host; /* borrowed */
    enum seat_state state;
    uint32_t number;     /* the lane that it holds, or SEAT_NO_LANE */
    uint64_t generation; /* generation of that lane */
    uint64_t batch;      /* last batch of the lane that all shards acknowledged */
    struct lane *lane;   /* owned; the lane that runs tasks */
    struct wire_LANE_NEXT_reply task;
    struct dataset *data; /* the input of the task, while it needs it; else NULL */
    struct request ask, files, report;
    struct env_timer rest;
    bool proves;      /* proves its input before it begins a task */
    int index_status; /* result of INDEX */
    struct err index_error;
};

static void seat_move(struct seat *s, enum seat_state to)
{
    struct dataset *data = s->data;
    sm_move(&seat_moves, &s->state, to);
    if (data == NULL || to == WORKING || to == REPORTING || to == DROPPING)
        return;
    s->data = NULL;
    s->host->release(s->host->context, data);
}

/* The seat no longer holds its lane, if it had one. */
static void seat_leave(struct seat *s)
{
    s->number = SEAT_NO_LANE;
    s->generation = 0;
    s->batch = 0;
    seat_move(s, FREE);
    s->host->freed(s->host->context);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct msg *ask_build(struct request *r)
{
    struct seat *s = container_of(r, struct seat, ask);
    struct wire w;
    SHOAL_ASSERT(s->state == ASKING);
    client_head(r, &w);
    w.u.LANE_NEXT.pass = s->host->pass;
    w.u.LANE_NEXT.lane = s->number;
    w.u.LANE_NEXT.generation = s->generation;
    w.u.LANE_NEXT.batch = s->batch;
    if (s->number == SEAT_NO_LANE)
        w.u.LANE_NEXT.batch = s->host->lanes(s->host->context);

    return wire_encode(&w);
}

void seat_ask(struct seat *s)
{
    seat_move(s, ASKING);
    client_start(s->host->base.client, &s->ask);
}

static void rest_fire(struct env_timer *t)
{
    struct seat *s = container_of(t, struct seat, rest);
    SHOAL_ASSERT(s->state == RESTING);
    seat_ask(s);
}

static void seat_rest(struct seat *s, uint32_t ms)
{
    uint64_t wait = ms;
    if (ms == 0)
        wait = WAIT_MS_DEFAULT;
    else if (ms < WAIT_MS_MIN)
        wait = WAIT_MS_MIN;
    else if (ms > WAIT_MS_MAX)
        wait = WAIT_MS_MAX;

    seat_move(s, RESTING);
    env_timer_start(s->host->base.env, &s->rest, wait * MS);
}

/* Takes a task for a lane and holds the lane, unless another seat holds it (then this is a late
 * copy of an old grant). */
static void seat_take(struct seat *s)
{
    if (s->host->held(s->host->context, s, s->task.lane, s->task.generation)) {
        seat_leave(s);
        return;
    }
    s->number = s->task.lane;
    s->generation = s->task.generation;
    seat_move(s, OPENING);
    s->host->freed(s->host->context); /* another seat may ask now */
    seat_look(s);
}

static enum request_verdict ask_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct seat *s = container_of(r, struct seat, ask);
    struct seat_host *host = s->host;
    (void)m;
    SHOAL_ASSERT(s->state == ASKING);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        host->unknown(host->context);
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (w->status == SHOAL_E_FENCED || w->status == SHOAL_E_OLD_RUN) {
        seat_leave(s);
        return REQUEST_DONE;
    }
    if (w->status != 0) {
        host->fatal(host->context, w->status, w->error);
        return REQUEST_DONE;
    }
    s->task = w->u.LANE_NEXT_reply;
    switch ((enum wire_next)s->task.kind) {
    case WIRE_NEXT_WAIT:
        seat_rest(s, s->task.retry_ms);
        break;
    case WIRE_NEXT_INDEX:
    case WIRE_NEXT_EVAL:
        seat_move(s, OPENING);
        host->freed(host->context);
        seat_look(s);
        break;
    case WIRE_NEXT_TASK:
        seat_take(s);
        break;
    case WIRE_NEXT_LEAVE:
        seat_leave(s);
        break;
    case WIRE_NEXT_END:
        host->end(host->context);
        break;
    default:
        host->fatal(host->context, SHOAL_E_MALFORMED,
                    "the coordinator answers a kind of work that this worker does not know");
    }
    return REQUEST_DONE;
}

/* ---- doing ----------------------------------------------------------------------------------- */

static enum wire_type index_report(const struct seat *s)
{
    bool windows = s->host->base.job->replay.on && s->task.split == WIRE_TRAIN;
    if (s->task.object != 0)
        return WIRE_TYPE_OBJECT_DONE;

    if (windows && s->index_status == 0)
        return WIRE_TYPE_WINDOWS;

    return WIRE_TYPE_INDEX_DONE;
}

static void seat_report(struct seat *s)
{
    seat_move(s, REPORTING);
    if (s->task.kind == WIRE_NEXT_INDEX || s->proves)
        s->report.type = index_report(s);
    else if (s->task.kind == WIRE_NEXT_EVAL)
        s->report.type = WIRE_TYPE_EVAL_DONE;
    else
        s->report.type = WIRE_TYPE_TASK_DONE;

    bool tells = s->task.kind == WIRE_NEXT_INDEX && s->index_status == 0 && s->task.object == 0 &&
                 s->task.split == WIRE_TRAIN;
    client_start(s->host->base.client, tells ? &s->files : &s->report);
}

/* True when the seat must prove its input before its first task. Otherwise a worker that joined
 * after a file was replaced would train the job on parts of both versions. Objects are identified
 * by their marks. */
static bool seat_unproved(const struct seat *s)
{
    const struct job *job = s->host->base.job;
    return s->data != NULL && s->task.object == 0 && s->task.split < JOB_SPLITS &&
           !job->data.objects.of[s->task.split].on && !s->host->proved[s->task.split];
}

static void seat_work_begin(struct seat *s)
{
    seat_move(s, WORKING);
    lane_start(s->lane, &s->task, s->data);
}

void seat_look(struct seat *s)
{
    struct err e = {0};
    if (s->state != OPENING)
        return;
    bool index = s->task.kind == WIRE_NEXT_INDEX;
    int rc = s->host->ready(s->host->context, &s->task, &s->data, &e);
    if (rc == SHOAL_E_AGAIN)
        return;
    if (index) {
        s->index_status = rc;
        s->index_error = e;
        seat_report(s);
    } else if (rc != 0) {
        /* other workers could read it, so it is missing or damaged only here */
        bool here = rc == SHOAL_E_NOINPUT || rc == SHOAL_E_DATA || rc == SHOAL_E_CHECKSUM;
        if (here && s->task.object == 0)
            s->host->apart(s->host->context, e.text);
        else
            s->host->fatal(s->host->context, rc, e.text);
    } else if (seat_unproved(s)) {
        s->proves = true;
        s->index_status = 0;
        seat_report(s);
    } else {
        seat_work_begin(s);
    }
}

/* on_end of the lane. */
static void seat_worked(void *owner)
{
    struct seat *s = owner;
    const struct lane_result *result = lane_result(s->lane);
    SHOAL_ASSERT(s->state == WORKING || s->state == DROPPING);
    if (s->state == DROPPING) {
        seat_move(s, FREE);
        s->host->freed(s->host->context);
        return;
    }
    switch (result->status) {
    case 0:
        seat_report(s);
        break;
    case SHOAL_E_FENCED:
    case SHOAL_E_OLD_RUN:
        log_info("lane %u generation %" PRIu64 " was taken away: %s", s->number, s->generation,
                 result->text);
        seat_leave(s);
        break;
    /* acknowledged pushes are lost: the worker joins anew and gets the lane from the state that is
     * left */
    case SHOAL_E_GAP:
        log_warn("%s", result->text);
        s->host->unknown(s->host->context);
        break;
    default:
        if (result->broken)
            s->host->broken(s->host->context, result->status, result->text);
        else
            s->host->fatal(s->host->context, result->status, result->text);
    }
}

/* ---- reporting ------------------------------------------------------------------------------- */

static struct msg *index_message(const struct seat *s)
{
    struct wire w;
    client_head(&s->report, &w);
    w.u.INDEX_DONE.pass = s->host->pass;
    w.u.INDEX_DONE.split = s->task.split;
    if (s->index_status != 0) {
        w.u.INDEX_DONE.fail_status = s->index_status;
        snprintf(w.u.INDEX_DONE.fail_text, sizeof w.u.INDEX_DONE.fail_text, "%s",
                 s->index_error.text);
    } else {
        const struct dataset *d = s->data;
        w.u.INDEX_DONE.rows = dataset_rows(d);
        w.u.INDEX_DONE.digest = dataset_digest(d);
        snprintf(w.u.INDEX_DONE.warning, sizeof w.u.INDEX_DONE.warning, "%s", dataset_warning(d));
    }
    return wire_encode(&w);
}

/* Adds the windows of the indexed input as a frame; NULL: no memory. */
static struct msg *windows_add(struct msg *m, const struct dataset *d, uint32_t windows)
{
    struct wire_window *frame = NULL;
    if (m != NULL)
        frame = msg_add(m, windows * sizeof *frame);
    for (uint32_t i = 0; frame != NULL && i < windows; i++)
        frame[i].rows = dataset_window(d, i, &frame[i].number, &frame[i].first);
    if (frame != NULL)
        return m;
    msg_free(m);
    return NULL;
}

static struct msg *object_message(const struct seat *s)
{
    bool replay =
        s->task.split == WIRE_TRAIN && s->host->base.job->replay.on && s->index_status == 0;
    struct wire w;
    client_head(&s->report, &w);
    struct wire_OBJECT_DONE *q = &w.u.OBJECT_DONE;
    q->pass = s->host->pass;
    q->split = s->task.split;
    q->object = s->task.object - 1;
    q->salt = hash_bytes(s->task.object_name, strlen(s->task.object_name), 1);
    q->fail_status = s->index_status;
    if (s->index_status != 0) {
        snprintf(q->fail_text, sizeof q->fail_text, "%s", s->index_error.text);
    } else {
        q->rows = dataset_rows(s->data);
        q->digest = dataset_digest(s->data);
        snprintf(q->warning, sizeof q->warning, "%s", dataset_warning(s->data));
    }
    q->windows = 0;
    if (replay)
        q->windows = dataset_windows(s->data);
    return windows_add(wire_encode(&w), s->data, q->windows);
}

static struct msg *windows_message(const struct seat *s)
{
    const struct dataset *d = s->data;
    struct wire w;
    client_head(&s->report, &w);
    w.u.WINDOWS.pass = s->host->pass;
    w.u.WINDOWS.rows = dataset_rows(d);
    w.u.WINDOWS.digest = dataset_digest(d);
    w.u.WINDOWS.windows = dataset_windows(d);
    snprintf(w.u.WINDOWS.warning, sizeof w.u.WINDOWS.warning, "%s", dataset_warning(d));
    return windows_add(wire_encode(&w), d, dataset_windows(d));
}

static struct msg *task_message(const struct seat *s)
{
    const struct lane_result *result = lane_result(s->lane);
    struct wire w;
    client_head(&s->report, &w);
    w.u.TASK_DONE.pass = s->host->pass;
    w.u.TASK_DONE.lane = s->number;
    w.u.TASK_DONE.generation = s->generation;
    w.u.TASK_DONE.task = s->task.task;
    w.u.TASK_DONE.examples = result->examples;
    w.u.TASK_DONE.bad_lines = result->bad_lines;
    w.u.TASK_DONE.drawn = result->drawn;
    w.u.TASK_DONE.clamped = result->clamped;
    w.u.TASK_DONE.first_time = result->first_time;
    w.u.TASK_DONE.last_time = result->last_time;
    w.u.TASK_DONE.loss_sum = result->loss_sum;
    w.u.TASK_DONE.weight_sum = result->weight_sum;
    w.u.TASK_DONE.batches = result->batches;
    w.u.TASK_DONE.skipped = result->skipped;
    w.u.TASK_DONE.measured = result->measured;
    w.u.TASK_DONE.dense_norm_sum = result->dense_norm;
    w.u.TASK_DONE.row_norm_sum = result->row_norm;
    w.u.TASK_DONE.lr_scale = result->lr_scale;
    w.u.TASK_DONE.tasks = MAX(s->host->base.job->data.label_count, 1);
    w.u.TASK_DONE.experts = result->experts;
    snprintf(w.u.TASK_DONE.bad_where, sizeof w.u.TASK_DONE.bad_where, "%s", result->bad_where);
    w.u.TASK_DONE.refused = result->refused;
    snprintf(w.u.TASK_DONE.refused_where, sizeof w.u.TASK_DONE.refused_where, "%s",
             result->refused_where);
    size_t bytes = 0;
    void *figures = task_figures(result, (uint32_t)s->host->base.job->evaluate.by.count,
                                 &w.u.TASK_DONE, &bytes);
    struct msg *m = NULL;
    if (figures != NULL)
        m = wire_encode(&w);
    void *histogram = NULL;
    if (m != NULL)
        histogram = msg_add(m, sizeof result->staleness);
    void *frame = NULL;
    if (histogram != NULL)
        frame = msg_add(m, bytes);
    if (frame != NULL) {
        memcpy(histogram, result->staleness, sizeof result->staleness);
        memcpy(frame, figures, bytes);
    } else {
        msg_free(m);
        m = NULL;
    }
    free(figures);
    return m;
}

static struct msg *report_build(struct request *r)
{
    struct seat *s = container_of(r, struct seat, report);
    SHOAL_ASSERT(s->state == REPORTING && lane_idle(s->lane));
    if (s->task.kind == WIRE_NEXT_INDEX && s->task.object != 0)
        return object_message(s);
    bool indexed = s->task.kind == WIRE_NEXT_INDEX || s->proves;
    if (indexed && index_report(s) == WIRE_TYPE_WINDOWS)
        return windows_message(s);
    if (indexed)
        return index_message(s);
    if (s->task.kind == WIRE_NEXT_EVAL)
        return evaluate_scores_message(lane_scores(s->lane), r->id, s->host->pass, s->task.task,
                                       lane_result(s->lane)->bad_lines);
    return task_message(s);
}

/* Reports the names of the files, before the index, which reports their rows. */
static struct msg *files_build(struct request *r)
{
    struct seat *s = container_of(r, struct seat, files);
    struct wire w;
    client_head(r, &w);
    w.u.FILES.pass = s->host->pass;
    struct nameset_item *item = dataset_files(s->data, &w.u.FILES.count, &w.u.FILES.unknown);
    size_t bytes = w.u.FILES.count * sizeof *item;
    struct msg *m = NULL;
    if (item != NULL)
        m = wire_encode(&w);
    void *frame = NULL;
    if (m != NULL)
        frame = msg_add(m, bytes);
    if (frame != NULL && bytes > 0)
        memcpy(frame, item, bytes);
    free(item);
    if (frame != NULL)
        return m;
    msg_free(m);
    return NULL;
}

static enum request_verdict files_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct seat *s = container_of(r, struct seat, files);
    (void)m;
    SHOAL_ASSERT(s->state == REPORTING);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        s->host->unknown(s->host->context);
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    client_start(s->host->base.client, &s->report);
    return REQUEST_DONE;
}

/* Any other refusal says nothing about the input. */
static enum request_verdict proof_reply(struct seat *s, const struct wire *w)
{
    struct seat_host *host = s->host;
    s->proves = false;
    if (w->status == SHOAL_E_DATA) {
        host->apart(host->context, w->error);
    } else if (w->status == SHOAL_E_FENCED || w->status == SHOAL_E_OLD_RUN) {
        seat_leave(s);
    } else {
        if (w->status != 0)
            log_warn("the coordinator does not say whether this worker's input is the job's: %s",
                     w->error);
        host->proved[s->task.split] = true;
        seat_work_begin(s);
    }
    return REQUEST_DONE;
}

static enum request_verdict report_reply(struct request *r, const struct wire *w,
                                         const struct msg *m)
{
    struct seat *s = container_of(r, struct seat, report);
    struct seat_host *host = s->host;
    (void)m;
    SHOAL_ASSERT(s->state == REPORTING);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        host->unknown(host->context);
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (s->proves)
        return proof_reply(s, w);
    /* the coordinator decides what an unreadable object means for the job */
    if (s->task.kind == WIRE_NEXT_INDEX && s->index_status != 0 && s->task.object == 0) {
        host->fatal(host->context, s->index_status, s->index_error.text);
        return REQUEST_DONE;
    }
    if (w->status == SHOAL_E_FENCED || w->status == SHOAL_E_OLD_RUN) {
        seat_leave(s);
        return REQUEST_DONE;
    }
    if (w->status != 0)
        log_warn("the coordinator refused %s: %s", wire_type_name(w->type), w->error);
    else if (s->task.kind == WIRE_NEXT_INDEX && s->task.object == 0)
        host->proved[s->task.split] = true;
    if (s->task.kind == WIRE_NEXT_TASK)
        s->batch = s->task.first_batch + s->task.batch_count - 1;
    if (s->number == SEAT_NO_LANE)
        seat_leave(s);
    else
        seat_ask(s);
    return REQUEST_DONE;
}

/* ---- life ------------------------------------------------------------------------------------ */

int seat_new(struct seat_host *host, struct seat **out, struct err *e)
{
    struct seat *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane's seat");
    s->host = host;
    s->number = SEAT_NO_LANE;
    s->rest.fire = rest_fire;
    s->ask = (struct request){.type = WIRE_TYPE_LANE_NEXT,
                              .target = CLIENT_COORDINATOR,
                              .build = ask_build,
                              .reply = ask_reply};
    s->files = (struct request){.type = WIRE_TYPE_FILES,
                                .target = CLIENT_COORDINATOR,
                                .build = files_build,
                                .reply = files_reply};
    s->report = (struct request){
        .target = CLIENT_COORDINATOR, .build = report_build, .reply = report_reply};
    int rc = lane_new(&host->base, seat_worked, s, &s->lane, e);
    if (rc != 0) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void seat_begin(struct seat *s)
{
    lane_begin(s->lane);
}

void seat_free(struct seat *s)
{
    if (s == NULL)
        return;
    SHOAL_ASSERT(s->state == FREE);
    env_timer_stop(s->host->base.env, &s->rest);
    lane_free(s->lane);
    free(s);
}

void seat_drop(struct seat *s)
{
    client_cancel(s->host->base.client, &s->ask);
    client_cancel(s->host->base.client, &s->files);
    client_cancel(s->host->base.client, &s->report);
    env_timer_stop(s->host->base.env, &s->rest);
    s->number = SEAT_NO_LANE;
    s->generation = 0;
    s->batch = 0;
    s->proves = false;
    if (s->state == FREE || s->state == DROPPING)
        return;
    if (s->state == WORKING && !lane_idle(s->lane)) {
        seat_move(s, DROPPING);
        lane_drop(s->lane, SHOAL_E_STOPPED);
        return;
    }
    seat_move(s, FREE);
}

bool seat_is_free(const struct seat *s)
{
    return s->state == FREE;
}

bool seat_is_asking(const struct seat *s)
{
    return s->number == SEAT_NO_LANE && (s->state == ASKING || s->state == RESTING);
}

uint32_t seat_lane(const struct seat *s)
{
    return s->number;
}

uint64_t seat_generation(const struct seat *s)
{
    return s->generation;
}

struct lane *seat_work(struct seat *s)
{
    return s->lane;
}
