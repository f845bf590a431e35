/* lib_work.c: a worker of a job whose network is the caller's: a thread with a loop runs the
 * trainer, as shoal-worker's main does, and hand.h brings its batches to the caller's threads.
 *
 *     caller: shoal_work_next -- hand_take <- | hand | <- run, on a thread of the pool: the lane
 *             shoal_work_done -- hand_give -> |      | ->
 *
 * The loop looks every LOOK_MS whether the caller wants to leave, and notes its progress, so the
 * struct's lock is the only thing that both sides touch. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/config.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"
#include "worker/lib/hand.h"
#include "worker/lib/lib_batch.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_options.h"
#include "worker/train/lane.h"
#include "worker/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 20u
#define CORES_MOST 4096u
#define GOES_ON_NS 100000000 /* between two calls of goes_on */

struct shoal_work {
    struct shoal_work_options options; /* strings borrowed until the trainer has them */
    char coordinator[COORDINATORS_LIST], name[LIMIT_NAME];
    struct string_list set; /* owned */
    struct keyfile *keys;
    struct net *net;
    struct trainer *trainer;
    struct hand *hand;
    struct env_timer look; /* of the loop */
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    bool leave, works, ended;
    bool other;      /* the coordinator has given it another job than the first */
    uint32_t inside; /* threads of the caller's in shoal_work_next, .._done and .._fail */
    struct err end;  /* how it ended */
    char *job;       /* owned: its text */
    struct trainer_counts counts;
    uint64_t batches, examples; /* given back for training */
    struct lib_batch *out, *spare;
};

/* ---- the loop's thread ----------------------------------------------------------------------- */

