/* worker_main.c: shoal-worker: the daemon around the trainer, and around the evaluator.
 *
 * `train` ends with the job. `run`, a unit's verb, waits for the next job and has its settings in a
 * file.
 *
 * Threads: this one runs the loop (trainer, connections). libuv's pool computes and reads batches.
 * It has for each seat two threads, one that computes and one that looks up the cache, and
 * lane_readers threads that read, so that no stage waits for a thread of another stage; and one
 * thread for all else (UV_THREADPOOL_SIZE overrides the number). ZeroMQ has threads of its own. The
 * pool is made before the job is known: under bsp a job may need more seats than --lanes and
 * --config imply, and these share its threads. SIGTERM and SIGINT give the lanes back and leave; a
 * second signal leaves at once. */
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/base/version.h"
#include "proto/http/board.h"
#include "proto/job/config.h"
#include "proto/job/instance.h"
#include "proto/job/job.h"
#include "proto/job/keys.h"
#include "proto/job/live.h"
#include "proto/job/option.h"
#include "proto/metric/measure.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "proto/net/starts.h"
#include "proto/wire/wire.h"
#include "worker/data/count.h"
#include "worker/data/dataset.h"
#include "worker/data/decode.h"
#include "worker/data/feature.h"
#include "worker/data/values.h"
#include "worker/train/evaluator.h"
#include "worker/train/known_names.h"
#include "worker/train/lane.h"
#include "worker/train/score_file.h"
#include "worker/train/trainer.h"
#include "worker/train/worker_gauges.h"
#include "worker/worker_config.h"
#include "worker/worker_convert.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPORT_BYTES_MAX ((size_t)32 << 20)

struct arguments {
    const char *verb, *coordinator, *keys, *config, *instance, *name, *field, *value, *made_by;
    const char *out, *report;        /* predict */
    const char *check;               /* convert: the file to check */
    bool as_json;                    /* convert */
    bool check_only;                 /* the other verbs: reads the files, starts nothing */
    struct string_list *in, *column; /* eval, predict: of the command line */
    uint32_t part, parts;            /* eval, predict; 0 parts: all */
    enum score_format format;        /* predict */
    double share;                    /* count */
    const struct string_list *set;   /* from the command line */
    uint32_t lanes, wait_s, split, cores, io_threads;
    int64_t device; /* -1: not given */
    enum backend_kind backend;
    bool backend_given, insecure, commands;
    bool stay;                           /* run */
    struct live *live;                   /* the file of run */
    const char *metrics, *metrics_token; /* where figures are served; NULL or "": nowhere */
};

/* ---- arguments ------------------------------------------------------------------------------- */

/* True for verbs that only read the input. */
static bool stands_alone(const struct arguments *a)
{
    return strcmp(a->verb, "fields") == 0 || strcmp(a->verb, "count") == 0 ||
           strcmp(a->verb, "check") == 0 || strcmp(a->verb, "values") == 0 ||
           strcmp(a->verb, "convert") == 0;
}

static uint32_t number(const struct option_line *o, const char *name, uint32_t without)
{
    if (option_text(o, name) == NULL)
        return without;

    return (uint32_t)option_int(o, name);
}

static int predict_take(struct option_line *o, struct arguments *a, struct err *e)
{
    const char *part = option_text(o, "part");
    char more;
    a->out = option_text(o, "out");
    a->report = option_text(o, "report");
    a->in = option_list(o, "in");
    a->column = option_list(o, "column");
    if (part != NULL && (sscanf(part, "%u/%u%c", &a->part, &a->parts, &more) != 2 ||
                         a->parts == 0 || a->parts > LIMIT_WORKERS || a->part >= a->parts))
        return err_set(e, SHOAL_E_USAGE, "--part %s: expected I/N, I from 0 to N - 1, N up to %u",
                       part, LIMIT_WORKERS);
    return score_format_of(o, &a->format, e);
}

/* The text of an option, or that of the environment's variable. */
static const char *text_or_env(const struct option_line *o, const char *name, const char *variable)
{
    const char *text = option_text(o, name);
    if (text == NULL)
        text = getenv(variable);
    return text;
}

