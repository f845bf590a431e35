/* test_ops.c: every core kernel of the CUDA module against the CPU module's, on random
 * shapes. */
#include "dense/layer/plan.h"
#include "tests/lib/cuda_case.h"

#include <stdio.h>

/* All results of a run's kernels, array by array. */
struct kept {
    float *value;
    size_t floats, room;
    size_t end[64]; /* the end of each array */
    uint32_t arrays;
};

/* One run of some kernels on one backend; random numbers are the same on each. */
struct bench {
    struct dense_device d;
    struct rng g;
    struct kept kept;
};

typedef void (*scenario)(struct bench *b);

static void bench_open(struct bench *b, const char *backend, enum precision precision,
                       uint64_t seed)
{
    memset(b, 0, sizeof *b);
    cuda_device_open(&b->d, backend, precision);
    b->g = rng_of(seed, 7, 7);
}

static void bench_close(struct bench *b)
{
    dense_device_close(&b->d);
    free(b->kept.value);
}

/* Returns `floats` uniform numbers in the backend's memory. */
static float *drawn(struct bench *b, size_t floats)
{
    float *x = malloc((floats + 1) * sizeof *x);
    dense_fill(&b->g, x, floats);
    float *up = dense_up(&b->d, x, floats * sizeof *x);
    ck_assert_int_eq(b->d.k->stream_finish(b->d.s, NULL), 0);
    free(x);
    return up;
}

static void keep(struct bench *b, const float *x, size_t floats)
{
    struct kept *k = &b->kept;
    if (k->floats + floats > k->room) {
        k->room = 2 * k->room + floats;
        k->value = realloc(k->value, k->room * sizeof *k->value);
    }
    if (floats > 0)
        dense_down(&b->d, x, k->value + k->floats, floats * sizeof *x);
    ck_assert_uint_lt(k->arrays, 64);
    k->floats += floats;
    k->end[k->arrays++] = k->floats;
}

static void keep_double(struct bench *b, const double *x, size_t count)
{
    double value[16];
    float narrow[16];
    ck_assert_uint_le(count, 16);
    dense_down(&b->d, x, value, count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        narrow[i] = (float)value[i];
    float *up = dense_up(&b->d, narrow, count * sizeof *narrow);
    keep(b, up, count);
}

/* Arrays are compared relative to their largest number. NaN equals NaN. */
static void compare(const char *what, const struct kept *found, const struct kept *expected,
                    double tolerance)
{
    ck_assert_uint_eq(found->arrays, expected->arrays);
    for (uint32_t array = 0; array < found->arrays; array++) {
        double size = 1e-3;
        size_t begin = array == 0 ? 0 : found->end[array - 1], end = found->end[array];
        ck_assert_uint_eq(end, expected->end[array]);
        for (size_t i = begin; i < end; i++)
            if (isfinite(expected->value[i]))
                size = fmax(size, fabs((double)expected->value[i]));
        for (size_t i = begin; i < end; i++) {
            double off = fabs((double)found->value[i] - (double)expected->value[i]);
            bool same =
                isnan(found->value[i]) ? isnan(expected->value[i]) : off <= tolerance * size;
            ck_assert_msg(same, "%s: array %u, value %zu: %.9g, not %.9g (largest %.3g)", what,
                          array, i - begin, (double)found->value[i], (double)expected->value[i],
                          size);
        }
    }
}

static void against_cpu(const char *what, scenario run, enum precision precision, double tolerance)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct bench cpu, device;
        bench_open(&cpu, "cpu", precision, seed);
        bench_open(&device, cuda_name(), precision, seed);
        run(&cpu);
        run(&device);
        compare(what, &device.kept, &cpu.kept, tolerance);
        bench_close(&cpu);
        bench_close(&device);
    }
}

/* Returns a size that shows ends of chunks and odd columns: 1, small, around 32 and 64, some
 * hundreds. */
static uint32_t draw_size(struct bench *b)
{
    static const uint32_t size[] = {1, 2, 7, 31, 32, 33, 64, 65, 129, 500};
    return size[rng_below(&b->g, sizeof size / sizeof *size)];
}

