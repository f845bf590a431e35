/* test_backend.c: loading of the module; and the kernels give the same bits at every vector
 * width. */
#include "dense/layer/plan.h"
#include "dense/model.h"
#include "tests/lib/dense_check.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

START_TEST(backend_cpu_loads_and_names_its_kernel)
{
    struct backend *b;
    struct err e;
    ck_assert_msg(backend_load(BACKEND_CPU, &b, &e) == 0, "%s", e.text);
    ck_assert_str_eq(backend_name(b), "cpu");
    ck_assert_uint_gt(strlen(backend_kernel(b)), 0);
    const char *type = backend_core_type(), *told = getenv("OPENBLAS_CORETYPE");
    if (type != NULL && told != NULL && strcmp(type, told) == 0)
        ck_assert_str_eq(backend_kernel(b), type);
    backend_unload(b);
}
END_TEST

START_TEST(backend_leaves_the_kernel_type_that_the_user_set)
{
    struct backend *b;
    struct err e;
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    ck_assert_msg(backend_load(BACKEND_CPU, &b, &e) == 0, "%s", e.text);
#ifdef __x86_64__
    ck_assert_str_eq(backend_kernel(b), "Nehalem");
#endif
    backend_unload(b);
}
END_TEST

/* An inherited OPENBLAS_CORETYPE=Haswell gave 43,700 examples/s in place of 67,500. */
START_TEST(backend_says_that_kernels_are_below_the_processor)
{
    struct backend *b;
    struct err e = {0};
    if (backend_core_type() == NULL)
        return; /* a processor without AVX2: no kernel is below it */
    char text[ERR_TEXT_MAX];
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    ck_assert_int_eq(backend_load(BACKEND_CPU, &b, &e), 0);
    ck_assert(backend_is_slow(b, text));
    ck_assert_ptr_nonnull(strstr(text, "OPENBLAS_CORETYPE=Nehalem"));
    ck_assert_ptr_nonnull(strstr(text, "unset OPENBLAS_CORETYPE"));
    backend_unload(b);
}
END_TEST

START_TEST(backend_with_the_widest_kernels_is_not_slow)
{
    struct backend *b;
    struct err e = {0};
    char text[ERR_TEXT_MAX];
    unsetenv("OPENBLAS_CORETYPE"); /* backend_load reports what the processor can do */
    ck_assert_int_eq(backend_load(BACKEND_CPU, &b, &e), 0);
    ck_assert(!backend_is_slow(b, text));
    backend_unload(b);
}
END_TEST

/* Neither may crash on any machine; without a driver the answers are fixed. */
START_TEST(backend_cuda_without_driver_is_refused_and_auto_is_cpu)
{
    struct backend *b;
    struct err e = {0};
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    int rc = backend_load(BACKEND_CUDA, &b, &e);
    if (driver == NULL) {
        ck_assert_int_eq(rc, SHOAL_E_UNAVAILABLE);
        ck_assert_ptr_null(b);
        ck_assert_ptr_nonnull(strstr(e.text, "libcuda.so.1"));
    }
    if (rc == 0)
        backend_unload(b);
    ck_assert_int_eq(backend_load(BACKEND_AUTO, &b, &e), 0);
    if (driver == NULL)
        ck_assert_str_eq(backend_name(b), "cpu");
    backend_unload(b);
}
END_TEST

