/* part_curve.c: the cost of keys over tcp: pulls, pushes and training, plain beside CURVE.
 *
 * Two servers with durability memory, one of which requires keys; four connections to each, as of
 * four workers, with a quarter of the tablets each; 1, 2 and 4 threads of ZeroMQ on both sides,
 * because these threads encrypt, and a connection belongs to one thread. The two servers take
 * turns, and each is first in every other round; a figure is a median over rounds, a ratio the
 * median of the rounds' ratios. Training runs coordinator, server and worker as in a fleet. */
#include "deploy/cli/cli.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"
#include "tests/bench/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 4, SETS = 16, ROUNDS = 7, TRAIN_ROUNDS = 3, PORTS = 8, PATH = 4400 };
enum { PLAIN, CURVE, KINDS };
static const uint32_t threads_of[] = {1, 2, 4};
static const char *const kind_name[] = {"plain", "curve"};

struct side { /* one of the two servers, and the bench's connections to it */
    struct part_server process;
    struct net *net;
    struct env *env;
    peer_t peer[LINES];
    struct env_timer deadline;
    struct curve_bench *of;
    uint64_t batch[LINES];
};

struct curve_bench {
    struct side side[KINDS];
    const char *dir;
    char key[PATH], allow[PATH]; /* files */
    struct keyfile *keys;        /* owned: the bench is both server and client */
    uint64_t rows;
    uint64_t *set;    /* owned; (LINES, SETS, PART_KEYS): keys of a line's quarter, each sorted */
    float *gradients; /* owned; (PART_KEYS, PART_WIDTH) */
    bool pushing, stopping;
    uint32_t in_flight;
    uint64_t sequence, answered;
    struct err why;
};

/* ---- the load -------------------------------------------------------------------------------- */

static int sets_make(struct curve_bench *b, struct err *e)
{
    struct rng r = {99};
    uint32_t have[LINES] = {0};
    b->set = malloc(sizeof *b->set * LINES * SETS * PART_KEYS);
    b->gradients = malloc(sizeof *b->gradients * PART_KEYS * PART_WIDTH);
    if (b->set == NULL || b->gradients == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for keys");
    for (size_t i = 0; i < (size_t)PART_KEYS * PART_WIDTH; i++)
        b->gradients[i] = 1e-3f;
    for (uint32_t full = 0; full < LINES;) {
        uint64_t key = part_key(rng_below(&r, b->rows));
        uint32_t line = (uint32_t)(key_mix(key) >> 62);
        if (have[line] == SETS * PART_KEYS)
            continue;
        b->set[(size_t)line * SETS * PART_KEYS + have[line]++] = key;
        full += have[line] == SETS * PART_KEYS;
    }
    for (size_t s = 0; s < LINES * SETS; s++)
        part_keys_sort(b->set + s * PART_KEYS, PART_KEYS);
    return 0;
}

static void line_send(struct side *s, uint32_t line)
{
    struct curve_bench *b = s->of;
    const uint32_t tablets = (1u << PART_TABLET_BITS) / LINES;
    const uint64_t *keys = b->set + ((size_t)line * SETS + b->sequence / LINES % SETS) * PART_KEYS;
    const struct part_push push = {s->batch[line], line * tablets, tablets, b->gradients};
    s->batch[line] += b->pushing;
    struct msg *m =
        part_request(++b->sequence * LINES + line, keys, PART_KEYS, b->pushing ? &push : NULL);
    if (m == NULL || env_send(s->env, s->peer[line], m) != 0) {
        err_set(&b->why, SHOAL_E_INTERNAL, "a request could not be sent");
        env_stop(s->env);
        return;
    }
    b->in_flight++;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct side *s = core;
    struct curve_bench *b = s->of;
    struct wire w;
    (void)from;
    int rc = wire_decode(m, &w, &b->why);
    if (rc == 0 && w.status != 0)
        rc = err_set(&b->why, w.status, "server: %s", w.error);
    msg_free(m);
    b->in_flight--;
    b->answered += rc == 0;
    if (rc == 0 && !b->stopping)
        line_send(s, (uint32_t)(w.id % LINES));
    if (rc != 0 || b->in_flight == 0)
        env_stop(s->env);
}

static void on_drained(void *core)
{
    (void)core;
}

static void deadline_cb(struct env_timer *t)
{
    container_of(t, struct side, deadline)->of->stopping = true;
}

/* Returns keys a second. */
static int turn_run(struct side *s, bool pushing, double seconds, double *rate, struct err *e)
{
    struct curve_bench *b = s->of;
    b->pushing = pushing;
    b->stopping = false;
    b->answered = b->in_flight = 0;
    env_timer_start(s->env, &s->deadline, (uint64_t)(seconds * 1e9));
    uint64_t begin = time_monotonic_ns();
    for (uint32_t line = 0; line < LINES; line++)
        line_send(s, line);
    net_run(s->net);
    env_timer_stop(s->env, &s->deadline);
    *rate = (double)b->answered * PART_KEYS / ((double)(time_monotonic_ns() - begin) / 1e9);
    return b->why.code == 0 ? 0 : err_set(e, b->why.code, "%s", b->why.text);
}

static int side_open(struct curve_bench *b, int kind, uint32_t threads, struct err *e)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    struct side *s = &b->side[kind];
    const struct net_options options = {.io_threads = threads,
                                        .keys = kind == CURVE ? b->keys : NULL};
    double rate;
    char name[32];
    *s = (struct side){.of = b, .deadline = {.fire = deadline_cb}};
    s->process.io_threads = threads;
    s->process.port = 20000 + (int)(getpid() % 20000) + kind * PORTS;
    if (kind == CURVE) {
        (void)snprintf(s->process.keys, sizeof s->process.keys, "%.4290s", b->key);
        (void)snprintf(s->process.allow, sizeof s->process.allow, "%.4290s", b->allow);
        (void)snprintf(s->process.key, sizeof s->process.key, "%s", b->keys->pub);
    }
    (void)snprintf(name, sizeof name, "server-%s", kind_name[kind]);
    int rc = net_new(&options, &s->net, e); /* the first one's threads serve all */
    if (rc == 0)
        rc = part_server_start(&s->process, b->dir, name, "memory", true, e);
    cli_keys_set(kind == CURVE ? b->keys : NULL);
    if (rc == 0)
        rc = part_server_arrange(&s->process, e);
    cli_keys_set(NULL);
    if (rc != 0)
        return rc;
    s->env = net_env(s->net);
    net_set_handler(s->net, &handler, s);
    for (uint32_t line = 0; line < LINES; line++)
        if (env_connect(s->env, s->process.endpoint, s->process.key, &s->peer[line]) != 0)
            return err_set(e, SHOAL_E_UNAVAILABLE, "cannot connect to %s", s->process.endpoint);
    return turn_run(s, true, 1, &rate, e); /* its rows are made, and its pages touched */
}

