/* step.c: how long a training step takes on the device, for tests/gpu/run; one line of JSON a
 * measurement.
 *
 *     step [--module cuda] [--precision fp32] [--batch 16384] [--rows 150000] [--seconds 1]
 *     [--steps 0] [--lanes 1]
 *          [--deterministic yes] [--leave-out rows] MODE KIND...
 *
 * KIND: a model.kind; the shapes: step.h.
 * MODE, what a step is:
 *   whole    model_train as the worker calls it: rows, values and parameters from pinned memory,
 *            gradients back to it
 *   device   the same without the copies: gather, layers, gradients merged by row, all in the
 *            device's memory, one step queued behind the other; and then, as products_ms, the
 *            matrix products of such a step alone
 *   copies   the copies of such a step alone, one step's queued behind the other's
 *   product  (no KIND) one matrix product of whole numbers, which every precision must give exactly
 * A card clocks up and warms up: steps run for --seconds first, then for --seconds again in
 * windows, and the figure is the median window's. --steps: that many steps and no more, for
 * checkers; the figure means little then. counters: what the module has counted during all of it
 * (struct cuda_counters); null of a module that counts nothing. --lanes: threads that each train on
 * a stream of their own; the figure is of all together. --leave-out rows: the rows are never
 * uploaded, and kernels read what was never written: a control for checkers. */
#include "tests/gpu/step.h"
#include "dense/model.h"

#include "dense/cuda/stream.h"
#include "proto/base/time.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM = 4, LANES_MAX = 16, STEPS_MAX = 10000, WINDOWS = 11, COPIES_MAX = 64, SIDE = 96 };

struct step_options step_options = {.module = "cuda",
                                    .precision = "fp32",
                                    .batch = 16384,
                                    .rows = 150000,
                                    .lanes = 1,
                                    .seconds = 1.0,
                                    .deterministic = true};

_Noreturn void step_fail(const char *text)
{
    fprintf(stderr, "step: %s\n", text);
    exit(1);
}

static bool mode_is(const char *mode)
{
    return strcmp(step_options.mode, mode) == 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* The copies of one step. */
struct copies {
    struct copy up[COPIES_MAX], down[COPIES_MAX];
    uint32_t ups, downs;
};

static const struct backend_ops *real;
static _Thread_local bool queue_only;        /* copies are left out, and nothing waits */
static _Thread_local struct copies *noted;   /* the copies are recorded here, or NULL */
static _Thread_local const void *never_sent; /* an array that is not uploaded */

static void note(struct copy *list, uint32_t *count, void *to, const void *from, size_t bytes)
{
    if (*count == COPIES_MAX)
        step_fail("a step has more copies than this program has room for");
    list[(*count)++] = (struct copy){to, from, bytes};
}

static void upload(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (queue_only || (never_sent != NULL && from == never_sent))
        return;
    if (noted != NULL)
        note(noted->up, &noted->ups, to, from, bytes);
    real->upload(s, to, from, bytes);
}

static void download(struct stream *s, void *to, const void *from, size_t bytes)
{
    if (queue_only)
        return;
    if (noted != NULL)
        note(noted->down, &noted->downs, to, from, bytes);
    real->download(s, to, from, bytes);
}

static int finish(struct stream *s, struct err *e)
{
    return queue_only ? 0 : real->stream_finish(s, e);
}

static void copies_run(const struct copies *c, struct stream *s)
{
    for (uint32_t i = 0; i < c->ups; i++)
        real->upload(s, c->up[i].to, c->up[i].from, c->up[i].bytes);
    for (uint32_t i = 0; i < c->downs; i++)
        real->download(s, c->down[i].to, c->down[i].from, c->down[i].bytes);
}

static size_t copies_bytes(const struct copy *list, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += list[i].bytes;
    return bytes;
}

/* ---- a lane ---------------------------------------------------------------------------------- */

/* The lanes' common results; lane 0 writes them. */
struct measured {
    uint32_t steps; /* in a window */
    double step_seconds, products_seconds, loss, memory_mib;
    size_t bytes_up, bytes_down;
};

struct lane {
    const struct model *model;
    struct backend *backend;
    uint32_t number;
    pthread_barrier_t *together;
    struct measured *measured; /* shared by all lanes */
    struct model_run *run;
    struct model_input in;
    struct model_output out;
    struct step_arrays arrays;
    struct copies copies;
    bool sensible; /* the results have meaning */
    bool copies_only;
};

/* Uses batch numbers that are no multiple of 16, so that the norms of gradients, which are measured
 * now and then, are left out. */
static void steps_run(struct lane *l, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        if (l->copies_only) {
            copies_run(&l->copies, l->run->site[0].stream);
            continue;
        }
        int rc = model_train(l->model, l->run, &l->in, 1, l->number, 2 * i + 1, &l->out);
        if (rc == SHOAL_E_NOT_FINITE && l->sensible)
            step_fail("the loss is not finite");
        if (rc != 0 && rc != SHOAL_E_NOT_FINITE)
            step_fail(model_run_error(l->run));
    }
}