START_TEST(backend_module_that_is_not_there_is_refused)
{
    struct backend *b;
    struct err e = {0};
    ck_assert_int_eq(backend_load_module("libshoal_nothing.so", &b, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_null(b);
    ck_assert_ptr_nonnull(strstr(e.text, "libshoal_nothing.so"));
}
END_TEST

/* A shared object without the symbol, like a module of an older version. */
START_TEST(backend_module_of_another_version_is_refused)
{
    struct backend *b;
    struct err e = {0};
    Dl_info where;
    ck_assert_int_ne(dladdr((const void *)(uintptr_t)&strlen, &where), 0); /* the C library */
    char folder[LIMIT_PATH], file[LIMIT_PATH];
    snprintf(folder, sizeof folder, "%s", where.dli_fname);
    snprintf(file, sizeof file, "%s", where.dli_fname);
    setenv("SHOAL_MODULE_DIR", dirname(folder), 1);
    ck_assert_int_eq(backend_load_module(basename(file), &b, &e), SHOAL_E_VERSION);
    ck_assert_ptr_null(b);
    ck_assert_ptr_nonnull(strstr(e.text, "version"));
}
END_TEST

/* All results of a kernel, one after the other. */
struct results {
    float values[40000];
    size_t count;
};

static void keep(struct results *r, const void *x, size_t floats)
{
    ck_assert_uint_le(r->count + floats, sizeof r->values / sizeof *r->values);
    memcpy(r->values + r->count, x, floats * sizeof(float));
    r->count += floats;
}

enum { N = 21, WIDTH = 37, LD = 41, FIELDS = 3, DIM = 10, ROWS = 50 };

static void run_acts(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(1, 1, 1);
    static float y[N * LD], dy[N * LD], bias[WIDTH], gradient[WIDTH];
    uint32_t key[2];
    layer_dropout_key(1, 2, 3, 4, key);
    for (int i = 0; i < 8; i++) {
        struct dropout_mask mask = layer_dropout_mask(i < 4 ? 0.0 : 0.25, key);
        dense_fill(&g, y, N * LD);
        dense_fill(&g, dy, N * LD);
        dense_fill(&g, bias, WIDTH);
        dense_fill(&g, gradient, WIDTH);
        k->act_forward(NULL, (enum activation)(i % 4), &mask, 5, N, WIDTH, bias, y, LD);
        k->act_backward(NULL, (enum activation)(i % 4), &mask, 5, N, WIDTH, y, LD, dy, LD,
                        gradient);
        keep(r, y, N * LD);
        keep(r, dy, N * LD);
        keep(r, gradient, WIDTH);
    }
}

static void run_norm(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(2, 1, 1);
    static float x[N * LD], y[N * LD], dy[N * LD], row[8][WIDTH];
    static _Alignas(64) float state[2 * 2 * WIDTH + 6 * WIDTH];
    dense_fill(&g, x, N * LD);
    dense_fill(&g, dy, N * LD);
    dense_fill(&g, row[0], 8 * WIDTH);
    ck_assert_uint_eq(norm_state_floats(WIDTH) * sizeof(float), sizeof state);
    struct norm_args a = {.count = N,
                          .width = WIDTH,
                          .x = x,
                          .ldx = LD,
                          .y = y,
                          .ldy = LD,
                          .dy = dy,
                          .lddy = LD,
                          .examples = N,
                          .of_batch = true,
                          .momentum = 0.1,
                          .gamma = row[0],
                          .beta = row[1],
                          .running_mean = row[2],
                          .running_variance = row[3],
                          .gamma_gradient = row[4],
                          .beta_gradient = row[5],
                          .mean_gradient = row[6],
                          .variance_gradient = row[7],
                          .state = state};
    for (int back = 0; back < 2; back++) {
        k->norm_begin(NULL, &a, back);
        k->norm_gather(NULL, &a, back);
        k->norm_settle(NULL, &a, back);
        k->norm_apply(NULL, &a, back);
    }
    keep(r, y, N * LD);
    keep(r, dy, N * LD);
    keep(r, row[4], 4 * WIDTH);
}

static void run_head(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(3, 1, 1);
    static float x[N * LD], dx[N * LD], w[WIDTH], dw[WIDTH], logit[N * 2], label[N * 2], weight[N],
        scores[N * 2], dlogit[N * 2], bias[2];
    const struct loss_spec spec = {.kind = {LOSS_LOGLOSS, LOSS_HUBER}, .delta = 0.5};
    float factor[2] = {0.5f, 0.25f};
    double sums[3] = {0};
    dense_fill(&g, x, N * LD);
    dense_fill(&g, dx, N * LD);
    dense_fill(&g, w, WIDTH);
    dense_fill(&g, dw, WIDTH);
    dense_fill(&g, label, N * 2);
    dense_fill(&g, weight, N);
    dense_fill(&g, bias, 2);
    k->bias_forward(NULL, N, 2, bias, logit);
    k->head_forward(NULL, N, WIDTH, x, LD, w, logit + 1, 2);
    k->loss(NULL, N, NULL, 2, &spec, logit, 0.125f, label, weight, factor, sums, scores, dlogit);
    k->head_backward(NULL, N, WIDTH, x, LD, w, dlogit + 1, 2, dw, dx, LD, WIDTH, true);
    k->bias_backward(NULL, N, 2, dlogit, bias);
    k->add(NULL, N, WIDTH, dx, LD, x, LD);
    k->square_sum(NULL, N * LD, x, &sums[2]);
    keep(r, sums, 2 * 3);
    keep(r, logit, N * 2);
    keep(r, scores, N * 2);
    keep(r, dlogit, N * 2);
    keep(r, dw, WIDTH);
    keep(r, dx, N * LD);
    keep(r, bias, 2);
    keep(r, x, N * LD);
    k->scale(NULL, N * LD, 0.3f, x, dx);
    k->clip(NULL, N * LD, 1.0, &sums[2], x);
    k->clip_rows(NULL, N, LD, 1.0f, dx);
    k->scale_by(NULL, N * LD, factor, x);
    keep(r, dx, N * LD);
    keep(r, x, N * LD);
}

static void run_sparse(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(4, 2, 2);
    static float rows[ROWS * (DIM + 1)], gradients[ROWS * (DIM + 1)], numeric[N * 2],
        x[N * (FIELDS * DIM + 2)], dx[N * FIELDS * DIM], sums[N * DIM], logit[N];
    uint8_t pooling[FIELDS] = {POOL_SUM, POOL_MEAN, POOL_SUM};
    uint32_t index[N * FIELDS * 3], offset[N * FIELDS + 1], values = 0;
    for (uint32_t s = 0; s < N * FIELDS; s++) {
        offset[s] = values;
        for (uint64_t left = rng_below(&g, 4); left > 0; left--)
            index[values++] = (uint32_t)rng_below(&g, ROWS);
    }
    offset[N * FIELDS] = values;
    dense_fill(&g, rows, ROWS * (DIM + 1));
    dense_fill(&g, gradients, ROWS * (DIM + 1));
    dense_fill(&g, numeric, N * 2);
    memset(logit, 0, sizeof logit);
    struct pool_args a = {.count = N,
                          .examples = N,
                          .values = values,
                          .row_count = ROWS,
                          .fields = FIELDS,
                          .dim = DIM,
                          .numerics = 2,
                          .first_order = 1,
                          .tasks = 1,
                          .pooling = pooling,
                          .index = index,
                          .offset = offset,
                          .rows = rows,
                          .numeric = numeric};
    k->pool_begin(NULL, &a, true);
    k->pool_forward(NULL, &a, x, FIELDS * DIM + 2, logit);
    k->fm_forward(NULL, N, FIELDS, DIM, x, FIELDS * DIM + 2, sums, logit, 1);
    k->fm_backward(NULL, N, FIELDS, DIM, x, FIELDS * DIM + 2, sums, logit, 1, false, dx,
                   FIELDS * DIM);
    k->pool_backward(NULL, &a, dx, FIELDS * DIM, logit, gradients);
    keep(r, x, N * (FIELDS * DIM + 2));
    keep(r, logit, N);
    keep(r, dx, N * FIELDS * DIM);
    keep(r, gradients, ROWS * (DIM + 1));
}

START_TEST(backend_kernels_give_the_same_bits_at_every_width)
{
    static struct results base, other;
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        struct results *r = w == 0 ? &base : &other;
        if (k == NULL)
            continue;
        r->count = 0;
        run_acts(k, r);
        run_norm(k, r);
        run_head(k, r);
        run_sparse(k, r);
        ck_assert_uint_eq(r->count, base.count);
        for (size_t i = 0; i < r->count; i++)
            ck_assert_msg(memcmp(&r->values[i], &base.values[i], sizeof(float)) == 0,
                          "%s: value %zu: %.9g, not %.9g", dense_width_name[w], i,
                          (double)r->values[i], (double)base.values[i]);
    }
}
END_TEST

/* Squares above the range of a float: the sum is computed in double, and finite values are scaled
 * to the limit. The second row does not end with a full vector. */
START_TEST(backend_clips_what_is_huge)
{
    enum { WIDE = 1500 };
    static float x[2 * WIDE];
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        double square = 1.0, expected = 1.0, row[2] = {0};
        if (k == NULL)
            continue;
        for (uint32_t i = 0; i < 2 * WIDE; i++) {
            x[i] = (i % 2 ? 1.0f : -1.0f) * (i < WIDE ? 4e21f : 1e37f);
            expected += (double)x[i] * (double)x[i];
        }
        k->square_sum(NULL, 2 * WIDE, x, &square);
        ck_assert_double_eq_tol(square / expected, 1.0, 1e-12);
        k->clip(NULL, 2 * WIDE, 1e22, &square, x);
        ck_assert_double_eq_tol((double)x[2 * WIDE - 1], 1e22 / sqrt(WIDE), 1e16);
        x[0] = 4e21f;
        k->clip_rows(NULL, 2, WIDE, 10.0f, x);
        for (uint32_t i = 0; i < 2 * WIDE; i++)
            row[i / WIDE] += (double)x[i] * (double)x[i];
        ck_assert_msg(fabs(sqrt(row[0]) - 10) < 1e-4 && fabs(sqrt(row[1]) - 10) < 1e-4,
                      "%s: norms %g and %g", dense_width_name[w], sqrt(row[0]), sqrt(row[1]));
    }
}
END_TEST

