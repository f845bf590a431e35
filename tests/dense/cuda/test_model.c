/* test_model.c: whole models on the CUDA module: equal to the CPU, the same bits in each run,
 * recorded steps, the loss scale of fp16, memory, failures. */
#include "tests/lib/cuda_case.h"

#include "dense/model/run.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 20 };

enum { EXAMPLES = 150, ROWS = 60, ROWS_USED = 30 };

/* Opens a model with batch norm, dropout, L2 and fields of many values, for the first half of its
 * rows. */
static void case_open(struct dense_case *c, struct backend *backend, enum model_kind kind,
                      enum precision precision)
{
    dense_case_job(c, kind);
    c->backend = backend;
    c->shape.fields = 5;
    c->table.dim = 7;
    c->job.model.hidden = (struct widths){.at = {33, 20}, .count = 2};
    c->job.model.norm = kind == MODEL_DEEPFM ? NORM_BATCH : NORM_NONE;
    c->job.model.dropout = 0.2;
    c->job.model.l2 = 1e-3;
    c->job.model.l2_dense = 1e-3;
    c->job.train.precision = precision;
    dense_case_batch(c, EXAMPLES, ROWS, true);
    for (uint32_t i = 0; i < c->values; i++)
        c->index[i] %= ROWS_USED;
}

static void together(enum model_kind kind, enum precision precision, double tolerance)
{
    struct dense_case cpu, device;
    case_open(&cpu, dense_backend_named("cpu"), kind, precision);
    case_open(&device, cuda_backend(), kind, precision);
    double apart = dense_case_apart(&cpu, &device, STEPS, 0.1f);
    ck_assert_msg(apart <= tolerance, "model %d, precision %d: %.3g apart", (int)kind,
                  (int)precision, apart);
    ck_assert(precision == PRECISION_FP32 || apart > 0.0);
    dense_case_free(&cpu);
    dense_case_free(&device);
}

START_TEST(model_learns_together_with_the_cpu)
{
    static const enum model_kind kind[] = {MODEL_LR, MODEL_FM, MODEL_WIDE_DEEP, MODEL_DEEPFM};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        together(kind[i], PRECISION_FP32, 1e-4);
}
END_TEST

START_TEST(model_in_other_precisions_learns_together_with_the_cpu)
{
    static const enum model_kind kind[] = {MODEL_DEEPFM, MODEL_DCNV2, MODEL_DLRM, MODEL_MMOE};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        together(kind[i], PRECISION_TF32, 2e-2);
        together(kind[i], PRECISION_BF16, 2e-2);
        together(kind[i], PRECISION_FP16, 2e-2);
    }
}
END_TEST

/* Copies all results of a step into one array. */
static void step_bits(const struct dense_case *c, float *out)
{
    size_t rows = (size_t)c->in.row_count * model_row_width(c->model),
           dense = model_dense_floats(c->model);
    memcpy(out, c->out.row_gradients, rows * sizeof *out);
    memcpy(out + rows, c->out.dense_gradients, dense * sizeof *out);
    memcpy(out + rows + dense, c->out.stats_gradients, model_stats_floats(c->model) * sizeof *out);
}

static size_t step_floats(const struct dense_case *c)
{
    return (size_t)c->in.row_count * model_row_width(c->model) + model_dense_floats(c->model) +
           model_stats_floats(c->model);
}

/* Returns the gradients of the last of 20 steps, some queued, one recorded, the others played. */
static float *trained(const char *order)
{
    struct dense_case c;
    double loss[STEPS];
    setenv("SHOAL_CUDAHOST_ORDER", order, 1);
    case_open(&c, cuda_backend(), MODEL_DEEPFM, PRECISION_FP32);
    dense_case_curve(&c, STEPS, 0.1f, loss);
    float *bits = calloc(step_floats(&c) + 1, sizeof *bits);
    bits[0] = (float)step_floats(&c);
    step_bits(&c, bits + 1);
    dense_case_free(&c);
    return bits;
}