static uint32_t draw_width(struct bench *b)
{
    static const uint32_t width[] = {1, 3, 16, 31, 37, 64, 85};
    return width[rng_below(&b->g, sizeof width / sizeof *width)];
}

static struct dropout_mask draw_mask(struct bench *b, double rate)
{
    uint32_t key[2];
    layer_dropout_key(rng_next(&b->g), 2, 3, 4, key);
    return layer_dropout_mask(rate, dense_up(&b->d, key, sizeof key));
}

/* ---- activations and linear layers ----------------------------------------------------------- */

static void run_act(struct bench *b)
{
    uint32_t n = draw_size(b), width = draw_width(b), ld = width + (uint32_t)rng_below(&b->g, 4);
    for (int i = 0; i < 8; i++) {
        struct dropout_mask mask = draw_mask(b, i < 4 ? 0.0 : 0.3);
        float *y = drawn(b, n * ld), *dy = drawn(b, n * ld), *bias = drawn(b, width),
              *gradient = drawn(b, width);
        float not_a_number = NAN; /* a loss that hides it would be pushed */
        b->d.k->upload(b->d.s, y, &not_a_number, sizeof not_a_number);
        b->d.k->act_forward(b->d.s, (enum activation)(i % 4), &mask, 5, n, width,
                            i % 3 ? bias : NULL, y, ld);
        b->d.k->act_backward(b->d.s, (enum activation)(i % 4), &mask, 5, n, width, y, ld, dy, ld,
                             i % 3 ? gradient : NULL);
        keep(b, y, n * ld);
        keep(b, dy, n * ld);
        keep(b, gradient, width);
    }
}

START_TEST(act_is_that_of_the_cpu)
{
    against_cpu("act", run_act, PRECISION_FP32, 1e-5);
}
END_TEST

static void run_linear_of(struct bench *b, uint32_t kind)
{
    uint32_t n = draw_size(b), in = draw_width(b), out = draw_width(b);
    uint32_t ldx = in + kind % 3, ldy = out + kind % 2, wanted = 1 + (uint32_t)rng_below(&b->g, in);
    struct linear_args a = {.first = 3,
                            .count = n,
                            .in = in,
                            .out = out,
                            .x = drawn(b, n * ldx),
                            .ldx = ldx,
                            .w = drawn(b, in * out),
                            .bias = kind % 4 ? drawn(b, out) : NULL,
                            .act = (enum activation)(kind % 4),
                            .mask = draw_mask(b, kind < 4 ? 0.0 : 0.4),
                            .y = drawn(b, n * ldy),
                            .ldy = ldy};
    b->d.k->linear_forward(b->d.s, &a);
    keep(b, a.y, n * ldy);
    float *dx = drawn(b, n * (wanted + 1));
    a.dy = drawn(b, n * (out + 2));
    a.lddy = out + 2;
    a.dw = drawn(b, in * out);
    a.dbias = kind % 4 ? drawn(b, out) : NULL;
    a.dx = kind % 5 ? dx : NULL;
    a.lddx = wanted + 1;
    a.dx_width = wanted;
    a.add = kind % 2;
    b->d.k->linear_backward(b->d.s, &a);
    keep(b, a.dw, in * out);
    keep(b, dx, n * (wanted + 1));
    if (a.dbias != NULL)
        keep(b, a.dbias, out);
}

static void run_linear(struct bench *b)
{
    run_linear_of(b, (uint32_t)rng_below(&b->g, 8));
}

/* Without relu, whose slope jumps if a sum is rounded to the other side of 0. */
static void run_linear_smooth(struct bench *b)
{
    uint32_t kind = (uint32_t)rng_below(&b->g, 8);
    run_linear_of(b, kind % 4 == ACT_RELU ? kind + 1 : kind);
}

START_TEST(linear_is_that_of_the_cpu)
{
    against_cpu("linear", run_linear_smooth, PRECISION_FP32, 1e-5);
}
END_TEST

START_TEST(linear_in_other_precisions_is_near_the_cpu)
{
    against_cpu("linear, tf32", run_linear_smooth, PRECISION_TF32, 5e-3);
    against_cpu("linear, bf16", run_linear_smooth, PRECISION_BF16, 2e-2);
    against_cpu("linear, fp16", run_linear_smooth, PRECISION_FP16, 5e-3);
}
END_TEST

