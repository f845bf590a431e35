/* test_model_attention.c: AutoInt+, FinalMLP and DIN, and layer norm in any network: gradients,
 * formulas by hand, what a sequence may and may not change, refused jobs. */
#include "dense/model/models.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include "dense/model/run.h"

#include <string.h>

/* The usual small shapes; din: field 1 is a sequence that attends to field 0, which has at most one
 * value. */
static void attention_case(struct dense_case *c, enum model_kind kind)
{
    dense_case_job(c, kind);
    if (kind == MODEL_DIN) {
        c->shape.pooling[1] = POOL_ATTENTION;
        c->shape.attend[1] = 0;
        c->shape.most[0] = 1;
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

static const struct {
    enum model_kind kind;
    enum norm_kind norm;
    bool many, weighted;
    double dropout;
    uint32_t numerics, gates; /* gates: layers of model.gate_hidden */
    uint32_t gate_fields;     /* 0, or 2: the gates look at fields 2 and 0 */
} cases[] = {
    {MODEL_AUTOINT, NORM_NONE, false, false, 0.0, 2, 0, 0},
    {MODEL_AUTOINT, NORM_NONE, true, true, 0.3, 0, 0, 0},
    {MODEL_AUTOINT, NORM_BATCH, false, false, 0.0, 0, 0, 0},
    {MODEL_AUTOINT, NORM_BATCH, true, true, 0.3, 2, 0, 0},
    {MODEL_AUTOINT, NORM_LAYER, true, false, 0.0, 2, 0, 0},
    {MODEL_FINALMLP, NORM_NONE, false, false, 0.0, 2, 0, 0},
    {MODEL_FINALMLP, NORM_NONE, true, true, 0.3, 0, 1, 0},
    {MODEL_FINALMLP, NORM_BATCH, false, false, 0.0, 0, 0, 0},
    {MODEL_FINALMLP, NORM_BATCH, true, true, 0.3, 2, 2, 0},
    {MODEL_FINALMLP, NORM_LAYER, true, false, 0.3, 2, 1, 0},
    {MODEL_DIN, NORM_NONE, true, false, 0.0, 2, 0, 0},
    {MODEL_DIN, NORM_NONE, false, true, 0.3, 0, 0, 0},
    {MODEL_DIN, NORM_BATCH, true, true, 0.3, 2, 0, 0},
    {MODEL_DIN, NORM_LAYER, true, false, 0.0, 0, 0, 0},
    {MODEL_DEEPFM, NORM_LAYER, true, true, 0.3, 2, 0, 0},
    {MODEL_WIDE_DEEP, NORM_LAYER, false, false, 0.0, 2, 0, 0},
    {MODEL_FINALMLP, NORM_NONE, true, false, 0.0, 2, 1, 2},
    {MODEL_FINALMLP, NORM_BATCH, false, true, 0.3, 0, 2, 2},
};

START_TEST(gradient_is_that_of_the_loss)
{
    struct dense_case c;
    attention_case(&c, cases[_i].kind);
    c.shape.numerics = cases[_i].numerics;
    c.weighted = cases[_i].weighted;
    c.job.model.norm = cases[_i].norm;
    c.job.model.dropout = cases[_i].dropout;
    c.job.model.gate_hidden = (struct widths){.at = {3, 4}, .count = cases[_i].gates};
    c.shape.gate_fields = cases[_i].gate_fields;
    c.shape.gate_field[0] = 2;
    c.job.model.l2 = c.job.model.l2_dense = 0.01;
    dense_case_batch(&c, 12, 9, cases[_i].many);
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

/* If the vectors are as wide as the attention, they are the residual themselves, with or without
 * numbers beside them. */
START_TEST(autoint_adds_the_vectors_themselves_where_widths_agree)
{
    struct dense_case c;
    attention_case(&c, MODEL_AUTOINT);
    c.shape.numerics = _i % 2 == 0 ? 0 : 2;
    c.job.model.norm = _i < 2 ? NORM_NONE : NORM_BATCH;
    c.table.dim = c.job.model.attention_dim;
    dense_case_batch(&c, 12, 9, true);
    for (uint32_t i = 0; i < c.plan.layer_count; i++)
        if (c.plan.layer[i].ops == &layer_attend)
            ck_assert_uint_ne(c.plan.layer[i].z.tensor, TENSOR_NONE);
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_holds_over_several_ranges)
{
    static const enum model_kind kind[] = {MODEL_AUTOINT, MODEL_FINALMLP, MODEL_DIN};
    for (int norm = NORM_NONE; norm <= NORM_LAYER; norm++) {
        struct dense_case c;
        attention_case(&c, kind[_i]);
        c.job.model.norm = (enum norm_kind)norm;
        c.job.model.dropout = 0.2;
        c.range = 5;
        dense_case_batch(&c, 12, 9, true);
        dense_double_check(&c, 1e-5);
        dense_case_free(&c);
    }
}
END_TEST

/* More fields than lanes of a vector, heads that do not fill a vector, one head, an input as wide
 * as the attention. */
static const struct {
    uint32_t fields, dim, heads, width, layers;
} shapes[] = {{17, 3, 1, 5, 1}, {5, 3, 3, 21, 1}, {2, 6, 1, 36, 2},
              {1, 3, 1, 2, 2},  {4, 6, 2, 6, 3},  {33, 2, 2, 4, 1}};

START_TEST(gradient_of_attention_holds_for_every_shape)
{
    struct dense_case c;
    attention_case(&c, MODEL_AUTOINT);
    c.shape.fields = shapes[_i].fields;
    c.shape.numerics = 0;
    c.table.dim = shapes[_i].dim;
    c.job.model.heads = shapes[_i].heads;
    c.job.model.attention_dim = shapes[_i].width;
    c.job.model.attention_layers = shapes[_i].layers;
    c.job.model.norm = _i % 2 ? NORM_LAYER : NORM_NONE;
    c.job.model.dropout = _i < 3 ? 0.2 : 0.0;
    c.job.model.hidden.count = 1;
    dense_case_batch(&c, 5, 7, false);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

/* The CPU has chunks of 1,024 values, which divide sequences. Numbers are small, because sums of
 * hundreds saturate tanh. */
START_TEST(gradient_of_long_sequences_holds)
{
    struct dense_case c;
    attention_case(&c, MODEL_DIN);
    c.shape.fields = 4;
    c.shape.pooling[3] = POOL_ATTENTION;
    c.shape.attend[3] = 2;
    c.shape.most[2] = 1;
    c.values_most = 900;
    dense_case_batch(&c, 6, 9, true);
    for (size_t i = 0; i < 9 * 3; i++)
        c.rows[i] *= 0.1f;
    ck_assert_uint_gt(c.values, 2 * 1024);
    dense_double_check(&c, 5e-5); /* sums of hundreds of floats */
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_check_notices_another_number_of_heads)
{
    struct dense_case c;
    char where[128];
    attention_case(&c, MODEL_AUTOINT);
    dense_case_batch(&c, 12, 9, false);
    for (uint32_t i = 0; i < c.plan.layer_count; i++)
        if (strcmp(c.plan.layer[i].ops->name, "attend") == 0)
            c.plan.layer[i].number_of[1] = 1; /* only in the double reference */
    ck_assert_double_gt(dense_double_worst(&c, where), 1e-3);
    dense_case_free(&c);
}
END_TEST

/* ---- by hand --------------------------------------------------------------------------------- */

enum { FIELDS = 3, DIM = 3, NUMERICS = 2, IN = FIELDS * DIM + NUMERICS, FIRST = 5, SECOND = 4 };

/* Takes parameters in their order, each tensor from the next block on. */
struct taker {
    const float *at;
};

static const float *take(struct taker *t, size_t count)
{
    const float *here = t->at;
    t->at += (count + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
    return here;
}

static double dot(const float *w, const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += (double)w[k] * x[k];
    return sum;
}

static void linear(struct taker *t, enum activation act, const double *x, uint32_t in, double *y,
                   uint32_t out)
{
    const float *w = take(t, (size_t)in * out), *b = take(t, out);
    for (uint32_t j = 0; j < out; j++)
        y[j] = double_act(act, dot(w + (size_t)j * in, x, in) + (double)b[j]);
}

static void network(struct taker *t, const double *x, double out[SECOND])
{
    double hidden[FIRST];
    linear(t, ACT_TANH, x, IN, hidden, FIRST);
    linear(t, ACT_TANH, hidden, FIRST, out, SECOND);
}

static void input_of(const struct dense_case *c, uint32_t example, double x[IN])
{
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t d = 0; d < DIM; d++)
            x[f * DIM + d] = (double)c->rows[c->index[example * FIELDS + f] * DIM + d];
    for (uint32_t n = 0; n < NUMERICS; n++)
        x[FIELDS * DIM + n] = (double)c->numeric[example * NUMERICS + n];
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

/* One layer, two heads of two, a residual of its own, without norm. */
static double autoint_by_hand(const float *dense, const double x[IN])
{
    enum { WIDTH = 4, HEAD = 2 };
    struct taker t = {dense};
    double out[SECOND], map[FIELDS][4 * WIDTH], y[FIELDS * WIDTH], z = (double)take(&t, 1)[0];
    network(&t, x, out);
    z += dot(take(&t, SECOND), out, SECOND);
    const float *w = take(&t, 4 * WIDTH * DIM);
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t j = 0; j < 4 * WIDTH; j++)
            map[f][j] = dot(w + j * DIM, x + f * DIM, DIM);
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t j = 0; j < WIDTH; j++) {
            uint32_t h = j / HEAD * HEAD;
            double sum = 0, of_values = 0;
            for (uint32_t g = 0; g < FIELDS; g++) {
                double e =
                    exp((map[f][h] * map[g][WIDTH + h] + map[f][h + 1] * map[g][WIDTH + h + 1]) /
                        sqrt(2.0));
                sum += e;
                of_values += e * map[g][2 * WIDTH + j];
            }
            y[f * WIDTH + j] = fmax(0, of_values / sum + map[f][3 * WIDTH + j]);
        }
    return sigmoid(z + dot(take(&t, FIELDS * WIDTH), y, FIELDS * WIDTH));
}

START_TEST(autoint_is_the_formula_by_hand)
{
    struct dense_case c;
    attention_case(&c, MODEL_AUTOINT);
    c.job.model.attention_layers = 1;
    dense_case_batch(&c, 7, 5, false);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < 7; i++) {
        double x[IN];
        input_of(&c, i, x);
        ck_assert_double_eq_tol((double)c.out.scores[i], autoint_by_hand(c.dense, x), 1e-6);
    }
    dense_case_free(&c);
}
END_TEST

/* field: the input's field whose vector the gate reads; -1: a learned one. */
static void gated(struct taker *t, int field, const double x[IN], double y[IN])
{
    const float *learned = field < 0 ? take(t, DIM) : NULL;
    double context[DIM], hidden[3], gate[IN];
    for (uint32_t d = 0; d < DIM; d++)
        context[d] = field < 0 ? (double)learned[d] : x[(uint32_t)field * DIM + d];
    linear(t, ACT_RELU, context, DIM, hidden, 3);
    linear(t, ACT_SIGMOID, hidden, 3, gate, IN);
    for (uint32_t j = 0; j < IN; j++)
        y[j] = 2 * gate[j] * x[j];
}

/* Two heads, a gate with one hidden layer of 3 before each network. */
static double finalmlp_by_hand(const float *dense, int field_one, int field_two, const double x[IN])
{
    struct taker t = {dense};
    double one[SECOND], two[SECOND], seen[IN], z = (double)take(&t, 1)[0];
    gated(&t, field_one, x, seen);
    network(&t, seen, one);
    gated(&t, field_two, x, seen);
    network(&t, seen, two);
    z += dot(take(&t, SECOND), one, SECOND);
    z += dot(take(&t, SECOND), two, SECOND);
    const float *w = take(&t, 2 * 2 * 2);
    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t i = 0; i < 2; i++)
            z += one[2 * h + i] * dot(w + 4 * h + 2 * i, two + 2 * h, 2);
    return sigmoid(z);
}

START_TEST(finalmlp_is_the_formula_by_hand)
{
    struct dense_case c;
    attention_case(&c, MODEL_FINALMLP);
    c.job.model.gate_hidden = (struct widths){.at = {3}, .count = 1};
    c.shape.gate_fields = _i == 0 ? 0 : 2;
    c.shape.gate_field[0] = 1;
    c.shape.gate_field[1] = 2;
    dense_case_batch(&c, 7, 5, false);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < 7; i++) {
        double x[IN];
        input_of(&c, i, x);
        ck_assert_double_eq_tol((double)c.out.scores[i],
                                finalmlp_by_hand(c.dense, _i == 0 ? -1 : 1, _i == 0 ? -1 : 2, x),
                                1e-6);
    }
    dense_case_free(&c);
}
END_TEST

