/* test_backend.c: loading the module, and that the kernels give the same bits at every vector width. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/dropout.h"

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
    if (type && told && strcmp(type, told) == 0)
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

/* Neither may crash, whatever the machine has; without a driver the answers are fixed. */
START_TEST(backend_cuda_without_driver_is_refused_and_auto_is_cpu)
{
    struct backend *b;
    struct err e = {0};
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    int code = backend_load(BACKEND_CUDA, &b, &e);
    if (!driver) {
        ck_assert_int_eq(code, SHOAL_E_UNAVAILABLE);
        ck_assert_ptr_null(b);
        ck_assert_ptr_nonnull(strstr(e.text, "libcuda.so.1"));
    }
    if (code == 0)
        backend_unload(b);
    ck_assert_int_eq(backend_load(BACKEND_AUTO, &b, &e), 0);
    if (!driver)
        ck_assert_str_eq(backend_name(b), "cpu");
    backend_unload(b);
}
END_TEST

/* Everything that a kernel writes, one after the other. */
struct results {
    float values[20000];
    size_t count;
};

static void keep(struct results *r, const void *x, size_t floats)
{
    ck_assert_uint_le(r->count + floats, sizeof r->values / sizeof *r->values);
    memcpy(r->values + r->count, x, floats * sizeof(float));
    r->count += floats;
}

enum { N = 21, WIDTH = 37, FIELDS = 3, DIM = 10 };

static void run_elementwise(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(1, 1, 1);
    static float x[N * WIDTH], y[N * WIDTH], dy[N * WIDTH], row[6][WIDTH], logit[N];
    struct dropout_mask mask = dropout_of(0.25, 1, 2, 3, 4);
    double sums[2][WIDTH] = {{0}};
    for (int act = ACT_RELU; act <= ACT_SIGMOID; act++) {
        dense_fill(&g, y, N * WIDTH);
        dense_fill(&g, dy, N * WIDTH);
        dense_fill(&g, row[0], WIDTH);
        k->act_forward((enum activation)act, &mask, 5, N, WIDTH, row[0], y);
        k->act_backward((enum activation)act, &mask, 5, N, WIDTH, y, dy, row[0]);
        keep(r, y, N * WIDTH);
        keep(r, dy, N * WIDTH);
        keep(r, row[0], WIDTH);
    }
    dense_fill(&g, x, N * WIDTH);
    dense_fill(&g, row[0], 6 * WIDTH);
    dense_fill(&g, logit, N);
    k->norm_sums(N, WIDTH, x, row[0], sums[0], sums[1]);
    k->norm_back_sums(N, WIDTH, x, dy, row[0], sums[0], sums[1]);
    keep(r, sums, sizeof sums / sizeof(float));
    k->norm_apply(N, WIDTH, x, row[0], row[1], row[2], y);
    k->norm_back_apply(N, WIDTH, x, row[0], row[1], row[2], row[3], dy);
    keep(r, y, N * WIDTH);
    keep(r, dy, N * WIDTH);
    k->head_forward(N, WIDTH, x, WIDTH, row[4], logit);
    k->head_backward(N, WIDTH, x, WIDTH, row[4], logit, row[5], dy);
    k->scale(N * WIDTH, 0.3f, x, y);
    keep(r, logit, N);
    keep(r, row[5], WIDTH);
    keep(r, dy, N * WIDTH);
    keep(r, y, N * WIDTH);
}

static void run_sparse(const struct backend_ops *k, struct results *r)
{
    struct rng g = rng_of(2, 2, 2);
    static float rows[50 * (DIM + 1)], gradients[50 * (DIM + 1)], numeric[N * 2], x[N * (FIELDS * DIM + 2)],
        dx[N * FIELDS * DIM];
    static float sums[N * DIM], logit[N];
    uint8_t pooling[FIELDS] = {POOL_SUM, POOL_MEAN, POOL_SUM};
    uint32_t index[N * FIELDS * 3], offset[N * FIELDS + 1], values = 0;
    for (uint32_t s = 0; s < N * FIELDS; s++) {
        offset[s] = values;
        for (uint64_t left = rng_below(&g, 4); left > 0; left--)
            index[values++] = (uint32_t)rng_below(&g, 50);
    }
    offset[N * FIELDS] = values;
    dense_fill(&g, rows, 50 * (DIM + 1));
    dense_fill(&g, gradients, 50 * (DIM + 1));
    dense_fill(&g, numeric, N * 2);
    memset(logit, 0, sizeof logit);
    struct pool_args a = {.count = N,
                          .fields = FIELDS,
                          .dim = DIM,
                          .numerics = 2,
                          .pooling = pooling,
                          .index = index,
                          .offset = offset,
                          .rows = rows,
                          .numeric = numeric};
    k->pool_forward(&a, x, logit);
    k->fm_forward(N, FIELDS, DIM, x, FIELDS * DIM + 2, sums, logit);
    k->fm_backward(N, FIELDS, DIM, x, FIELDS * DIM + 2, sums, logit, false, dx);
    k->pool_backward(&a, dx, logit, gradients);
    keep(r, x, N * (FIELDS * DIM + 2));
    keep(r, logit, N);
    keep(r, dx, N * FIELDS * DIM);
    keep(r, gradients, 50 * (DIM + 1));
}

START_TEST(backend_kernels_give_the_same_bits_at_every_width)
{
    static const char *const width[] = {"kernels_base", "kernels_avx2", "kernels_avx512"};
    static struct results base, other;
    Dl_info where;
    ck_assert_int_ne(dladdr((const void *)(uintptr_t)backend_ops_of(dense_backend()), &where), 0);
    void *module = dlopen(where.dli_fname, RTLD_NOW);
    ck_assert_ptr_nonnull(module);
    for (int w = 0; w < 3; w++) {
#ifdef __x86_64__
        if ((w == 1 && !__builtin_cpu_supports("avx2")) || (w == 2 && !__builtin_cpu_supports("avx512dq")))
            continue;
#endif
        void (*fill)(struct backend_ops *);
        void *symbol = dlsym(module, width[w]);
        struct backend_ops ops = {0};
        struct results *r = w == 0 ? &base : &other;
        ck_assert_ptr_nonnull(symbol);
        memcpy(&fill, &symbol, sizeof fill);
        fill(&ops);
        memset(r, 0, sizeof *r);
        run_elementwise(&ops, r);
        run_sparse(&ops, r);
        ck_assert_uint_eq(r->count, base.count);
        for (size_t i = 0; i < r->count; i++)
            ck_assert_msg(memcmp(&r->values[i], &base.values[i], sizeof(float)) == 0, "%s: value %zu", width[w], i);
    }
    dlclose(module);
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
    tcase_add_test(t, backend_leaves_the_kernel_type_that_the_user_set);
    tcase_add_test(t, backend_cuda_without_driver_is_refused_and_auto_is_cpu);
    tcase_add_test(t, backend_kernels_give_the_same_bits_at_every_width);
    tcase_add_test(t, backend_serves_several_threads_with_the_same_bits);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