/* Two layers in a row, forward and backward in one section, as in a pass: the operands made from
 * x, w and y on the way forward are used again on the way back. Three times: queued, recorded,
 * played. */
static void run_linear_section(struct bench *b)
{
    uint32_t n = draw_size(b), in = draw_width(b), middle = draw_width(b), out = draw_width(b);
    uint32_t ldx = plan_stride(in, false), ldm = plan_stride(middle, false) + 4;
    float *x = drawn(b, n * ldx), *dx = drawn(b, n * ldx), *y = drawn(b, n * ldm),
          *dy = drawn(b, n * ldm), zero[4] = {0};
    for (uint32_t i = 0; i < n; i++)
        b->d.k->upload(b->d.s, x + i * ldx + in, zero, (ldx - in) * sizeof *zero);
    ck_assert_int_eq(b->d.k->stream_finish(b->d.s, NULL), 0);
    struct linear_args below = {.count = n,
                                .in = in,
                                .out = middle,
                                .x = x,
                                .ldx = ldx,
                                .padded = true,
                                .w = drawn(b, in * middle),
                                .bias = drawn(b, middle),
                                .act = ACT_TANH,
                                .mask = draw_mask(b, rng_below(&b->g, 2) ? 0.3 : 0.0),
                                .y = y,
                                .ldy = ldm,
                                .dy = dy,
                                .lddy = ldm,
                                .dw = drawn(b, in * middle),
                                .dbias = drawn(b, middle),
                                .dx = dx,
                                .lddx = ldx,
                                .dx_width = in,
                                .keep = true};
    struct linear_args above = {.count = n,
                                .in = middle,
                                .out = out,
                                .x = y,
                                .ldx = ldm,
                                .w = drawn(b, middle * out),
                                .act = ACT_NONE,
                                .y = drawn(b, n * out),
                                .ldy = out,
                                .dy = drawn(b, n * out),
                                .lddy = out,
                                .dw = drawn(b, middle * out),
                                .dx = dy,
                                .lddx = ldm,
                                .dx_width = middle,
                                .keep = true};
    for (uint32_t step = 0; step < 3; step++) {
        if (b->d.k->graph_begin == NULL || b->d.k->graph_begin(b->d.s, 7)) {
            b->d.k->linear_forward(b->d.s, &below);
            b->d.k->linear_forward(b->d.s, &above);
            b->d.k->linear_backward(b->d.s, &above);
            b->d.k->linear_backward(b->d.s, &below);
            if (b->d.k->graph_end != NULL)
                ck_assert(!b->d.k->graph_end(b->d.s));
        }
    }
    keep(b, above.y, n * out);
    keep(b, above.dw, middle * out);
    keep(b, below.dw, in * middle);
    keep(b, below.dbias, middle);
    keep(b, dx, n * ldx);
}

START_TEST(linear_layers_in_a_section_are_those_of_the_cpu)
{
    against_cpu("section", run_linear_section, PRECISION_FP32, 1e-5);
    against_cpu("section, tf32", run_linear_section, PRECISION_TF32, 1e-2);
    against_cpu("section, bf16", run_linear_section, PRECISION_BF16, 3e-2);
    against_cpu("section, fp16", run_linear_section, PRECISION_FP16, 1e-2);
}
END_TEST

static void run_gemm(struct bench *b)
{
    uint32_t m = draw_size(b), n = draw_width(b), k = draw_size(b),
             kind = (uint32_t)rng_below(&b->g, 8);
    bool ta = kind & 1, tb = kind & 2;
    uint32_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 2, ldc = n + 3;
    float *c = drawn(b, m * ldc);
    b->d.k->gemm(b->d.s, ta, tb, m, n, k, drawn(b, (ta ? k : m) * lda), lda,
                 drawn(b, (tb ? n : k) * ldb), ldb, kind & 4 ? 1.0f : 0.0f, c, ldc);
    keep(b, c, m * ldc);
}