START_TEST(model_is_repeatable_bit_for_bit)
{
    float *first = trained("scrambled");
    for (int i = 0; i < 3; i++) {
        float *other = trained(i == 0 ? "scrambled" : i == 1 ? "reverse" : "forward");
        ck_assert_mem_eq(first, other, (size_t)(first[0] + 1) * sizeof *first);
        free(other);
    }
    free(first);
}
END_TEST

static void *trained_in_thread(void *unused)
{
    (void)unused;
    return trained("scrambled");
}

START_TEST(model_is_repeatable_in_several_threads)
{
    pthread_t thread[3];
    void *bits[3];
    cuda_backend();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, trained_in_thread, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], &bits[i]);
    for (int i = 1; i < 3; i++) {
        ck_assert_mem_eq(bits[0], bits[i], (size_t)(*(float *)bits[0] + 1) * sizeof(float));
        free(bits[i]);
    }
    free(bits[0]);
}
END_TEST

/* ---- recorded steps -------------------------------------------------------------------------- */

/* Trains on the first examples of the case's batch; everything else stays. */
static void train_part(struct dense_case *c, uint32_t examples, uint32_t rows, uint64_t batch)
{
    uint32_t all = c->in.examples, all_rows = c->in.row_count;
    c->in.examples = examples;
    c->in.row_count = rows;
    dense_case_train(c, batch);
    c->in.examples = all;
    c->in.row_count = all_rows;
}

/* Batches of several sizes, some with more rows than before, with weights and without: each step
 * gives the result of a run that has seen no other batch. */
START_TEST(recorded_steps_give_what_queued_ones_give)
{
    static const uint32_t size[] = {150, 150, 150, 40, 150, 40, 40, 1, 150, 1, 1, 40};
    struct dense_case c, fresh;
    case_open(&c, cuda_backend(), MODEL_DEEPFM, PRECISION_FP32);
    float *found = calloc(step_floats(&c), sizeof *found),
          *expected = calloc(step_floats(&c), sizeof *expected);
    float *weight = calloc(150, sizeof *weight), *scores = c.out.scores;
    for (uint32_t i = 0; i < 150; i++)
        weight[i] = (float)(i % 4);
    struct cuda_counters before = cuda_counted();
    for (uint32_t step = 0; step < 36; step++) {
        case_open(&fresh, cuda_backend(), MODEL_DEEPFM, PRECISION_FP32);
        struct dense_case *both[] = {&c, &fresh};
        float *of_both[] = {scores, fresh.out.scores};
        for (int i = 0; i < 2; i++) {
            both[i]->in.weight = step % 5 == 3 ? weight : NULL;
            both[i]->out.scores = step % 7 == 5 ? NULL : of_both[i];
            both[i]->dense[step] += 0.25f;
            train_part(both[i], size[step % 12], step < 12 ? ROWS_USED : ROWS, step);
            step_bits(both[i], i == 0 ? found : expected);
            both[i]->dense[step] -= 0.25f;
        }
        ck_assert_msg(memcmp(found, expected, step_floats(&c) * sizeof *found) == 0, "step %u",
                      step);
        if (c.out.scores != NULL)
            ck_assert_mem_eq(c.out.scores, fresh.out.scores, size[step % 12] * sizeof(float));
        for (int i = 0; i < 2; i++)
            both[i]->out.scores = of_both[i];
        dense_case_free(&fresh);
    }
    struct cuda_counters after = cuda_counted();
    ck_assert_uint_gt(after.recordings, before.recordings);
    ck_assert_uint_gt(after.plays, before.plays + 10);
    dense_case_free(&c);
    free(found);
    free(expected);
    free(weight);
}
END_TEST

/* A recording plays the recorded arguments: a kernel that gets a number of the step as an argument
 * would be wrong from the third step on, as the test above shows. So other arguments, addresses
 * included, make another recording. */
