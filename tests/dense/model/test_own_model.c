/* test_own_model.c: the example in dense/README.md, "a model of your own", is compiled and compared
 * with finite differences and its formula. The README must quote it literally. */
#include "dense/model.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <stdio.h>
#include <string.h>

void model_deep_crossing_plan(struct plan *p);
#include "tests/dense/model/own_model.c"

static void sum_double(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < l->y.width; j++)
            double_at(p, l->y, i)[j] = double_at(p, l->x, i)[j] + double_at(p, l->z, i)[j];
}

static const struct double_layer own_layers[] = {{&sum_layer, sum_double}, {NULL, NULL}};
static const struct plan_kind own_kind = {"deep_crossing", model_deep_crossing_plan,
                                          .vectors = true, .network = true};

static void own_case(struct dense_case *c, bool settings)
{
    dense_double_add(own_layers);
    dense_case_job(c, MODEL_DEEPFM);
    c->kind = &own_kind;
    c->range = 4;
    c->weighted = settings;
    c->job.model.norm = settings ? NORM_BATCH : NORM_NONE;
    c->job.model.dropout = settings ? 0.2 : 0.0;
}

START_TEST(own_model_has_the_gradients_of_its_loss)
{
    struct dense_case c;
    own_case(&c, _i);
    dense_case_batch(&c, 11, 9, true);
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

/* out = w x + bias; both follow each other in the dense parameters, each from a whole block on. */
static void layer_by_hand(const float **at, const double *x, uint32_t in, double *out,
                          uint32_t count)
{
    const float *w = *at, *bias = w + BLOCK_FLOATS;
    for (uint32_t j = 0; j < count; j++) {
        out[j] = (double)bias[j];
        for (uint32_t k = 0; k < in; k++)
            out[j] += (double)w[j * in + k] * x[k];
    }
    *at = bias + BLOCK_FLOATS;
}

START_TEST(own_model_gives_the_score_of_its_formula)
{
    enum { N = 6, FIELDS = 3, DIM = 3, NUMERICS = 2, IN = FIELDS * DIM + NUMERICS };
    struct dense_case c;
    own_case(&c, false);
    dense_case_batch(&c, N, 9, false);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < N; i++) {
        double x[IN], inner[8], outer[IN], logit = (double)c.dense[0];
        const float *at = c.dense + BLOCK_FLOATS;
        for (uint32_t k = 0; k < IN; k++)
            x[k] = (double)(k < FIELDS * DIM ? c.rows[c.index[i * FIELDS + k / DIM] * DIM + k % DIM]
                                             : c.numeric[i * NUMERICS + k - FIELDS * DIM]);
        for (uint32_t l = 0; l < c.job.model.hidden.count; l++) {
            uint32_t width = c.job.model.hidden.at[l];
            layer_by_hand(&at, x, IN, inner, width);
            for (uint32_t j = 0; j < width; j++)
                inner[j] = fmax(inner[j], 0);
            layer_by_hand(&at, inner, width, outer, IN);
            for (uint32_t k = 0; k < IN; k++)
                x[k] = fmax(x[k] + outer[k], 0);
        }
        for (uint32_t k = 0; k < IN; k++)
            logit += (double)at[k] * x[k];
        ck_assert_double_eq_tol((double)c.out.scores[i], 1 / (1 + exp(-logit)), 1e-6);
    }
    dense_case_free(&c);
}
END_TEST

START_TEST(own_model_learns_alike_on_two_backends)
{
    struct dense_case c[2];
    struct backend *other = dense_backend_named("cudahost");
    for (int i = 0; i < 2 && other != NULL; i++) {
        own_case(&c[i], true);
        c[i].backend = i == 0 ? dense_backend_named("cpu") : other;
        dense_case_batch(&c[i], 200, 9, true);
    }
    if (other != NULL) {
        ck_assert_double_lt(dense_case_apart(&c[0], &c[1], 20, 0.5f), 1e-4);
        dense_case_free(&c[0]);
        dense_case_free(&c[1]);
    }
}
END_TEST

static char *text_of(const char *path)
{
    static char text[2][1 << 17];
    static int used;
    char *to = text[used++ % 2];
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s does not open; run the test from the root of the source tree",
                  path);
    size_t bytes = fread(to, 1, sizeof text[0] - 1, f);
    fclose(f);
    to[bytes] = '\0';
    return to;
}

START_TEST(readme_quotes_the_example_to_the_letter)
{
    const char *readme = text_of("dense/README.md"),
               *example = text_of("tests/dense/model/own_model.c");
    ck_assert_uint_gt(strlen(example), 1000);
    ck_assert_msg(strstr(readme, example) != NULL,
                  "tests/dense/model/own_model.c does not stand in dense/README.md as it is");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("own_model");
    TCase *t = tcase_create("own_model");
    tcase_add_loop_test(t, own_model_has_the_gradients_of_its_loss, 0, 2);
    tcase_add_test(t, own_model_gives_the_score_of_its_formula);
    tcase_add_test(t, own_model_learns_alike_on_two_backends);
    tcase_add_test(t, readme_quotes_the_example_to_the_letter);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