/* Without gate_hidden there is no gate, and with zeros in its last layer a gate passes its input
 * unchanged. */
START_TEST(gate_that_has_not_learned_is_1)
{
    struct dense_case without, with;
    attention_case(&without, MODEL_FINALMLP);
    attention_case(&with, MODEL_FINALMLP);
    with.job.model.gate_hidden = (struct widths){.at = {3}, .count = 1};
    dense_case_batch(&without, 7, 5, false);
    dense_case_batch(&with, 7, 5, false);
    /* tensors are smaller than a block here */
    const size_t gate = 5 * BLOCK_FLOATS, stream = 4 * BLOCK_FLOATS;
    memset(with.dense, 0, model_dense_floats(with.model) * sizeof(float));
    memcpy(with.dense, without.dense, BLOCK_FLOATS * sizeof(float));
    for (size_t s = 0; s < 2; s++)
        memcpy(with.dense + BLOCK_FLOATS + gate + s * (gate + stream),
               without.dense + BLOCK_FLOATS + s * stream, stream * sizeof(float));
    memcpy(with.dense + BLOCK_FLOATS + 2 * (gate + stream),
           without.dense + BLOCK_FLOATS + 2 * stream, 3 * BLOCK_FLOATS * sizeof(float));
    ck_assert_int_eq(model_predict(with.model, with.run, &with.in, &with.out), 0);
    ck_assert_int_eq(model_predict(without.model, without.run, &without.in, &without.out), 0);
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_float_eq_tol(with.out.scores[i], without.out.scores[i], 1e-6f);
    dense_case_free(&without);
    dense_case_free(&with);
}
END_TEST