START_TEST(recording_keeps_its_arguments)
{
    struct dense_device d;
    float x[4] = {1, 2, 3, 4}, y[4];
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    float *from = dense_up(&d, x, sizeof x), *to = dense_up(&d, NULL, sizeof x);
    for (int step = 1; step <= 4; step++) {
        bool queued = d.k->graph_begin(d.s, 7);
        ck_assert_int_eq(queued, step <= 2);
        if (queued) {
            d.k->scale(d.s, 4, (float)step, from, to);
            d.k->graph_end(d.s);
        }
        dense_down(&d, to, y, sizeof y);
        ck_assert_float_eq(y[3], step <= 2 ? 4.0f * (float)step : 8.0f);
    }
    float *elsewhere = dense_up(&d, NULL, sizeof x);
    ck_assert(!d.k->graph_begin(d.s, 7));
    ck_assert(d.k->graph_begin(d.s, 8));
    d.k->scale(d.s, 4, 3.0f, from, elsewhere);
    ck_assert(!d.k->graph_end(d.s));
    dense_down(&d, elsewhere, y, sizeof y);
    ck_assert_float_eq(y[3], 12.0f);
    dense_device_close(&d);
}
END_TEST

/* With one batch size after another, recordings replace each other. */
START_TEST(recordings_of_many_sizes_make_place_for_one_another)
{
    struct dense_device d;
    float x[1] = {1.0f}, y[1];
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    float *from = dense_up(&d, x, sizeof x), *to = dense_up(&d, NULL, sizeof x);
    for (uint64_t round = 0; round < 6; round++)
        for (uint64_t number = 0; number < (round < 3 ? STREAM_RECORDINGS + 12 : 3); number++) {
            if (d.k->graph_begin(d.s, number)) {
                d.k->scale(d.s, 1, (float)number + 1.0f, from, to);
                d.k->graph_end(d.s);
            }
            dense_down(&d, to, y, sizeof y);
            ck_assert_float_eq(y[0], (float)number + 1.0f);
        }
    dense_device_close(&d);
}
END_TEST

START_TEST(warm_steps_allocate_nothing)
{
    struct dense_case c;
    case_open(&c, cuda_backend(), MODEL_DEEPFM, PRECISION_FP16);
    for (uint64_t step = 0; step < 4; step++) {
        train_part(&c, step % 2 ? 40 : EXAMPLES, ROWS, 16 * step);
        ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    }
    struct cuda_counters warm = cuda_counted();
    for (uint64_t step = 0; step < 20; step++) {
        train_part(&c, step % 2 ? 40 : EXAMPLES, ROWS_USED + (uint32_t)step, 16 * step);
        ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    }
    struct cuda_counters after = cuda_counted();
    ck_assert_uint_eq(after.allocations, warm.allocations);
    ck_assert_uint_eq(after.recordings, warm.recordings);
    ck_assert_uint_eq(after.plays, warm.plays + 40); /* predictions too */
    dense_case_free(&c);
}
END_TEST

/* ---- scratch --------------------------------------------------------------------------------- */

/* A job of ordinary widths, 26 fields of dim 16, on a device that computes nothing: three steps,
 * queued, recorded, played. */
static void wide_step(enum model_kind kind, enum precision precision, uint32_t examples)
{
    struct dense_case c;
    dense_case_job(&c, kind);
    c.backend = cuda_backend();
    c.shape = (struct model_shape){
        .fields = 26, .numerics = 13, .tasks = kind == MODEL_MMOE || kind == MODEL_PLE ? 2 : 1};
    c.shape.pooling[3] = kind == MODEL_DIN ? POOL_ATTENTION : POOL_SUM;
    c.shape.most[3] = 50;
    c.values_most = 2;
    c.job.data.label_count = c.shape.tasks;
    c.table.dim = 16;
    c.job.model.hidden = (struct widths){.at = {400, 400, 400}, .count = 3};
    c.job.model.hidden2 = c.job.model.hidden;
    c.job.model.bottom = (struct widths){.at = {512, 256}, .count = 2};
    c.job.model.tower = (struct widths){.at = {64}, .count = 1};
    c.job.model.cin = (struct widths){.at = {200, 200, 200}, .count = 3};
    c.job.model.attention_hidden = (struct widths){.at = {80, 40}, .count = 2};
    c.job.model.cross_layers = 3;
    c.job.model.attention_layers = 3;
    c.job.model.attention_dim = 64;
    c.job.model.experts = 8;
    c.job.model.dropout = 0.1;
    c.job.train.precision = precision;
    dense_case_batch(&c, examples, 1000, kind == MODEL_DIN);
    for (uint64_t step = 1; step <= 3; step++) {
        int rc = model_train(c.model, c.run, &c.in, 1, 2, step, &c.out);
        ck_assert_msg(rc == 0, "model %d, precision %d: %s", (int)kind, (int)precision,
                      model_run_error(c.run));
    }
    ck_assert_uint_le(c.run->site[0].stream->scratch[1].count, SCRATCH_BLOCKS_JOINED);
    dense_case_free(&c);
}

