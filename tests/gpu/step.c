/* step.c: how long a training step takes on the device, for tests/gpu/run; one line of JSON a measurement.
 *
 *     step [--module cuda] [--precision fp32] [--batch 16384] [--rows 150000] [--seconds 1] [--steps 0] [--lanes 1]
 *          MODE KIND...
 *
 * KIND: a model.kind; deepfm, dcnv2 and dlrm have the shapes of deploy/jobs/criteo-*.yaml: 26 fields of dim 16, 13
 * numbers, 400-400-400 (dlrm: 512-256-16 and 512-256).
 * MODE, what a step is:
 *   whole   model_train as the worker calls it: rows, values and parameters from pinned memory, gradients back to it
 *   device  the same without the copies: gather, layers, gradients merged by row, all in the device's memory, one step
 *           queued behind the other; and then, as products_ms, the matrix products of such a step alone
 * A card clocks up and warms up: steps run for --seconds first, then for --seconds again in windows, and the figure is
 * the median window's. --steps: that many steps and no more, for checkers; the figure means little then.
 * --lanes: threads that each train on a stream of their own; the figure is of all together. */
#include "dense/run.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 26, NUMERICS = 13, WARM = 4, LANES_MAX = 16, STEPS_MAX = 10000, WINDOWS = 11 };

static struct {
    const char *module, *precision, *mode;
    uint32_t batch, rows, steps, lanes;
    double seconds; /* to warm up, and to measure */
} options = {.module = "cuda", .precision = "fp32", .batch = 16384, .rows = 150000, .lanes = 1, .seconds = 1.0};

_Noreturn static void fail(const char *text)
{
    fprintf(stderr, "step: %s\n", text);
    exit(1);
}

/* ---- a lane ----------------------------------------------------------------------------------------------- */

/* What the lanes find together; lane 0 writes it. */
struct measured {
    uint32_t steps; /* of a window */
    double step_seconds, products_seconds;
};

struct lane {
    const struct model *model;
    struct backend *backend;
    uint32_t number;
    pthread_barrier_t *together;
    struct measured *measured; /* of all lanes */
    void *owned[16];           /* pinned arrays */
    uint32_t owned_count;
};

static _Thread_local bool queue_only; /* copies are left out, and nothing waits */
static const struct backend_ops *real;

static void upload(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (!queue_only)
        real->upload(s, to, from, bytes);
}

static void download(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (!queue_only)
        real->download(s, to, from, bytes);
}

static int stream_finish(struct stream *s, struct err *e)
{
    return queue_only ? 0 : real->stream_finish(s, e);
}

static void *room(struct lane *l, size_t count, size_t bytes)
{
    void *p = backend_host_alloc(l->backend, (count + 1) * bytes);
    if (!p || l->owned_count == sizeof l->owned / sizeof *l->owned)
        fail("out of memory");
    l->owned[l->owned_count++] = p;
    memset(p, 0, (count + 1) * bytes);
    return p;
}

static float *uniform(struct lane *l, struct rng *r, size_t count, float scale)
{
    float *x = room(l, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * (2.0f * rng_float(r) - 1.0f);
    return x;
}

/* Each field has rows of its own, the first of them in a third of the examples. */
static uint32_t *values(struct lane *l, struct rng *r)
{
    uint32_t each = options.rows / FIELDS, *index = room(l, (size_t)options.batch * FIELDS, sizeof *index);
    for (uint32_t i = 0; i < options.batch * FIELDS; i++)
        index[i] = i % FIELDS * each + (rng_below(r, 3) == 0 ? 0 : (uint32_t)rng_below(r, each));
    return index;
}

static void batch_make(struct lane *l, struct model_input *in, struct model_output *out)
{
    struct rng r = rng_of(1, l->number, 2);
    const struct model *m = l->model;
    size_t width = model_row_width(m), labels = (size_t)options.batch * m->plan.tasks;
    float *label = room(l, labels, sizeof *label), *stats = room(l, model_stats_floats(m), sizeof *stats);

    for (size_t i = 0; i < labels; i++)
        label[i] = (float)(rng_below(&r, 4) == 0);
    for (size_t i = 0; i < model_stats_floats(m); i++)
        stats[i] = 1.0f;
    *in = (struct model_input){.examples = options.batch,
                               .label = label,
                               .numeric = uniform(l, &r, (size_t)options.batch * NUMERICS, 1.0f),
                               .index = values(l, &r),
                               .row_count = options.rows,
                               .fresh_count = options.rows,
                               .rows = uniform(l, &r, options.rows * width, 0.1f),
                               .dense = uniform(l, &r, model_dense_floats(m), 0.05f),
                               .stats = stats};
    *out = (struct model_output){.row_gradients = room(l, options.rows * width, sizeof(float)),
                                 .dense_gradients = room(l, model_dense_floats(m), sizeof(float)),
                                 .stats_gradients = room(l, model_stats_floats(m), sizeof(float)),
                                 .scores = room(l, labels, sizeof(float))};
}

/* Batch numbers that are no multiple of 16: the norms of gradients, which are measured now and then, are left out. */
static void steps_run(const struct lane *l, struct model_run *run, const struct model_input *in,
                      struct model_output *out, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        int code = model_train(l->model, run, in, 1, l->number, 2 * i + 1, out);
        if (code != 0 && code != SHOAL_E_NOT_FINITE) /* of products alone nothing sensible comes */
            fail(model_run_error(run));
    }
}

