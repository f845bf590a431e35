/* worker_score.c: eval prints measures, predict writes scores. */
#include "worker/worker_score.h"
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/metric/measure.h"
#include "worker/data/values.h"
#include "worker/train/evaluator.h"
#include "worker/train/score_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void worker_score_exit(int rc, const struct err *e)
{
    if (rc != 0)
        log_error("%s", e->text);
    _exit(err_exit_status(rc));
}

/* A program has the network of an external job, and scores by it. */
static int network_check(const struct job *job, struct err *e)
{
    if (job->model.kind != MODEL_EXTERNAL)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "job %s has model.kind: external: its network is a program's, and shoal-worker "
                   "has none to score with: name the input as data.test of the job, which the "
                   "program then scores",
                   job->name);
}

/* Prints the measures as report.json has them under `valid` and `test` (proto/metric/measure.h),
 * and bad_lines. */
static int measure_print(const struct measure *m, uint64_t bad_lines, const struct job *job,
                         uint32_t split, struct err *e)
{
    struct err unnamed;
    struct json *details = measure_json_details(m, job),
                *report = measure_json_report(m->metric, job, details, true);
    json_set_int(report, "bad_lines", (int64_t)bad_lines);
    if (values_name_split(job, split, report, &unnamed) != 0) /* all other figures are printed */
        log_warn("values of evaluate.by are told as hashes: %s", unnamed.text);
    char *text = json_text(report, 2);

    json_free(report);
    json_free(details);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to print the measures");
    puts(text);
    free(text);
    return 0;
}

int worker_score_evaluate(const struct worker_arguments *a, struct job *job, struct net *net,
                          struct backend *backend, struct err *e)
{
    struct evaluator_options options = {.coordinator = a->coordinator,
                                        .job = job,
                                        .split = a->split,
                                        .lanes = a->lanes,
                                        .cores = a->cores,
                                        .backend = backend,
                                        .wait_ms = a->wait_s * 1000};
    const struct measure *measure;
    struct evaluator *v;
    int rc = network_check(job, e);
    if (rc == 0)
        rc = evaluator_new(net_env(net), &options, &v, e);
    if (rc != 0)
        return rc;
    net_set_handler(net, evaluator_handler(), v);
    net_run(net);
    rc = evaluator_result(v, &measure, e);
    if (rc == 0)
        rc = measure_print(measure, evaluator_bad_lines(v), job, a->split, e);
    if (!evaluator_settled(v))
        worker_score_exit(rc, e);
    evaluator_free(v);
    return rc;
}

/* ---- predict ---- */

static int scores_take(void *context, const struct scores *s, uint64_t split_rows, struct err *e)
{
    return score_file_add(context, s, split_rows, e);
}

static int report_write(const struct worker_arguments *a, const struct job *job,
                        const struct evaluator *v, struct err *e)
{
    if (a->report == NULL)
        return 0;
    struct json *j = json_new_object();
    FILE *f = file_stream(a->report, false);
    json_set_int(j, "rows", (int64_t)evaluator_rows(v));
    json_set_int(j, "bad_lines", (int64_t)evaluator_bad_lines(v));
    json_set_string(j, "bad_where", evaluator_bad_where(v));
    struct json *unseen = unseen_json(evaluator_unseen(v), &job->legend);
    if (unseen != NULL)
        json_set(j, "unseen", unseen);
    char *text = json_text(j, 0);
    bool good = f != NULL && text != NULL && fputs(text, f) >= 0;
    good &= f == NULL || fclose(f) == 0;
    json_free(j);
    free(text);

    if (good)
        return 0;

    return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s", a->report);
}

static void unseen_warn(const struct job *job, const struct evaluator *v)
{
    struct json *list = unseen_json(evaluator_unseen(v), &job->legend);
    char text[1024];
    unseen_note(list, "the rows scored", text, sizeof text);
    if (text[0] != '\0')
        log_warn("%s", text);
    json_free(list);
}

static int scored(const struct worker_arguments *a, const struct job *job,
                  const struct evaluator *v, struct score_file *f, struct err *e)
{
    int rc = report_write(a, job, v, e);
    if (rc == 0)
        rc = score_file_finish(f, evaluator_split_rows(v), e);
    if (rc == 0 && evaluator_bad_lines(v) > 0)
        log_warn("%" PRIu64 " of %" PRIu64 " rows are malformed and have no score; the first: %s",
                 evaluator_bad_lines(v), evaluator_rows(v), evaluator_bad_where(v));
    if (rc == 0)
        unseen_warn(job, v);
    return rc;
}

int worker_score_predict(const struct worker_arguments *a, struct job *job, struct net *net,
                         struct backend *backend, struct err *e)
{
    struct score_file *f;
    const struct measure *none;
    struct evaluator *v = NULL;
    int rc = network_check(job, e);
    if (rc == 0)
        rc = score_file_open(a->out, a->format, job, a->part == 0, &f, e);
    if (rc != 0)
        return rc;
    struct evaluator_options options = {.coordinator = a->coordinator,
                                        .job = job,
                                        .split = WIRE_TEST,
                                        .lanes = a->lanes,
                                        .cores = a->cores,
                                        .backend = backend,
                                        .wait_ms = a->wait_s * 1000,
                                        .take = scores_take,
                                        .context = f,
                                        .part = a->part,
                                        .parts = a->parts};
    rc = evaluator_new(net_env(net), &options, &v, e);
    if (rc == 0) {
        net_set_handler(net, evaluator_handler(), v);
        net_run(net);
        rc = evaluator_result(v, &none, e);
    }
    if (rc == 0)
        rc = scored(a, job, v, f, e);
    score_file_free(f);
    if (v != NULL && !evaluator_settled(v))
        worker_score_exit(rc, e);
    evaluator_free(v);
    return rc;
}