START_TEST(wide_models_find_room_for_their_steps)
{
    static const struct {
        enum model_kind kind;
        uint32_t examples;
    } job[] = {{MODEL_XDEEPFM, 4096}, {MODEL_AUTOINT, 16384}, {MODEL_PLE, 16384},
               {MODEL_MMOE, 16384},   {MODEL_DCNV2, 16384},   {MODEL_DLRM, 16384},
               {MODEL_DIN, 4096},     {MODEL_FINALMLP, 16384}};
    setenv("SHOAL_CUDAHOST_IDLE", "1", 1);
    wide_step(job[_i].kind, PRECISION_BF16, job[_i].examples);
    wide_step(job[_i].kind, PRECISION_TF32, job[_i].examples);
    unsetenv("SHOAL_CUDAHOST_IDLE");
}
END_TEST

enum { EXACT_FLOATS = 1 << 16 };

/* In a process of its own, because the module reads the environment when it is loaded. Returns the
 * gradients of the fourth step. */
static void exact_steps(enum model_kind kind, bool exact, float *bits)
{
    struct dense_case c;
    if (exact)
        setenv("SHOAL_CUDA_EXACT", "1", 1);
    dense_case_job(&c, kind);
    c.shape.tasks = c.job.data.label_count = kind == MODEL_PLE ? 2 : 1;
    c.shape.pooling[2] = kind == MODEL_DIN ? POOL_ATTENTION : POOL_MEAN;
    c.shape.most[2] = 3;
    c.backend = cuda_backend();
    c.job.train.precision = PRECISION_BF16;
    dense_case_batch(&c, 70, 20, true);
    for (uint64_t step = 1; step <= 4; step++)
        train_part(&c, step == 2 ? 33 : 70, 20, step);
    ck_assert_uint_lt(step_floats(&c), EXACT_FLOATS);
    bits[0] = (float)step_floats(&c);
    step_bits(&c, bits + 1);
    ck_assert_int_eq(backend_ops_of(c.backend)->exact, exact);
    ck_assert(exact == (cuda_counted().recordings == 0));
    dense_case_free(&c);
    exit(0);
}

/* As memory checkers need it: every array has its exact size, which ASan watches in its build; the
 * bits are the same. */
