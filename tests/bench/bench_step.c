/* bench_step.c: how long a training step of a model takes, and where the time goes.
 *
 *     bench_step [OPTION VALUE]... KIND...
 *
 * KIND: a model.kind of job.yaml. Options: --batch 4096, --fields 26, --numerics 13, --rows 54000
 * (unique keys of the batch), --steps 12, --threads 1, --tasks 1 (2 for mmoe and ple), --history 20
 * (values of din's first field, which attends to the second), --backend cpu (or cuda, or the file
 * name of a module), --set KEY=VALUE (any key of job.yaml, as of the command line; repeatable).
 * Each thread trains on a batch of its own, made up once; two steps come before the clock starts.
 * Said are examples a second of all threads together by the clock on the wall; of each thread the
 * best and the middle step, and the best by the time that the thread was on a core, which is the
 * figure to compare on a machine that does other work too; of a network over several devices what
 * share of their time they waited and how long a step took by their own clocks, for the stand-in's
 * devices take turns on the processor; and, on the host, the shares of core
 * time of matrix products and of each kind of layer. A fully connected layer's share is its
 * products and, beside them, bias, activation and dropout. No test: run by hand. */
#include "dense/model/run.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Idle times are measured every 16th batch (dense/model/run.c). */
enum { STEPS_MAX = 1000, THREADS_MAX = 16, SETS_MAX = 64, MEASURED_EVERY = 16 };

static struct {
    uint32_t batch, fields, numerics, rows, steps, threads, tasks, history;
    const char *backend;
    char *set[SETS_MAX];
    size_t sets;
} options = {.batch = 4096,
             .fields = 26,
             .numerics = 13,
             .rows = 54000,
             .steps = 12,
             .threads = 1,
             .history = 20,
             .backend = "cpu"};

static void fail(const char *text)
{
    fprintf(stderr, "bench_step: %s\n", text);
    exit(1);
}

/* ---- accounts -------------------------------------------------------------------------------- */

/* The layers of the model that is measured, and the functions that do the work. Set before the
 * threads start. */
static const struct layer_ops *layer_ops_of[PLAN_LAYERS_MAX];
static const struct backend_ops *backend_ops_real;

/* Core seconds of this thread. */
static _Thread_local struct account {
    double product, layer[PLAN_LAYERS_MAX];
} account;

static double core_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall_now(void)
{
    return 1e-9 * (double)time_monotonic_ns();
}

#define TIMED(function, ...)                                                                       \
    do {                                                                                           \
        double begin = core_now();                                                                 \
        layer_ops_of[l->number]->function(__VA_ARGS__);                                            \
        account.layer[l->number] += core_now() - begin;                                            \
    } while (0)

static void timed_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    TIMED(forward, l, p, first, count);
}

static void timed_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    TIMED(backward, l, p, first, count);
}

static void timed_forward_gather(const struct layer *l, struct pass *p, uint32_t first,
                                 uint32_t count)
{
    TIMED(forward_gather, l, p, first, count);
}

static void timed_backward_gather(const struct layer *l, struct pass *p, uint32_t first,
                                  uint32_t count)
{
    TIMED(backward_gather, l, p, first, count);
}

static void timed_forward_settle(const struct layer *l, struct pass *p)
{
    TIMED(forward_settle, l, p);
}

static void timed_backward_settle(const struct layer *l, struct pass *p)
{
    TIMED(backward_settle, l, p);
}