/* It must reach the shard unchanged, which refuses it and reports its sender. */
START_TEST(backend_leaves_what_is_not_finite)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        float x[3 * WIDTH], before[3 * WIDTH];
        double square = 0.0;
        if (k == NULL)
            continue;
        for (uint32_t i = 0; i < 3 * WIDTH; i++)
            x[i] = before[i] = (float)i;
        x[WIDTH + 1] = before[WIDTH + 1] = bad[_i];
        k->square_sum(NULL, 3 * WIDTH, x, &square);
        ck_assert(!isfinite(square));
        k->clip(NULL, 3 * WIDTH, 10.0, &square, x);
        ck_assert_msg(memcmp(x, before, sizeof x) == 0, "%s: %g, then %g", dense_width_name[w],
                      (double)x[WIDTH], (double)x[WIDTH + 1]);
        k->clip_rows(NULL, 3, WIDTH, 10.0f, x);
        ck_assert_mem_eq(x + WIDTH, before + WIDTH, WIDTH * sizeof *x);
        ck_assert(x[2 * WIDTH] < before[2 * WIDTH]);
    }
}
END_TEST

static void *train_same(void *result)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.hidden.at[0] = c.job.model.hidden.at[1] = 120;
    dense_case_batch(&c, 1500, 9, false);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(model_train(c.model, c.run, &c.in, 1, 2, 3, &c.out), 0);
    memcpy(result, c.out.row_gradients, 9 * 4 * sizeof(float));
    dense_case_free(&c);
    return NULL;
}

START_TEST(backend_serves_several_threads_with_the_same_bits)
{
    pthread_t thread[3];
    float result[3][9 * 4];
    dense_backend();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, train_same, result[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    ck_assert_mem_eq(result[0], result[1], sizeof result[0]);
    ck_assert_mem_eq(result[0], result[2], sizeof result[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("backend");
    TCase *t = tcase_create("backend");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, backend_cpu_loads_and_names_its_kernel);
    tcase_add_test(t, backend_says_that_kernels_are_below_the_processor);
    tcase_add_test(t, backend_with_the_widest_kernels_is_not_slow);
    tcase_add_test(t, backend_leaves_the_kernel_type_that_the_user_set);
    tcase_add_test(t, backend_cuda_without_driver_is_refused_and_auto_is_cpu);
    tcase_add_test(t, backend_module_that_is_not_there_is_refused);
    tcase_add_test(t, backend_module_of_another_version_is_refused);
    tcase_add_test(t, backend_kernels_give_the_same_bits_at_every_width);
    tcase_add_test(t, backend_clips_what_is_huge);
    tcase_add_loop_test(t, backend_leaves_what_is_not_finite, 0, 3);
    tcase_add_test(t, backend_serves_several_threads_with_the_same_bits);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