/* ---- sequences ------------------------------------------------------------------------------- */

enum { ITEM, HISTORY, OTHER, ROWS = 9 };

/* Sets the examples one after another: field 0, the target; field 1, the history; field 2, another
 * field. */
static void sequences_set(struct dense_case *c, uint32_t examples, const uint32_t *target,
                          const uint32_t *const *history, const uint32_t *length)
{
    c->values = 0;
    for (uint32_t i = 0; i < examples; i++) {
        c->offset[3 * i] = c->values;
        c->index[c->values++] = target[i];
        c->offset[3 * i + 1] = c->values;
        for (uint32_t v = 0; v < length[i]; v++)
            c->index[c->values++] = history[i][v];
        c->offset[3 * i + 2] = c->values;
        c->index[c->values++] = 8;
    }
    c->offset[3 * examples] = c->values;
    for (uint32_t i = 0; i < examples; i++)
        memcpy(c->numeric + 2 * i, c->numeric, 2 * sizeof(float));
}

static void din_open(struct dense_case *c, uint32_t examples)
{
    attention_case(c, MODEL_DIN);
    c->values_most = 6;
    dense_case_batch(c, examples, ROWS, true);
}

static const float *din_scores(struct dense_case *c)
{
    ck_assert_int_eq(model_predict(c->model, c->run, &c->in, &c->out), 0);
    return c->out.scores;
}

