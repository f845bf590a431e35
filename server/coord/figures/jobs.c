/* jobs.c: the list of ended jobs and their reports; jobs.h has the rules. */
#include "server/coord/figures/jobs.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/queue.h"
#include "server/coord/figures/report_job.h"
#include "server/coord/figures/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char KEY[] = "jobs";

static void report_key(uint64_t number, char out[COORD_KEY_MAX])
{
    (void)snprintf(out, COORD_KEY_MAX, "report/%" PRIu64, number);
}

static uint64_t number_of(const struct json *line)
{
    return (uint64_t)json_get_int(line, "number", 0);
}

static int64_t bytes_of(const struct json *line)
{
    return json_get_int(line, "report_bytes", 0);
}

/* Returns the job's line; NULL: it is not in the list. */
static const struct json *line_of(const struct coord_fleet *f, uint64_t number)
{
    for (size_t i = json_count(f->jobs->list); i > 0; i--)
        if (number_of(json_array_at(f->jobs->list, i - 1)) == number)
            return json_array_at(f->jobs->list, i - 1);
    return NULL;
}

/* ---- the line of the job at hand ------------------------------------------------------------- */

const char *coord_jobs_state(const struct coord_job *j)
{
    switch (j->at.phase) {
    case PHASE_FINISH:
    case PHASE_DONE:
        return "finished";
    case PHASE_FAILED:
        return j->at.status == SHOAL_E_STOPPED ? "stopped" : "failed";
    default:
        return "running";
    }
}

static void measure_set(struct json *line, const char *split, const struct metric *mean)
{
    bool real = metric_is_real(mean);
    char key[32];
    (void)snprintf(key, sizeof key, "%s_%s", split, real ? "rmse" : "auc");
    json_set_number(line, key, real ? mean->rmse : mean->auc);
    (void)snprintf(key, sizeof key, "%s_%s", split, real ? "mae" : "logloss");
    json_set_number(line, key, real ? mean->mae : mean->logloss);
}

/* The newest figures of each kind; a figure that is not known has no key. */
static void figures_set(struct json *line, const struct coord_job *j)
{
    uint32_t labels = MAX(j->spec.data.label_count, 1);
    struct metric of[LIMIT_TASKS], mean;
    json_set_int(line, "epoch", j->at.epoch);
    json_set_int(line, "examples", (int64_t)coord_trace_trained(j));
    if (coord_progressive_newest(j->windows, of)) {
        metric_mean(of, j->spec.model.task_weight, labels, &mean);
        measure_set(line, "train", &mean);
    }
    if (j->valid->count > 0 && coord_judge_mean(j, j->valid->count, &mean))
        measure_set(line, "valid", &mean);
    if (metric_most(j->at.test, labels) > 0) {
        metric_mean(j->at.test, j->spec.model.task_weight, labels, &mean);
        measure_set(line, "test", &mean);
    }
}

static struct json *line_make(const struct coord_job *j)
{
    struct json *line = json_new_object(), *tables = json_new_array();
    json_set_int(line, "number", (int64_t)j->at.number);
    if (j->spec.name[0] != 0)
        json_set_string(line, "job", j->spec.name);
    if (j->spec.space[0] != 0)
        json_set_string(line, "space", j->spec.space);
    json_set_string(line, "state", coord_jobs_state(j));
    json_set_int(line, "status", j->at.status);
    if (j->at.status != 0)
        json_set_string(line, "reason", j->at.text);
    coord_report_job_dates(j, line);
    if (j->parsed) {
        json_set_string(line, "model", job_model_name(j->spec.model.kind));
        figures_set(line, j);
    }
    for (uint32_t t = 0; j->parsed && t < j->at.tables; t++)
        json_append_string(tables, j->table[t].name);
    json_set(line, "tables", tables);
    return line;
}

/* ---- keeping --------------------------------------------------------------------------------- */

void coord_jobs_close(struct coord_jobs *j)
{
    json_free(j->list);
    *j = (struct coord_jobs){.list = NULL};
}