static void side_close(struct side *s)
{
    if (s->net != NULL)
        net_free(s->net);
    s->net = NULL;
    part_server_end(&s->process, SIGKILL);
}

/* ---- figures --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *value, uint32_t count)
{
    double sorted[ROUNDS];
    memcpy(sorted, value, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return sorted[count / 2];
}

static int figures(struct part_out *out, const char *what, uint32_t threads,
                   double rate[KINDS][ROUNDS], uint32_t rounds, const char *unit)
{
    char name[64];
    double ratio[ROUNDS];
    int rc = 0;
    for (int kind = 0; kind < KINDS && rc == 0; kind++) {
        (void)snprintf(name, sizeof name, "%s_%s_io%u", what, kind_name[kind], threads);
        rc = part_figure(out, name, median(rate[kind], rounds), 0, unit);
    }
    for (uint32_t i = 0; i < rounds; i++)
        ratio[i] = rate[PLAIN][i] > 0 ? rate[CURVE][i] / rate[PLAIN][i] : 0;
    (void)snprintf(name, sizeof name, "%s_curve_of_plain_io%u", what, threads);
    return rc != 0 ? rc : part_figure(out, name, median(ratio, rounds), 3, "of plain");
}

static int load_measure(struct curve_bench *b, struct part_out *out, uint32_t threads,
                        double seconds, struct err *e)
{
    double pull[KINDS][ROUNDS], push[KINDS][ROUNDS], warm;
    int rc = side_open(b, PLAIN, threads, e);
    if (rc == 0)
        rc = side_open(b, CURVE, threads, e);
    for (uint32_t round = 0; round < ROUNDS && rc == 0; round++)
        for (uint32_t k = 0; k < KINDS && rc == 0; k++) {
            uint32_t kind = (k + round) % KINDS;
            rc = turn_run(&b->side[kind], false, 0.2, &warm, e);
            if (rc == 0)
                rc = turn_run(&b->side[kind], false, seconds / 2, &pull[kind][round], e);
            if (rc == 0)
                rc = turn_run(&b->side[kind], true, seconds / 2, &push[kind][round], e);
        }
    for (int kind = 0; kind < KINDS; kind++)
        side_close(&b->side[kind]);
    if (rc == 0)
        rc = figures(out, "pull", threads, pull, ROUNDS, "keys/s");
    return rc != 0 ? rc : figures(out, "push", threads, push, ROUNDS, "keys/s");
}

/* ---- training -------------------------------------------------------------------------------- */

struct fleet {
    struct child child[3];
    int children;
    char endpoint[64], report[PATH], job[PATH];
};