START_TEST(gemm_is_that_of_the_cpu)
{
    against_cpu("gemm", run_gemm, PRECISION_FP32, 1e-5);
    against_cpu("gemm, tf32", run_gemm, PRECISION_TF32, 5e-3);
    against_cpu("gemm, bf16", run_gemm, PRECISION_BF16, 2e-2);
}
END_TEST

/* An operand above 65504 is infinite in fp16, and so is the product: the loss scale must notice
 * it. */
START_TEST(gemm_in_fp16_overflows_to_infinity)
{
    struct bench b;
    bench_open(&b, cuda_name(), PRECISION_FP16, 1);
    float x[3] = {1.0f, 65504.0f, 65530.0f}, w[1] = {0.5f}, y[3];
    float *to = dense_up(&b.d, NULL, sizeof y);
    b.d.k->gemm(b.d.s, false, false, 3, 1, 1, dense_up(&b.d, x, sizeof x), 1,
                dense_up(&b.d, w, sizeof w), 1, 0.0f, to, 1);
    dense_down(&b.d, to, y, sizeof y);
    ck_assert(y[0] == 0.5f && y[1] == 32752.0f && isinf(y[2]) && y[2] > 0.0f);
    bench_close(&b);
}
END_TEST

/* Powers of two, halves between two numbers of the format, and the smallest ones: exact, or rounded
 * to the even neighbour. */
START_TEST(gemm_rounds_operands_to_the_nearest)
{
    static const float in[] = {1.0f,     1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1p-24f, 0x1p-25f,
                               0x3p-25f, 0x1p-14f,        -2.5f,           0.0f};
    static const float half[] = {1.0f,     1.0f,     1.0f + 0x1p-9f, 0x1p-24f, 0.0f,
                                 0x1p-23f, 0x1p-14f, -2.5f,          0.0f};
    static const float wide[] = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 0x1p-24f, -2.5f};
    static const float brain[] = {1.0f, 1.0f + 0x1p-6f, 0x1p-24f, -2.5f};
    float one = 1.0f, y[9];
    for (int type = 0; type < 2; type++) {
        struct bench b;
        uint32_t n = type ? 4 : 9;
        bench_open(&b, cuda_name(), type ? PRECISION_BF16 : PRECISION_FP16, 1);
        float *to = dense_up(&b.d, NULL, sizeof y);
        b.d.k->gemm(b.d.s, false, false, n, 1, 1, dense_up(&b.d, type ? wide : in, n * sizeof *in),
                    1, dense_up(&b.d, &one, sizeof one), 1, 0.0f, to, 1);
        dense_down(&b.d, to, y, n * sizeof *y);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(y[i] == (type ? brain : half)[i], "%u: %a", i, (double)y[i]);
        bench_close(&b);
    }
}
END_TEST

/* ---- norm, head, loss, pairs ----------------------------------------------------------------- */

static void run_norm(struct bench *b)
{
    uint32_t n = draw_size(b), width = draw_width(b), ld = width + 2;
    float *row[8];
    for (int i = 0; i < 8; i++)
        row[i] = drawn(b, width);
    struct norm_args a = {.count = n,
                          .width = width,
                          .x = drawn(b, n * ld),
                          .ldx = ld,
                          .y = drawn(b, n * ld),
                          .ldy = ld,
                          .dy = drawn(b, n * ld),
                          .lddy = ld,
                          .examples = n,
                          .of_batch = n > 1,
                          .momentum = 0.1,
                          .gamma = row[0],
                          .beta = row[1],
                          .running_mean = row[2],
                          .running_variance = row[3],
                          .gamma_gradient = row[4],
                          .beta_gradient = row[5],
                          .mean_gradient = row[6],
                          .variance_gradient = row[7],
                          .state = dense_up(&b->d, NULL, norm_state_floats(width) * sizeof(float))};
    for (int back = 0; back < 2; back++) {
        b->d.k->norm_begin(b->d.s, &a, back);
        b->d.k->norm_gather(b->d.s, &a, back);
        b->d.k->norm_settle(b->d.s, &a, back);
        b->d.k->norm_apply(b->d.s, &a, back);
    }
    if (n > 2) { /* the gradient of a batch of two is a difference of equal numbers */
        keep(b, a.y, n * ld);
        keep(b, a.dy, n * ld);
    }
    for (int i = 4; i < 8; i++)
        keep(b, row[i], width);
}

