/* local.c: `shoal local`: runs a whole cluster on this machine, for one job, to its end.
 *
 * It writes the daemons' configuration into the run folder (local_setup.c), starts coordinator,
 * servers and workers, submits the job, shows its progress, restarts daemons that die
 * (local_watch.c), prints the report and stops everything. The daemons are those of a fleet. */
#include "deploy/cli/local_inner.h"
#include "deploy/cli/replay.h"
#include "deploy/cli/report_page.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the report ------------------------------------------------------------------------------ */

/* The AUC of the log's teacher, to compare the job's with: that of its label, or the mean of
 * several labels, as in the report. NaN when the file lacks one of them. The first label of a file
 * has plain names too; they count when it has no other. */
static double teacher_auc(const struct json *t, const struct job *job)
{
    char key[LIMIT_NAME + 8];
    double sum = 0;
    uint32_t labels = job->data.label_count;
    for (uint32_t i = 0; i < labels; i++) {
        (void)snprintf(key, sizeof key, "%s_auc", job->data.label[i]);
        double auc = json_get_number(t, key, (double)NAN);
        if (isnan(auc) && labels == 1)
            auc = json_get_number(t, "auc", (double)NAN);
        sum += auc;
    }
    if (labels == 0)
        return (double)NAN;
    return sum / labels;
}

/* The best possible AUC, when the log came from `shoal synth`: FILE.teacher.json beside the
 * evaluated file. */
static void teacher_fill(struct local *l, struct json *report)
{
    char path[LIMIT_PATH];
    bool test = l->job.data.test.count > 0;
    const struct string_list *files = test ? &l->job.data.test : &l->job.data.valid;
    if (files->count != 1)
        return;
    (void)snprintf(path, sizeof path, "%s.teacher.json", files->item[0]);
    struct json *t;
    if (cli_json_file(path, &t, NULL) != 0)
        return;
    double auc = teacher_auc(t, &l->job);
    if (!isnan(auc)) {
        (void)json_set_number(report, "teacher_auc", auc);
        (void)json_set_string(report, "teacher_split", test ? "test" : "valid");
    }
    json_free(t);
}

/* Adds the values of evaluate.by, which the report has as hashes: a worker can read them in the
 * input. When that fails the report is complete but for them. */
static void values_fill(const struct local *l, struct json **report)
{
    char config[LIMIT_PATH], path[LIMIT_PATH], *text = NULL;
    const char *const argv[] = {"shoal-worker", "values", "--config", config,
                                "--report",     path,     NULL};
    struct json *named = NULL;
    struct err e = {0};
    size_t bytes;
    if (l->job.evaluate.by.count == 0)
        return;
    (void)snprintf(config, sizeof config, "%s/job.yaml", l->dir);
    (void)snprintf(path, sizeof path, "%s/report.json", l->dir);
    int rc = child_output(argv, &text, &bytes, &e);
    if (rc == 0)
        rc = json_parse(text, bytes, &named, &e);
    free(text);
    if (rc != 0) {
        fprintf(stderr, "values of evaluate.by are told as hashes: %s\n", text_clean(e.text));
        return;
    }
    json_free(*report);
    *report = named;
}

static int report_finish(struct local *l, struct err *e)
{
    char path[LIMIT_PATH];
    int restarts = 0;
    (void)snprintf(path, sizeof path, "%s/report.json", l->dir);
    struct json *report;
    if (cli_json_file(path, &report, NULL) != 0)
        return err_set(e, SHOAL_E_INTERNAL,
                       "the coordinator left no %s; see %s/log/coordinator.log", path, l->dir);
    for (int i = 0; i < l->children; i++)
        restarts += (int)l->child[i].restarts;
    values_fill(l, &report);
    teacher_fill(l, report);
    (void)json_set_int(report, "restarts", restarts);
    char *text = json_text(report, 2);
    int rc = local_file_replace(path, text, e);
    free(text);
    (void)snprintf(path, sizeof path, "%s/report.html", l->dir);
    if (rc == 0)
        rc = report_page_write(report, path, e);
    local_days_show(l, json_get(report, "replay.days"), 0);
    if (rc == 0)
        cli_report_print(report, l->dir, l->again);
    json_free(report);
    return rc;
}