static struct child *child_of(struct fleet *f, const struct curve_bench *b, const char *program)
{
    struct child *c = &f->child[f->children++];
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    (void)snprintf(c->name, sizeof c->name, "%s", program);
    (void)snprintf(c->log, sizeof c->log, "%.900s/train-%s.log", b->dir, program);
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "%.*s/%s",
                   (int)(slash != NULL ? slash - self : 0), self, program);
    return c;
}

static void set(struct child *c, const char *key, const char *value)
{
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--set=%s=%.900s", key, value);
}

/* Sets a daemon's keys; allow NULL: no list. */
static void keys_set(struct child *c, int kind, const char *keys, const char *allow)
{
    if (kind == PLAIN)
        set(c, "insecure_plaintext", "true");
    else
        set(c, "keys", keys);
    if (kind == CURVE && allow != NULL)
        set(c, "allow", allow);
}

static int fleet_start(struct fleet *f, const struct curve_bench *b, int kind, uint32_t threads,
                       struct err *e)
{
    char text[PATH], io[24];
    int port = 20000 + (int)(getpid() % 20000) + 2 * PORTS + kind * PORTS, rc = 0;
    (void)snprintf(f->endpoint, sizeof f->endpoint, "tcp://127.0.0.1:%d", port);
    (void)snprintf(f->report, sizeof f->report, "%.4200s/train-report.json", b->dir);
    (void)snprintf(f->job, sizeof f->job, "%.4200s/train-curve.yaml", b->dir);
    (void)snprintf(io, sizeof io, "%u", threads);
    (void)file_unlink(f->report);
    struct child *c = child_of(f, b, "shoal-coordinator");
    set(c, "listen", f->endpoint);
    set(c, "report", f->report);
    (void)snprintf(text, sizeof text, "%.4200s/train-coordinator", b->dir);
    (void)file_remove_tree(text);
    set(c, "data_dir", text);
    keys_set(c, kind, b->key, b->allow);
    rc = child_start(c, e);
    c = child_of(f, b, "shoal-server");
    set(c, "coordinator", f->endpoint);
    set(c, "net.io_threads", io);
    (void)snprintf(text, sizeof text, "%.4200s/train-server", b->dir);
    (void)file_remove_tree(text);
    set(c, "data_dir", text);
    (void)snprintf(text, sizeof text, "tcp://127.0.0.1:%d", port + 1);
    set(c, "listen", text);
    (void)snprintf(text, sizeof text, "%.4200s.server", b->key);
    keys_set(c, kind, text, NULL);
    if (rc == 0)
        rc = child_start(c, e);
    c = child_of(f, b, "shoal-worker");
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "train");
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--config=%.900s", f->job);
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--coordinator=%s", f->endpoint);
    (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--io-threads=%u", threads);
    if (kind == PLAIN)
        (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--insecure-plaintext");
    else
        (void)snprintf(c->arg[c->args++], LIMIT_PATH, "--keys=%.900s.worker", b->key);
    return rc == 0 ? child_start(c, e) : rc;
}

static void fleet_end(struct fleet *f)
{
    for (int i = 0; i < f->children; i++)
        child_signal(&f->child[i], SIGKILL);
    for (int i = 0; i < f->children; i++)
        while (f->child[i].process.pid != 0 && !child_ended(&f->child[i]))
            usleep(1000);
}

static int train_once(struct curve_bench *b, int kind, uint32_t threads, double *rate,
                      struct err *e)
{
    struct fleet *f = calloc(1, sizeof *f);
    struct json *report = NULL;
    struct ask *a = NULL;
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = fleet_start(f, b, kind, threads, e);
    struct wire w = {.type = WIRE_TYPE_SUBMIT}, reply;
    char *text = NULL;
    size_t bytes = 0;
    if (rc == 0 && file_read_whole(f->job, LIMIT_CONFIG_BYTES, &text, &bytes) != 0)
        rc = err_set(e, SHOAL_E_IO, "cannot read %s", f->job);
    cli_keys_set(kind == CURVE ? b->keys : NULL);
    if (rc == 0)
        rc = cli_ask_open(f->endpoint, b->keys->pub, &a, e);
    cli_keys_set(NULL);
    const struct frame frame = {text, bytes, NULL, NULL};
    if (rc == 0)
        rc = cli_ask(a, &w, &frame, 30000, &reply, NULL, e);
    for (int tries = 0; rc == 0 && access(f->report, R_OK) != 0; tries++) {
        usleep(50000);
        if (tries > 20 * 600)
            rc = err_set(e, SHOAL_E_TIMEOUT, "training did not end; see %s", f->child[0].log);
    }
    if (rc == 0)
        rc = cli_json_file(f->report, &report, e);
    if (rc == 0)
        *rate = json_as_number(json_get(report, "examples_per_second"), 0);
    json_free(report);
    cli_ask_close(a);
    fleet_end(f);
    free(text);
    free(f);
    return rc;
}

static int job_write(const struct curve_bench *b, int64_t rows, struct err *e)
{
    char log[PATH], job[PATH], count[32], *out;
    size_t bytes;
    (void)snprintf(log, sizeof log, "%.4200s/train-curve.tsv", b->dir);
    (void)snprintf(job, sizeof job, "%.4200s/train-curve.yaml", b->dir);
    (void)snprintf(count, sizeof count, "%" PRId64, rows);
    const char *const synth[] = {"shoal", "synth", "--rows", count, "--seed",
                                 "1",     "--out", log,      NULL};
    int rc = child_output(synth, &out, &bytes, e);
    if (rc != 0)
        return rc;
    free(out);
    FILE *f = file_stream(job, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", job, strerror(errno));
    fprintf(f,
            "job: curve\ndata: {format: criteo, train: [\"%s\"]}\ntables: [{name: emb, dim: 16, "
            "optimizer: {kind: adagrad, lr: 0.02}}]\n"
            "model: {kind: deepfm, hidden: [64, 32]}\ntrain: {batch: 4096, consistency: "
            "ssp, staleness: 2, prefetch: 1, lanes: 2, warmup: 5}\n",
            log);
    fclose(f);
    return 0;
}

static int train_measure(struct curve_bench *b, struct part_out *out, uint32_t threads,
                         struct err *e)
{
    double rate[KINDS][ROUNDS];
    int rc = 0;
    for (uint32_t round = 0; round < TRAIN_ROUNDS && rc == 0; round++)
        for (uint32_t k = 0; k < KINDS && rc == 0; k++) {
            uint32_t kind = (k + round) % KINDS;
            rc = train_once(b, (int)kind, threads, &rate[kind][round], e);
        }
    return rc != 0 ? rc : figures(out, "train", threads, rate, TRAIN_ROUNDS, "examples/s");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int key_new(const char *path, const char *pinned, char pub[KEYFILE_KEY], struct err *e)
{
    char other[PATH + 32];
    (void)snprintf(other, sizeof other, "%s.pub", path);
    (void)file_unlink(path); /* from an earlier run */
    (void)file_unlink(other);
    return keyfile_make(path, pinned, pub, e);
}

/* Makes a key that trusts the first. */
static int key_of(const struct curve_bench *b, const char *who, char pub[KEYFILE_KEY],
                  struct err *e)
{
    char path[PATH + 16], first[PATH + 8];
    (void)snprintf(path, sizeof path, "%s.%s", b->key, who);
    (void)snprintf(first, sizeof first, "%s.pub", b->key);
    return key_new(path, first, pub, e);
}

/* Makes the keys of the server under load and of the coordinator, which the bench also uses as an
 * operator, and those of a fleet's server and worker. */
static int keys_make(struct curve_bench *b, struct err *e)
{
    char pub[KEYFILE_KEY], worker[KEYFILE_KEY], server[KEYFILE_KEY];
    (void)snprintf(b->key, sizeof b->key, "%.4200s/curve.key", b->dir);
    (void)snprintf(b->allow, sizeof b->allow, "%.4200s/curve.allow", b->dir);
    int rc = key_new(b->key, NULL, pub, e);
    if (rc == 0)
        rc = key_of(b, "worker", worker, e);
    if (rc == 0)
        rc = key_of(b, "server", server, e);
    if (rc == 0)
        rc = keyfile_load(b->key, &b->keys, e);
    FILE *f = rc == 0 ? file_stream(b->allow, false) : NULL;
    if (rc == 0 && f == NULL)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", b->allow, strerror(errno));
    if (rc != 0)
        return rc;
    fprintf(f, "%s admin bench\n%s worker w\n%s coord s\n", pub, worker, server);
    fclose(f);
    return 0;
}

int part_curve(struct part_out *out, const char *dir, uint64_t rows, double seconds,
               int64_t train_rows, struct err *e)
{
    struct curve_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    b->dir = dir;
    b->rows = rows;
    int rc = keys_make(b, e);
    if (rc == 0)
        rc = sets_make(b, e);
    for (size_t i = 0; i < sizeof threads_of / sizeof *threads_of && rc == 0; i++)
        rc = load_measure(b, out, threads_of[i], seconds, e);
    if (rc == 0)
        rc = job_write(b, train_rows, e);
    for (size_t i = 0; i < sizeof threads_of / sizeof *threads_of && rc == 0; i++)
        rc = train_measure(b, out, threads_of[i], e);
    keyfile_free(b->keys);
    free(b->set);
    free(b->gradients);
    free(b);
    return rc;
}