static void look_fire(struct env_timer *timer)
{
    struct shoal_work *w = container_of(timer, struct shoal_work, look);
    pthread_mutex_lock(&w->lock);
    bool leave = w->leave;
    w->counts = trainer_counts(w->trainer);
    if (!w->works && trainer_works(w->trainer)) {
        w->works = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    if (leave)
        trainer_leave(w->trainer);
    else
        env_timer_start(net_env(w->net), timer, LOOK_MS * UINT64_C(1000000));
}

static void job_take(void *context, const char *text, size_t bytes)
{
    struct shoal_work *w = context;
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    pthread_mutex_lock(&w->lock);
    if (w->job == NULL) { /* the caller may hold the first one */
        w->job = copy;
        copy = NULL;
    } else if (strcmp(w->job, copy) != 0) {
        /* It left the first one, or lost its lanes: the program is not for another one. */
        w->other = true;
        w->leave = true;
    }
    pthread_mutex_unlock(&w->lock);
    free(copy);
}

static void *loop_run(void *context)
{
    struct shoal_work *w = context;
    struct err e = {0};
    w->look.fire = look_fire;
    look_fire(&w->look);
    net_run(w->net);
    env_timer_stop(net_env(w->net), &w->look);
    int rc = trainer_status(w->trainer, &e);
    pthread_mutex_lock(&w->lock);
    w->counts = trainer_counts(w->trainer);
    w->ended = true;
    w->end = e;
    w->end.code = rc;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    hand_close(w->hand);
    return NULL;
}

/* Signals are the caller's: our threads, and those that they make, get none. */
static int loop_start(struct shoal_work *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, loop_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->running = rc == 0;
    return rc == 0 ? 0 : SHOAL_E_NOMEM;
}

/* ---- joining --------------------------------------------------------------------------------- */

static int options_take(struct shoal_work *w, struct err *e)
{
    struct shoal_work_options *o = &w->options;
    char host[LIMIT_NAME / 2] = "worker";
    const char *coordinator = o->coordinator;
    if (coordinator == NULL)
        coordinator = getenv("SHOAL_COORDINATOR");
    if (coordinator == NULL || coordinator[0] == '\0')
        return err_set(e, SHOAL_E_USAGE,
                       "shoal_work_join: no coordinator is named: set options.coordinator or "
                       "SHOAL_COORDINATOR, as to tcp://HOST:7070");
    if (strlen(coordinator) >= sizeof w->coordinator)
        return err_set(e, SHOAL_E_USAGE, "shoal_work_join: the coordinator's name is too long");
    text_copy(w->coordinator, sizeof w->coordinator, coordinator);
    (void)gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    if (o->name != NULL && (o->name[0] == '\0' || strlen(o->name) >= sizeof w->name))
        return err_set(e, SHOAL_E_USAGE, "shoal_work_join: a name has 1 to %u bytes",
                       LIMIT_NAME - 1);
    if (o->name != NULL)
        text_copy(w->name, sizeof w->name, o->name);
    else
        (void)snprintf(w->name, sizeof w->name, "%s-%d", host, (int)getpid());
    for (size_t i = 0; i < o->set_count; i++)
        if (config_list_add(&w->set, o->set[i]) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (o->lanes > LIMIT_LANES || o->cores > CORES_MOST)
        return err_set(e, SHOAL_E_USAGE,
                       "shoal_work_join: %u lanes and %u cores; at most %u and %u are possible",
                       o->lanes, o->cores, LIMIT_LANES, CORES_MOST);
    if (o->lanes == 0)
        o->lanes = 1;
    if (o->cores == 0)
        o->cores = MAX(machine_cores(""), 1);
    return 0;
}

static int keys_take(struct shoal_work *w, struct err *e)
{
    int rc = keyfile_find(w->options.keys, &w->keys, e);
    if (rc == 0 && w->keys == NULL && coordinators_tcp(w->coordinator) &&
        !w->options.insecure_plaintext)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: over tcp whoever answers there would be believed: name a key file "
                     "(options.keys), or, in a network that you trust, set "
                     "options.insecure_plaintext",
                     w->coordinator);
    return rc;
}

static int trainer_make(struct shoal_work *w, struct err *e)
{
    char threads[24];
    const struct net_options net = {.keys = w->keys,
                                    .insecure_plaintext = w->options.insecure_plaintext};
    const struct trainer_options options = {.coordinator = w->coordinator,
                                            .resolve = name_resolve,
                                            .name = w->name,
                                            .pid = (uint32_t)getpid(),
                                            .lanes_max = w->options.lanes,
                                            .set = &w->set,
                                            .commands = w->options.commands,
                                            .cores = w->options.cores,
                                            .wait_ms = w->options.wait_ms,
                                            .outside = hand_outside(w->hand),
                                            .keyed = w->keys != NULL};
    /* libuv reads it when its first work begins; a program that uses libuv itself sets its own */
    (void)snprintf(threads, sizeof threads, "%u",
                   MIN(lane_threads(w->options.cores, w->options.lanes), 1024));
    setenv("UV_THREADPOOL_SIZE", threads, 0);
    int rc = net_new(&net, &w->net, e);
    if (rc == 0)
        rc = trainer_new(net_env(w->net), &options, &w->trainer, e);
    if (rc == 0)
        net_set_handler(w->net, trainer_handler(), w->trainer);
    return rc;
}

static void work_free(struct shoal_work *w)
{
    if (w->trainer != NULL)
        trainer_free(w->trainer);
    if (w->net != NULL)
        net_free(w->net);
    hand_free(w->hand);
    keyfile_free(w->keys);
    config_list_free(&w->set);
    while (w->spare != NULL) {
        struct lib_batch *b = w->spare;
        w->spare = b->next;
        lib_batch_free(b);
    }
    free(w->job);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Waits until the worker works or has ended. False: the caller gives up (goes_on). */
static bool work_wait(struct shoal_work *w)
{
    bool waits = true, goes_on = true;
    while (waits && goes_on) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += GOES_ON_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&w->lock);
        if (!w->works && !w->ended)
            (void)pthread_cond_timedwait(&w->changed, &w->lock, &until);
        waits = !w->works && !w->ended;
        pthread_mutex_unlock(&w->lock);
        if (waits && w->options.goes_on != NULL)
            goes_on = w->options.goes_on(w->options.context);
    }
    return goes_on;
}

int shoal_work_join(const struct shoal_work_options *options, shoal_work **out,
                    struct shoal_error *e)
{
    struct err own = {0};
    struct shoal_work *w;
    *out = NULL;
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return lib_error_set(e, SHOAL_ERROR_MEMORY, "out of memory");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = lib_options_take(&w->options, sizeof w->options, options,
                              options == NULL ? 0 : options->size, "shoal_work_join", e);
    if (rc != SHOAL_OK) {
        work_free(w);
        return rc;
    }
    if (getenv("SHOAL_LOG") == NULL)
        log_set_level(LOG_LEVEL_ERROR);
    rc = options_take(w, &own);
    if (rc == 0)
        rc = keys_take(w, &own);
    if (rc == 0)
        rc = hand_new(job_take, w, &w->hand);
    if (rc == 0)
        rc = trainer_make(w, &own);
    if (rc == 0)
        rc = loop_start(w);
    if (rc != 0) {
        own.code = rc;
        work_free(w);
        return lib_error(e, &own);
    }
    if (!work_wait(w)) {
        shoal_work_close(w);
        return lib_error_set(e, SHOAL_ERROR_STOPPED,
                             "shoal_work_join: the program gave up waiting");
    }
    pthread_mutex_lock(&w->lock);
    bool ended = w->ended;
    own = w->end;
    pthread_mutex_unlock(&w->lock);
    if (ended && own.code != 0) {
        shoal_work_close(w);
        return lib_error(e, &own);
    }
    *out = w; /* also of a job that is over already: shoal_work_next says so */
    return lib_error_none(e);
}