static double now(void)
{
    return 1e-9 * (double)time_monotonic_ns();
}

/* Runs `steps` steps and all work that they queue. */
static double window(struct lane *l, uint32_t steps)
{
    struct err e = {0};
    double begin = now();
    steps_run(l, steps);
    if (real->stream_finish(l->run->site[0].stream, &e) != 0)
        step_fail(e.text);
    return now() - begin;
}

/* Runs steps for at least the given seconds; returns how many make a window. */
static uint32_t warm_up(struct lane *l)
{
    double begin = now(), each = step_options.seconds / WINDOWS, last;
    uint32_t steps = 1;
    if (step_options.steps > 0)
        return step_options.steps;
    for (;;) {
        last = window(l, steps);
        if (last >= each && now() - begin >= step_options.seconds)
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

/* Returns the seconds of a step, by lane 0's clock: windows begin and end in all lanes together. */
static double measure(struct lane *l)
{
    double took[WINDOWS];
    uint32_t windows = step_options.steps > 0 ? 1 : WINDOWS, steps = warm_up(l);
    if (l->number == 0)
        l->measured->steps = steps;
    pthread_barrier_wait(l->together);
    for (uint32_t i = 0; i < windows; i++) {
        double begin = now();
        window(l, l->measured->steps);
        pthread_barrier_wait(l->together);
        took[i] = now() - begin;
    }
    qsort(took, windows, sizeof *took, double_compare);
    return took[windows / 2] / l->measured->steps;
}

/* Returns the module's symbol of this name; NULL: there is none. */
static void *module_symbol(struct backend *b, const char *name)
{
    Dl_info where;
    if (!dladdr((const void *)(uintptr_t)backend_ops_of(b), &where))
        return NULL;
    void *module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = module != NULL ? dlsym(module, name) : NULL;
    if (module != NULL)
        dlclose(module); /* b keeps it */
    return symbol;
}

/* Returns false when the module has no counters. */
static bool counted(struct backend *b, struct cuda_counters *out)
{
    const struct cuda_counters *(*counters)(void);
    void *symbol = module_symbol(b, "shoal_cuda_counters");
    *out = (struct cuda_counters){0};
    if (symbol == NULL)
        return false;
    memcpy(&counters, &symbol, sizeof counters);
    *out = *counters();
    return true;
}

static void products_only(struct backend *b, bool on)
{
    void (*function)(bool);
    void *symbol = module_symbol(b, "shoal_cuda_products_only");
    if (symbol == NULL)
        step_fail("this module cannot run its matrix products alone");
    memcpy(&function, &symbol, sizeof function);
    function(on);
}

/* Returns the MiB in use on the card, by any process; it needs no driver in this process. */
static double memory_mib(void)
{
    int (*memory_info)(size_t *, size_t *);
    size_t left = 0, all = 0;
    struct rusage usage;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = driver != NULL ? dlsym(driver, "cuMemGetInfo_v2") : NULL;

    memcpy(&memory_info, &symbol, sizeof memory_info);
    if (symbol != NULL && memory_info(&left, &all) == 0)
        return (double)(all - left) / (1 << 20);
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}

/* Runs the first steps: whole ones, with real numbers. */
static void steps_first(struct lane *l)
{
    l->sensible = !step_options.rows_left_out;
    never_sent = step_options.rows_left_out ? l->in.rows : NULL;
    steps_run(l, step_options.steps > 0 ? step_options.steps : WARM);
    noted = &l->copies;
    steps_run(l, 1);
    noted = NULL;
    if (l->number != 0)
        return;
    l->measured->loss = l->out.loss_sum / l->out.weight_sum;
    l->measured->memory_mib = memory_mib();
    l->measured->bytes_up = copies_bytes(l->copies.up, l->copies.ups);
    l->measured->bytes_down = copies_bytes(l->copies.down, l->copies.downs);
}

static void *lane_thread(void *context)
{
    struct lane *l = context;
    struct err e = {0};
    double step, products = 0;
    if (model_run_new(l->model, step_options.batch, &l->run, &e) != 0)
        step_fail(e.text);
    step_batch_make(l->model, l->number, &l->arrays, &l->in, &l->out);
    steps_first(l);
    queue_only = mode_is("device");
    l->copies_only = mode_is("copies");
    l->sensible = l->sensible && !queue_only;
    step = measure(l);
    if (queue_only) { /* on the data that earlier steps left in the same memory: real numbers */
        if (l->number == 0)
            products_only(l->backend, true);
        pthread_barrier_wait(l->together);
        products = measure(l);
        pthread_barrier_wait(l->together);
        if (l->number == 0)
            products_only(l->backend, false);
    }
    if (l->number == 0) {
        l->measured->step_seconds = step;
        l->measured->products_seconds = products;
    }
    queue_only = false;
    model_run_free(l->run);
    step_batch_free(&l->arrays);
    return NULL;
}

/* ---- output
 * ----------------------------------------------------------------------------------- */

/* Returns the cuBLASLt file that this process has mapped; "" if there is none. */
static const char *cublaslt_path(void)
{
    static char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    const char *path = NULL;
    while (maps != NULL && path == NULL && fgets(line, sizeof line, maps) != NULL) {
        path = strstr(line, "libcublasLt") != NULL ? strchr(line, '/') : NULL;
        line[strcspn(line, "\n\"\\")] = '\0';
    }
    if (maps != NULL)
        fclose(maps);
    return path != NULL ? path : "";
}

static void counters_text(char *out, size_t room, const struct cuda_counters *from,
                          const struct cuda_counters *to)
{
    snprintf(out, room,
             "{\"recordings\": %" PRIu64 ", \"plays\": %" PRIu64 ", \"spoiled\": %" PRIu64
             ", \"choices\": %" PRIu64 ", \"refusals\": %" PRIu64 "}",
             to->recordings - from->recordings, to->plays - from->plays,
             to->spoiled - from->spoiled, to->choices - from->choices,
             to->refusals - from->refusals);
}

/* before: the module's counters at the begin. */
static void tell(const char *kind, struct backend *b, const struct measured *m,
                 const struct cuda_counters *before)
{
    double lanes = step_options.lanes;
    char loss[32] = "null", counters[256] = "null";
    struct cuda_counters after;
    if (counted(b, &after))
        counters_text(counters, sizeof counters, before, &after);
    if (isfinite(m->loss))
        snprintf(loss, sizeof loss, "%.6g", m->loss);
    printf(
        "{\"kind\": \"%s\", \"mode\": \"%s\", \"precision\": \"%s\", \"batch\": %u, \"lanes\": %u, "
        "\"deterministic\": %s, "
        "\"kernel\": \"%s\", \"cublaslt\": \"%s\", \"window_steps\": %u, \"ms\": %.4f, "
        "\"products_ms\": %.4f, "
        "\"examples_per_second\": %.0f, \"loss\": %s, \"memory_mib\": %.0f, \"bytes_up\": %zu, "
        "\"bytes_down\": "
        "%zu, \"counters\": %s}\n",
        kind, step_options.mode, step_options.precision, step_options.batch, step_options.lanes,
        step_options.deterministic ? "true" : "false", backend_kernel(b), cublaslt_path(), m->steps,
        1e3 * m->step_seconds / lanes, 1e3 * m->products_seconds / lanes,
        step_options.batch * lanes / m->step_seconds, loss, m->memory_mib, m->bytes_up,
        m->bytes_down, counters);
    fflush(stdout);
}

/* ---- a model --------------------------------------------------------------------------------- */

static void kind_measure(const char *kind, struct backend *b)
{
    static struct lane lane[LANES_MAX];
    static struct job job;
    static struct model_shape shape;
    pthread_t thread[LANES_MAX];
    pthread_barrier_t together;
    struct measured m = {0};
    struct cuda_counters before;
    struct model *model;
    struct err e = {0};
    struct backend_ops ops = *backend_ops_of(b);
    counted(b, &before);
    step_job_make(kind, &job);
    step_shape_make(&job, &shape);
    if (model_new(&job, &shape, b, &model, &e) != 0)
        step_fail(e.text);
    real = backend_ops_of(b);
    ops.upload = upload;
    ops.download = download;
    ops.stream_finish = finish;
    model->k = &ops;
    pthread_barrier_init(&together, NULL, step_options.lanes);
    for (uint32_t i = 0; i < step_options.lanes; i++) {
        lane[i] = (struct lane){.model = model,
                                .backend = b,
                                .number = i,
                                .together = &together,
                                .measured = &m,
                                .arrays = {.backend = b}};
        if (pthread_create(&thread[i], NULL, lane_thread, &lane[i]) != 0)
            step_fail("no thread");
    }
    for (uint32_t i = 0; i < step_options.lanes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&together);
    tell(kind, b, &m, &before);
    model_free(model);
    job_free(&job);
}

/* ---- a product ------------------------------------------------------------------------------- */

static enum precision precision_wanted(void)
{
    static struct job job;
    step_job_make("lr", &job); /* it refuses an unknown name */
    enum precision p = job.train.precision;
    job_free(&job);
    return p;
}

static float product_at(const float *a, const float *w, int row, int column)
{
    float sum = 0;
    for (int n = 0; n < SIDE; n++)
        sum += a[row * SIDE + n] * w[n * SIDE + column];
    return sum;
}

static void product_check(struct backend *b)
{
    static float a[SIDE * SIDE], w[SIDE * SIDE], c[SIDE * SIDE];
    const struct backend_ops *k = backend_ops_of(b);
    struct stream_spec spec = {.precision = precision_wanted(), .deterministic = true};
    struct stream *s;
    struct err e = {0};
    struct measured m = {.steps = 1};
    struct cuda_counters before;
    double begin = now();
    counted(b, &before);
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i % 5 - 2);
        w[i] = (float)(i % 7 - 3);
    }
    if (k->stream_new(&spec, &s, &e) != 0)
        step_fail(e.text);
    float *da = k->alloc(s, sizeof a), *dw = k->alloc(s, sizeof w), *dc = k->alloc(s, sizeof c);
    if (da == NULL || dw == NULL || dc == NULL)
        step_fail("no memory on the device");
    k->upload(s, da, a, sizeof a);
    k->upload(s, dw, w, sizeof w);
    k->gemm(s, false, false, SIDE, SIDE, SIDE, da, SIDE, dw, SIDE, 0.0f, dc, SIDE);
    k->download(s, c, dc, sizeof c);
    if (k->stream_finish(s, &e) != 0)
        step_fail(e.text);
    m.step_seconds = now() - begin;
    for (int i = 0; i < SIDE * SIDE; i++) {
        float expected = product_at(a, w, i / SIDE, i % SIDE);
        if (!(c[i] >= expected && c[i] <= expected))
            step_fail("a product of whole numbers is wrong");
    }
    m.memory_mib = memory_mib();
    k->release(s, da);
    k->release(s, dw);
    k->release(s, dc);
    k->stream_free(s);
    tell("none", b, &m, &before);
}