int local_job_failure(struct local *l, int job_status, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_REPORT}, reply;
    struct err silent;
    if (cli_ask(l->ask, &w, NULL, 3000, &reply, NULL, &silent) == 0 &&
        reply.u.REPORT_reply.job_text[0] != 0)
        return err_set(e, job_status, "%s", reply.u.REPORT_reply.job_text);
    return err_set(e, job_status, "the job failed: %s; see %s/log", err_text(job_status), l->dir);
}

/* Keeps the failure in the run's folder, for a later question about its tables. */
static void failure_keep(const struct local *l, const struct err *e)
{
    char path[LIMIT_PATH];
    struct err silent;
    (void)snprintf(path, sizeof path, "%s/" LOCAL_FAILED_FILE, l->dir);
    (void)local_file_replace(path, e->text, &silent);
}

/* True when a worker cannot run because of the job: the job has failed too, since the same line
 * would fail again. */
static bool is_final(int rc)
{
    return rc == SHOAL_E_CONFIG || rc == SHOAL_E_DATA || rc == SHOAL_E_NOINPUT ||
           rc == SHOAL_E_DENIED;
}

/* Called when the job is tried once more. */
static void failure_forget(const struct local *l)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/" LOCAL_FAILED_FILE, l->dir);
    (void)file_unlink(path);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Tells the fate of an interrupted run in this folder whose rows, in memory, are gone. */
static void former_tell(struct local *l)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct begin newest = {.path = ""};
    struct json *s = NULL;
    struct err silent;
    struct msg *m;
    if (l->job.durability != DURABLE_MEMORY ||
        cli_ask(l->ask, &w, NULL, 3000, &reply, &m, &silent) != 0)
        return;
    bool known = json_parse(m->frame[1].data, m->frame[1].bytes, &s, NULL) == 0,
         back = known && json_get_int(s, "went_back", 0) > 0;
    json_free(s);
    msg_free(m);
    if (known && back)
        puts("the run that was broken off here had its rows in memory (durability: memory): the "
             "job goes on from its newest checkpoint");
    else if (known && begin_find(l->dir, false, &newest, &silent) == 0)
        printf("the run here had %s, its rows in memory (durability: memory): the job begins "
               "anew; --resume %s goes on from the newest checkpoint\n",
               l->had_failed ? "failed" : "been broken off", newest.path);
    else if (known)
        printf("the run here had %s, its rows in memory (durability: memory): the job begins "
               "anew\n",
               l->had_failed ? "failed" : "been broken off");
}

/* The folder's job has failed or was stopped, and its servers still hold the rows that it
 * trained. */
static int rows_kept(const struct local *l, struct err *e)
{
    struct begin newest = {.path = ""};
    struct err silent;
    bool made = begin_find(l->dir, false, &newest, &silent) == 0;
    return err_set(e, SHOAL_E_EXISTS,
                   "the job of %s has failed or was stopped, and what it had trained is still "
                   "there: name another --run-dir to begin anew%s%s%s; here --start-from fleet "
                   "begins with these tables",
                   l->dir, text_if(made, ", with --resume "), text_if(made, newest.path),
                   text_if(made, " to go on from its newest checkpoint"));
}