START_TEST(exact_allocation_gives_the_same_bits)
{
    static const enum model_kind kinds[] = {MODEL_DEEPFM, MODEL_XDEEPFM, MODEL_AUTOINT,
                                            MODEL_DIN,    MODEL_PLE,     MODEL_DLRM};
    size_t bytes = 2 * EXACT_FLOATS * sizeof(float);
    float *bits = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(bits, MAP_FAILED);
    for (int exact = 0; exact < 2; exact++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            exact_steps(kinds[_i], exact == 1, bits + exact * EXACT_FLOATS);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_float_gt(bits[0], 100.0f);
    ck_assert_mem_eq(bits, bits + EXACT_FLOATS, EXACT_FLOATS * sizeof *bits);
    munmap(bits, bytes);
}
END_TEST

/* Batches that need a little more memory each time: the scratch blocks are joined before there are
 * too many. */
START_TEST(scratch_of_growing_batches_is_joined)
{
    struct dense_device d;
    struct err e = {0};
    struct cuda_counters before;
    setenv("SHOAL_CUDAHOST_IDLE", "1", 1);
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    for (uint32_t batch = 1; batch <= 4 * SCRATCH_BLOCKS; batch++) {
        uint32_t values = (batch << 16) + 1;
        struct pool_args a = {.examples = values,
                              .count = values,
                              .values = values,
                              .row_count = 1,
                              .fields = 1,
                              .tasks = 1};
        d.k->pool_begin(d.s, &a, true);
        ck_assert_uint_lt(d.s->scratch[0].count, SCRATCH_BLOCKS_JOINED + 8);
    }
    before = cuda_counted();
    for (uint32_t batch = 0; batch < 20; batch++) {
        struct pool_args a = {
            .examples = 9, .count = 9, .values = 9, .row_count = 1, .fields = 1, .tasks = 1};
        d.k->pool_begin(d.s, &a, true);
    }
    ck_assert_uint_le(cuda_counted().allocations, before.allocations + 1);
    ck_assert_msg(d.k->stream_finish(d.s, &e) == 0, "%s", e.text);
    dense_device_close(&d);
    unsetenv("SHOAL_CUDAHOST_IDLE");
}
END_TEST

/* ---- products alone -------------------------------------------------------------------------- */

static void products_only(bool on)
{
    Dl_info where;
    void (*function)(bool);
    ck_assert_int_ne(dladdr((const void *)(uintptr_t)backend_ops_of(cuda_backend()), &where), 0);
    void *module = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = dlsym(module, "shoal_cuda_products_only");
    memcpy(&function, &symbol, sizeof function);
    dlclose(module);
    function(on);
}

/* For measuring: operands are prepared only when a section is queued, the products are those of a
 * step, and ordinary steps then continue from their own recording. */
START_TEST(products_alone_are_those_of_a_step)
{
    struct dense_case c, other;
    struct cuda_counters at[8];
    case_open(&c, cuda_backend(), MODEL_WIDE_DEEP, PRECISION_BF16);
    case_open(&other, cuda_backend(), MODEL_WIDE_DEEP, PRECISION_BF16);
    at[0] = cuda_counted();
    dense_case_train(&c, 1);
    at[1] = cuda_counted();
    ck_assert_uint_gt(at[1].products, at[0].products);
    for (uint64_t step = 2; step <= 3; step++)
        dense_case_train(&c, step);
    products_only(true);
    for (int i = 2; i <= 5; i++) {
        at[i] = cuda_counted();
        (void)model_train(c.model, c.run, &c.in, 1, 2, 3, &c.out); /* any result */
    }
    products_only(false);
    at[6] = cuda_counted();
    ck_assert_uint_gt(at[3].launches, at[2].launches); /* plus the operands */
    ck_assert_uint_lt(at[3].launches - at[2].launches, at[1].launches - at[0].launches);
    ck_assert_uint_eq(at[3].products - at[2].products, at[1].products - at[0].products);
    ck_assert_uint_eq(at[4].recordings, at[3].recordings + 1);
    ck_assert_uint_eq(at[6].launches, at[3].launches);
    ck_assert_uint_eq(at[6].plays, at[4].plays + 2);
    for (uint64_t step = 1; step <= 5; step++) {
        dense_case_train(&c, step);
        dense_case_train(&other, step);
    }
    at[7] = cuda_counted();
    ck_assert_uint_eq(at[7].recordings, at[6].recordings + 1); /* the other one's */
    size_t floats = step_floats(&c);
    float *bits = calloc(2 * floats, sizeof *bits);
    step_bits(&c, bits);
    step_bits(&other, bits + floats);
    ck_assert_mem_eq(bits, bits + floats, floats * sizeof *bits);
    free(bits);
    dense_case_free(&c);
    dense_case_free(&other);
}
END_TEST

/* ---- the loss scale -------------------------------------------------------------------------- */

/* Two examples, `large` weights and small inputs: the loss is finite, and the gradient of the first
 * layer's output is large. */
static void fp16_case(struct dense_case *c, float large)
{
    dense_case_job(c, MODEL_WIDE_DEEP);
    c->backend = cuda_backend();
    c->job.train.precision = PRECISION_FP16;
    c->job.model.activation = ACT_RELU;
    dense_case_batch(c, 2, 9, false);
    for (size_t i = 0; i < model_dense_floats(c->model); i++)
        c->dense[i] = fabsf(c->dense[i]) * large;
    for (size_t i = 0; i < 9 * (size_t)model_row_width(c->model); i++)
        c->rows[i] *= 0.01f;
    c->label[0] = c->label[1] = 0.0f;
    c->numeric[0] = c->numeric[1] = c->numeric[2] = c->numeric[3] = 0.01f;
}

/* With a scale of 65536 the gradient does not fit fp16. The step is skipped until the scale has
 * fallen; then training continues. */
START_TEST(fp16_step_that_overflows_is_skipped_and_the_scale_comes_down)
{
    struct dense_case c;
    uint32_t skipped = 0;
    fp16_case(&c, 8.0f);
    double scale = c.run->scale;
    ck_assert_double_eq(scale, 65536.0);
    for (uint64_t step = 1; step <= 20; step++) {
        dense_case_train(&c, step);
        if (!c.out.skipped)
            break;
        ck_assert(!isfinite(c.out.dense_norm) || !isfinite(c.out.row_norm));
        ck_assert_double_eq(c.run->scale, scale / 2.0);
        scale = c.run->scale;
        skipped++;
    }
    ck_assert_uint_gt(skipped, 0);
    ck_assert(!c.out.skipped);
    ck_assert_double_eq(c.run->scale, scale);
    double norm = c.out.dense_norm;
    ck_assert(isfinite(norm) && norm > 0.0);
    dense_case_train(&c, 21); /* it stays there */
    ck_assert(!c.out.skipped);
    dense_case_free(&c);
}
END_TEST

/* With such large weights the step does not fit fp16 without a scale either: skipped for ever, it
 * would learn nothing. */
START_TEST(fp16_step_that_overflows_unscaled_is_an_error)
{
    struct dense_case c;
    fp16_case(&c, 1000.0f);
    c.run->scale = 2.0;
    dense_case_train(&c, 1);
    ck_assert(c.out.skipped);
    ck_assert_double_eq(c.run->scale, 1.0);
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, DENSE_SEED, DENSE_LANE, 2, &c.out),
                     SHOAL_E_NOT_FINITE);
    ck_assert(!c.out.skipped);
    dense_case_free(&c);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