START_TEST(norm_is_that_of_the_cpu)
{
    against_cpu("norm", run_norm, PRECISION_FP32, 1e-4);
}
END_TEST

static void run_head(struct bench *b)
{
    uint32_t n = draw_size(b), width = draw_width(b), ld = width + 1,
             tasks = 1 + (uint32_t)rng_below(&b->g, 3);
    uint32_t wanted = 1 + (uint32_t)rng_below(&b->g, width);
    float *x = drawn(b, n * ld), *w = drawn(b, width), *dw = drawn(b, width),
          *logit = drawn(b, n * tasks), *dx = drawn(b, n * ld), *bias = drawn(b, tasks),
          *dbias = drawn(b, tasks);
    b->d.k->bias_forward(b->d.s, n, tasks, rng_below(&b->g, 2) ? bias : NULL, logit);
    b->d.k->head_forward(b->d.s, n, width, x, ld, w, logit + tasks - 1, tasks);
    keep(b, logit, n * tasks);
    b->d.k->head_backward(b->d.s, n, width, x, ld, w, logit + tasks - 1, tasks, dw, dx, ld, wanted,
                          tasks == 2);
    b->d.k->head_backward(b->d.s, n, width, x, ld, w, logit, tasks, dw, NULL, 0, 0, false);
    b->d.k->bias_backward(b->d.s, n, tasks, logit, dbias);
    keep(b, dw, width);
    keep(b, dx, n * ld);
    keep(b, dbias, tasks);
}

START_TEST(head_and_bias_are_those_of_the_cpu)
{
    against_cpu("head", run_head, PRECISION_FP32, 1e-5);
}
END_TEST

static void run_loss(struct bench *b)
{
    uint32_t n = draw_size(b), tasks = 1 + (uint32_t)rng_below(&b->g, 3);
    const struct loss_spec spec = {
        .kind = {(enum loss_kind)rng_below(&b->g, 3), LOSS_MSE, LOSS_HUBER}, .delta = 0.5};
    float not_a_number = NAN, large[2] = {1000.0f, -1000.0f};
    float *logit = drawn(b, n * tasks), *label = drawn(b, n * tasks), *weight = drawn(b, n),
          *factor = drawn(b, tasks), *scores = drawn(b, n * tasks), *dlogit = drawn(b, n * tasks);
    double *loss = dense_up(&b->d, NULL, tasks * sizeof *loss);
    b->d.k->upload(b->d.s, logit, large, n * tasks > 1 ? sizeof large : sizeof *large);
    b->d.k->upload(b->d.s, label + n * tasks / 2, &not_a_number, sizeof not_a_number);
    b->d.k->loss(b->d.s, n, NULL, tasks, &spec, logit, -0.25f, label, n % 2 ? weight : NULL, factor,
                 loss, scores, dlogit);
    keep_double(b, loss, tasks);
    keep(b, scores, n * tasks);
    keep(b, dlogit, n * tasks);
    b->d.k->upload(b->d.s, logit + n * tasks - 1, &not_a_number, sizeof not_a_number);
    b->d.k->loss(b->d.s, n, NULL, tasks, &spec, logit, 0.0f, label, NULL, factor, loss, NULL, NULL);
    keep_double(b, loss, tasks);
}

START_TEST(loss_is_that_of_the_cpu)
{
    against_cpu("loss", run_loss, PRECISION_FP32, 1e-6);
}
END_TEST

static void run_pairs(struct bench *b)
{
    uint32_t n = draw_size(b), fields = 1 + (uint32_t)rng_below(&b->g, 9),
             dim = 1 + (uint32_t)rng_below(&b->g, 20);
    uint32_t ldx = fields * dim + 2;
    float *x = drawn(b, n * ldx), *sums = drawn(b, n * dim), *logit = drawn(b, n * 2),
          *dx = drawn(b, n * ldx);
    b->d.k->fm_forward(b->d.s, n, fields, dim, x, ldx, sums, logit + 1, 2);
    b->d.k->fm_backward(b->d.s, n, fields, dim, x, ldx, sums, logit + 1, 2, n % 2, dx, ldx);
    keep(b, sums, n * dim);
    keep(b, logit, n * 2);
    keep(b, dx, n * ldx);
}