static double now(void)
{
    return 1e-9 * (double)time_monotonic_ns();
}

/* So many steps and what they have queued. */
static double window(const struct lane *l, struct model_run *run, const struct model_input *in,
                     struct model_output *out, uint32_t steps)
{
    struct err e = {0};
    double begin = now();
    steps_run(l, run, in, out, steps);
    if (real->stream_finish(run->stream, &e) != 0)
        fail(e.text);
    return now() - begin;
}

/* Steps for options.seconds at least; how many make a window of its share. */
static uint32_t warm_up(const struct lane *l, struct model_run *run, const struct model_input *in,
                        struct model_output *out)
{
    double begin = now(), each = options.seconds / WINDOWS, last;
    uint32_t steps = 1;
    if (options.steps > 0)
        return options.steps;
    for (;;) {
        last = window(l, run, in, out, steps);
        if (last >= each && now() - begin >= options.seconds)
            return steps;
        if (last < each && steps < STEPS_MAX)
            steps *= 2;
        else if (steps >= STEPS_MAX)
            return steps;
    }
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a step, by lane 0's clock: windows begin and end in all lanes together. */
static double measure(const struct lane *l, struct model_run *run, const struct model_input *in,
                      struct model_output *out)
{
    double took[WINDOWS];
    uint32_t windows = options.steps > 0 ? 1 : WINDOWS, steps = warm_up(l, run, in, out);