/* ---- the command line ------------------------------------------------------------------------ */

static uint32_t number(const char *text, uint32_t most)
{
    unsigned long n = strtoul(text, NULL, 10);
    if (n == 0 || n > most)
        step_fail("a number is out of range");
    return (uint32_t)n;
}

static void option_take(const char *name, const char *value)
{
    struct step_options *o = &step_options;
    if (strcmp(name, "--module") == 0)
        o->module = value;
    else if (strcmp(name, "--precision") == 0)
        o->precision = value;
    else if (strcmp(name, "--batch") == 0)
        o->batch = number(value, LIMIT_BATCH);
    else if (strcmp(name, "--rows") == 0)
        o->rows = number(value, 100000000);
    else if (strcmp(name, "--steps") == 0)
        o->steps = number(value, STEPS_MAX);
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = strtod(value, NULL);
    else if (strcmp(name, "--lanes") == 0)
        o->lanes = number(value, LANES_MAX);
    else if (strcmp(name, "--deterministic") == 0)
        o->deterministic = strcmp(value, "no") != 0;
    else if (strcmp(name, "--leave-out") == 0)
        o->rows_left_out = strcmp(value, "rows") == 0;
    else
        step_fail("unknown option; the head of tests/gpu/step.c tells them");
}

int main(int count, char **word)
{
    struct backend *b;
    struct err e = {0};
    char file[64];
    int i = 1;
    for (; i + 1 < count && strncmp(word[i], "--", 2) == 0; i += 2)
        option_take(word[i], word[i + 1]);
    step_options.mode = i < count ? word[i++] : "";
    bool product = mode_is("product");
    if (!product && !mode_is("whole") && !mode_is("device") && !mode_is("copies"))
        step_fail("usage: step [OPTION VALUE]... whole|device|copies KIND..., or: product");
    if ((i == count && !product) || step_options.rows < STEP_FIELDS)
        step_fail("name a model.kind; --rows is at least 26");
    if (!(step_options.seconds > 0 && step_options.seconds <= 60))
        step_fail("--seconds is over 0 and at most 60");
    snprintf(file, sizeof file, "libshoal_%.32s.so", step_options.module);
    if (backend_load_module(file, &b, &e) != 0)
        step_fail(e.text);
    if (product)
        product_check(b);
    for (; i < count; i++)
        kind_measure(word[i], b);
    backend_unload(b);
    return 0;
}