static int values_take(struct option_line *o, struct arguments *a, struct err *e)
{
    const struct string_list *set = option_list(o, "set");
    *a = (struct arguments){.coordinator = text_or_env(o, "coordinator", "SHOAL_COORDINATOR"),
                            .keys = text_or_env(o, "keys", "SHOAL_KEYS"),
                            .config = option_text(o, "config"),
                            .instance = option_text(o, "instance"),
                            .name = option_text(o, "name"),
                            .field = option_text(o, "field"),
                            .value = option_text(o, "value"),
                            .made_by = option_text(o, "made-by"),
                            .share = option_float(o, "share"),
                            .set = set,
                            .lanes = number(o, "lanes", 0),
                            .wait_s = number(o, "wait", 0),
                            .split = (uint32_t)option_choice(o, "split"),
                            .cores = number(o, "cores", 0),
                            .io_threads = number(o, "io-threads", 0),
                            .device = -1,
                            .backend_given = option_given(o, "backend"),
                            .metrics = option_text(o, "metrics"),
                            .check = o->word[1],
                            .check_only = option_given(o, "check"),
                            .as_json = option_given(o, "json"),
                            .insecure = option_given(o, "insecure-plaintext"),
                            .commands = option_given(o, "allow-commands")};
    if (a->coordinator == NULL)
        a->coordinator = KEYS_COORDINATOR;
    if (option_given(o, "device"))
        a->device = option_int(o, "device");
    if (a->backend_given)
        a->backend = (enum backend_kind)option_choice(o, "backend");
    for (size_t i = 0; i < set->count; i++)
        if (strchr(set->item[i], '=') == NULL)
            return err_set(e, SHOAL_E_USAGE, "--set %s: expected KEY=VALUE", set->item[i]);
    if (a->name != NULL && strlen(a->name) >= LIMIT_NAME)
        return err_set(e, SHOAL_E_USAGE, "--name %s: at most %u bytes", a->name, LIMIT_NAME - 1);
    return predict_take(o, a, e);
}

static bool trains(const struct arguments *a)
{
    return strcmp(a->verb, "train") == 0 || strcmp(a->verb, "replay") == 0 || a->stay;
}

/* `run` has its settings in its file; an option on the command line would be ignored, so it is
 * refused. */