int coord_jobs_open(struct coord_fleet *f, struct err *e)
{
    struct coord_jobs *j = f->jobs;
    struct err why = {0};
    void *value;
    size_t bytes;
    int rc = coord_store_get(f->store, KEY, &value, &bytes, e);
    if (rc == 0) {
        if (json_parse(value, bytes, &j->list, &why) != 0)
            log_warn("the list of jobs that ended here: %s; a new one is begun", why.text);
        free(value);
    } else if (rc != SHOAL_E_NOT_FOUND) {
        return rc;
    }
    if (json_count(j->list) == 0) {
        json_free(j->list);
        j->list = json_new_array();
    }
    if (j->list == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of jobs");
    return 0;
}

/* Returns the report without indentation, which halves it. The caller frees it; NULL: no memory. */
static char *shortened(const char *report)
{
    struct json *r = NULL;
    (void)json_parse(report, strlen(report), &r, NULL);
    char *text = json_text(r, 0);
    json_free(r);
    return text;
}

/* Returns the list with this line as the newest. A report whose line leaves the list, or that
 * exceeds the bytes, is removed from the store first: a report without a line would stay there for
 * ever. NULL: no memory, or the store failed. */
static struct json *list_with(struct coord_fleet *f, struct json *line)
{
    const struct json *old = f->jobs->list;
    size_t count = json_count(old), from = SAT_SUB(count + 1, COORD_JOBS_MAX);
    struct json *list = json_new_array();
    int64_t sum = bytes_of(line);
    size_t whole = count; /* the reports from here on stay */
    while (whole > from && sum + bytes_of(json_array_at(old, whole - 1)) <= COORD_JOBS_BYTES)
        sum += bytes_of(json_array_at(old, --whole));
    for (size_t i = 0; i < count; i++) {
        struct json *item = json_array_at(old, i);
        char key[COORD_KEY_MAX];
        report_key(number_of(item), key);
        if (i < whole && bytes_of(item) > 0) {
            if (!coord_remove(f, key)) {
                json_free(list);
                json_free(line);
                return NULL;
            }
            json_set_int(item, "report_bytes", 0);
        }
        if (i >= from)
            json_append(list, json_hold(item));
    }
    json_append(list, line);
    SHOAL_ASSERT(json_count(list) <= COORD_JOBS_MAX);
    return list;
}

bool coord_jobs_keep(struct coord_job *j)
{
    char key[COORD_KEY_MAX];
    uint64_t number = j->at.number;
    SHOAL_ASSERT(number != 0 && !coord_phase_running(j) && j->report != NULL);
    char *report = shortened(j->report);
    struct json *line = NULL, *list = NULL;
    if (report != NULL)
        line = line_make(j);
    if (line != NULL) {
        json_set_int(line, "report_bytes", (int64_t)strlen(report));
        list = list_with(j->fleet, line);
    }
    char *text = json_text(list, 0);
    report_key(number, key);
    bool good = text != NULL && coord_put(j->fleet, key, report, strlen(report)) &&
                coord_put(j->fleet, KEY, text, strlen(text));
    if (good) {
        json_free(j->fleet->jobs->list);
        j->fleet->jobs->list = list;
        j->kept = number;
    } else {
        json_free(list);
    }
    free(text);
    free(report);
    return good;
}

bool coord_jobs_add(struct coord_fleet *f, struct json *line, uint64_t wall_s)
{
    coord_report_job_date(line, "ended", wall_s);
    struct json *list = list_with(f, line);
    char *text = json_text(list, 0);
    bool good = text != NULL && coord_put(f, KEY, text, strlen(text));
    if (good) {
        json_free(f->jobs->list);
        f->jobs->list = list;
    } else {
        json_free(list);
    }
    free(text);
    return good;
}

int coord_jobs_text(const struct coord_fleet *f, uint64_t number, char **text, struct err *e)
{
    char key[COORD_KEY_MAX];
    void *value;
    size_t bytes;
    report_key(number, key);
    int rc = coord_store_get(f->store, key, &value, &bytes, e);
    if (rc != 0)
        return rc;
    *text = strndup(value, bytes);
    free(value);
    if (*text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the report");
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

bool coord_jobs_kept(const struct coord_job *j)
{
    return !coord_phase_running(j) &&
           (j->kept == j->at.number || line_of(j->fleet, j->at.number) != NULL);
}

bool coord_jobs_ended(const struct coord_fleet *f, uint64_t number, char said[ERR_TEXT_MAX])
{
    const struct json *line = line_of(f, number);
    if (line == NULL)
        return false;
    const char *reason = json_get_string(line, "reason", "");
    (void)snprintf(said, ERR_TEXT_MAX, "job %.60s has ended already, %s%s%.300s",
                   json_get_string(line, "job", "?"), json_get_string(line, "state", "?"),
                   text_if(reason[0] != 0, ": "), reason);
    return true;
}

struct json *coord_jobs_list(const struct coord_job *slot, uint32_t slots)
{
    const struct coord_fleet *f = slot->fleet;
    struct json *list = json_new_array();
    for (size_t i = 0; i < json_count(f->jobs->list); i++)
        json_append(list, json_hold(json_array_at(f->jobs->list, i)));
    for (uint32_t i = 0; i < slots; i++)
        if (slot[i].at.phase != PHASE_NONE && !coord_jobs_kept(&slot[i]))
            json_append(list, line_make(&slot[i]));
    coord_queue_lines(f->queue, list);
    return list;
}

int coord_jobs_ask(const struct coord_job *slot, uint32_t slots, struct coord_ask *a)
{
    struct json *list = coord_jobs_list(slot, slots);
    char *text = json_text(list, 0);
    json_free(list);
    a->silent = true; /* without memory no answer is sent, and the client asks again */
    if (text != NULL)
        (void)coord_send_frame(slot->fleet, a->from, &a->reply, text, strlen(text));
    free(text);
    return 0;
}

/* Answers for a job that ended before its turn: it has no report. */
static int report_bare(struct coord_ask *a, const struct json *line)
{
    struct wire_REPORT_reply *reply = &a->reply.u.REPORT_reply;
    reply->state = WIRE_JOB_FAILED;
    reply->job_status = (int32_t)json_get_int(line, "status", 0);
    text_copy(reply->job_text, sizeof reply->job_text, json_get_string(line, "reason", ""));
    a->frame = "{}";
    a->frame_bytes = 2;
    return 0;
}

/* Answers with the report of a job that ended before the current one. */
static int report_former(struct coord_fleet *f, struct coord_ask *a, uint64_t number)
{
    const struct json *line = line_of(f, number);
    struct wire_REPORT_reply *reply = &a->reply.u.REPORT_reply;
    char *text;
    if (line == NULL)
        return err_set(&a->e, SHOAL_E_NOT_FOUND,
                       "no job here has number %" PRIu64 ": `shoal jobs` lists the last %u", number,
                       COORD_JOBS_MAX);
    int rc = coord_jobs_text(f, number, &text, &a->e);
    bool begun = !json_absent(json_get(line, "began")) || bytes_of(line) > 0;
    if (rc == SHOAL_E_NOT_FOUND && !begun && json_get(line, "submitted") != NULL)
        return report_bare(a, line);
    if (rc == SHOAL_E_NOT_FOUND)
        return err_set(&a->e, rc,
                       "the report of job %" PRIu64 " is not kept any more: those of later jobs "
                       "have taken its place; `shoal jobs` still tells of it in short",
                       number);
    if (rc != 0)
        return rc;
    bool finished = strcmp(json_get_string(line, "state", ""), "finished") == 0;
    reply->state = finished ? WIRE_JOB_DONE : WIRE_JOB_FAILED;
    reply->job_status = (int32_t)json_get_int(line, "status", 0);
    text_copy(reply->job_text, sizeof reply->job_text, json_get_string(line, "reason", ""));
    a->silent = true; /* without memory no answer is sent, and the client asks again */
    (void)coord_send_frame(f, a->from, &a->reply, text, strlen(text));
    free(text);
    return 0;
}

int coord_jobs_report(struct coord_job *j, struct coord_ask *a)
{
    uint64_t number = a->request->u.REPORT.run;
    if (j->at.phase == PHASE_NONE)
        return err_set(&a->e, SHOAL_E_NOT_FOUND, "no job has been submitted here yet");
    if (number != 0 && number != j->at.number)
        return report_former(j->fleet, a, number);
    a->reply.u.REPORT_reply.state = coord_phase_state(j);
    a->reply.u.REPORT_reply.job_status = j->at.status;
    memcpy(a->reply.u.REPORT_reply.job_text, j->at.text, sizeof a->reply.u.REPORT_reply.job_text);
    a->frame = text_or(j->report, "{}");
    a->frame_bytes = strlen(a->frame);
    return 0;
}