START_TEST(pairs_are_those_of_the_cpu)
{
    against_cpu("pairs", run_pairs, PRECISION_FP32, 1e-5);
}
END_TEST

static void run_gradient(struct bench *b)
{
    uint32_t n = draw_size(b), width = draw_width(b), ld = width + 1;
    float *x = drawn(b, n * width), *y = drawn(b, n * ld), *factor = drawn(b, 1);
    double *square = dense_up(&b->d, NULL, 2 * sizeof *square);
    b->d.k->square_sum(b->d.s, n * width, x, square);
    b->d.k->square_sum(b->d.s, n * width, x, square + 1);
    b->d.k->square_sum(b->d.s, n * width, x, square + 1);
    keep_double(b, square, 2);
    b->d.k->clip_rows(b->d.s, n, width, 1.5f, x);
    keep(b, x, n * width);
    b->d.k->add(b->d.s, n, width, x, width, y, ld);
    b->d.k->clip(b->d.s, n * width, n % 2 ? 0.5 : 1e9, square, x);
    keep(b, x, n * width);
    b->d.k->scale(b->d.s, n * width, n % 3 ? 0.3f : 0.0f, x, y);
    b->d.k->scale_by(b->d.s, n * width, factor, x);
    keep(b, y, n * ld);
    keep(b, x, n * width);
}

START_TEST(gradient_kernels_are_those_of_the_cpu)
{
    against_cpu("gradient", run_gradient, PRECISION_FP32, 1e-5);
}
END_TEST

