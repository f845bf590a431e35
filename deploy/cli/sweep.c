/* sweep.c: `shoal sweep`: checks every variant, then runs them, as many at a time as there are
 * cores; a variant that was completed before is not run again.
 *
 * 1. A run counts for a variant only if its job is the variant's, to the byte.
 *    [test: another_job_is_not_taken_for_a_variant]
 * 2. A variant that fails ends no other. [test: a_variant_that_fails_is_told_and_ends_no_other] */
#include "deploy/cli/sweep.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/hold.h"
#include "deploy/cli/local_inner.h"
#include "proto/base/file.h"
#include "proto/base/machine.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    DIR_MAX = 300, /* bytes of a folder's path; the names of a variant and its files follow it */
    LEFT_WAIT_MS = 60000 /* a wait for the run of a sweep that was killed */
};

struct sweeping {
    struct sweep sweep;
    char programs[512]; /* the folder of Shoal's programs */
    int at_once;
    const char *servers, *workers; /* numbers for each run */
    char memory[48];               /* bytes for each server: variants share the machine */
    size_t done;
};

/* ---- before anything runs -------------------------------------------------------------------- */

/* Makes sweeps/JOB-DATE-TIME, or the folder that the line names. */
static int dir_make(struct sweep *s, const char *wish, struct err *e)
{
    char path[LIMIT_PATH], part[LIMIT_PATH], absolute[4096];
    int rc = 0;
    if (wish == NULL)
        rc = local_folder_new("sweeps", s->job, path, e);
    if (rc != 0)
        return rc;
    if (wish != NULL)
        text_copy(path, sizeof path, wish);
    if (wish != NULL && file_make_folders(path, 0700, part) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", part,
                       strerror(errno));
    /* the paths of a run's folder and of the files in it have limits too */
    if (realpath(path, absolute) == NULL || strlen(absolute) > DIR_MAX)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "the folder %s cannot be used: its full path has more than %d bytes, or "
                       "cannot be read; name another --dir",
                       path, DIR_MAX);
    memcpy(s->dir, absolute, strlen(absolute) + 1);
    (void)snprintf(s->copy, sizeof s->copy, "%.*s/job.yaml", DIR_MAX, s->dir);
    return hold_take(s->dir, HOLD_WAIT_MS, NULL, e);
}

static void path_of(const struct sweep *s, const struct sweep_variant *v, const char *file,
                    char path[LIMIT_PATH])
{
    (void)snprintf(path, LIMIT_PATH, "%.*s/%s%s%s", DIR_MAX, s->dir, v->name,
                   text_if(file[0] != 0, "/"), file);
}

/* Refuses standard input: each variant reads the whole input by itself. */
static int streams_refuse(const struct job *job, struct err *e)
{
    const struct string_list *const list[] = {&job->data.train, &job->data.valid, &job->data.test,
                                              &job->data.join.clicks};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        for (size_t k = 0; k < list[i]->count; k++)
            if (strcmp(list[i]->item[k], "-") == 0)
                return err_set(e, SHOAL_E_USAGE,
                               "standard input can be read once, and every variant reads it: name "
                               "a file, or a command (cmd:...)");
    return 0;
}

/* Adds the keys that belong to the sweep and not to the job: variants share decoded input, do not
 * remove each other's checkpoints, and do not publish. */
