/* seat_report.c: the reports of a seat to the coordinator: a finished task, an index, and the files
 * behind it. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/seat_inner.h"
#include "worker/train/task_figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum wire_type index_report(const struct seat *s)
{
    bool windows = s->host->base.job->replay.on && s->task.split == WIRE_TRAIN;
    if (s->task.object != 0)
        return WIRE_TYPE_OBJECT_DONE;

    if (windows && s->index_status == 0)
        return WIRE_TYPE_WINDOWS;

    return WIRE_TYPE_INDEX_DONE;
}

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
    void *figures = task_figures(result, s->host->base.job, &w.u.TASK_DONE, &bytes);
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

void seat_report(struct seat *s)
{
    sm_move(&seat_moves, &s->state, REPORTING); /* the input stays */
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

void seat_report_init(struct seat *s)
{
    s->files = (struct request){.type = WIRE_TYPE_FILES,
                                .target = CLIENT_COORDINATOR,
                                .build = files_build,
                                .reply = files_reply};
    s->report = (struct request){
        .target = CLIENT_COORDINATOR, .build = report_build, .reply = report_reply};
}