/* On both backends the value stays: a shard refuses it, and reports its sender. */
START_TEST(clipping_leaves_what_is_not_finite)
{
    enum { WIDTH = 33 };
    struct bench b;
    float x[2 * WIDTH], y[2 * WIDTH];
    for (uint32_t i = 0; i < 2 * WIDTH; i++)
        x[i] = (float)i;
    x[1] = INFINITY;
    bench_open(&b, _i ? cuda_name() : "cpu", PRECISION_FP32, 1);
    float *up = dense_up(&b.d, x, sizeof x);
    double *square = dense_up(&b.d, NULL, sizeof *square);
    b.d.k->square_sum(b.d.s, 2 * WIDTH, up, square);
    b.d.k->clip(b.d.s, 2 * WIDTH, 1.0, square, up);
    dense_down(&b.d, up, y, sizeof y);
    ck_assert_mem_eq(x, y, sizeof x);
    b.d.k->clip_rows(b.d.s, 2, WIDTH, 1.0f, up);
    dense_down(&b.d, up, y, sizeof y);
    ck_assert_mem_eq(x, y, WIDTH * sizeof *x);
    ck_assert(y[WIDTH] > 0.0f && y[WIDTH] < x[WIDTH]);
    bench_close(&b);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

struct values {
    uint32_t *index, *offset, count;
};

/* Up to `most` values a field (0: one each); a third of them are row 0. */
static struct values draw_values(struct bench *b, uint32_t slots, uint32_t rows, uint32_t most)
{
    uint32_t *index = malloc(((size_t)slots * (most + 1) + 1) * sizeof *index),
             *offset = malloc((slots + 1) * sizeof *offset);
    struct values v = {.count = 0};
    for (uint32_t s = 0; s < slots; s++) {
        offset[s] = v.count;
        uint64_t values = most > 0 ? rng_below(&b->g, most + 1) : 1;
        for (; values > 0; values--)
            index[v.count++] = rng_below(&b->g, 3) == 0 ? 0 : (uint32_t)rng_below(&b->g, rows);
    }
    offset[slots] = v.count;
    v.index = dense_up(&b->d, index, v.count * sizeof *index);
    v.offset = most > 0 ? dense_up(&b->d, offset, (slots + 1) * sizeof *offset) : NULL;
    ck_assert_int_eq(b->d.k->stream_finish(b->d.s, NULL), 0);
    free(index);
    free(offset);
    return v;
}

static void run_pool(struct bench *b)
{
    uint32_t n = draw_size(b), fields = 1 + (uint32_t)rng_below(&b->g, 5), rows = draw_size(b);
    uint32_t most = (uint32_t)rng_below(&b->g, 3) * 2, dim = (uint32_t)rng_below(&b->g, 4) * 7;
    uint32_t first_order = dim == 0 ? 1 : (uint32_t)rng_below(&b->g, 2), width = first_order + dim,
             ldx = fields * dim + 2;
    uint8_t pooling[5] = {POOL_SUM, POOL_MEAN, POOL_ATTENTION, POOL_SUM, POOL_MEAN};
    struct values v = draw_values(b, n * fields, rows, most);
    struct pool_args a = {.count = n,
                          .examples = n,
                          .values = v.count,
                          .row_count = rows,
                          .fields = fields,
                          .dim = dim,
                          .numerics = 2,
                          .first_order = first_order,
                          .tasks = 2,
                          .pooling = dense_up(&b->d, pooling, sizeof pooling),
                          .index = v.index,
                          .offset = v.offset,
                          .rows = drawn(b, rows * width),
                          .numeric = drawn(b, n * 2)};
    float *x = drawn(b, n * ldx), *logit = drawn(b, n * 2), *dx = drawn(b, n * ldx),
          *gradients = drawn(b, rows * width);
    b->d.k->pool_begin(b->d.s, &a, true);
    b->d.k->pool_forward(b->d.s, &a, dim > 0 ? x : NULL, ldx, logit);
    b->d.k->pool_backward(b->d.s, &a, dim > 0 ? dx : NULL, ldx, logit, gradients);
    keep(b, x, n * ldx);
    keep(b, logit, n * 2);
    keep(b, gradients, rows * width);
    b->d.k->pool_begin(b->d.s, &a, false);
    b->d.k->pool_forward(b->d.s, &a, dim > 0 ? x : NULL, ldx, logit);
    keep(b, logit, n * 2);
}

START_TEST(pool_is_that_of_the_cpu)
{
    against_cpu("pool", run_pool, PRECISION_FP32, 1e-4);
}
END_TEST

/* A key belongs to one field, so fields draw from different rows. */
static void run_probe(struct bench *b)
{
    uint32_t n = draw_size(b), rows = 3 + draw_size(b);
    struct values v = draw_values(b, n, rows, 5);
    struct pool_args a = {.count = n,
                          .examples = n,
                          .values = v.count,
                          .row_count = rows,
                          .fields = 1,
                          .first_order = 1,
                          .tasks = 1,
                          .index = v.index,
                          .offset = v.offset};
    float *gradients = dense_up(&b->d, NULL, rows * sizeof(float));
    b->d.k->pool_begin(b->d.s, &a, true);
    b->d.k->probe_backward(b->d.s, &a, gradients);
    keep(b, gradients, rows);
}

START_TEST(probe_counts_as_the_cpu)
{
    against_cpu("probe", run_probe, PRECISION_FP32, 0.0);
}
END_TEST

/* A row that every example has, with one much larger value: no part is lost over the chunks. */
START_TEST(pool_merges_a_hot_row_of_many_chunks)
{
    enum { N = 5000, DIM = 3 };
    static uint32_t index[N];
    static float dx[N * DIM];
    struct bench b;
    bench_open(&b, cuda_name(), PRECISION_FP32, 3);
    double expected[DIM] = {0};
    for (uint32_t i = 0; i < N; i++) {
        index[i] = i % 1000 == 17 ? 1 + i / 1000 : 0;
        for (uint32_t d = 0; d < DIM; d++) {
            dx[i * DIM + d] = i == 2500 ? 1000.0f : rng_float(&b.g);
            expected[d] += index[i] == 0 ? (double)dx[i * DIM + d] : 0.0;
        }
    }
    uint8_t pooling = POOL_SUM;
    float found[8 * DIM];
    float *gradients = dense_up(&b.d, NULL, sizeof found);
    struct pool_args a = {.count = N,
                          .examples = N,
                          .values = N,
                          .row_count = 8,
                          .fields = 1,
                          .dim = DIM,
                          .tasks = 1,
                          .pooling = dense_up(&b.d, &pooling, 1),
                          .index = dense_up(&b.d, index, sizeof index)};
    b.d.k->pool_begin(b.d.s, &a, true);
    b.d.k->pool_backward(b.d.s, &a, dense_up(&b.d, dx, sizeof dx), DIM, NULL, gradients);
    dense_down(&b.d, gradients, found, sizeof found);
    for (uint32_t d = 0; d < DIM; d++)
        ck_assert_double_le(fabs((double)found[d] - expected[d]), 1e-5 * expected[d]);
    for (uint32_t d = 0; d < DIM; d++) {
        ck_assert(found[DIM + d] == dx[17 * DIM + d] && found[5 * DIM + d] == dx[4017 * DIM + d]);
        ck_assert(found[6 * DIM + d] == 0.0f);
    }
    bench_close(&b);
}
END_TEST

/* ---- order ----------------------------------------------------------------------------------- */

/* Elements are computed in other orders, and once more in the same order: the same bits. A kernel
 * whose elements depend on each other's results would fail. */
START_TEST(kernels_do_not_depend_on_the_order_of_their_elements)
{
    static const char *const order[] = {"scrambled", "forward", "reverse", "scrambled"};
    static const scenario all[] = {run_act,  run_linear, run_gemm,     run_norm, run_head,
                                   run_loss, run_pairs,  run_gradient, run_pool, run_probe};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint64_t seed = 20; seed < 24; seed++) {
            struct bench first, other;
            setenv("SHOAL_CUDAHOST_ORDER", order[0], 1);
            bench_open(&first, cuda_name(), PRECISION_FP32, seed);
            all[i](&first);
            for (int o = 1; o < 4; o++) {
                setenv("SHOAL_CUDAHOST_ORDER", order[o], 1);
                bench_open(&other, cuda_name(), PRECISION_FP32, seed);
                all[i](&other);
                ck_assert_uint_eq(first.kept.floats, other.kept.floats);
                ck_assert_msg(memcmp(first.kept.value, other.kept.value,
                                     first.kept.floats * sizeof(float)) == 0,
                              "scenario %zu, seed %u, order %s", i, (unsigned)seed, order[o]);
                bench_close(&other);
            }
            bench_close(&first);
        }
}
END_TEST

