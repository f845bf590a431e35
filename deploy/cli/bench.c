/* bench.c: `shoal bench`: pull and push against a real server process over tcp loopback, reading a
 * log, and training the whole way.
 *
 * One server process, one client process (this one), a table of 10 M rows of dim 16 with AdaGrad,
 * 8,192 random keys a request, one or four requests in flight. The client prepares its keys before
 * the clock runs; a figure is requests answered in the measured seconds. */
#include "deploy/cli/bench.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/hold.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/process.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"
#include "proto/net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEYS = BENCH_KEYS,
    WIDTH = BENCH_WIDTH,
    SETS = 256,
    TABLET_BITS = BENCH_TABLET_BITS,
    WINDOW_MAX = 16
};

struct bench {
    /* the table */
    uint64_t rows;
    uint64_t *keys;   /* (SETS, KEYS), each set sorted by key_mix */
    float *gradients; /* (KEYS, WIDTH) */
    uint64_t *fill;   /* all keys, sorted by key_mix */
    /* the connection */
    struct net *net;
    struct env *env;
    peer_t peer;
    struct env_timer deadline;
    /* the phase */
    bool pushing, filling, stopping;
    uint32_t window, in_flight;
    uint64_t batch, next_fill, answered, refused, sequence;
    struct err why;
    /* the surroundings */
    struct bench_server server;
    char dir[4096]; /* where everything lies; as realpath wants it */
    struct bench_out out;
    double seconds;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static int mixed_compare(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

void bench_keys_sort(uint64_t *keys, size_t count)
{
    qsort(keys, count, sizeof *keys, mixed_compare);
}

static int keys_make(struct bench *b, struct err *e)
{
    struct rng r = {99};
    b->keys = malloc(sizeof(uint64_t) * SETS * KEYS);
    b->gradients = malloc(sizeof(float) * KEYS * WIDTH);
    b->fill = malloc(sizeof(uint64_t) * b->rows);
    if (b->keys == NULL || b->gradients == NULL || b->fill == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for %" PRIu64 " keys", b->rows);
    for (size_t i = 0; i < KEYS * WIDTH; i++)
        b->gradients[i] = 1e-3f;
    for (uint64_t i = 0; i < b->rows; i++)
        b->fill[i] = bench_key(i);
    bench_keys_sort(b->fill, b->rows);
    for (size_t i = 0; i < (size_t)SETS * KEYS; i++)
        b->keys[i] = bench_key(rng_below(&r, b->rows));
    for (size_t s = 0; s < SETS; s++)
        bench_keys_sort(b->keys + s * KEYS, KEYS);
    return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void request_send(struct bench *b)
{
    const uint64_t *keys = b->keys + (b->sequence++ % SETS) * KEYS;
    uint32_t count = KEYS;
    if (b->filling) {
        uint64_t left = b->rows - b->next_fill;
        count = left < KEYS ? (uint32_t)left : KEYS;
        keys = b->fill + b->next_fill;
        b->next_fill += count;
    }
    const struct bench_push push = {b->batch, 0, 1u << TABLET_BITS, b->gradients};
    b->batch += b->pushing;
    struct msg *m = bench_request(b->sequence, keys, count, b->pushing ? &push : NULL);
    if (m == NULL || env_send(b->env, b->peer, m) != 0) {
        err_set(&b->why, SHOAL_E_INTERNAL, "a request could not be sent");
        env_stop(b->env);
        return;
    }
    b->in_flight++;
}

static void bench_on_message(void *core, peer_t from, struct msg *m)
{
    struct bench *b = core;
    struct wire w;
    (void)from;
    b->in_flight--;
    if (wire_decode(m, &w, &b->why) != 0 || w.status != 0) {
        if (b->why.code == 0)
            err_set(&b->why, w.status, "server: %s", w.error);
        b->stopping = true;
    } else {
        b->answered++;
    }
    msg_free(m);
    if (b->filling && b->next_fill >= b->rows)
        b->stopping = true;
    if (!b->stopping)
        request_send(b);
    else if (b->in_flight == 0)
        env_stop(b->env);
}

static void bench_on_drained(void *core)
{
    (void)core;
}

static void deadline_fire(struct env_timer *t)
{
    struct bench *b = container_of(t, struct bench, deadline);
    b->stopping = true;
}

/* Runs one phase for `seconds` (a fill until it is done) and tells keys a second. */
static int phase_run(struct bench *b, bool pushing, bool filling, uint32_t window, double seconds,
                     double *keys_per_second, struct err *e)
{
    b->pushing = pushing;
    b->filling = filling;
    b->window = window;
    b->stopping = false;
    b->answered = 0;
    b->why = (struct err){0};
    if (!filling)
        env_timer_start(b->env, &b->deadline, (uint64_t)(seconds * 1e9));
    uint64_t begin = time_monotonic_ns();
    for (uint32_t i = 0; i < window && !(filling && b->next_fill >= b->rows); i++)
        request_send(b);
    net_run(b->net);
    env_timer_stop(b->env, &b->deadline);
    if (b->why.code != 0)
        return err_set(e, b->why.code, "%s", b->why.text);
    *keys_per_second = (double)b->answered * KEYS / ((double)(time_monotonic_ns() - begin) / 1e9);
    return 0;
}

void bench_touch(uint64_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page / 2;
    if (bytes > most)
        bytes = most;
    char *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return;
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < bytes; i += page)
        *(volatile char *)(p + i) = 1;
    munmap(p, bytes + 1);
}

int bench_figure(struct bench_out *out, const char *name, double value, int decimals,
                 const char *unit)
{
    if (!out->as_json)
        printf("  %-26s %14.*f %s\n", name, decimals, value, unit);
    fflush(stdout);
    return json_set_number(out->figures, name, value);
}

static int connection_open(struct bench *b, struct err *e)
{
    static const struct env_handler handler = {bench_on_message, bench_on_drained, NULL};
    struct net_options none = {0};
    int rc = net_new(&none, &b->net, e);
    if (rc != 0)
        return rc;
    b->env = net_env(b->net);
    net_set_handler(b->net, &handler, b);
    b->deadline.fire = deadline_fire;
    return env_connect(b->env, b->server.endpoint, ENV_COORDINATOR, &b->peer);
}

/* ---- the measurements ------------------------------------------------------------------------ */

static int memory_measure(struct bench *b, struct err *e)
{
    double warm, x;
    int rc = 0;
    static const struct {
        const char *name;
        bool pushing;
        uint32_t window;
    } phase[] = {{"pull_w1", false, 1},
                 {"pull_w4", false, 4},
                 {"push_memory_w1", true, 1},
                 {"push_memory_w4", true, 4}};

    for (size_t i = 0; i < 4 && rc == 0; i++) {
        rc = phase_run(b, phase[i].pushing, false, phase[i].window, 0.5, &warm, e);
        if (rc == 0)
            rc = phase_run(b, phase[i].pushing, false, phase[i].window, b->seconds, &x, e);
        if (rc == 0)
            rc = bench_figure(&b->out, phase[i].name, x, 0, "keys/s");
    }
    return rc;
}

static int durable_measure(struct bench *b, const char *durability, double seconds, struct err *e)
{
    char name[64];
    double warm, x;
    int rc = phase_run(b, true, false, 4, 10, &warm, e);
    for (uint32_t window = 1; window <= 4 && rc == 0; window += 3) {
        rc = phase_run(b, true, false, window, window == 4 ? seconds : b->seconds, &x, e);
        (void)snprintf(name, sizeof name, "push_%s_w%u", durability, window);
        if (rc == 0)
            rc = bench_figure(&b->out, name, x, 0, "keys/s");
    }
    if (rc == 0)
        rc = phase_run(b, false, false, 4, b->seconds, &x, e);
    (void)snprintf(name, sizeof name, "pull_%s_w4", durability);
    return rc != 0 ? rc : bench_figure(&b->out, name, x, 0, "keys/s");
}

static int durability_run(struct bench *b, const char *durability, double seconds, struct err *e)
{
    double fill;
    char name[32];
    (void)snprintf(name, sizeof name, "server-%s", durability);
    int rc = bench_server_start(&b->server, b->dir, name, durability, true, e);

    b->batch = b->next_fill = 0;
    if (rc == 0)
        rc = bench_server_arrange(&b->server, e);
    if (rc == 0)
        rc = connection_open(b, e);
    if (rc == 0)
        rc = phase_run(b, true, true, 4, 0, &fill, e);
    if (rc == 0)
        rc = strcmp(durability, "memory") == 0 ? memory_measure(b, e)
                                               : durable_measure(b, durability, seconds, e);
    if (b->net != NULL)
        net_free(b->net);
    b->net = NULL;
    bench_server_end(&b->server, SIGKILL);
    return rc;
}

/* True when it ends well. What it says goes to a file of the bench's folder. */
static bool logged_run(const struct bench *b, const char *const argv[], const char *file)
{
    char path[4200];
    struct process p;
    struct process_end end = {.code = -1};
    struct err e = {0};
    (void)snprintf(path, sizeof path, "%s/%s", b->dir, file);
    int log = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (log < 0)
        return false;
    if (process_start(&p, argv, &(struct process_options){.out = log, .err = log}, &e) == 0)
        end = process_wait(&p);
    close(log);
    return end.signal == 0 && end.code == 0;
}

/* Of the run's tables, over its own log, with the start of daemons on the run's folder. */
static int score_run(struct bench *b, const char *self, const char *run, const char *log,
                     int64_t rows, struct err *e)
{
    char out[4200];
    (void)snprintf(out, sizeof out, "%s/scores.csv", b->dir);
    const char *const eval[] = {self, "eval", "--from", run, "--in", log, NULL};
    const char *const predict[] = {self, "predict", "--from", run, "--in", log, "--out", out, NULL};
    const char *const *const line[] = {eval, predict};
    static const char *const name[] = {"eval_deepfm", "predict_deepfm"};
    int rc = 0;
    (void)file_unlink(out);
    for (int i = 0; i < 2 && rc == 0; i++) {
        uint64_t began = time_monotonic_ns();
        if (!logged_run(b, line[i], "score.log"))
            return err_set(e, SHOAL_E_INTERNAL, "scoring did not run; see %s/score.log", b->dir);
        rc = bench_figure(&b->out, name[i],
                          (double)rows / ((double)(time_monotonic_ns() - began) * 1e-9), 0,
                          "examples/s");
    }
    return rc;
}

static int self_find(char self[512], struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", self, 511);
    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    self[n] = 0;
    return 0;
}

/* A made-up log; one that is there is used again. */
static int log_make(struct bench *b, int64_t rows, char log[4200], struct err *e)
{
    char count[32], self[512];
    struct stat st;
    int rc = self_find(self, e);
    (void)snprintf(log, 4200, "%s/train.tsv", b->dir);
    if (rc != 0 || (stat(log, &st) == 0 && st.st_size > 0))
        return rc;
    (void)snprintf(count, sizeof count, "%" PRId64, rows);
    const char *const synth[] = {self, "synth", "--rows", count, "--seed", "1", "--out", log, NULL};
    return logged_run(b, synth, "synth.log")
               ? 0
               : err_set(e, SHOAL_E_INTERNAL, "no log was made; see %s/synth.log", b->dir);
}

static int parse_run(struct bench *b, int64_t rows, struct err *e)
{
    char log[4200];
    int rc = log_make(b, rows, log, e);
    return rc != 0 ? rc : bench_parse(&b->out, b->dir, log, b->seconds, e);
}

/* Training is measured with the very command that people use. */
static int train_run(struct bench *b, int64_t rows, struct err *e)
{
    char log[4200], job[4200], run[4200], report_path[4200], self[512];
    struct json *report = NULL;
    int rc = self_find(self, e);
    if (rc == 0)
        rc = log_make(b, rows, log, e);
    if (rc != 0)
        return rc;
    (void)snprintf(job, sizeof job, "%s/train.yaml", b->dir);
    (void)snprintf(run, sizeof run, "%s/train-run-%d", b->dir, (int)getpid());
    FILE *f = file_stream(job, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", job, strerror(errno));
    fprintf(f,
            "job: bench\ndata: {format: criteo, train: [\"%s\"]}\ntables: [{name: emb, dim: 16, "
            "optimizer: {kind: adagrad, lr: 0.02}}]\n"
            "model: {kind: deepfm, hidden: [400, 400, 400]}\ntrain: {batch: 4096, consistency: "
            "ssp, staleness: 2, prefetch: 1, lanes: 2, warmup: 20}\n"
            "durability: journal\n",
            log);
    fclose(f);
    const char *const local[] = {self, "local", job, "--run-dir", run, NULL};
    if (!logged_run(b, local, "local.log"))
        return err_set(e, SHOAL_E_INTERNAL, "training did not run; see %s/local.log", b->dir);
    (void)snprintf(report_path, sizeof report_path, "%.*s/report.json", 4160, run);
    f = fopen(report_path, "rb");
    char *text = malloc(1u << 20);
    size_t bytes = f == NULL || text == NULL ? 0 : fread(text, 1, 1u << 20, f);
    rc = json_parse(text, bytes, &report, e);
    if (rc == 0)
        rc = bench_figure(&b->out, "train_deepfm",
                          json_as_number(json_get(report, "examples_per_second"), 0), 0,
                          "examples/s");
    if (f != NULL)
        fclose(f);
    free(text);
    json_free(report);
    if (rc == 0)
        rc = score_run(b, self, run, log, rows, e);
    return rc;
}

static int only_check(const char *list, struct err *e)
{
    static const char *const part[] = {"memory", "journal",    "fsync", "train",
                                       "growth", "checkpoint", "cold",  "shards",
                                       "curve",  "parse",      "events"};
    enum { PARTS = sizeof part / sizeof *part };

    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ","), i = 0;
        while (i < PARTS && (strlen(part[i]) != n || strncmp(p, part[i], n) != 0))
            i++;
        if (i == PARTS)
            return err_set(
                e, SHOAL_E_USAGE,
                "--only %s: expected some of "
                "growth,checkpoint,cold,shards,curve,parse,events,memory,journal,fsync,train",
                list);
        p += n;
        if (*p == 0)
            return 0;
    }
}

int cli_bench(int argc, char **argv)
{
    static struct bench b;
    struct err e = {0};
    struct option_line o;
    int rc = cli_options("shoal bench", argc, argv, &o, &e);
    const char *only = option_text(&o, "only"), *dir = option_text(&o, "dir");
    if (rc == 0)
        rc = only_check(only, &e);
    if (rc != 0)
        return cli_end(rc, &o, &e);
    signal(SIGPIPE, SIG_IGN);
    b.rows = (uint64_t)option_int(&o, "rows");
    b.seconds = (double)option_int(&o, "seconds");
    b.out.as_json = option_given(&o, "json");
    b.out.figures = json_new_object();
    if ((file_mkdir(dir, 0755) != 0 && errno != EEXIST) || realpath(dir, b.dir) == NULL)
        rc = err_set(&e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", dir, strerror(errno));
    if (rc == 0)
        rc = hold_take(b.dir, HOLD_WAIT_MS, NULL, &e);
    /* first, while this process is small */
    if (rc == 0 && strstr(only, "growth") != NULL)
        rc = bench_growth(&b.out, (uint64_t)option_int(&o, "growth-rows"), &e);
    if (rc == 0 && strstr(only, "checkpoint") != NULL)
        rc = bench_checkpoint(&b.out, b.dir, (uint64_t)option_int(&o, "checkpoint-rows"), b.seconds,
                              &e);
    if (rc == 0 && strstr(only, "cold") != NULL)
        rc = bench_cold(&b.out, b.dir, (uint64_t)option_int(&o, "cold-rows"), b.seconds, &e);
    if (rc == 0 && strstr(only, "shards") != NULL)
        rc = bench_shards(&b.out, b.dir, (uint64_t)option_int(&o, "shards-rows"), b.seconds, &e);
    if (rc == 0 && strstr(only, "curve") != NULL)
        rc = bench_curve(&b.out, b.dir, (uint64_t)option_int(&o, "curve-rows"), b.seconds,
                         option_int(&o, "train-rows"), &e);
    if (rc == 0 && strstr(only, "events") != NULL)
        rc = bench_events(&b.out, b.dir, (uint64_t)option_int(&o, "events-rows"), &e);
    if (rc == 0 && (strstr(only, "memory") != NULL || strstr(only, "journal") != NULL ||
                    strstr(only, "fsync") != NULL))
        rc = keys_make(&b, &e);
    static const char *const durability[] = {"memory", "journal", "fsync"};
    for (int i = 0; i < 3 && rc == 0; i++)
        if (strstr(only, durability[i]) != NULL)
            rc = durability_run(&b, durability[i], (double)option_int(&o, "journal-seconds"), &e);
    if (rc == 0 && strstr(only, "parse") != NULL)
        rc = parse_run(&b, option_int(&o, "train-rows"), &e);
    if (rc == 0 && strstr(only, "train") != NULL)
        rc = train_run(&b, option_int(&o, "train-rows"), &e);
    char *text = json_text(b.out.figures, 2);
    if (rc == 0 && b.out.as_json && text != NULL)
        puts(text);
    free(text);
    json_free(b.out.figures);
    free(b.keys);
    free(b.gradients);
    free(b.fill);
    return cli_end(rc, &o, &e);
}