/* A shortage of memory does not mean a lost device: the message gives its size and names the keys
 * to lower. Later there may be memory. */
START_TEST(shortage_is_told_with_what_would_help)
{
    struct dense_case c;
    struct model_run *run;
    struct err e = {0};
    case_open(&c, cuda_backend(), MODEL_DEEPFM, PRECISION_FP16);
    setenv("SHOAL_CUDAHOST_FAIL", "1:full", 1);
    ck_assert_int_eq(model_run_new(c.model, 150, &run, &e), SHOAL_E_NOMEM);
    ck_assert_msg(strstr(e.text, "of tensors; make train.batch or train.lanes smaller") != NULL,
                  "%s", e.text);
    setenv("SHOAL_CUDAHOST_FAIL", "8:full", 1); /* a run uses 4 arrays, zeroes, copies, waits */
    ck_assert_int_eq(model_run_new(c.model, 150, &run, &e), 0);
    unsetenv("SHOAL_CUDAHOST_FAIL");
    ck_assert_int_eq(model_train(c.model, run, &c.in, 1, 2, 1, &c.out), SHOAL_E_NOMEM);
    ck_assert_msg(strstr(model_run_error(run), "a batch of 150 examples") != NULL, "%s",
                  model_run_error(run));
    model_run_free(run);
    dense_case_free(&c);
}
END_TEST