/* The control case: a comparison that must fail. */
START_TEST(comparison_sees_one_wrong_value)
{
    struct bench cpu, device;
    bench_open(&cpu, "cpu", PRECISION_FP32, 1);
    bench_open(&device, cuda_name(), PRECISION_FP32, 1);
    run_pairs(&cpu);
    run_pairs(&device);
    device.kept.value[device.kept.floats / 2] += 1e-2f;
    compare("control", &device.kept, &cpu.kept, 1e-5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda_ops");
    TCase *t = tcase_create("cuda_ops");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, act_is_that_of_the_cpu);
    tcase_add_test(t, linear_is_that_of_the_cpu);
    tcase_add_test(t, linear_in_other_precisions_is_near_the_cpu);
    tcase_add_test(t, linear_layers_in_a_section_are_those_of_the_cpu);
    tcase_add_test(t, gemm_is_that_of_the_cpu);
    tcase_add_test(t, gemm_in_fp16_overflows_to_infinity);
    tcase_add_test(t, gemm_rounds_operands_to_the_nearest);
    tcase_add_test(t, norm_is_that_of_the_cpu);
    tcase_add_test(t, head_and_bias_are_those_of_the_cpu);
    tcase_add_test(t, loss_is_that_of_the_cpu);
    tcase_add_test(t, pairs_are_those_of_the_cpu);
    tcase_add_test(t, gradient_kernels_are_those_of_the_cpu);
    tcase_add_loop_test(t, clipping_leaves_what_is_not_finite, 0, 2);
    tcase_add_test(t, pool_is_that_of_the_cpu);
    tcase_add_test(t, probe_counts_as_the_cpu);
    tcase_add_test(t, pool_merges_a_hot_row_of_many_chunks);
    tcase_add_test(t, kernels_do_not_depend_on_the_order_of_their_elements);
    tcase_add_exit_test(t, comparison_sees_one_wrong_value, EXIT_FAILURE);
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