static void timed_gemm(struct stream *s, bool transpose_a, bool transpose_b, uint32_t m, uint32_t n,
                       uint32_t k, const float *a, uint32_t lda, const float *b, uint32_t ldb,
                       float beta, float *c, uint32_t ldc)
{
    double begin = core_now();
    backend_ops_real->gemm(s, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
    account.product += core_now() - begin;
}

/* The steps of a linear layer, of the parts that can be timed. */
static void timed_linear_forward(struct stream *s, const struct linear_args *a)
{
    timed_gemm(s, false, true, a->count, a->out, a->in, a->x, a->ldx, a->w, a->in, 0.0f, a->y,
               a->ldy);
    if (a->bias != NULL || a->act != ACT_NONE || a->mask.threshold > 0)
        backend_ops_real->act_forward(s, a->act, &a->mask, a->first, a->count, a->out, a->bias,
                                      a->y, a->ldy);
}

static void timed_linear_backward(struct stream *s, const struct linear_args *a)
{
    if (a->dbias != NULL || a->act != ACT_NONE || a->mask.threshold > 0)
        backend_ops_real->act_backward(s, a->act, &a->mask, a->first, a->count, a->out, a->y,
                                       a->ldy, a->dy, a->lddy, a->dbias);
    timed_gemm(s, true, false, a->out, a->in, a->count, a->dy, a->lddy, a->x, a->ldx, 1.0f, a->dw,
               a->in);
    if (a->dx != NULL)
        timed_gemm(s, false, false, a->count, a->dx_width, a->out, a->dy, a->lddy, a->w, a->in,
                   a->add ? 1.0f : 0.0f, a->dx, a->lddx);
}

/* Puts timed functions between the model and its own. On a device this would time only the
 * queueing. */
static void model_watch(struct model *m, struct backend_ops *ops,
                        struct layer_ops layers[PLAN_LAYERS_MAX])
{
    backend_ops_real = m->k;
    if (!m->k->host)
        return;
    *ops = *m->k;
    ops->gemm = timed_gemm;
    ops->linear_forward = timed_linear_forward;
    ops->linear_backward = timed_linear_backward;
    m->k = ops;
    for (uint32_t i = 0; i < m->plan.layer_count; i++) {
        const struct layer_ops *of = layer_ops_of[i] = m->plan.layer[i].ops;
        layers[i] = *of;
        layers[i].forward = timed_forward;
        layers[i].backward = timed_backward;
        layers[i].forward_gather = of->forward_gather != NULL ? timed_forward_gather : NULL;
        layers[i].backward_gather = of->backward_gather != NULL ? timed_backward_gather : NULL;
        layers[i].forward_settle = of->forward_settle != NULL ? timed_forward_settle : NULL;
        layers[i].backward_settle = of->backward_settle != NULL ? timed_backward_settle : NULL;
        m->plan.layer[i].ops = &layers[i];
    }
}

/* ---- a thread's batch ------------------------------------------------------------------------ */

struct bench {
    const struct model *model;
    struct backend *backend;
    uint32_t number;
    pthread_barrier_t *start;
    double wall[STEPS_MAX], core[STEPS_MAX]; /* seconds of each step */
    double wall_all, core_all;
    double site_time, site_waited; /* of a network over several devices */
    struct account account;
};

static void *room(const struct bench *b, size_t count, size_t bytes)
{
    void *p = backend_host_alloc(b->backend, (count + 1) * bytes);
    if (p == NULL)
        fail("out of memory");
    memset(p, 0, (count + 1) * bytes);
    return p;
}

static float *uniform(const struct bench *b, struct rng *r, size_t count, float scale)
{
    float *x = room(b, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * (2.0f * rng_float(r) - 1.0f);
    return x;
}

/* Initial values as the server gives them. */
static float *dense_values(const struct bench *b, struct rng *r, const struct block_layout *layout)
{
    float *x = room(b, layout->floats, sizeof *x);
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        for (size_t i = 0; i < layout->tensor[t].count; i++) {
            struct init_spec init = layout->tensor[t].init;
            x[layout->tensor[t].first + i] = init.kind == INIT_CONSTANT ? init.scale
                                             : init.kind == INIT_UNIFORM
                                                 ? init.scale * (2.0f * rng_float(r) - 1.0f)
                                                 : 0.0f;
        }
    return x;
}

/* A few rows occur often, most seldom, and the frequent ones are scattered. If a field has several
 * values, *offset gets all places, otherwise NULL. */
static uint32_t *index_values(const struct bench *b, struct rng *r, uint32_t **offset)
{
    const uint8_t *pooling = b->model->plan.shape.pooling;
    size_t slots = (size_t)options.batch * options.fields;
    uint32_t *index = room(b, slots + (size_t)options.batch * options.history, sizeof *index),
             count = 0;
    *offset = pooling[0] == POOL_ATTENTION ? room(b, slots + 1, sizeof **offset) : NULL;
    for (size_t slot = 0; slot < slots; slot++) {
        uint32_t values = pooling[slot % options.fields] == POOL_ATTENTION ? options.history : 1;
        for (uint32_t v = 0; v < values; v++) {
            double u = (double)rng_float(r);
            index[count++] =
                (uint32_t)((uint64_t)(u * u * options.rows) * 2654435761u % options.rows);
        }
        if (*offset != NULL)
            (*offset)[slot + 1] = count;
    }
    return index;
}

static void batch_make(const struct bench *b, struct model_input *in, struct model_output *out)
{
    struct rng r = rng_of(1, b->number, 2);
    size_t width = model_row_width(b->model), labels = (size_t)options.batch * b->model->plan.tasks;
    float *label = room(b, labels, sizeof *label);
    uint32_t *offset, *index = index_values(b, &r, &offset);
    for (size_t i = 0; i < labels; i++)
        label[i] = (float)(rng_below(&r, 4) == 0);
    *in = (struct model_input){.examples = options.batch,
                               .label = label,
                               .numeric =
                                   uniform(b, &r, (size_t)options.batch * options.numerics, 1.0f),
                               .index = index,
                               .offset = offset,
                               .row_count = options.rows,
                               .rows = uniform(b, &r, options.rows * width, 0.1f),
                               .dense = dense_values(b, &r, &b->model->plan.dense),
                               .stats = dense_values(b, &r, &b->model->plan.stats)};
    *out = (struct model_output){
        .row_gradients = room(b, options.rows * width, sizeof(float)),
        .dense_gradients = room(b, model_dense_floats(b->model), sizeof(float)),
        .stats_gradients = room(b, model_stats_floats(b->model), sizeof(float)),
        .scores = room(b, labels, sizeof(float))};
}

/* The arrays live until the program ends. */
static void *bench_thread(void *context)
{
    struct bench *b = context;
    struct model_run *run;
    struct model_input in;
    struct model_output out;
    struct err e;
    if (model_run_new(b->model, options.batch, &run, &e) != 0)
        fail(e.text);
    batch_make(b, &in, &out);
    uint64_t each = 1; /* batch numbers from a step to the next */
    if (b->model->plan.sites > 1)
        each = MEASURED_EVERY;
    for (uint32_t i = 0; i < 2 + options.steps; i++) {
        if (i == 2) {
            pthread_barrier_wait(b->start);
            memset(&account, 0, sizeof account);
        }
        double wall = wall_now(), core = core_now();
        if (model_train(b->model, run, &in, 1, b->number, i * each, &out) != 0)
            fail("the step failed: its loss is not finite");
        if (i >= 2) {
            b->site_time += out.site_time;
            b->site_waited += out.site_waited;
        }
        b->wall[i < 2 ? 0 : i - 2] = wall_now() - wall;
        b->core[i < 2 ? 0 : i - 2] = core_now() - core;
    }
    for (uint32_t i = 0; i < options.steps; i++) {
        b->wall_all += b->wall[i];
        b->core_all += b->core[i];
    }
    b->account = account;
    model_run_free(run);
    return NULL;
}

/* ---- a model --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Prints shares of the first thread's time, kinds of layers in order of appearance. */
static void shares_print(const struct bench *b)
{
    const struct plan *p = &b->model->plan;
    double all = 0;
    printf("    matrix products %.1f%%;", 100 * b->account.product / b->core_all);
    for (uint32_t i = 0; i < p->layer_count; i++) {
        bool seen = false;
        double sum = 0;
        for (uint32_t k = 0; k < i; k++)
            seen = seen || strcmp(p->layer[k].ops->name, p->layer[i].ops->name) == 0;
        for (uint32_t k = i; k < p->layer_count && !seen; k++)
            sum +=
                strcmp(p->layer[k].ops->name, p->layer[i].ops->name) == 0 ? b->account.layer[k] : 0;
        if (!seen)
            printf(" %s %.1f%%", p->layer[i].ops->name, 100 * sum / b->core_all);
        all += b->account.layer[i];
    }
    printf(" outside of layers %.1f%%\n", 100 * (1 - all / b->core_all));
}

static void bench_report(const char *kind, struct bench *b)
{
    double seconds = 0;
    for (uint32_t t = 0; t < options.threads; t++)
        seconds = b[t].wall_all > seconds ? b[t].wall_all : seconds;
    printf("%s: %.0f examples/s; ms a batch:", kind,
           (double)options.batch * options.steps * options.threads / seconds);
    for (uint32_t t = 0; t < options.threads; t++) {
        qsort(b[t].wall, options.steps, sizeof b[t].wall[0], by_size);
        qsort(b[t].core, options.steps, sizeof b[t].core[0], by_size);
        printf(" best %.2f, middle %.2f, core %.2f;", 1e3 * b[t].wall[0],
               1e3 * b[t].wall[options.steps / 2], 1e3 * b[t].core[0]);
    }
    printf(" %zu dense floats\n", model_dense_floats(b->model));
    if (b[0].site_time > 0)
        printf("    %u sites: idle %.3f; ms a step by their devices' clocks %.2f\n",
               b->model->plan.sites, b[0].site_waited / b[0].site_time,
               1e3 * b[0].site_time / b->model->plan.sites / options.steps);
    if (b->model->k->host)
        shares_print(b);
    fflush(stdout);
}

static void job_make(const char *kind, uint32_t tasks, struct job *job)
{
    char text[512], name[64], labels[128] = "";
    struct err e;
    for (uint32_t t = 0; t < tasks; t++)
        snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%sl%u",
                 t > 0 ? ", " : "", t);
    snprintf(text, sizeof text,
             "job: bench\ndata: {format: csv, train: [none], label: [%s]}\ntables: [{name: emb, "
             "dim: 16}]\nmodel: "
             "{kind: %s}\n",
             labels, kind);
    snprintf(name, sizeof name, "bench of %s", kind);
    struct string_list set = {options.set, options.sets};
    if (job_parse(text, strlen(text), name, &set, job, &e) != 0)
        fail(e.text);
}

static void bench_kind(const char *kind, struct backend *backend)
{
    static struct bench b[THREADS_MAX];
    static struct layer_ops layers[PLAN_LAYERS_MAX];
    struct backend_ops ops;
    pthread_t thread[THREADS_MAX];
    pthread_barrier_t start;
    struct model_shape shape = {.fields = options.fields, .numerics = options.numerics};
    struct model *m;
    struct job job;
    struct err e;
    bool several = strcmp(kind, "mmoe") == 0 || strcmp(kind, "ple") == 0;
    shape.tasks = options.tasks > 0 ? options.tasks : several ? 2 : 1;
    if (strcmp(kind, "din") == 0) {
        shape.pooling[0] = POOL_ATTENTION;
        shape.attend[0] = 1;
        shape.most[0] = options.history;
    }
    job_make(kind, shape.tasks, &job);
    if (model_new(&job, &shape, backend, &m, &e) != 0)
        fail(e.text);
    model_watch(m, &ops, layers);
    memset(b, 0, sizeof b);
    pthread_barrier_init(&start, NULL, options.threads);
    for (uint32_t t = 0; t < options.threads; t++) {
        b[t].model = m;
        b[t].backend = backend;
        b[t].number = t;
        b[t].start = &start;
        if (pthread_create(&thread[t], NULL, bench_thread, &b[t]) != 0)
            fail("no thread");
    }
    for (uint32_t t = 0; t < options.threads; t++)
        pthread_join(thread[t], NULL);
    pthread_barrier_destroy(&start);
    bench_report(kind, b);
    model_free(m);
    job_free(&job);
}

/* ---- options --------------------------------------------------------------------------------- */

static bool number_take(const char *option, const char *value)
{
    const struct {
        const char *name;
        uint32_t *at, least, most;
    } numbers[] = {{"--batch", &options.batch, 1, LIMIT_BATCH},
                   {"--fields", &options.fields, 0, LIMIT_FIELDS},
                   {"--numerics", &options.numerics, 0, LIMIT_NUMERIC},
                   {"--rows", &options.rows, 1, 1u << 24},
                   {"--steps", &options.steps, 1, STEPS_MAX},
                   {"--threads", &options.threads, 1, THREADS_MAX},
                   {"--tasks", &options.tasks, 1, LIMIT_TASKS},
                   {"--history", &options.history, 1, 1000}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(option, numbers[i].name) == 0) {
            char *end;
            unsigned long n = strtoul(value, &end, 10);
            if (*end != '\0' || n < numbers[i].least || n > numbers[i].most)
                fail(option);
            *numbers[i].at = (uint32_t)n;
            return true;
        }
    return false;
}

static int options_take(int count, char **arguments)
{
    int i = 1;
    for (; i + 1 < count && strncmp(arguments[i], "--", 2) == 0; i += 2)
        if (strcmp(arguments[i], "--backend") == 0)
            options.backend = arguments[i + 1];
        else if (strcmp(arguments[i], "--set") == 0 && options.sets < SETS_MAX)
            options.set[options.sets++] = arguments[i + 1];
        else if (!number_take(arguments[i], arguments[i + 1]))
            fail(arguments[i]);
    return i;
}

int main(int count, char **arguments)
{
    struct backend *backend;
    struct err e;
    int first = options_take(count, arguments), code;
    if (first >= count)
        fail("name a model.kind; see the head of tests/bench/bench_step.c");
    if (strcmp(options.backend, "cpu") == 0 || strcmp(options.backend, "cuda") == 0)
        code = backend_load(options.backend[1] == 'p' ? BACKEND_CPU : BACKEND_CUDA, &backend, &e);
    else
        code = backend_load_module(options.backend, &backend, &e);
    if (code != 0)
        fail(e.text);
    printf("%s, %s; batch %u, %u fields, %u numbers, %u rows, %u steps, %u threads\n",
           backend_name(backend), backend_kernel(backend), options.batch, options.fields,
           options.numerics, options.rows, options.steps, options.threads);
    for (int i = first; i < count; i++)
        bench_kind(arguments[i], backend);
    backend_unload(backend);
    return 0;
}