/* Returns the score of one example by the formula. */
static double din_by_hand(const struct dense_case *c, uint32_t target, const uint32_t *history,
                          uint32_t length)
{
    struct taker t = {c->dense + BLOCK_FLOATS}, net;
    double x[IN] = {0}, out[SECOND];
    for (uint32_t d = 0; d < DIM; d++) {
        x[d] = (double)c->rows[target * DIM + d];
        x[2 * DIM + d] = (double)c->rows[8 * DIM + d];
    }
    for (uint32_t n = 0; n < NUMERICS; n++)
        x[FIELDS * DIM + n] = (double)c->numeric[n];
    for (uint32_t v = 0; v < length; v++) {
        double of[4 * DIM], first[4], second[3];
        const float *h = c->rows + history[v] * DIM;
        for (uint32_t d = 0; d < DIM; d++) {
            of[d] = (double)h[d];
            of[DIM + d] = x[d];
            of[2 * DIM + d] = (double)h[d] - x[d];
            of[3 * DIM + d] = (double)h[d] * x[d];
        }
        net = t;
        linear(&net, ACT_TANH, of, 4 * DIM, first, 4);
        linear(&net, ACT_TANH, first, 4, second, 3);
        double weight = dot(take(&net, 3), second, 3) + (double)take(&net, 1)[0];
        for (uint32_t d = 0; d < DIM; d++)
            x[DIM + d] += weight * (double)h[d];
    }
    t.at += 6 * BLOCK_FLOATS;
    network(&t, x, out);
    return sigmoid((double)c->dense[0] + dot(take(&t, SECOND), out, SECOND));
}