static int sweep_keys_add(const struct sweep *s, struct sweep_variant *v, const struct job *job,
                          struct err *e)
{
    char run[LIMIT_PATH];
    path_of(s, v, "", run);
    int rc = 0;
    if (job->data.cache[0] == 0)
        rc = local_set_path(&v->set, "data.cache", s->dir, "cache", e);
    if (rc == 0)
        rc = local_set_path(&v->set, "checkpoint.dir", run, "checkpoints", e);
    if (rc == 0 && config_list_add(&v->set, "checkpoint.publish=[]") != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    return rc;
}

/* Checks that a coordinator would accept the job of every variant, before anything is made. */
static int variants_check(struct sweep *s, struct err *e)
{
    for (size_t i = 0; i < s->count; i++) {
        struct sweep_variant *v = &s->variant[i];
        struct err cause = {0};
        struct job job;
        int rc = job_load(s->job_path, &v->set, &job, &cause);
        if (rc == 0) {
            memcpy(s->job, job.name, sizeof s->job);
            rc = streams_refuse(&job, &cause);
            if (rc == 0)
                rc = local_worker_check(&job, s->job_path, s->worker, &cause);
            job_free(&job);
        }
        if (rc != 0)
            return err_set(e, rc, "%s: %s", v->name, cause.text);
    }
    return 0;
}

static int another(const char *run, struct err *e)
{
    return err_set(e, SHOAL_E_EXISTS,
                   "%s holds a run of another job: name another --dir, or remove it", run);
}

/* The run in the variant's folder counts when it has ended well (1). Any other run of the same job
 * is removed and begins anew: half a run may hold data that no job accepts. */
static int variant_look(const struct sweep *s, struct sweep_variant *v, struct err *e)
{
    char run[LIMIT_PATH], path[LIMIT_PATH], report[LIMIT_PATH];
    struct err why;
    struct job job;
    int rc = job_load(s->job_path, &v->set, &job, e);
    if (rc == 0) {
        rc = sweep_keys_add(s, v, &job, e);
        job_free(&job);
    }
    if (rc == 0)
        rc = job_text(s->job_path, &v->set, &v->text, e);
    path_of(s, v, "", run);
    path_of(s, v, "job.yaml", path);
    path_of(s, v, "report.json", report);
    if (rc != 0 || access(run, F_OK) != 0)
        return rc;
    rc = local_run_is(path, v->text, &why);
    if (access(report, F_OK) == 0) {
        v->started = v->ended = true;
        if (rc != 0)
            return another(run, e);
        return cli_json_file(report, &v->report, e);
    }
    if (rc == SHOAL_E_NOINPUT) /* nothing was begun */
        return 0;
    if (rc != 0)
        return another(run, e);
    int fd; /* the runs of a sweep that was killed end a little after it */
    rc = hold_take(run, LEFT_WAIT_MS, &fd, e);
    if (rc != 0)
        return rc;
    if (file_remove_tree(run) != 0)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot remove what is left in %s: %s", run,
                     strerror(errno));
    close(fd);
    return rc;
}