static int run_alone(const struct option_line *o, struct err *e)
{
    static const char *const others[] = {
        "coordinator",    "keys",   "lanes",  "name",  "backend", "device", "cores",
        "io-threads",     "wait",   "split",  "in",    "out",     "format", "column",
        "part",           "report", "field",  "value", "made-by", "share",  "insecure-plaintext",
        "allow-commands", "json",   "metrics"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (option_given(o, others[i]))
            return err_set(e, SHOAL_E_USAGE,
                           "run takes --config, --set and --check alone: its settings, not --%s, "
                           "stand in the worker's file",
                           others[i]);
    return 0;
}

/* Loads the backend that a job with `train.backend: auto` would use. */
static void version(void)
{
    const char *library[] = {net_libraries(), wire_library(),     json_library(), config_library(),
                             hash_library(),  decode_libraries(), http_library(), NULL};
    struct backend *b;
    struct err e = {0};
    version_print("shoal-worker", WIRE_VERSION, library);
    if (backend_load(BACKEND_AUTO, &b, &e) == 0)
        printf("dense kernels: %s, %s%s%s\n", backend_name(b), backend_about(b),
               e.text[0] != '\0' ? "; " : "", e.text);
    else
        printf("dense kernels: none: %s\n", e.text);
}

/* 0; 1: help or version was printed; or an error. */
static int arguments_take(int argc, char **argv, struct option_line *o, struct arguments *a,
                          struct err *e)
{
    int rc = option_program("shoal-worker", NULL, version, argc, argv, o, e);
    if (rc == 0)
        rc = values_take(o, a, e);
    if (rc != 0)
        return rc;
    bool reads = a->check_only && o->words > 0 && strcmp(o->word[0], "convert") == 0;
    if (o->words != 1 + reads)
        return err_set(
            e, SHOAL_E_USAGE,
            "say what to do: run, train, replay, eval, predict, fields, count, check, values or "
            "convert; "
            "shoal-worker --help tells more");
    a->verb = o->word[0];
    a->stay = strcmp(a->verb, "run") == 0;
    if (a->stay)
        return run_alone(o, e);
    if (a->instance != NULL)
        return err_set(e, SHOAL_E_USAGE, "--instance is of run, whose file it names");
    bool train = trains(a);
    if (!train && strcmp(a->verb, "eval") != 0 && strcmp(a->verb, "predict") != 0 &&
        !stands_alone(a))
        return err_set(
            e, SHOAL_E_USAGE,
            "%s: a worker can run, train, replay, eval, predict, tell fields or values, count, "
            "check or convert",
            a->verb);
    bool looks = strcmp(a->verb, "convert") == 0 && a->check != NULL;
    if (!train && !looks && a->config == NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--config is missing: the job file says what the input and the model are");
    if (!train && a->metrics != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--metrics is of train and replay: %s ends by itself and tells its figures "
                       "then",
                       a->verb);
    if ((a->field == NULL) != (a->value == NULL))
        return err_set(e, SHOAL_E_USAGE,
                       "--field and --value belong together: which column, and which value in it");
    return 0;
}

/* Clears the job's data.test: its files and its commands. */
static void test_forget(struct job *job)
{
    config_list_free(&job->data.test);
    free(job->data.objects.of[WIRE_TEST].list);
    free(job->data.objects.of[WIRE_TEST].open);
    memset(&job->data.objects.of[WIRE_TEST], 0, sizeof job->data.objects.of[WIRE_TEST]);
}

/* Replaces data.test by the command line's input. */
static int input_take(const struct arguments *a, struct job *job, struct err *e)
{
    int rc = 0;
    if (a->in->count > 0 && a->split != WIRE_TEST)
        return err_set(e, SHOAL_E_USAGE, "--in and --split: what is scored is one or the other");
    if (a->in->count > 0)
        test_forget(job);
    for (size_t i = 0; i < a->in->count && rc == 0; i++)
        rc = config_list_add(&job->data.test, a->in->item[i]);
    if (rc != 0)
        return err_set(e, rc, "out of memory");

    if (strcmp(a->verb, "predict") != 0 || job->data.test.count > 0)
        return 0;

    return err_set(e, SHOAL_E_USAGE, "--in is missing: the files to score");
}

/* Turns the job into a prediction, which measures nothing. */
static void predict_job(const struct arguments *a, struct job *job)
{
    job->predict.on = true;
    job->predict.columns = *a->column; /* the command line outlives the job */
    job->evaluate.group[0] = '\0';
    config_list_free(&job->evaluate.by);
}

/* For `fields`: takes the names of the job that made the tables, whatever this job's order is. */
static int made_by_take(const struct arguments *a, struct job *job, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = config_read(a->made_by, &text, &bytes, e);
    if (rc == 0) {
        rc = known_names_take(job, text, bytes, e);
        free(text);
    }
    return rc;
}

/* The settings that concern metrics. */
static struct board_options board_of(const struct arguments *a)
{
    return (struct board_options){.program = "shoal-worker",
                                  .version = SHOAL_VERSION,
                                  .listen = text_or(a->metrics, ""),
                                  .token = text_or(a->metrics_token, ""),
                                  .loop = "worker",
                                  .loops = 1};
}

/* Takes lanes, cores and backend from the command line, else from the job file, else the
 * defaults. */
static int settings_take(struct arguments *a, struct job *job, bool *have_job, struct err *e)
{
    *have_job = false;
    if (a->config != NULL) {
        int rc = job_load(a->config, a->set, job, e);
        if (rc != 0)
            return rc;
        *have_job = true;
        if (a->made_by != NULL && (rc = made_by_take(a, job, e)) != 0)
            return rc;
        if (!a->backend_given)
            a->backend = job->train.backend;
        if (a->lanes == 0)
            a->lanes = job->train.lanes;
        if (strcmp(a->verb, "predict") == 0)
            predict_job(a, job);
        rc = input_take(a, job, e);
        if (rc != 0)
            return rc;
    }
    if (a->lanes == 0)
        a->lanes = 2;
    if (a->cores == 0)
        a->cores = machine_cores("");
    const struct board_options bo = board_of(a);
    return board_check(&bo, e);
}

/* run: takes all settings from the worker's file, which outlives the arguments. */
static int file_take(struct arguments *a, char path[LIMIT_PATH], struct worker_config *c,
                     struct err *e)
{
    int rc = instance_file(a->config, a->instance, "worker", path, e);
    if (rc != 0)
        return rc;
    a->config = NULL;
    if (path[0] != '\0')
        a->config = path;
    rc = worker_config_load(a->config, a->set, c, e);
    if (rc != 0)
        return rc;
    a->coordinator = c->coordinator;
    a->keys = c->keys;
    if (c->name[0] == '\0' && a->instance != NULL)
        instance_name(a->instance, c->name);
    a->name = NULL;
    if (c->name[0] != '\0')
        a->name = c->name;
    a->lanes = c->lanes;
    if (c->cores != 0)
        a->cores = c->cores;
    else
        a->cores = machine_cores("");

    a->io_threads = c->io_threads;
    a->device = c->device;
    a->backend = c->backend;
    a->backend_given = c->backend_given;
    a->insecure = c->insecure_plaintext;
    a->commands = c->allow_commands;
    a->set = &c->set;
    a->metrics = c->metrics;
    a->metrics_token = c->metrics_token;
    const struct board_options bo = board_of(a);
    return board_check(&bo, e);
}

/* ---- running --------------------------------------------------------------------------------- */

struct daemon {
    struct net *net;
    struct backend *backend, *second; /* owned; second: replaces one whose device is lost */
    char why[WIRE_WHY];               /* about the backend */
    struct trainer *trainer;          /* train */
    struct evaluator *evaluator;      /* eval, predict */
    struct env_timer status, figures;
    struct board *board; /* owned; NULL: no metrics */
    struct live *live;   /* run; or NULL */
    bool keyed, ready;   /* ready: READY=1 was sent */
    uint64_t begun_ns;
};

/* How long a silent coordinator may delay a unit's READY. */
#define UNANSWERED_NS UINT64_C(10000000000)

/* SIGHUP: for run it reloads the file; for other verbs a closed terminal is no reason to stop. */
static void reload(struct daemon *d)
{
    struct err e;
    if (d->live == NULL)
        return;
    notify_reloading();
    (void)live_read(d->live, &e); /* it logs errors */
    notify_ready("reloaded");
}

static void daemon_signal(void *context, int signo)
{
    struct daemon *d = context;
    if (signo == SIGHUP) {
        reload(d);
        return;
    }
    board_stops(d->board);
    log_info("%s: leaving", strsignal(signo));
    notify_stopping();
    if (d->trainer != NULL)
        trainer_leave(d->trainer);
    else
        net_interrupt(d->net);
}

static void status_fire(struct env_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, status);
    char text[128];
    log_flush();
    trainer_describe(d->trainer, text, sizeof text);
    bool ready = trainer_taken(d->trainer, time_monotonic_ns() - d->begun_ns > UNANSWERED_NS);
    if (ready && !d->ready)
        notify_ready(text);
    else
        notify_status("%s", text);
    d->ready = d->ready || ready;
    uint64_t pause_ms = 300;
    if (d->ready)
        pause_ms = 2000;
    env_timer_start(net_env(d->net), timer, pause_ms * UINT64_C(1000000));
}

/* Publishes the figures for Prometheus. It is ready when the coordinator has taken it. */
static void figures_fire(struct env_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, figures);
    bool ready = trainer_taken(d->trainer, false);
    if (board_wants(d->board, 0, time_monotonic_ns())) {
        meter_clear(board_sheet(d->board, 0));
        worker_gauges_put(d->trainer, board_sheet(d->board, 0));
        board_publish(d->board, 0, ready,
                      text_if(!ready, "the coordinator has not answered, or refuses this worker: "
                                      "the log tells"));
    }
    env_timer_start(net_env(d->net), timer, BOARD_PERIOD_NS);
}

