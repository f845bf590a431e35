/* test_fc.c: fully connected layers and the head, forward and back, against plain loops in double. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/fc.h"

enum { N = 37, IN = 29, OUT = 18, WANTED = 23 };

struct fixture {
    struct dense_pass d;
    struct layer layer;
    float w[OUT * IN], dw[OUT * IN];
    struct rng rng;
};

static void fixture_make(struct fixture *f, uint32_t out)
{
    dense_pass_init(&f->d, N);
    f->rng = rng_of(5, out, 0);
    f->layer = (struct layer){.in = IN, .out = out, .dx_width = WANTED};
    f->layer.x = dense_pass_tensor(&f->d, IN, false);
    f->layer.y = dense_pass_tensor(&f->d, out, false);
    f->layer.dx = dense_pass_tensor(&f->d, IN, false);
    f->layer.dy = dense_pass_tensor(&f->d, out, false);
    dense_fill(&f->rng, f->d.data[f->layer.x], N * IN);
    dense_fill(&f->rng, f->d.data[f->layer.dy], N * out);
    dense_fill(&f->rng, f->w, out * IN);
    dense_fill(&f->rng, f->dw, out * IN); /* gradients are added to what is there */
    f->d.in.dense = f->w;
    f->d.out.dense_gradients = f->dw;
}

/* y = x w', dx = dy w (its leading columns), dw += dy' x. */
static void expect(const struct fixture *f, const float *dy, uint32_t out, double *y, double *dx, double *dw,
                   uint32_t wanted)
{
    const float *x = f->d.data[f->layer.x];
    for (size_t i = 0; i < (size_t)out * IN; i++)
        dw[i] = (double)f->dw[i];
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < out; j++)
            for (uint32_t k = 0; k < IN; k++) {
                y[i * out + j] += (double)x[i * IN + k] * (double)f->w[j * IN + k];
                dw[j * IN + k] += (double)dy[i * out + j] * (double)x[i * IN + k];
                if (k < wanted)
                    dx[i * wanted + k] += (double)dy[i * out + j] * (double)f->w[j * IN + k];
            }
}

START_TEST(fc_is_a_matrix_product_and_its_gradients)
{
    struct fixture f;
    double y[N * OUT] = {0}, dx[N * WANTED] = {0}, dw[OUT * IN];
    fixture_make(&f, OUT);
    expect(&f, f.d.data[f.layer.dy], OUT, y, dx, dw, WANTED);
    for (uint32_t first = 0; first < N; first += 20) { /* in two ranges */
        uint32_t count = N - first < 20 ? N - first : 20;
        fc_layer.forward(&f.layer, &f.d.pass, first, count);
        fc_layer.backward(&f.layer, &f.d.pass, first, count);
    }
    ck_assert_double_lt(dense_check_worst(f.d.data[f.layer.y], y, N * OUT), 1e-5);
    ck_assert_double_lt(dense_check_worst(f.d.data[f.layer.dx], dx, N * WANTED), 1e-5);
    ck_assert_double_lt(dense_check_worst(f.dw, dw, OUT * IN), 1e-5);
    dense_pass_free(&f.d);
}
END_TEST

START_TEST(head_adds_a_product_to_the_logit)
{
    struct fixture f;
    double y[N] = {0}, dx[N * IN] = {0}, dw[IN];
    fixture_make(&f, 1);
    float *logit = f.d.data[TENSOR_LOGIT], *dlogit = f.d.data[TENSOR_LOGIT_GRADIENT];
    dense_fill(&f.rng, logit, N);
    dense_fill(&f.rng, dlogit, N);
    for (uint32_t i = 0; i < N; i++)
        y[i] = (double)logit[i];
    expect(&f, dlogit, 1, y, dx, dw, IN);
    head_layer.forward(&f.layer, &f.d.pass, 0, N);
    head_layer.backward(&f.layer, &f.d.pass, 0, N);
    ck_assert_double_lt(dense_check_worst(logit, y, N), 1e-5);
    ck_assert_double_lt(dense_check_worst(f.d.data[f.layer.dx], dx, N * IN), 1e-5);
    ck_assert_double_lt(dense_check_worst(f.dw, dw, IN), 1e-5);
    dense_pass_free(&f.d);
}
END_TEST

START_TEST(head_without_dx_leaves_its_input)
{
    struct fixture f;
    fixture_make(&f, 1);
    uint32_t dx = f.layer.dx;
    f.layer.dx = TENSOR_NONE;
    f.d.data[TENSOR_LOGIT_GRADIENT][0] = 1.0f;
    head_layer.backward(&f.layer, &f.d.pass, 0, N);
    for (uint32_t i = 0; i < N * IN; i++)
        ck_assert_float_eq(f.d.data[dx][i], 0.0f);
    dense_pass_free(&f.d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fc");
    TCase *t = tcase_create("fc");
    tcase_add_test(t, fc_is_a_matrix_product_and_its_gradients);
    tcase_add_test(t, head_adds_a_product_to_the_logit);
    tcase_add_test(t, head_without_dx_leaves_its_input);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