    if (l->number == 0)
        l->measured->steps = steps;
    pthread_barrier_wait(l->together);
    for (uint32_t i = 0; i < windows; i++) {
        double begin = now();
        window(l, run, in, out, l->measured->steps);
        pthread_barrier_wait(l->together);
        took[i] = now() - begin;
    }
    qsort(took, windows, sizeof *took, double_compare);
    return took[windows / 2] / l->measured->steps;
}

static void products_only(struct backend *b, bool on)
{
    Dl_info where;
    void (*function)(bool);
    void *module =
        dladdr((const void *)(uintptr_t)backend_ops_of(b), &where) ? dlopen(where.dli_fname, RTLD_NOW) : NULL;
    void *symbol = module ? dlsym(module, "shoal_cuda_products_only") : NULL;
    if (!symbol)
        fail("this module cannot run its matrix products alone");
    memcpy(&function, &symbol, sizeof function);
    function(on);
}

static void *lane_thread(void *context)
{
    struct lane *l = context;
    struct model_run *run;
    struct model_input in;
    struct model_output out;
    struct err e = {0};
    bool device = strcmp(options.mode, "device") == 0;
    double step, products = 0;

    if (model_run_new(l->model, options.batch, 0, &run, &e) != 0)
        fail(e.text);
    batch_make(l, &in, &out);
    steps_run(l, run, &in, &out, WARM);
    queue_only = device;
    step = measure(l, run, &in, &out);
    if (device) { /* on what the steps have left in the same memory: real numbers */
        if (l->number == 0)
            products_only(l->backend, true);
        pthread_barrier_wait(l->together);
        products = measure(l, run, &in, &out);
        pthread_barrier_wait(l->together);
        if (l->number == 0)
            products_only(l->backend, false);
    }
    if (l->number == 0) {
        l->measured->step_seconds = step;
        l->measured->products_seconds = products;
    }
    queue_only = false;
    model_run_free(run);
    for (uint32_t i = 0; i < l->owned_count; i++)
        backend_host_free(l->backend, l->owned[i]);
    return NULL;
}

/* ---- a model ---------------------------------------------------------------------------------------------- */

static void job_make(const char *kind, struct job *job)
{
    char text[640];
    struct err e = {0};
    bool dlrm = strcmp(kind, "dlrm") == 0;
    uint32_t tasks = strcmp(kind, "mmoe") == 0 || strcmp(kind, "ple") == 0 ? 2 : 1;
    snprintf(text, sizeof text,
             "job: step\ndata: {format: csv, train: [none], label: [%s]}\ntables: [{name: emb, dim: 16}]\n"
             "model: {kind: %s, hidden: [%s]%s}\ntrain: {precision: %s}\n",
             tasks == 2 ? "a, b" : "a", kind, dlrm ? "512, 256" : "400, 400, 400", dlrm ? ", bottom: [512, 256]" : "",
             options.precision);
    if (job_parse(text, strlen(text), "step", NULL, job, &e) != 0)
        fail(e.text);
}

static void kind_measure(const char *kind, struct backend *b)
{
    struct lane lane[LANES_MAX];
    pthread_t thread[LANES_MAX];
    pthread_barrier_t together;
    struct measured m = {0};
    struct model *model;
    struct err e = {0};
    static struct job job;
    struct backend_ops ops = *backend_ops_of(b);
    struct model_shape shape = {.fields = FIELDS, .numerics = NUMERICS};

    job_make(kind, &job);
    shape.tasks = job.data.label_count;
    if (model_new(&job, &shape, b, &model, &e) != 0)
        fail(e.text);
    real = backend_ops_of(b);
    ops.upload = upload;
    ops.download = download;
    ops.stream_finish = stream_finish;
    model->k = &ops;
    pthread_barrier_init(&together, NULL, options.lanes);
    for (uint32_t i = 0; i < options.lanes; i++) {
        lane[i] = (struct lane){.model = model, .backend = b, .number = i, .together = &together, .measured = &m};
        if (pthread_create(&thread[i], NULL, lane_thread, &lane[i]) != 0)
            fail("no thread");
    }
    for (uint32_t i = 0; i < options.lanes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&together);
    printf(
        "{\"kind\": \"%s\", \"mode\": \"%s\", \"precision\": \"%s\", \"batch\": %u, \"lanes\": %u, \"kernel\": \"%s\", "
        "\"window_steps\": %u, \"ms\": %.4f, \"products_ms\": %.4f, \"examples_per_second\": %.0f}\n",
        kind, options.mode, options.precision, options.batch, options.lanes, backend_kernel(b), m.steps,
        1e3 * m.step_seconds / options.lanes, 1e3 * m.products_seconds / options.lanes,
        (double)options.batch * options.lanes / m.step_seconds);
    fflush(stdout);
    model_free(model);
    job_free(&job);
}

static uint32_t number(const char *text, uint32_t most)
{
    unsigned long n = strtoul(text, NULL, 10);
    if (n == 0 || n > most)
        fail("a number is out of range");
    return (uint32_t)n;
}

int main(int count, char **word)
{
    struct backend *b;
    struct err e = {0};
    char file[64];
    int i = 1;

    for (; i + 1 < count && strncmp(word[i], "--", 2) == 0; i += 2) {
        if (strcmp(word[i], "--module") == 0)
            options.module = word[i + 1];
        else if (strcmp(word[i], "--precision") == 0)
            options.precision = word[i + 1];
        else if (strcmp(word[i], "--batch") == 0)
            options.batch = number(word[i + 1], LIMIT_BATCH);
        else if (strcmp(word[i], "--rows") == 0)
            options.rows = number(word[i + 1], 100000000);
        else if (strcmp(word[i], "--steps") == 0)
            options.steps = number(word[i + 1], STEPS_MAX);
        else if (strcmp(word[i], "--seconds") == 0)
            options.seconds = strtod(word[i + 1], NULL);
        else if (strcmp(word[i], "--lanes") == 0)
            options.lanes = number(word[i + 1], LANES_MAX);
        else
            fail("unknown option; the head of tests/gpu/step.c tells them");
    }
    if (count - i < 2 || options.rows < FIELDS)
        fail("usage: step [OPTION VALUE]... whole|device KIND...");
    options.mode = word[i++];
    if (strcmp(options.mode, "whole") != 0 && strcmp(options.mode, "device") != 0)
        fail("the mode is whole or device");
    if (!(options.seconds > 0 && options.seconds <= 60))
        fail("--seconds is over 0 and at most 60");
    snprintf(file, sizeof file, "libshoal_%.32s.so", options.module);
    if (backend_load_module(file, &b, &e) != 0)
        fail(e.text);
    for (; i < count; i++)
        kind_measure(word[i], b);
    backend_unload(b);
    return 0;
}