/* trainer_options.replace. */
static int cpu_take(void *context, struct backend **out, struct err *e)
{
    struct daemon *d = context;
    int rc = backend_load(BACKEND_CPU, &d->second, e);
    *out = d->second;
    return rc;
}

/* Ends the process while a thread still uses its memory, so that nothing may be freed. */
static void exit_now(int rc, const struct err *e)
{
    if (rc != 0)
        log_error("%s", e->text);
    _exit(err_exit_status(rc));
}

static int train(const struct arguments *a, struct daemon *d, struct err *e)
{
    bool device = strcmp(backend_name(d->backend), "cpu") != 0;
    char host[LIMIT_NAME / 2] = "worker", name[LIMIT_NAME];
    (void)gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    snprintf(name, sizeof name, "%s-%d", host, (int)getpid());
    struct trainer_options options = {.coordinator = a->coordinator,
                                      .resolve = name_resolve,
                                      .name = name,
                                      .pid = (uint32_t)getpid(),
                                      .lanes_max = a->lanes,
                                      .set = a->set,
                                      .commands = a->commands,
                                      .replay = strcmp(a->verb, "replay") == 0,
                                      .backend = d->backend,
                                      .why = d->why,
                                      .context = d,
                                      .cores = a->cores,
                                      .clock_ns = time_monotonic_ns,
                                      .wait_ms = a->wait_s * 1000,
                                      .stay = a->stay,
                                      .keyed = d->keyed};
    if (a->name != NULL)
        options.name = a->name;
    if (device && a->backend == BACKEND_AUTO)
        options.replace = cpu_take;
    int rc = trainer_new(net_env(d->net), &options, &d->trainer, e);
    if (rc != 0)
        return rc;
    net_set_handler(d->net, trainer_handler(), d->trainer);
    d->status.fire = status_fire;
    d->figures.fire = figures_fire;
    d->begun_ns = time_monotonic_ns();
    status_fire(&d->status);
    if (d->board != NULL)
        figures_fire(&d->figures);
    net_run(d->net);
    rc = trainer_status(d->trainer, e);
    if (!trainer_settled(d->trainer))
        exit_now(rc, e);
    env_timer_stop(net_env(d->net), &d->status);
    env_timer_stop(net_env(d->net), &d->figures);
    trainer_free(d->trainer);
    return rc;
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

static int evaluate(const struct arguments *a, struct job *job, struct daemon *d, struct err *e)
{
    struct evaluator_options options = {.coordinator = a->coordinator,
                                        .job = job,
                                        .split = a->split,
                                        .lanes = a->lanes,
                                        .cores = a->cores,
                                        .backend = d->backend,
                                        .wait_ms = a->wait_s * 1000};
    const struct measure *measure;
    int rc = evaluator_new(net_env(d->net), &options, &d->evaluator, e);
    if (rc != 0)
        return rc;
    net_set_handler(d->net, evaluator_handler(), d->evaluator);
    net_run(d->net);
    rc = evaluator_result(d->evaluator, &measure, e);
    if (rc == 0)
        rc = measure_print(measure, evaluator_bad_lines(d->evaluator), job, a->split, e);
    if (!evaluator_settled(d->evaluator))
        exit_now(rc, e);
    evaluator_free(d->evaluator);
    return rc;
}

/* ---- predict ---- */

static int scores_take(void *context, const struct scores *s, uint64_t split_rows, struct err *e)
{
    return score_file_add(context, s, split_rows, e);
}

static int report_write(const struct arguments *a, const struct job *job, const struct evaluator *v,
                        struct err *e)
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

static int scored(const struct arguments *a, const struct job *job, const struct evaluator *v,
                  struct score_file *f, struct err *e)
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

static int predict(const struct arguments *a, struct job *job, struct daemon *d, struct err *e)
{
    struct score_file *f;
    const struct measure *none;
    int rc = score_file_open(a->out, a->format, job, a->part == 0, &f, e);
    if (rc != 0)
        return rc;
    struct evaluator_options options = {.coordinator = a->coordinator,
                                        .job = job,
                                        .split = WIRE_TEST,
                                        .lanes = a->lanes,
                                        .cores = a->cores,
                                        .backend = d->backend,
                                        .wait_ms = a->wait_s * 1000,
                                        .take = scores_take,
                                        .context = f,
                                        .part = a->part,
                                        .parts = a->parts};
    rc = evaluator_new(net_env(d->net), &options, &d->evaluator, e);
    if (rc == 0) {
        net_set_handler(d->net, evaluator_handler(), d->evaluator);
        net_run(d->net);
        rc = evaluator_result(d->evaluator, &none, e);
    }
    if (rc == 0)
        rc = scored(a, job, d->evaluator, f, e);
    score_file_free(f);
    if (d->evaluator != NULL && !evaluator_settled(d->evaluator))
        exit_now(rc, e);
    evaluator_free(d->evaluator);
    return rc;
}

/* The number of lanes that may run here at the same time; under bsp all of the job's (trainer.h),
 * as far as its file is available here. */
static uint32_t seats_expected(const struct arguments *a, const struct job *job)
{
    bool all = job != NULL && job->train.mode == WIRE_BSP && trains(a);

    if (all && job->train.lanes > a->lanes)
        return job->train.lanes;

    return a->lanes;
}

/* Sets the environment that the pool and the backend's module read, before there is another
 * thread. */
static void environment_set(const struct arguments *a, const struct job *job)
{
    uint32_t seats = seats_expected(a, job),
             threads = seats * (2 + lane_readers(a->cores, seats)) + 1;
    char text[24];
    snprintf(text, sizeof text, "%u", MIN(threads, 1024)); /* libuv's limit */
    setenv("UV_THREADPOOL_SIZE", text, 0);
    if (a->device < 0)
        return;
    snprintf(text, sizeof text, "%u", (unsigned)a->device);
    setenv("SHOAL_DEVICE", text, 1);
}

/* Loads the backend and logs why it was chosen. A fleet that computes on its CPUs beside idle GPUs
 * deserves an error. */
static int backend_take(const struct arguments *a, struct daemon *d, struct err *e)
{
    static const char *const names[] = {
        [BACKEND_AUTO] = "auto", [BACKEND_CPU] = "cpu", [BACKEND_CUDA] = "cuda"};
    int rc = backend_load(a->backend, &d->backend, e);
    if (rc != 0)
        return rc;
    if (e->text[0] != '\0')
        log_error("%s", e->text);
    if (a->backend != BACKEND_AUTO && a->stay)
        snprintf(d->why, sizeof d->why, "chosen by the worker's file: %s", names[a->backend]);
    else if (a->backend != BACKEND_AUTO && a->backend_given)
        snprintf(d->why, sizeof d->why, "chosen by --backend %s", names[a->backend]);
    else if (a->backend != BACKEND_AUTO)
        snprintf(d->why, sizeof d->why, "chosen by train.backend: %s", names[a->backend]);
    else if (strcmp(backend_name(d->backend), "cpu") != 0)
        snprintf(d->why, sizeof d->why, "auto: there is a device");
    else if (e->text[0] == '\0')
        snprintf(d->why, sizeof d->why, "auto: there is no driver of a device (libcuda.so.1)");
    else
        snprintf(d->why, sizeof d->why, "%s", e->text);
    char slow[ERR_TEXT_MAX];
    if (backend_is_slow(d->backend, slow)) {
        size_t said = strlen(d->why);
        log_warn("%s", slow);
        snprintf(d->why + said, sizeof d->why - said, "; %s", slow);
    }
    return 0;
}

/* Over tcp both sides authenticate: the coordinator and this worker. */
static int keys_open(const struct arguments *a, struct keyfile **out, struct err *e)
{
    int rc = keyfile_find(a->keys, out, e);
    if (rc != 0 || !coordinators_tcp(a->coordinator))
        return rc;
    if (*out == NULL && !a->insecure && a->stay && a->check_only)
        return 0; /* the unit hands it over */
    if (*out == NULL && !a->insecure && a->stay)
        return err_set(e, SHOAL_E_CONFIG,
                       "coordinator: %s: over tcp whoever answers there would be believed; make a "
                       "key (shoal keygen /etc/shoal/keys/worker-NAME.key --role worker "
                       "--coordinator COORDINATOR.pub, whose line belongs into the coordinator's "
                       "list), which shoal-worker@NAME takes, or name one (keys: FILE), or, in a "
                       "network that you trust, insecure_plaintext: true",
                       a->coordinator);
    if (*out == NULL && !a->insecure)
        return err_set(e, SHOAL_E_CONFIG,
                       "--coordinator %s: over tcp whoever answers there would be believed; give "
                       "--keys FILE (shoal keygen FILE --role worker --coordinator "
                       "COORDINATOR.pub, whose line belongs into the coordinator's list), or, in a "
                       "network that you trust, --insecure-plaintext",
                       a->coordinator);
    if (*out == NULL)
        log_warn("insecure_plaintext: %s is reached without encryption, whoever answers there is "
                 "believed",
                 a->coordinator);
    return 0;
}

static int run(const struct arguments *a, struct job *job, struct err *e)
{
    struct keyfile *keys;
    struct daemon d = {.live = a->live};
    int rc = keys_open(a, &keys, e);
    if (rc != 0)
        return rc;
    bool tcp = coordinators_tcp(a->coordinator);
    if (a->check_only) {
        puts(keys == NULL && tcp && !a->insecure ? KEYFILE_UNSEEN : "ok");
        keyfile_free(keys);
        return 0;
    }
    d.keyed = keys != NULL && tcp;
    struct net_options options = {.keys = keys, .io_threads = a->io_threads};
    signal(SIGPIPE, SIG_IGN); /* for `shoal-worker ... 2>&1 | head` */
    signal(SIGHUP, SIG_IGN);  /* until it is watched: a closed terminal is no reason to stop */
    environment_set(a, job);
    rc = backend_take(a, &d, e);
    if (rc != 0)
        return rc;
    const struct board_options bo = board_of(a);
    rc = board_open(&bo, &d.board, e);
    if (rc != 0)
        return rc;
    rc = net_new(&options, &d.net, e);
    if (rc == 0) {
        rc = net_signals(d.net, daemon_signal, &d);
        if (rc != 0)
            err_set(e, rc, "signals cannot be watched");
    }
    if (rc == 0) {
        notify_watchdog_start(net_env(d.net));
        if (trains(a))
            rc = train(a, &d, e);
        else if (strcmp(a->verb, "predict") == 0)
            rc = predict(a, job, &d, e);
        else
            rc = evaluate(a, job, &d, e);

        net_free(d.net); /* no message borrows from a backend's memory after this */
    }
    board_close(d.board);
    backend_unload(d.backend);
    backend_unload(d.second);
    keyfile_free(keys);
    return rc;
}

/* ---- the input alone ------------------------------------------------------------------------- */

/* A field of the job file that the tables lack, or have as another kind, has no key there. */
static int field_known(const struct job *job, const char *name, struct err *e)
{
    struct legend is = {.input = NULL};
    char known[LEGEND_NAME];
    legend_write(name, strlen(name), 1, known);
    uint32_t was = legend_find(&job->legend, LEGEND_FIELDS, known);
    if (!legend_known(&job->legend))
        return 0;
    if (was == LEGEND_NONE)
        return err_set(e, SHOAL_E_NOT_FOUND, "the tables have no field %s", name);
    const char *kind = job->legend.name[LEGEND_FIELDS][was].what;
    int rc = dataset_legend(job, &is, e);
    uint32_t at = LEGEND_NONE;
    if (rc == 0)
        at = legend_find(&is, LEGEND_FIELDS, known);
    if (at != LEGEND_NONE && strcmp(is.name[LEGEND_FIELDS][at].what, kind) != 0)
        rc = err_set(e, SHOAL_E_CONFIG, "field %s is %s in the job file, in the tables it is %s",
                     name, is.name[LEGEND_FIELDS][at].what, kind);
    legend_free(&is);
    return rc;
}

static int fields_tell(const struct arguments *a, const struct job *job, struct json **out,
                       struct err *e)
{
    struct features f;
    char name[LIMIT_NAME] = "";
    uint32_t field = 0;
    uint64_t key = 0;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    if (a->field != NULL) { /* a name means a former field rather than a number */
        rc = feature_field_find(&f, a->field, &field, e);
        if (rc == 0)
            feature_field_name(&f, field, name);
        int gone = SHOAL_E_NOT_FOUND;
        if (strcmp(name, a->field) != 0)
            gone = feature_gone_key(&job->legend, a->field, a->value, &key, e);
        if (gone != SHOAL_E_NOT_FOUND)
            rc = gone;
        else if (rc == 0)
            rc = feature_field_key(&f, field, a->value, &key, e);
        if (rc == 0 && a->made_by != NULL && name[0] != '\0')
            rc = field_known(job, name, e);
    }
    if (rc == 0) {
        *out = json_new_object();
        if (a->field != NULL)
            json_set_hex(*out, "key", key);
        json_set(*out, "fields", feature_fields_json(&f, &job->legend));
    }
    features_free(&f);
    return rc;
}

/* The report, with the values of evaluate.by beside their hashes. */
static int values_tell(const struct arguments *a, const struct job *job, struct json **out,
                       struct err *e)
{
    char *text;
    size_t bytes;
    if (a->report == NULL)
        return err_set(e, SHOAL_E_USAGE, "--report is missing: the report.json to complete");
    if (file_read_whole(a->report, REPORT_BYTES_MAX, &text, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", a->report, strerror(errno));
    int rc = json_parse(text, bytes, out, e);
    free(text);

    if (rc == 0)
        return values_name(job, *out, e);

    return err_wrap(e, rc, "%s", a->report);
}

static int convert(const struct arguments *a, const struct job *job, struct err *e)
{
    if (a->check != NULL)
        return worker_convert_check(a->check, a->as_json, e);
    if (a->out == NULL)
        return err_set(e, SHOAL_E_USAGE, "--out is missing: the event file to write");
    return worker_convert(job, a->split, a->out, a->as_json, e);
}

static int look(const struct arguments *a, struct job *job, struct err *e)
{
    struct json *j = NULL;
    if (strcmp(a->verb, "check") == 0)
        return dataset_check(job, e);
    if (strcmp(a->verb, "convert") == 0)
        return convert(a, job, e);
    int rc;
    if (strcmp(a->verb, "fields") == 0)
        rc = fields_tell(a, job, &j, e);
    else if (strcmp(a->verb, "values") == 0)
        rc = values_tell(a, job, &j, e);
    else
        rc = count_job(job, a->share, &j, e);
    char *text = NULL;
    if (rc == 0)
        text = json_text(j, 2);

    json_free(j);
    if (rc == 0 && text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to print the answer");
    if (rc == 0)
        puts(text);
    free(text);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    struct option_line o;
    struct err e = {0};
    struct job job;
    struct worker_config file = {.device = -1};
    struct live live = {.may = NULL};
    char path[LIMIT_PATH];
    bool have_job = false;
    log_init("shoal-worker");
    crash_begin("shoal-worker");
    umask(077); /* other users must not read rows, logs and jobs */
    (void)machine_files();
    int rc = arguments_take(argc, argv, &o, &a, &e);
    if (rc == 0 && a.stay && !a.check_only) { /* at a reload, not at the start */
        starts_begin();
        instance_folder("CACHE_DIRECTORY", path, sizeof path);
        if (path[0] != '\0')
            crash_folder(path);
    }
    if (rc == 0 && !a.stay)
        rc = settings_take(&a, &job, &have_job, &e);
    else if (rc == 0)
        rc = file_take(&a, path, &file, &e);
    if (rc == 0 && a.stay) {
        a.live = &live;
        live.path = a.config;
        live.set = option_list(&o, "set");
        live.keys = keys_worker;
        rc = live_open(&live, &e);
    }
    if (rc == 0 && stands_alone(&a))
        rc = look(&a, &job, &e);
    else if (rc == 0)
        rc = run(&a, have_job ? &job : NULL, &e);
    if (have_job)
        job_free(&job);
    live_close(&live);
    worker_config_free(&file);
    option_free(&o);
    return starts_end(rc, &e);
}