/* Copies the job file, so that all runs read it as it is now. */
static int job_copy(const struct sweep *s, struct err *e)
{
    char *text = NULL;
    size_t bytes;
    int rc = config_read(s->job_path, &text, &bytes, e);
    if (rc == 0 && (text = realloc(text, bytes + 1)) == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0) {
        text[bytes] = 0;
        rc = local_file_replace(s->copy, text, e);
    }
    free(text);
    return rc;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int variant_start(struct sweeping *w, struct sweep_variant *v, struct err *e)
{
    struct child *c = &v->child;
    char run[LIMIT_PATH], part[LIMIT_PATH];
    v->started = true;
    path_of(&w->sweep, v, "", run);
    if (file_make_folders(run, 0700, part) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", part,
                       strerror(errno));
    v->line = calloc(2 * v->set.count + 2, sizeof *v->line);
    if (v->line == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < v->set.count; i++) {
        v->line[2 * i] = "--set";
        v->line[2 * i + 1] = v->set.item[i];
    }
    c->more = v->line;
    c->more_count = 2 * v->set.count;
    if (w->sweep.worker != NULL) {
        v->line[c->more_count++] = "--worker";
        v->line[c->more_count++] = w->sweep.worker;
    }
    path_of(&w->sweep, v, "local.log", c->log);
    (void)snprintf(c->name, sizeof c->name, "variant");
    (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%s/shoal", w->programs);
    local_child_arg(c, "local", w->sweep.copy);
    local_child_arg(c, "--run-dir", run);
    local_child_arg(c, "--servers", w->servers);
    local_child_arg(c, "--workers", w->workers);
    local_child_arg(c, "--server-set", w->memory);
    return child_start(c, e);
}

static void variant_show(struct sweeping *w, const struct sweep_variant *v)
{
    const struct sweep *s = &w->sweep;
    bool real = sweep_of_numbers(s);
    char when[32] = "was there", text[sizeof v->error.text];
    memcpy(text, v->error.text, sizeof text);
    text_clean(text);
    if (v->child.started_ns != 0)
        (void)snprintf(when, sizeof when, "%.1f s",
                       (double)(time_monotonic_ns() - v->child.started_ns) * 1e-9);
    w->done++;
    if (v->error.code != 0)
        printf("%zu of %zu  %s  failed: %s\n", w->done, s->count, v->name, text);
    else
        printf("%zu of %zu  %s  %s %s %.5f, %s %.6f  %s\n", w->done, s->count, v->name, s->split,
               real ? "RMSE" : "AUC", sweep_figure(s, v, real ? "rmse" : "auc"),
               real ? "MAE" : "logloss", sweep_figure(s, v, real ? "mae" : "logloss"), when);
    fflush(stdout);
}

/* Chooses the split by which variants are compared: the validation split, if there is one. A figure
 * that a variant was chosen by does not show how good it is; the test split is for that. */
static void split_take(struct sweep *s, const struct json *report)
{
    char path[32];
    static const char *const split[] = {"valid", "test", "train"};
    for (size_t i = 0; i < 3 && s->split == NULL; i++)
        if (!json_absent(json_get(report, split[i])))
            s->split = split[i];
    (void)snprintf(path, sizeof path, "%s.rmse", text_or(s->split, "valid"));
    bool numbers = json_get(report, path) != NULL;
    if (numbers == sweep_of_numbers(s))
        return;
    printf("%s, so variants are ordered by %s, not by %s\n",
           numbers ? "the labels are numbers" : "not all labels are numbers",
           numbers ? "rmse" : "auc", s->metric);
    s->metric = numbers ? "rmse" : "auc";
}

static void variant_end(struct sweeping *w, struct sweep_variant *v)
{
    char path[LIMIT_PATH];
    v->ended = true;
    path_of(&w->sweep, v, "job.yaml", path);
    if (v->child.exit_status != 0)
        (void)child_error(&v->child, &v->error);
    else if (local_run_is(path, v->text, &v->error) == 0) {
        path_of(&w->sweep, v, "report.json", path);
        if (cli_json_file(path, &v->report, &v->error) == 0)
            split_take(&w->sweep, v->report);
    }
    variant_show(w, v);
}

/* Starts runs while there is room and collects those that have ended; returns how many run (2). */
static int variants_turn(struct sweeping *w)
{
    int running = 0;
    for (size_t i = 0; i < w->sweep.count; i++) {
        struct sweep_variant *v = &w->sweep.variant[i];
        if (v->started && !v->ended && child_ended(&v->child))
            variant_end(w, v);
        running += v->started && !v->ended;
    }
    for (size_t i = 0; i < w->sweep.count && running < w->at_once && !local_interrupted(); i++) {
        struct sweep_variant *v = &w->sweep.variant[i];
        if (v->started)
            continue;
        if (variant_start(w, v, &v->error) == 0) {
            running++;
            continue;
        }
        v->ended = true;
        variant_show(w, v);
    }
    return running;
}

static void variants_stop(struct sweeping *w)
{
    for (size_t i = 0; i < w->sweep.count; i++)
        child_signal(&w->sweep.variant[i].child, SIGTERM);
    for (size_t i = 0; i < w->sweep.count; i++) {
        struct sweep_variant *v = &w->sweep.variant[i];
        if (v->started && !v->ended && v->child.process.pid != 0)
            (void)process_wait(&v->child.process);
    }
}

static int variants_run(struct sweeping *w, struct err *e)
{
    struct timespec pause = {0, 50000000};
    int running;
    while ((running = variants_turn(w)) > 0 && !local_interrupted())
        nanosleep(&pause, NULL);
    if (running > 0)
        variants_stop(w);
    if (local_interrupted())
        return err_set(e, SHOAL_E_STOPPED,
                       "stopped by signal %d; the same line with --dir %s runs what is not done",
                       local_interrupted(), w->sweep.dir);
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void best_print(const struct sweep *s, const struct sweep_variant *v)
{
    fputs("\n  files          ", stdout);
    cli_word_print(stdout, s->dir);
    puts("/sweep.html (table and plot), sweep.json (every figure); each variant's run beside them");
    if (v->report == NULL)
        return;
    fputs("  try next       ", stdout);
    cli_word_print(stdout, program_invocation_name);
    fputs(" local ", stdout);
    cli_word_print(stdout, s->job_path);
    if (s->worker != NULL) {
        fputs(" --worker ", stdout);
        cli_word_print(stdout, s->worker);
    }
    for (size_t i = 0; i < s->fixed.count + s->keys; i++) {
        fputs(" --set ", stdout);
        cli_word_print(stdout, v->set.item[i]);
    }
    puts("     the best one alone");
}

static int finish(struct sweep *s, struct err *e)
{
    const struct sweep_variant **order = sweep_order(s);
    const struct sweep_variant *failed = NULL;
    size_t failures = 0;
    if (order == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = sweep_write(s, order, e);
    if (rc == 0) {
        sweep_table(s, order, stdout);
        best_print(s, order[0]);
    }
    free(order);
    for (size_t i = s->count; i-- > 0;)
        if (s->variant[i].error.code != 0) {
            failed = &s->variant[i];
            failures++;
        }
    if (rc != 0 || failed == NULL)
        return rc;
    return err_set(e, failed->error.code,
                   "%zu of %zu variants failed, the first one %s: %s; its log is %s/%s/local.log, "
                   "and the same line with --dir %s tries them again",
                   failures, s->count, failed->name, failed->error.text, s->dir, failed->name,
                   s->dir);
}

static int sweep_run(struct sweeping *w, const char *dir, struct err *e)
{
    struct sweep *s = &w->sweep;
    uint64_t begin = time_monotonic_ns();
    int rc = variants_check(s, e);
    if (rc == 0)
        rc = dir_make(s, dir, e);
    for (size_t i = 0; i < s->count && rc == 0; i++)
        rc = variant_look(s, &s->variant[i], e);
    if (rc == 0)
        rc = job_copy(s, e);
    if (rc != 0)
        return rc;
    printf("%s: %zu variants, %d at a time; everything of this sweep is in %s\n", s->job, s->count,
           w->at_once, s->dir);
    for (size_t i = 0; i < s->count; i++)
        if (s->variant[i].report != NULL) {
            split_take(s, s->variant[i].report);
            variant_show(w, &s->variant[i]);
        }
    rc = variants_run(w, e);
    s->seconds = (double)(time_monotonic_ns() - begin) * 1e-9;
    if (rc != 0)
        return rc;
    return finish(s, e);
}

/* A run keeps about two cores busy: one of a server, one of a worker. */
static int at_once_of(const struct option_line *o)
{
    int cores = (int)machine_cores("");
    if (option_given(o, "at-once"))
        return (int)option_int(o, "at-once");
    if (cores > 1)
        return cores / 2;
    return 1;
}

int cli_sweep(struct option_line *o, struct err *e)
{
    static struct sweeping w;
    static const char *const metric[] = {"auc", "logloss", "rmse", "mae"};
    static struct local here; /* where Shoal's programs lie */
    char servers[16], workers[16];
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE,
                       "name one job file: shoal sweep JOB.yaml --set tables[0].dim=8,16");
    int rc = local_programs_find(&here, e);
    if (rc == 0) {
        local_signals_take();
        umask(077);
        memcpy(w.programs, here.programs, sizeof here.programs);
        w.sweep.job_path = o->word[0];
        w.sweep.worker = option_text(o, "worker");
        w.sweep.metric = metric[option_choice(o, "metric")];
        w.at_once = at_once_of(o);
        (void)snprintf(w.memory, sizeof w.memory, "memory=%" PRIu64,
                       machine_memory("") / 10 * 7 / (uint64_t)w.at_once /
                           (uint64_t)option_int(o, "servers"));
        (void)snprintf(servers, sizeof servers, "%d", (int)option_int(o, "servers"));
        (void)snprintf(workers, sizeof workers, "%d", (int)option_int(o, "workers"));
        w.servers = servers;
        w.workers = workers;
        rc = sweep_grid(&w.sweep, option_list(o, "set"), e);
    }
    if (rc == 0)
        rc = sweep_run(&w, option_text(o, "dir"), e);
    sweep_free(&w.sweep);
    return rc;
}