static int local_run(struct local *l, const char *run_dir, struct err *e)
{
    char *text = NULL;
    struct err missed = {0};
    int job_status = 0, rc = local_prepare(l, run_dir, &text, e);
    if (rc != 0 || l->ended) { /* interrupted after the job's end: only its page is missing */
        free(text);
        if (rc != 0)
            return rc;
        return report_finish(l, e);
    }
    if (rc == 0)
        rc = local_start(l, e);
    if (rc == 0)
        rc = cli_ask_open(l->coordinator, NULL, &l->ask, e);
    if (rc == 0) {
        printf("%s: %d server%s, %d worker%s; everything of this run is in %s\n", l->job.name,
               l->servers, text_if(l->servers != 1, "s"), l->workers, text_if(l->workers != 1, "s"),
               l->dir);
        cli_lanes_say(&l->job, l->job_path, l->workers);
        rc = local_submit(l, text, e);
        if (rc == 0 && l->goes_on)
            former_tell(l);
        if (rc == 0)
            failure_forget(l);
        if (rc == 0)
            rc = local_begin_keep(l, e);
        else if (rc == SHOAL_E_EXISTS && l->goes_on)
            rc = rows_kept(l, e);
    }
    bool begun = rc == 0;
    if (begun)
        rc = local_follow(l, &job_status, e);
    free(text);
    if (l->line_open)
        putchar('\n');
    if (rc == 0 && job_status != 0 && l->done) /* that error is printed after the report */
        (void)local_job_failure(l, job_status, &missed);
    else if (rc == 0 && job_status != 0)
        rc = local_job_failure(l, job_status, e);
    if ((job_status != 0 && !l->done) || (begun && is_final(rc)))
        failure_keep(l, e);
    local_stop(l);
    if (l->sockets[0] != 0 && file_remove_tree(l->sockets) != 0)
        fprintf(stderr, "cannot remove %s: %s\n", l->sockets, strerror(errno));
    if (rc == 0)
        rc = report_finish(l, e);
    if (rc == 0)
        local_said(l);
    cli_ask_close(l->ask);
    if (rc == 0 && missed.code != 0)
        *e = missed;
    if (rc != 0)
        return rc;
    return missed.code;
}

/* Makes the line that repeats the run, with its keys; called before this run adds its own. */
static int again_make(struct local *l, struct err *e)
{
    size_t bytes;
    FILE *f = open_memstream(&l->again, &bytes);
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    cli_word_print(f, program_invocation_name);
    fputs(" local ", f);
    cli_word_print(f, l->job_path);
    if (l->worker != NULL) {
        fputs(" --worker ", f);
        cli_word_print(f, l->worker);
    }
    for (size_t i = 0; i < l->set->count; i++) {
        fputs(" --set ", f);
        cli_word_print(f, l->set->item[i]);
    }
    if (l->begin.path[0] != 0) {
        fputs(l->begin.start ? " --start-from " : " --resume ", f);
        cli_word_print(f, l->begin.path);
    }
    for (size_t i = 0; i < l->server_set->count; i++) {
        fputs(" --server-set ", f);
        cli_word_print(f, l->server_set->item[i]);
    }
    if (fclose(f) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "out of memory");
}

static int line_run(bool replay, struct option_line *o, struct err *e)
{
    static struct local l;
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE,
                       "name one job file: %s JOB.yaml; those that ship are in deploy/jobs",
                       o->command->name);
    local_signals_take();
    umask(077); /* the run's data, logs and sockets are for its user only */
    l.job_path = o->word[0];
    l.servers = (int)option_int(o, "servers");
    l.shards = (int)option_int(o, "shards");
    l.workers = (int)option_int(o, "workers");
    l.io_threads = (int)option_int(o, "worker-io-threads");
    l.worker = option_text(o, "worker");
    l.restart = !option_given(o, "no-restart");
    l.tensorboard = option_text(o, "tensorboard");
    l.set = option_list(o, "set");
    l.server_set = option_list(o, "server-set");
    int rc = 0;
    if (replay)
        rc = replay_set(o, l.job_path, l.set, e);
    if (rc == 0)
        rc = begin_take(o, l.job_path, l.set, option_text(o, "run-dir"), &l.begin, e);
    if (rc == 0 && replay)
        rc = replay_rewind(o, &l.begin, e);
    if (rc == 0)
        rc = again_make(&l, e);
    if (rc == 0)
        rc = local_run(&l, option_text(o, "run-dir"), e);
    job_free(&l.job);
    free(l.again);
    return rc;
}

int cli_local(struct option_line *o, struct err *e)
{
    return line_run(false, o, e);
}

int cli_replay(struct option_line *o, struct err *e)
{
    return line_run(true, o, e);
}
