/* worker_main.c: shoal-worker: the daemon around the trainer, and the choice among the verbs.
 *
 * `train` ends with the job. `run`, a unit's verb, waits for the next job and has its settings in a
 * file.
 *
 * Threads: this one runs the loop (trainer, connections). libuv's pool computes and reads batches.
 * It has lane_threads threads, so that no stage waits for a thread of another stage
 * (UV_THREADPOOL_SIZE overrides the number). ZeroMQ has threads of its own. The
 * pool is made before the job is known: under bsp a job may need more seats than --lanes and
 * --config imply, and these share its threads. SIGTERM and SIGINT give the lanes back and leave; a
 * second signal leaves at once. */
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "proto/net/starts.h"
#include "proto/wire/wire.h"
#include "worker/train/lane.h"
#include "worker/train/trainer.h"
#include "worker/train/worker_gauges.h"
#include "worker/worker_arguments.h"
#include "worker/worker_listen.h"
#include "worker/worker_look.h"
#include "worker/worker_score.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct daemon {
    const struct worker_arguments *arguments; /* borrowed */
    struct net *net;
    struct backend *backend, *second; /* owned; second: replaces one whose device is lost */
    char why[WIRE_WHY];               /* about the backend */
    struct trainer *trainer;          /* train */
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

/* trainer_options.where. */
static int where(void *context, char endpoint[256], char host[256], struct err *e)
{
    const struct daemon *d = context;
    const struct worker_listen l = {d->arguments->listen, d->arguments->advertise,
                                    d->arguments->coordinator};
    return worker_listen_where(&l, endpoint, host, e);
}

static int train(const struct worker_arguments *a, struct daemon *d, struct err *e)
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
                                      .where = where,
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
        worker_score_exit(rc, e);
    env_timer_stop(net_env(d->net), &d->status);
    env_timer_stop(net_env(d->net), &d->figures);
    trainer_free(d->trainer);
    return rc;
}

/* The number of lanes that may run here at the same time; under bsp all of the job's (trainer.h),
 * as far as its file is available here. */
static uint32_t seats_expected(const struct worker_arguments *a, const struct job *job)
{
    bool all = job != NULL && job->train.mode == WIRE_BSP && worker_arguments_train(a);

    if (all && job_lanes(job) > a->lanes)
        return job_lanes(job);

    return a->lanes;
}

/* Sets the environment that the pool and the backend's module read, before there is another
 * thread. */
static void environment_set(const struct worker_arguments *a, const struct job *job)
{
    uint32_t seats = seats_expected(a, job), threads = lane_threads(a->cores, seats);
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
static int backend_take(const struct worker_arguments *a, struct daemon *d, struct err *e)
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
static int keys_open(const struct worker_arguments *a, struct keyfile **out, struct err *e)
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
        log_warn("insecure_plaintext: %s is reached without encryption, and whoever answers there "
                 "is believed; so is whoever sends to this worker where it listens, for jobs with "
                 "train.dense: allreduce",
                 a->coordinator);
    return 0;
}

static int run(const struct worker_arguments *a, struct job *job, struct err *e)
{
    struct keyfile *keys;
    struct daemon d = {.arguments = a, .live = a->live};
    int rc = keys_open(a, &keys, e);
    if (rc != 0)
        return rc;
    bool tcp = coordinators_tcp(a->coordinator);
    const struct worker_listen l = {a->listen, a->advertise, a->coordinator};
    rc = worker_listen_check(&l, keys != NULL || (tcp && a->check_only), a->insecure, e);
    if (rc != 0) {
        keyfile_free(keys);
        return rc;
    }
    if (a->check_only) {
        puts(keys == NULL && tcp && !a->insecure ? KEYFILE_UNSEEN : "ok");
        keyfile_free(keys);
        return 0;
    }
    d.keyed = keys != NULL && tcp;
    struct net_options options = {.keys = keys,
                                  .io_threads = a->io_threads,
                                  .insecure_plaintext = a->insecure,
                                  .connections_max = WORKER_LISTEN_CONNECTIONS};
    signal(SIGPIPE, SIG_IGN); /* for `shoal-worker ... 2>&1 | head` */
    signal(SIGHUP, SIG_IGN);  /* until it is watched: a closed terminal is no reason to stop */
    environment_set(a, job);
    rc = backend_take(a, &d, e);
    if (rc != 0)
        return rc;
    const struct board_options bo = worker_arguments_board(a);
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
        if (worker_arguments_train(a))
            rc = train(a, &d, e);
        else if (strcmp(a->verb, "predict") == 0)
            rc = worker_score_predict(a, job, d.net, d.backend, e);
        else
            rc = worker_score_evaluate(a, job, d.net, d.backend, e);

        net_free(d.net); /* no message borrows from a backend's memory after this */
    }
    board_close(d.board);
    backend_unload(d.backend);
    backend_unload(d.second);
    keyfile_free(keys);
    return rc;
}

int main(int argc, char **argv)
{
    struct worker_arguments a = {0};
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
    int rc = worker_arguments_take(argc, argv, &o, &a, &e);
    if (rc == 0 && a.stay && !a.check_only) { /* at a reload, not at the start */
        starts_begin();
        instance_folder("CACHE_DIRECTORY", path, sizeof path);
        if (path[0] != '\0')
            crash_folder(path);
    }
    if (rc == 0 && !a.stay)
        rc = worker_arguments_job(&a, &job, &have_job, &e);
    else if (rc == 0)
        rc = worker_arguments_file(&a, path, &file, &e);
    if (rc == 0 && a.stay) {
        a.live = &live;
        live.path = a.config;
        live.set = option_list(&o, "set");
        live.keys = keys_worker;
        rc = live_open(&live, &e);
    }
    if (rc == 0 && worker_arguments_alone(&a))
        rc = worker_look(&a, &job, &e);
    else if (rc == 0)
        rc = run(&a, have_job ? &job : NULL, &e);
    if (have_job)
        job_free(&job);
    live_close(&live);
    worker_config_free(&file);
    option_free(&o);
    return starts_end(rc, &e);
}
