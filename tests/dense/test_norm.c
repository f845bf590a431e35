/* test_norm.c: statistics of batch norm, forward and back, against double; its running statistics. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/norm.h"

#include <string.h>

enum { N = 150, WIDTH = 19 };

struct norms {
    double x[N * WIDTH], dy[N * WIDTH], gamma[WIDTH], beta[WIDTH];
    double mean[WIDTH], variance[WIDTH]; /* of the batch, by norms_value */
};

static double norms_value(struct norms *n, uint32_t i, uint32_t j)
{
    return (n->x[i * WIDTH + j] - n->mean[j]) / sqrt(n->variance[j] + 1e-5) * n->gamma[j] + n->beta[j];
}

static double norms_sum(void *context)
{
    struct norms *n = context;
    double sum = 0;
    memset(n->mean, 0, sizeof n->mean);
    memset(n->variance, 0, sizeof n->variance);
    for (uint32_t i = 0; i < N * WIDTH; i++)
        n->mean[i % WIDTH] += n->x[i] / N;
    for (uint32_t i = 0; i < N * WIDTH; i++)
        n->variance[i % WIDTH] += pow(n->x[i] - n->mean[i % WIDTH], 2) / N;
    for (uint32_t i = 0; i < N * WIDTH; i++)
        sum += n->dy[i] * norms_value(n, i / WIDTH, i % WIDTH);
    return sum;
}

struct fixture {
    struct dense_pass d;
    struct layer layer;
    float dense[2 * WIDTH], dense_gradients[2 * WIDTH], stats[2 * WIDTH], stats_gradients[2 * WIDTH];
    struct norms n;
};

static void fixture_make(struct fixture *f, float shift)
{
    struct rng r = rng_of(8, 0, 0);
    memset(f, 0, sizeof *f);
    dense_pass_init(&f->d, N);
    f->layer = (struct layer){.out = WIDTH, .weight = 0, .bias = WIDTH, .mean = 0, .variance = WIDTH};
    f->layer.x = dense_pass_tensor(&f->d, WIDTH, false);
    f->layer.y = dense_pass_tensor(&f->d, WIDTH, false);
    f->layer.dy = dense_pass_tensor(&f->d, WIDTH, false);
    f->layer.state = dense_pass_tensor(&f->d, norm_state_floats(WIDTH), true);
    f->d.in.dense = f->dense;
    f->d.in.stats = f->stats;
    f->d.out.dense_gradients = f->dense_gradients;
    f->d.out.stats_gradients = f->stats_gradients;
    dense_fill(&r, f->dense, 2 * WIDTH);
    dense_fill(&r, f->stats, 2 * WIDTH);
    float *x = f->d.data[f->layer.x], *dy = f->d.data[f->layer.dy];
    dense_fill(&r, x, N * WIDTH);
    dense_fill(&r, dy, N * WIDTH);
    for (uint32_t i = 0; i < N * WIDTH; i++) {
        f->n.x[i] = (double)(x[i] = x[i] * (float)(i % WIDTH + 1) + shift);
        f->n.dy[i] = (double)dy[i];
    }
    for (uint32_t j = 0; j < WIDTH; j++) {
        f->n.gamma[j] = (double)f->dense[j];
        f->n.beta[j] = (double)f->dense[WIDTH + j];
    }
    norms_sum(&f->n);
}

static void forward(struct fixture *f)
{
    for (uint32_t first = 0; first < N; first += 70)
        norm_layer.forward_gather(&f->layer, &f->d.pass, first, N - first < 70 ? N - first : 70);
    norm_layer.forward_settle(&f->layer, &f->d.pass);
    norm_layer.forward(&f->layer, &f->d.pass, 0, N);
}

START_TEST(norm_gives_mean_0_and_deviation_1)
{
    struct fixture f;
    fixture_make(&f, _i ? 300.0f : 0.0f); /* also far from 0, where plain sums of squares would lose the variance */
    forward(&f);
    for (uint32_t i = 0; i < N * WIDTH; i++)
        ck_assert_double_eq_tol((double)f.d.data[f.layer.y][i], norms_value(&f.n, i / WIDTH, i % WIDTH),
                                _i ? 2e-4 : 2e-6);
    dense_pass_free(&f.d);
}
END_TEST

START_TEST(norm_pushes_a_tenth_of_the_way_to_the_batch)
{
    struct fixture f;
    fixture_make(&f, 1.0f);
    forward(&f);
    for (uint32_t j = 0; j < WIDTH; j++) {
        double mean = 0.9 * (double)f.stats[j] + 0.1 * f.n.mean[j];
        double variance = 0.9 * (double)f.stats[WIDTH + j] + 0.1 * f.n.variance[j] * N / (N - 1);
        ck_assert_double_eq_tol((double)(f.stats[j] - f.stats_gradients[j]), mean, 1e-6);
        ck_assert_double_eq_tol((double)(f.stats[WIDTH + j] - f.stats_gradients[WIDTH + j]), variance, 1e-5);
    }
    dense_pass_free(&f.d);
}
END_TEST

START_TEST(norm_gradient_goes_through_the_statistics)
{
    struct fixture f;
    fixture_make(&f, 0.5f);
    forward(&f);
    for (uint32_t first = 0; first < N; first += 70)
        norm_layer.backward_gather(&f.layer, &f.d.pass, first, N - first < 70 ? N - first : 70);
    norm_layer.backward_settle(&f.layer, &f.d.pass);
    norm_layer.backward(&f.layer, &f.d.pass, 0, N);
    for (uint32_t i = 0; i < N * WIDTH; i += 7)
        ck_assert_double_eq_tol((double)f.d.data[f.layer.dy][i], dense_check_slope(norms_sum, &f.n, &f.n.x[i]), 2e-6);
    for (uint32_t j = 0; j < WIDTH; j++) {
        ck_assert_double_eq_tol((double)f.dense_gradients[j], dense_check_slope(norms_sum, &f.n, &f.n.gamma[j]), 1e-5);
        ck_assert_double_eq_tol((double)f.dense_gradients[WIDTH + j], dense_check_slope(norms_sum, &f.n, &f.n.beta[j]),
                                1e-5);
    }
    dense_pass_free(&f.d);
}
END_TEST

START_TEST(norm_survives_a_negative_running_variance)
{
    struct fixture f;
    fixture_make(&f, 0.0f);
    f.d.pass.train = false;
    f.stats[WIDTH] = -1.0f;
    norm_layer.forward_settle(&f.layer, &f.d.pass);
    norm_layer.forward(&f.layer, &f.d.pass, 0, N);
    for (uint32_t i = 0; i < N * WIDTH; i++)
        ck_assert_float_finite(f.d.data[f.layer.y][i]);
    dense_pass_free(&f.d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("norm");
    TCase *t = tcase_create("norm");
    tcase_add_loop_test(t, norm_gives_mean_0_and_deviation_1, 0, 2);
    tcase_add_test(t, norm_pushes_a_tenth_of_the_way_to_the_batch);
    tcase_add_test(t, norm_gradient_goes_through_the_statistics);
    tcase_add_test(t, norm_survives_a_negative_running_variance);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