START_TEST(din_is_the_formula_by_hand)
{
    static const uint32_t target[4] = {0, 1, 2, 3}, short_one[] = {4}, twice[] = {5, 5, 6},
                          with_target[] = {7, 3, 1};
    const uint32_t *history[4] = {short_one, NULL, twice, with_target}, length[4] = {1, 0, 3, 3};
    struct dense_case c;
    din_open(&c, 4);
    sequences_set(&c, 4, target, history, length);
    const float *score = din_scores(&c);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_double_eq_tol((double)score[i], din_by_hand(&c, target[i], history[i], length[i]),
                                1e-6);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(order_of_a_sequence_changes_nothing)
{
    static const uint32_t target[2] = {0, 0}, forth[] = {1, 2, 3, 4, 4}, back[] = {4, 3, 4, 2, 1};
    const uint32_t *history[2] = {forth, back}, length[2] = {5, 5};
    struct dense_case c;
    din_open(&c, 2);
    sequences_set(&c, 2, target, history, length);
    const float *score = din_scores(&c);
    ck_assert_float_eq_tol(score[0], score[1], 1e-6f);
    dense_case_free(&c);
}
END_TEST

/* The target changes the weights of the history, not only its own columns: with the network's
 * weights of these columns at zero, the score still depends on the target, unless the history is
 * empty. */
START_TEST(target_changes_what_a_sequence_is_worth)
{
    static const uint32_t target[4] = {0, 5, 0, 5}, of[] = {1, 2, 3};
    const uint32_t *history[4] = {of, of, NULL, NULL}, length[4] = {3, 3, 0, 0};
    struct dense_case c;
    din_open(&c, 4);
    sequences_set(&c, 4, target, history, length);
    float *w = c.dense + 7 * BLOCK_FLOATS; /* the network's first layer: (FIRST, IN) */
    for (uint32_t j = 0; j < FIRST; j++)
        memset(w + j * IN, 0, DIM * sizeof *w);
    const float *score = din_scores(&c);
    ck_assert_float_gt(fabsf(score[0] - score[1]), 1e-3f);
    ck_assert_float_eq(score[2], score[3]);
    dense_case_free(&c);
}
END_TEST

/* ---- bits, and other backends ---------------------------------------------------------------- */

static const struct {
    enum model_kind kind;
    enum norm_kind norm;
} trained[] = {{MODEL_AUTOINT, NORM_NONE},   {MODEL_AUTOINT, NORM_BATCH},
               {MODEL_FINALMLP, NORM_BATCH}, {MODEL_FINALMLP, NORM_LAYER},
               {MODEL_DIN, NORM_NONE},       {MODEL_DIN, NORM_BATCH}};

static void trained_case(struct dense_case *c, int i, struct backend *b)
{
    attention_case(c, trained[i].kind);
    c->job.model.norm = trained[i].norm;
    c->job.model.dropout = 0.2;
    c->job.model.gate_hidden = (struct widths){.at = {3}, .count = 1};
    c->backend = b;
}

START_TEST(same_step_gives_the_same_bits)
{
    struct dense_case one, two;
    trained_case(&one, _i, NULL);
    trained_case(&two, _i, NULL);
    dense_case_batch(&one, 700, 9, true);
    dense_case_batch(&two, 700, 9, true);
    for (uint32_t step = 0; step < 2; step++) { /* whatever an earlier step left */
        dense_case_train(&one, 2);
        if (step == 0)
            dense_case_train(&two, 1);
        dense_case_train(&two, 2);
        ck_assert_mem_eq(one.out.row_gradients, two.out.row_gradients, 9 * DIM * sizeof(float));
        ck_assert_mem_eq(one.out.dense_gradients, two.out.dense_gradients,
                         model_dense_floats(one.model) * sizeof(float));
    }
    dense_case_free(&one);
    dense_case_free(&two);
}
END_TEST

START_TEST(curves_of_the_backends_go_together)
{
    struct dense_case cpu, other;
    struct backend *b = dense_backend_named("cudahost");
    if (b == NULL)
        return;
    trained_case(&cpu, _i, dense_backend_named("cpu"));
    trained_case(&other, _i, b);
    dense_case_batch(&cpu, 60, 9, true);
    dense_case_batch(&other, 60, 9, true);
    ck_assert_double_lt(dense_case_apart(&cpu, &other, 20, 0.1f), 1e-4);
    dense_case_free(&cpu);
    dense_case_free(&other);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

/* The attention comes after the last batch norm: the data that it keeps for the way back covers a
 * range, not a batch. */
START_TEST(attention_holds_no_more_than_a_range)
{
    struct dense_case c;
    uint32_t narrow = 0, whole = 0;
    attention_case(&c, MODEL_AUTOINT);
    c.job.model.norm = NORM_BATCH;
    dense_case_batch(&c, 12, 9, false);
    for (uint32_t i = 0; i < c.plan.layer_count; i++) {
        const struct layer *l = &c.plan.layer[i];
        const struct tensor *y = &c.plan.tensor[l->y.tensor];
        bool attends = strcmp(l->ops->name, "project") == 0 || strcmp(l->ops->name, "attend") == 0;
        if (attends || strcmp(l->ops->name, "layer_norm") == 0) {
            ck_assert(!y->whole && !c.plan.tensor[y->gradient].whole);
            narrow++;
        } else if (strcmp(l->ops->name, "norm") == 0) {
            ck_assert(y->whole && c.plan.tensor[y->gradient].whole);
            whole++;
        }
    }
    ck_assert_uint_eq(narrow, 6);
    ck_assert_uint_eq(whole, 2);
    dense_case_free(&c);
}
END_TEST

/* A layer norm after the last batch norm, over a tensor from before it: both share one gradient,
 * which the layers before the batch norm read when all ranges are done. */
static void late_layer_norm(struct plan *p)
{
    struct view input = plan_input(p, true, 0), y;
    struct view early = plan_linear(p, input, 4, ACT_NONE, 0, NORM_NONE, VIEW_NONE);
    struct view other = plan_linear(p, input, 5, ACT_TANH, 0, NORM_BATCH, VIEW_NONE);
    y = plan_tensor(p, 4);
    plan_layer_norm(p, early, 1, ACT_TANH, y);
    plan_head(p, y, 0);
    plan_head(p, other, 0);
}

START_TEST(gradient_shared_across_a_batch_norm_holds_the_batch)
{
    static const struct plan_kind kind = {
        .name = "late", .build = late_layer_norm, .vectors = true, .network = true};
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.kind = &kind;
    c.job.model.norm = NORM_BATCH;
    c.range = 5;
    dense_case_batch(&c, 12, 9, false);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(ranges_are_small_where_activations_are_large)
{
    for (int large = 0; large < 2; large++) {
        struct dense_case c;
        attention_case(&c, MODEL_AUTOINT);
        c.shape.fields = large ? 20 : 3;
        c.job.model.attention_dim = large ? 128 : 4;
        dense_case_batch(&c, 600, 9, false);
        if (backend_ops_of(dense_backend())->range > 0)
            ck_assert_uint_eq(c.run->range, large ? 64 : 512);
        else
            ck_assert_uint_eq(c.run->range, 600);
        dense_case_free(&c);
    }
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const struct dense_case *c, const char *sentence)
{
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(models_plan(&c->job, &c->shape, p, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, sentence) != NULL, "%s", e.text);
    free(p);
}

START_TEST(heads_that_do_not_divide_are_refused)
{
    struct dense_case c;
    attention_case(&c, MODEL_AUTOINT);
    c.job.model.heads = 3;
    refused(&c, "model.attention_dim is 4; it must be a multiple of model.heads, 3");
    attention_case(&c, MODEL_FINALMLP);
    c.job.model.heads = 3;
    refused(&c, "model.heads is 3; the last layers of model.hidden and model.hidden2, 4 and 4,");
    c.job.model.heads = 2;
    c.job.model.hidden2.at[1] = 5;
    refused(&c, "4 and 5, must be multiples");
    c.job.model.hidden2.count = 0;
    refused(&c, "model.hidden2 names 0 layers");
}
END_TEST

START_TEST(attention_over_too_much_is_refused)
{
    struct dense_case c;
    attention_case(&c, MODEL_AUTOINT);
    c.shape.fields = 0;
    refused(&c, "needs fields; there are none");
    c.shape.fields = 400;
    refused(&c,
            "model.kind autoint: 400 fields with attention_dim 4 and 2 heads take 326400 floats");
    c.shape.fields = 200;
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(models_plan(&c.job, &c.shape, p, &e), 0);
    free(p);
}
END_TEST

START_TEST(din_without_a_sequence_is_refused)
{
    struct dense_case c;
    attention_case(&c, MODEL_DIN);
    c.shape.pooling[1] = POOL_SUM;
    refused(&c, "model.kind din needs a behaviour sequence");
    attention_case(&c, MODEL_DIN);
    c.shape.attend[1] = 1;
    refused(&c, "field 1 has pooling attention and attends to field 1");
    c.shape.attend[1] = 3;
    refused(&c, "attends to field 3");
    attention_case(&c, MODEL_DIN);
    c.job.model.attention_hidden.count = 3;
    c.job.model.attention_hidden.at[2] = 2;
    refused(&c, "model.attention_hidden names 3 layers; din takes 1 to 2");
    attention_case(&c, MODEL_DEEPFM);
    c.shape.pooling[1] = POOL_ATTENTION;
    refused(&c, "which only model.kind din and external have");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_attention");
    TCase *t = tcase_create("model_attention");
    tcase_add_loop_test(t, autoint_adds_the_vectors_themselves_where_widths_agree, 0, 4);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, gradient_holds_over_several_ranges, 0, 3);
    tcase_add_loop_test(t, gradient_of_attention_holds_for_every_shape, 0,
                        sizeof shapes / sizeof *shapes);
    tcase_add_test(t, gradient_of_long_sequences_holds);
    tcase_add_test(t, gradient_check_notices_another_number_of_heads);
    tcase_add_test(t, autoint_is_the_formula_by_hand);
    tcase_add_loop_test(t, finalmlp_is_the_formula_by_hand, 0, 2);
    tcase_add_test(t, gate_that_has_not_learned_is_1);
    tcase_add_test(t, din_is_the_formula_by_hand);
    tcase_add_test(t, order_of_a_sequence_changes_nothing);
    tcase_add_test(t, target_changes_what_a_sequence_is_worth);
    tcase_add_loop_test(t, same_step_gives_the_same_bits, 0, sizeof trained / sizeof *trained);
    tcase_add_loop_test(t, curves_of_the_backends_go_together, 0, sizeof trained / sizeof *trained);
    tcase_add_test(t, attention_holds_no_more_than_a_range);
    tcase_add_test(t, gradient_shared_across_a_batch_norm_holds_the_batch);
    tcase_add_test(t, ranges_are_small_where_activations_are_large);
    tcase_add_test(t, heads_that_do_not_divide_are_refused);
    tcase_add_test(t, attention_over_too_much_is_refused);
    tcase_add_test(t, din_without_a_sequence_is_refused);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