const char *shoal_work_job(const shoal_work *work)
{
    shoal_work *w = (shoal_work *)work; /* the lock changes */
    pthread_mutex_lock(&w->lock);
    const char *text = w->job != NULL ? w->job : "";
    pthread_mutex_unlock(&w->lock);
    return text;
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct lib_batch *batch_get(struct shoal_work *w, const struct outside_batch *from)
{
    pthread_mutex_lock(&w->lock);
    struct lib_batch *b = w->spare;
    if (b != NULL)
        w->spare = b->next;
    pthread_mutex_unlock(&w->lock);
    if (b == NULL && lib_batch_new(from->job, from->shape, &b) != 0)
        return NULL;
    return b;
}

/* A thread of the caller's comes in, or leaves: shoal_work_close waits until none is inside. */
static void come_in(struct shoal_work *w)
{
    pthread_mutex_lock(&w->lock);
    w->inside++;
    pthread_mutex_unlock(&w->lock);
}

static int go_out(struct shoal_work *w, int rc)
{
    pthread_mutex_lock(&w->lock);
    w->inside--;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* No batch will come. */
static int work_over(struct shoal_work *w, struct shoal_error *e)
{
    pthread_mutex_lock(&w->lock);
    struct err end = w->end;
    const bool other = w->other, closing = w->leave && !other;
    pthread_mutex_unlock(&w->lock);
    if (other)
        return lib_error_set(e, SHOAL_ERROR_STOPPED,
                             "the coordinator has given this worker another job than the one that "
                             "it had joined: close it, and join again");
    if (closing)
        return lib_error_set(e, SHOAL_ERROR_STOPPED, "the worker is being closed");
    if (end.code != 0)
        return lib_error(e, &end);
    return lib_error_set(e, SHOAL_END, "the job is over");
}

static int batch_next(shoal_work *w, uint32_t wait_ms, struct shoal_batch **out,
                      struct shoal_error *e)
{
    struct hand_batch *h;
    int rc = hand_take(w->hand, wait_ms, &h);
    if (rc == SHOAL_E_AGAIN)
        return lib_error_set(e, SHOAL_AGAIN, "no batch came within %u ms", wait_ms);
    if (rc == SHOAL_E_END)
        return work_over(w, e);
    pthread_mutex_lock(&w->lock);
    const bool other = w->other;
    pthread_mutex_unlock(&w->lock);
    if (other) { /* its tables may have other shapes than the caller's */
        hand_give(w->hand, h, SHOAL_E_STOPPED);
        return work_over(w, e);
    }
    struct lib_batch *b = batch_get(w, h->outside);
    if (b == NULL) {
        hand_give(w->hand, h, SHOAL_E_AGAIN);
        return lib_error_set(e, SHOAL_ERROR_MEMORY, "out of memory");
    }
    lib_batch_of_lane(b, h->outside);
    b->hand = h;
    pthread_mutex_lock(&w->lock);
    b->next = w->out;
    w->out = b;
    pthread_mutex_unlock(&w->lock);
    *out = &b->batch;
    return lib_error_none(e);
}

int shoal_work_next(shoal_work *w, uint32_t wait_ms, struct shoal_batch **out,
                    struct shoal_error *e)
{
    *out = NULL;
    come_in(w);
    return go_out(w, batch_next(w, wait_ms, out, e));
}

/* Takes the caller's batch off the list of those that are out; NULL: it is not among them. */
static struct lib_batch *batch_find(struct shoal_work *w, const struct shoal_batch *batch)
{
    pthread_mutex_lock(&w->lock);
    struct lib_batch **at = &w->out, *b;
    while (*at != NULL && &(*at)->batch != batch)
        at = &(*at)->next;
    b = *at;
    if (b != NULL)
        *at = b->next;
    pthread_mutex_unlock(&w->lock);
    return b;
}

static void batch_put(struct shoal_work *w, struct lib_batch *b, int status)
{
    struct hand_batch *h = b->hand;
    bool trained = status == 0 && b->batch.kind == SHOAL_TRAIN;
    uint32_t examples = b->batch.examples;
    b->hand = NULL;
    pthread_mutex_lock(&w->lock);
    w->batches += trained;
    w->examples += trained ? examples : 0;
    b->next = w->spare;
    w->spare = b;
    pthread_mutex_unlock(&w->lock);
    hand_give(w->hand, h, status);
}

static bool numbers_ok(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The name of the first array that has a number that is none; NULL: all are finite. */
static const char *not_finite(const struct shoal_batch *b)
{
    if (!numbers_ok(b->scores, (size_t)b->examples * b->tasks))
        return "scores";
    for (uint32_t t = 0; t < b->tables && b->kind == SHOAL_TRAIN; t++)
        if (!numbers_ok(b->table[t].gradients, (size_t)b->table[t].count * b->table[t].width))
            return b->table[t].name;
    for (uint32_t i = 0; i < b->tensors && b->kind == SHOAL_TRAIN; i++)
        if (!numbers_ok(b->tensor[i].gradients, b->tensor[i].floats))
            return b->tensor[i].name;
    return NULL;
}

static int batch_done(shoal_work *w, struct shoal_batch *batch, struct shoal_error *e)
{
    struct lib_batch *b = batch_find(w, batch);
    if (b == NULL)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_work_done: the batch is not out: it was given back before");
    const char *wrong = not_finite(batch);
    struct shoal_batch copy = *batch;
    if (wrong != NULL && batch->kind == SHOAL_SCORE) {
        batch_put(w, b, SHOAL_E_NOT_FINITE);
        return lib_error_set(e, SHOAL_ERROR_NOT_FINITE,
                             "lane %u: a score of batch %" PRIu64
                             " is not a finite number, so the job ends",
                             copy.lane, copy.number);
    }
    if (wrong != NULL) {
        char name[96];
        text_copy(name, sizeof name, wrong);
        b->hand->outside->out->skipped = true;
        batch_put(w, b, 0);
        return lib_error_set(e, SHOAL_ERROR_NOT_FINITE,
                             "lane %u: %s of batch %" PRIu64
                             " has a number that is not finite: the batch "
                             "is pushed without gradients",
                             copy.lane, name, copy.number);
    }
    batch_put(w, b, 0);
    return lib_error_none(e);
}

int shoal_work_done(shoal_work *w, struct shoal_batch *batch, struct shoal_error *e)
{
    come_in(w);
    return go_out(w, batch_done(w, batch, e));
}

static int batch_fail(shoal_work *w, struct shoal_batch *batch, const char *reason,
                      struct shoal_error *e)
{
    struct lib_batch *b = batch_find(w, batch);
    if (b == NULL)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_work_fail: the batch is not out: it was given back before");
    log_warn("the program gives batch %" PRIu64 " of lane %u back: %s", batch->number, batch->lane,
             reason != NULL ? reason : "");
    batch_put(w, b, SHOAL_E_AGAIN);
    return lib_error_none(e);
}

int shoal_work_fail(shoal_work *w, struct shoal_batch *batch, const char *reason,
                    struct shoal_error *e)
{
    come_in(w);
    return go_out(w, batch_fail(w, batch, reason, e));
}

void shoal_work_progress(shoal_work *w, struct shoal_progress *out)
{
    struct shoal_progress p = {.size = out->size};
    pthread_mutex_lock(&w->lock);
    p.batches = w->batches;
    p.examples = w->examples;
    p.acknowledged = w->counts.batches;
    p.keys_pulled = w->counts.keys_pulled;
    p.keys_pushed = w->counts.keys_pushed;
    pthread_mutex_unlock(&w->lock);
    memcpy(out, &p, MIN(sizeof p, out->size));
}

void shoal_work_close(shoal_work *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->leave = true;
    pthread_mutex_unlock(&w->lock);
    if (w->hand != NULL) /* wakes takers; a lane may still offer a batch, and is not to wait */
        hand_close(w->hand);
    pthread_mutex_lock(&w->lock);
    while (w->inside > 0)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    while (w->out != NULL) /* the caller is done with them */
        batch_put(w, batch_find(w, &w->out->batch), SHOAL_E_STOPPED);
    if (w->running)
        pthread_join(w->thread, NULL);
    if (w->trainer != NULL && !trainer_settled(w->trainer))
        return; /* a thread still uses it: the memory stays */
    work_free(w);
}