START_TEST(failure_names_the_call)
{
    struct dense_device d;
    struct err e = {0};
    setenv("SHOAL_CUDAHOST_FAIL", "3", 1);
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    float *x = dense_up(&d, NULL, 64);
    d.k->scale(d.s, 16, 2.0f, x, x);
    d.k->scale(d.s, 16, 3.0f, x, x);
    ck_assert_int_eq(d.k->stream_finish(d.s, &e), SHOAL_E_INTERNAL);
    ck_assert_msg(strstr(e.text, "scale") != NULL && strstr(e.text, "call 3") != NULL, "%s",
                  e.text);
    ck_assert_int_eq(d.k->stream_finish(d.s, &e), SHOAL_E_INTERNAL);
    dense_device_close(&d);
}
END_TEST

START_TEST(backend_cuda_loads_the_module_that_the_environment_names)
{
    struct backend *b;
    struct err e = {0};
    setenv("SHOAL_CUDA_MODULE", "libshoal_cudahost.so", 1);
    ck_assert_msg(backend_load(BACKEND_CUDA, &b, &e) == 0, "%s", e.text);
    ck_assert_str_eq(backend_name(b), "cuda");
    backend_unload(b);
    setenv("SHOAL_CUDA_MODULE", "libshoal_nothing.so", 1);
    ck_assert_int_eq(backend_load(BACKEND_CUDA, &b, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "libshoal_nothing.so"));
    ck_assert_int_eq(backend_load(BACKEND_AUTO, &b, &e), 0);
    ck_assert_str_eq(backend_name(b), "cpu");
    ck_assert_int_eq(e.code, 0);
    ck_assert_msg(strstr(e.text, "the CPU is taken") != NULL &&
                      strstr(e.text, "libshoal_nothing.so") != NULL,
                  "%s", e.text);
    backend_unload(b);
}
END_TEST

/* Here the card's module finds no device; on a machine with a device it uses that. */
START_TEST(backend_cuda_without_a_device_says_so)
{
    struct backend *b;
    struct err e = {0};
    int rc = backend_load_module("libshoal_cuda.so", &b, &e);
    if (rc == 0) {
        ck_assert_str_eq(backend_name(b), "cuda");
        backend_unload(b);
        return;
    }
    ck_assert_int_eq(rc, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_null(b);
    ck_assert_msg(strstr(e.text, "no device") != NULL || strstr(e.text, "libshoal_cuda.so") != NULL,
                  "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda_model");
    TCase *t = tcase_create("cuda_model");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, model_learns_together_with_the_cpu);
    tcase_add_test(t, model_in_other_precisions_learns_together_with_the_cpu);
    tcase_add_test(t, model_is_repeatable_bit_for_bit);
    tcase_add_test(t, model_is_repeatable_in_several_threads);
    tcase_add_test(t, recorded_steps_give_what_queued_ones_give);
    tcase_add_test(t, recording_keeps_its_arguments);
    tcase_add_test(t, recordings_of_many_sizes_make_place_for_one_another);
    tcase_add_test(t, warm_steps_allocate_nothing);
    tcase_add_test(t, products_alone_are_those_of_a_step);
    tcase_add_test(t, fp16_step_that_overflows_is_skipped_and_the_scale_comes_down);
    tcase_add_test(t, fp16_step_that_overflows_unscaled_is_an_error);
    if (cuda_is_host()) {
        tcase_add_loop_test(t, wide_models_find_room_for_their_steps, 0, 8);
        tcase_add_loop_test(t, exact_allocation_gives_the_same_bits, 0, 6);
        tcase_add_test(t, scratch_of_growing_batches_is_joined);
        tcase_add_test(t, shortage_is_told_with_what_would_help);
        tcase_add_test(t, failure_names_the_call);
        tcase_add_test(t, backend_cuda_loads_the_module_that_the_environment_names);
        tcase_add_test(t, backend_cuda_without_a_device_says_so);
    }
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
