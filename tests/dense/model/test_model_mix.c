/* test_model_mix.c: MMoE and PLE: gradients, the formula by hand, several tasks, refused jobs. */
#include "dense/model/models.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include "dense/model/run.h"

#include <string.h>

static void mix_case(struct dense_case *c, enum model_kind kind, uint32_t tasks, uint32_t top_k)
{
    dense_case_job(c, kind);
    c->shape.tasks = tasks;
    c->job.data.label_count = tasks;
    c->job.model.top_k = top_k;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static const struct {
    enum model_kind kind;
    uint32_t tasks, top_k, layers;
    enum norm_kind norm;
    bool many, weighted;
    uint32_t levels; /* 0 as 1 */
    double balance;
} cases[] = {
    {MODEL_MMOE, 1, 0, 2, NORM_NONE, false, false, 0, 0},
    {MODEL_MMOE, 2, 0, 2, NORM_NONE, true, true, 0, 0},
    {MODEL_MMOE, 3, 2, 2, NORM_NONE, false, true, 0, 0},
    {MODEL_MMOE, 2, 1, 1, NORM_NONE, false, false, 0, 0},
    {MODEL_MMOE, 2, 0, 2, NORM_BATCH, false, false, 0, 0},
    {MODEL_MMOE, 2, 2, 1, NORM_BATCH, true, false, 0, 0},
    {MODEL_PLE, 1, 0, 2, NORM_NONE, false, false, 0, 0},
    {MODEL_PLE, 2, 0, 2, NORM_NONE, true, true, 0, 0},
    {MODEL_PLE, 3, 3, 1, NORM_NONE, true, false, 0, 0},
    {MODEL_PLE, 2, 1, 2, NORM_NONE, false, false, 0, 0},
    {MODEL_MMOE, 2, 0, 2, NORM_LAYER, true, false, 0, 0},
    {MODEL_PLE, 2, 2, 1, NORM_LAYER, false, true, 0, 0},
    {MODEL_PLE, 2, 0, 2, NORM_BATCH, true, true, 0, 0},
    {MODEL_PLE, 3, 2, 2, NORM_BATCH, false, false, 0, 0},
    {MODEL_PLE, 2, 0, 2, NORM_NONE, true, true, 2, 0},
    {MODEL_PLE, 3, 3, 1, NORM_NONE, false, false, 2, 0},
    {MODEL_PLE, 2, 0, 1, NORM_BATCH, true, true, 3, 0},
    {MODEL_PLE, 2, 2, 2, NORM_BATCH, true, false, 2, 0},
    {MODEL_PLE, 1, 0, 1, NORM_NONE, false, true, 2, 0},
    {MODEL_PLE, 2, 0, 1, NORM_LAYER, false, false, 2, 0},
    {MODEL_PLE, 2, 2, 2, NORM_LAYER, true, false, 2, 0},
    {MODEL_PLE, 2, 2, 2, NORM_NONE, true, true, 2, 0},
    {MODEL_PLE, 3, 1, 1, NORM_NONE, false, false, 3, 0},
    {MODEL_MMOE, 2, 2, 2, NORM_NONE, true, false, 0, 0.1},
    {MODEL_PLE, 2, 2, 2, NORM_NONE, false, true, 2, 0.1},
    {MODEL_PLE, 2, 3, 1, NORM_LAYER, true, false, 2, 0.2},
    {MODEL_PLE, 2, 2, 2, NORM_BATCH, false, false, 2, 0.1},
};

START_TEST(gradient_is_that_of_the_loss)
{
    struct dense_case c;
    mix_case(&c, cases[_i].kind, cases[_i].tasks, cases[_i].top_k);
    c.job.model.hidden.count = cases[_i].layers;
    c.job.model.levels = cases[_i].levels;
    c.job.model.norm = cases[_i].norm;
    c.job.model.balance = cases[_i].balance;
    c.weighted = cases[_i].weighted;
    for (uint32_t t = 0; t < cases[_i].tasks; t++)
        c.job.model.task_weight[t] = 0.5 + t;
    c.job.model.dropout = _i % 2 ? 0.3 : 0.0;
    c.job.model.l2 = c.job.model.l2_dense = 0.01;
    dense_case_batch(&c, 12, 9, cases[_i].many);
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

/* Labels of several kinds, a third of them missing. */
static void numbers_draw(struct dense_case *c)
{
    struct rng r = rng_of(8, 1, 2);
    for (uint32_t i = 0; i < c->in.examples; i++)
        for (uint32_t t = 0; t < c->plan.tasks; t++) {
            float *at = &c->label[i * c->plan.tasks + t];
            if (c->job.model.loss[t] != LOSS_LOGLOSS)
                *at = 4 * rng_float(&r) - 1;
            if (c->plan.tasks > 1 && rng_below(&r, 3) == 0)
                *at = NAN;
        }
}

START_TEST(gradient_of_numbers_and_missing_labels_is_that_of_the_loss)
{
    static const enum loss_kind loss[][3] = {{LOSS_LOGLOSS, LOSS_MSE, LOSS_HUBER},
                                             {LOSS_LOGLOSS, LOSS_LOGLOSS, LOSS_LOGLOSS},
                                             {LOSS_HUBER, LOSS_MSE, LOSS_LOGLOSS}};
    static const enum model_kind kind[] = {MODEL_MMOE, MODEL_PLE, MODEL_DEEPFM};
    for (int k = 0; k < 3; k++) {
        struct dense_case c;
        mix_case(&c, kind[k], k < 2 ? 3 : 1, 0);
        memcpy(c.job.model.loss, loss[_i], sizeof loss[_i]);
        c.job.model.huber_delta = 0.75;
        c.job.model.norm = k == 1 ? NORM_BATCH : NORM_NONE;
        c.weighted = _i != 1;
        for (uint32_t t = 0; t < 3; t++)
            c.job.model.task_weight[t] = 0.5 + t;
        dense_case_batch(&c, 12, 9, true);
        numbers_draw(&c);
        dense_double_check(&c, 2e-5);
        dense_double_check_predict(&c, 2e-5);
        dense_case_free(&c);
    }
}
END_TEST

/* A row without the label weighs nothing for the task: the same bits as with a weight of 0. */
START_TEST(missing_label_is_a_weight_of_0)
{
    struct dense_case missing, weightless;
    struct dense_case *both[] = {&missing, &weightless};
    for (int k = 0; k < 2; k++) {
        struct dense_case *c = both[k];
        mix_case(c, _i == 0 ? MODEL_MMOE : MODEL_PLE, 2, 0);
        c->job.model.task_weight[1] = 0;
        c->weighted = true;
        dense_case_batch(c, 12, 9, true);
        for (uint32_t i = 0; i < 12; i++) {
            c->weight[i] = k == 1 && i % 3 == 0 ? 0.0f : 1.0f;
            if (k == 0 && i % 3 == 0)
                c->label[i * 2] = NAN;
        }
        dense_case_train(c, DENSE_BATCH);
    }
    size_t dense = model_dense_floats(missing.model), rows = dense_case_row(&missing, 9, NULL);
    for (size_t i = 0; i < dense; i++) /* 0 is -0 */
        ck_assert_float_eq(missing.out.dense_gradients[i], weightless.out.dense_gradients[i]);
    for (size_t i = 0; i < rows; i++)
        ck_assert_float_eq(missing.out.row_gradients[i], weightless.out.row_gradients[i]);
    ck_assert_double_eq(missing.out.loss_task[0], weightless.out.loss_task[0]);
    ck_assert_double_eq(missing.out.weight_task[0], 8);
    dense_case_free(&missing);
    dense_case_free(&weightless);
}
END_TEST

/* A batch in which no row has the label teaches its tower nothing. */
START_TEST(label_that_no_row_has_gives_no_gradient)
{
    struct dense_case c;
    mix_case(&c, MODEL_MMOE, 2, 0);
    dense_case_batch(&c, 12, 9, false);
    for (uint32_t i = 0; i < 12; i++)
        c.label[i * 2 + 1] = NAN;
    dense_double_check(&c, 1e-5);
    ck_assert_double_eq(c.out.loss_task[1], 0);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_holds_over_several_ranges)
{
    for (int i = 0; i < 4; i++) {
        struct dense_case c;
        mix_case(&c, MODEL_PLE, 2, 3);
        c.job.model.levels = 2;
        c.job.model.norm = i % 2 ? NORM_BATCH : NORM_NONE;
        c.job.model.balance = i / 2 ? 0.1 : 0.0;
        c.range = 5;
        dense_case_batch(&c, 12, 9, false);
        dense_double_check(&c, 1e-5);
        dense_case_free(&c);
    }
}
END_TEST

START_TEST(gradient_check_notices_a_gate_that_lets_another_through)
{
    struct dense_case c;
    char where[128];
    mix_case(&c, MODEL_MMOE, 2, 1);
    dense_case_batch(&c, 12, 9, false);
    for (uint32_t i = 0; i < c.plan.layer_count; i++)
        if (strcmp(c.plan.layer[i].ops->name, "mix") == 0)
            c.plan.layer[i].number_of[MIX_TOP_K] = 2; /* the double reference now selects two */
    ck_assert_double_gt(dense_double_worst(&c, where), 1e-3);
    dense_case_free(&c);
}
END_TEST

/* ---- by hand --------------------------------------------------------------------------------- */

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

/* tanh(w x + b). */
static void linear(const float *w, const float *b, const double *x, uint32_t in, double *y,
                   uint32_t out)
{
    for (uint32_t j = 0; j < out; j++) {
        double sum = (double)b[j];
        for (uint32_t k = 0; k < in; k++)
            sum += (double)w[j * in + k] * x[k];
        y[j] = tanh(sum);
    }
}

enum {
    IN = 3 * 3 + 2,
    FIRST = 5,
    SECOND = 4,
    TOWER = 4,
    SHARED = 3,
    OWN = 2,
    TASKS = 2,
    EXPERTS = SHARED + TASKS * OWN
};

/* Computes the scores of one example of PLE with two tasks, networks of 5 and 4, towers of 4; the
 * best `top_k` experts count. */
static void ple_by_hand(const float *dense, const double x[IN], uint32_t top_k, double score[TASKS])
{
    struct taker t = {dense};
    double first[EXPERTS][FIRST], second[EXPERTS][SECOND], tower[TOWER];
    const float *bias = take(&t, TASKS), *w = take(&t, EXPERTS * FIRST * IN),
                *b = take(&t, EXPERTS * FIRST);
    for (uint32_t e = 0; e < EXPERTS; e++)
        linear(w + e * FIRST * IN, b + e * FIRST, x, IN, first[e], FIRST);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        w = take(&t, SECOND * FIRST);
        linear(w, take(&t, SECOND), first[e], FIRST, second[e], SECOND);
    }
    const float *gates = take(&t, (size_t)TASKS * (SHARED + OWN) * IN);
    for (uint32_t task = 0; task < TASKS; task++) {
        uint32_t expert[SHARED + OWN] = {0, 1, 2, SHARED + task * OWN, SHARED + task * OWN + 1};
        double gate[SHARED + OWN] = {0}, sum = 0, mixture[SECOND] = {0}, logit = (double)bias[task];
        for (uint32_t e = 0; e < SHARED + OWN; e++)
            for (uint32_t k = 0; k < IN; k++)
                gate[e] += (double)gates[(task * (SHARED + OWN) + e) * IN + k] * x[k];
        for (uint32_t best = 0; best < top_k; best++) {
            uint32_t most = 0;
            for (uint32_t e = 1; e < SHARED + OWN; e++)
                most = gate[e] > gate[most] ? e : most;
            sum += exp(gate[most]);
            for (uint32_t j = 0; j < SECOND; j++)
                mixture[j] += exp(gate[most]) * second[expert[most]][j];
            gate[most] = -INFINITY;
        }
        for (uint32_t j = 0; j < SECOND; j++)
            mixture[j] /= sum;
        w = take(&t, TOWER * SECOND);
        linear(w, take(&t, TOWER), mixture, SECOND, tower, TOWER);
        const float *head = take(&t, TOWER);
        for (uint32_t j = 0; j < TOWER; j++)
            logit += (double)head[j] * tower[j];
        score[task] = 1 / (1 + exp(-logit));
    }
}

static void example_input(const struct dense_case *c, uint32_t i, double x[IN])
{
    for (uint32_t f = 0; f < 3; f++)
        for (uint32_t d = 0; d < 3; d++)
            x[f * 3 + d] = (double)c->rows[c->index[i * 3 + f] * 3 + d];
    for (uint32_t n = 0; n < 2; n++)
        x[9 + n] = (double)c->numeric[i * 2 + n];
}

START_TEST(ple_is_the_formula_by_hand)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, _i == 0 ? 0 : 2);
    dense_case_batch(&c, 7, 5, false);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < 7; i++) {
        double x[IN], score[TASKS];
        example_input(&c, i, x);
        ple_by_hand(c.dense, x, _i == 0 ? SHARED + OWN : 2, score);
        for (uint32_t t = 0; t < TASKS; t++)
            ck_assert_double_eq_tol((double)c.out.scores[i * TASKS + t], score[t], 1e-6);
    }
    dense_case_free(&c);
}
END_TEST

/* ---- levels ---------------------------------------------------------------------------------- */

/* Mixes the experts `chosen`, (choices), by the gate `w`, (choices, in), over x. */
static void mixed(const float *w, const double *x, uint32_t in, double expert[][FIRST],
                  const uint32_t *chosen, uint32_t choices, double y[FIRST])
{
    double sum = 0;
    memset(y, 0, FIRST * sizeof *y);
    for (uint32_t e = 0; e < choices; e++) {
        double gate = 0;
        for (uint32_t k = 0; k < in; k++)
            gate += (double)w[e * in + k] * x[k];
        sum += exp(gate);
        for (uint32_t j = 0; j < FIRST; j++)
            y[j] += exp(gate) * expert[chosen[e]][j];
    }
    for (uint32_t j = 0; j < FIRST; j++)
        y[j] /= sum;
}

/* Computes `count` experts of one layer over x. */
static void experts_by_hand(struct taker *t, const double *x, uint32_t in, uint32_t count,
                            double expert[][FIRST])
{
    const float *w = take(t, (size_t)count * FIRST * in), *b = take(t, (size_t)count * FIRST);
    for (uint32_t e = 0; e < count; e++)
        linear(w + e * FIRST * in, b + e * FIRST, x, in, expert[e], FIRST);
}

static const uint32_t chosen_by[TASKS][SHARED + OWN] = {{0, 1, 2, 3, 4}, {0, 1, 2, 5, 6}};
static const uint32_t chosen_by_all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6};

/* Two levels, experts of one layer. */
static void levels_by_hand(const float *dense, const double x[IN], double score[TASKS])
{
    struct taker t = {dense};
    double expert[EXPERTS][FIRST], below[TASKS + 1][FIRST], mixture[TASKS][FIRST], tower[TOWER];
    const float *bias = take(&t, TASKS), *gate;
    experts_by_hand(&t, x, IN, EXPERTS, expert);
    gate = take(&t, (size_t)TASKS * (SHARED + OWN) * IN);
    for (uint32_t task = 0; task < TASKS; task++)
        mixed(gate + task * (SHARED + OWN) * IN, x, IN, expert, chosen_by[task], SHARED + OWN,
              below[task]);
    mixed(take(&t, EXPERTS * IN), x, IN, expert, chosen_by_all, EXPERTS, below[TASKS]);

    experts_by_hand(&t, below[TASKS], FIRST, SHARED, expert);
    for (uint32_t task = 0; task < TASKS; task++)
        experts_by_hand(&t, below[task], FIRST, OWN, expert + SHARED + task * OWN);
    for (uint32_t task = 0; task < TASKS; task++)
        mixed(take(&t, (SHARED + OWN) * FIRST), below[task], FIRST, expert, chosen_by[task],
              SHARED + OWN, mixture[task]);
    for (uint32_t task = 0; task < TASKS; task++) {
        const float *w = take(&t, TOWER * FIRST);
        double logit = (double)bias[task];
        linear(w, take(&t, TOWER), mixture[task], FIRST, tower, TOWER);
        const float *head = take(&t, TOWER);
        for (uint32_t j = 0; j < TOWER; j++)
            logit += (double)head[j] * tower[j];
        score[task] = 1 / (1 + exp(-logit));
    }
}

START_TEST(ple_of_two_levels_is_the_formula_by_hand)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, 0);
    c.job.model.hidden.count = 1;
    c.job.model.levels = 2;
    dense_case_batch(&c, 7, 5, false);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < 7; i++) {
        double x[IN], score[TASKS];
        example_input(&c, i, x);
        levels_by_hand(c.dense, x, score);
        for (uint32_t t = 0; t < TASKS; t++)
            ck_assert_double_eq_tol((double)c.out.scores[i * TASKS + t], score[t], 1e-6);
    }
    dense_case_free(&c);
}
END_TEST

/* ---- choice of experts ----------------------------------------------------------------------- */

/* The gate's weights of expert e in the first level, (IN), of a case with own experts. */
static float *gate_weights(struct dense_case *c, uint32_t task, uint32_t e)
{
    for (uint32_t t = 0; t < c->plan.dense.tensor_count; t++)
        if (strcmp(c->plan.dense.tensor[t].name, "gates.0.3+2.gate") == 0)
            return c->dense + c->plan.dense.tensor[t].first + (task * (SHARED + OWN) + e) * IN;
    ck_abort_msg("no gate");
    return NULL;
}

/* Sets the gates so that each task chooses its own two experts alone: their scores are a constant
 * input's, and above all others. */
static void gates_choose_own(struct dense_case *c)
{
    for (uint32_t i = 0; i < c->in.examples; i++)
        c->numeric[i * 2] = 1.0f;
    for (uint32_t task = 0; task < TASKS; task++)
        for (uint32_t e = 0; e < SHARED + OWN; e++)
            gate_weights(c, task, e)[9] = e < SHARED ? -50.0f : 50.0f;
}

START_TEST(expert_that_no_example_chose_gets_no_gradient)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, 2);
    dense_case_batch(&c, 30, 9, false);
    gates_choose_own(&c);
    dense_case_train(&c, 1);
    ck_assert_uint_eq(model_loads(c.model), EXPERTS);
    for (uint32_t e = 0; e < EXPERTS; e++)
        ck_assert_uint_eq(c.out.load[e], e < SHARED ? 0 : 30);
    size_t first = c.plan.dense.tensor[1].first; /* behind the biases of the logits */
    for (uint32_t e = 0; e < EXPERTS; e++) {
        double sum = 0;
        for (uint32_t i = 0; i < FIRST * IN; i++)
            sum += fabs((double)c.out.dense_gradients[first + e * FIRST * IN + i]);
        ck_assert_int_eq(sum > 0, e >= SHARED);
    }
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(experts_compute_a_batch_of_one)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, 1 + _i);
    c.job.model.levels = 2;
    c.job.model.balance = _i ? 0.1 : 0.0;
    dense_case_batch(&c, 1, 3, true);
    dense_double_check(&c, 1e-5);
    uint64_t sum = 0;
    for (uint32_t e = 0; e < model_loads(c.model); e++)
        sum += c.out.load[e];
    /* each task's gate and, on the first level, that of the shared experts choose top_k */
    ck_assert_uint_ge(sum, 2 * (1 + _i));
    ck_assert_uint_le(sum, 5 * (1 + _i));
    dense_case_free(&c);
}
END_TEST

START_TEST(loads_are_those_of_the_gates)
{
    struct dense_case c;
    mix_case(&c, MODEL_MMOE, 1, 2);
    c.range = 7;
    dense_case_batch(&c, 40, 9, false);
    dense_case_train(&c, 1);
    uint64_t sum = 0;
    ck_assert_uint_eq(model_loads(c.model), SHARED);
    for (uint32_t e = 0; e < SHARED; e++)
        sum += c.out.load[e];
    ck_assert_uint_eq(sum, 80);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t e = 0; e < SHARED; e++)
        sum -= c.out.load[e];
    ck_assert_uint_eq(sum, 0);
    dense_case_free(&c);
    mix_case(&c, MODEL_MMOE, 1, 0);
    dense_case_batch(&c, 4, 9, false);
    ck_assert_uint_eq(model_loads(c.model), 0); /* every expert has every example */
    dense_case_free(&c);
}
END_TEST

START_TEST(gate_that_is_not_a_number_is_shown)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, 2);
    c.job.model.balance = _i ? 0.1 : 0.0;
    dense_case_batch(&c, 12, 9, false);
    gate_weights(&c, 1, 0)[0] = NAN;
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, 1, 0, 1, &c.out), SHOAL_E_NOT_FINITE);
    dense_case_free(&c);
}
END_TEST

/* A gate prefers two experts of three: with the loss the third gets more examples. */
START_TEST(balance_moves_gates_towards_other_experts)
{
    uint64_t third[2];
    for (uint32_t on = 0; on < 2; on++) {
        struct dense_case c;
        double loss[60];
        mix_case(&c, MODEL_MMOE, 1, 2);
        c.job.model.balance = on ? 1.0 : 0.0;
        dense_case_batch(&c, 60, 20, false);
        for (uint32_t i = 0; i < 60; i++)
            c.numeric[i * 2] = 1.0f;
        for (uint32_t t = 0; t < c.plan.dense.tensor_count; t++)
            if (strncmp(c.plan.dense.tensor[t].name, "gates", 5) == 0)
                c.dense[c.plan.dense.tensor[t].first + 2 * IN + 9] -= 1.0f;
        dense_case_curve(&c, 60, 0.1f, loss);
        dense_case_train(&c, 1);
        third[on] = c.out.load[2];
        dense_case_free(&c);
    }
    ck_assert_uint_gt(third[1], third[0]);
}
END_TEST

/* ---- several tasks --------------------------------------------------------------------------- */

/* Returns the sum of |gradient| of the dense tensors [from, to). */
static double gradient_of(const struct dense_case *c, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t t = from; t < to; t++)
        for (size_t i = 0; i < c->plan.dense.tensor[t].count; i++)
            sum += fabs((double)c->out.dense_gradients[c->plan.dense.tensor[t].first + i]);
    return sum;
}

START_TEST(task_of_weight_0_trains_nothing_of_its_own)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, TASKS, 0);
    c.job.model.task_weight[1] = 0.0;
    dense_case_batch(&c, 30, 9, false);
    dense_case_train(&c, 1);
    uint32_t second = 3, gates = second + 2 * EXPERTS,
             tower = gates + 1; /* tensors: bias, first layers; then two an expert */
    ck_assert_uint_eq(tower + 3 * TASKS, c.plan.dense.tensor_count);
    ck_assert_double_eq(gradient_of(&c, tower + 3, tower + 6), 0.0);
    ck_assert_double_gt(gradient_of(&c, tower, tower + 3), 0.0);
    /* its experts */
    ck_assert_double_eq(gradient_of(&c, second + 2 * (SHARED + OWN), second + 2 * EXPERTS), 0.0);
    ck_assert_double_gt(gradient_of(&c, second + 2 * SHARED, second + 2 * (SHARED + OWN)), 0.0);
    const float *gate = c.out.dense_gradients + c.plan.dense.tensor[gates].first;
    for (uint32_t i = 0; i < (SHARED + OWN) * IN; i++)
        ck_assert_float_eq(gate[(SHARED + OWN) * IN + i], 0.0f);
    ck_assert_float_eq(c.out.dense_gradients[1], 0.0f); /* its bias */
    ck_assert_float_ne(c.out.dense_gradients[0], 0.0f);
    ck_assert_double_gt(c.out.loss_task[1], 0.0); /* but its loss is reported */
    ck_assert_double_eq(c.out.loss_sum, c.out.loss_task[0]);
    dense_case_free(&c);
}
END_TEST

/* True when two models with the same parameters give the same bits. */
static bool same_step(struct dense_case *a, struct dense_case *b)
{
    size_t rows = (size_t)a->in.row_count * 3, dense = model_dense_floats(a->model);
    ck_assert_uint_eq(dense, model_dense_floats(b->model));
    dense_case_train(a, 2);
    dense_case_train(b, 2);
    return memcmp(a->out.row_gradients, b->out.row_gradients, rows * sizeof(float)) == 0 &&
           memcmp(a->out.dense_gradients, b->out.dense_gradients, dense * sizeof(float)) == 0;
}

START_TEST(ple_without_own_experts_is_mmoe)
{
    struct dense_case mmoe, ple;
    mix_case(&mmoe, MODEL_MMOE, 2, 2);
    mix_case(&ple, MODEL_PLE, 2, 2);
    ple.job.model.own_experts = 0;
    dense_case_batch(&mmoe, 30, 9, true);
    dense_case_batch(&ple, 30, 9, true);
    ck_assert(same_step(&mmoe, &ple));
    dense_case_free(&mmoe);
    dense_case_free(&ple);
}
END_TEST

START_TEST(top_k_of_all_is_no_top_k)
{
    struct dense_case all, none, fewer;
    mix_case(&none, MODEL_PLE, 2, 0);
    mix_case(&all, MODEL_PLE, 2, SHARED + OWN);
    mix_case(&fewer, MODEL_PLE, 2, SHARED + OWN - 1);
    dense_case_batch(&none, 30, 9, false);
    dense_case_batch(&all, 30, 9, false);
    dense_case_batch(&fewer, 30, 9, false);
    ck_assert(same_step(&none, &all));
    ck_assert(!same_step(&none, &fewer));
    dense_case_free(&none);
    dense_case_free(&all);
    dense_case_free(&fewer);
}
END_TEST

START_TEST(tower_may_be_left_out)
{
    struct dense_case c;
    mix_case(&c, MODEL_MMOE, 2, 0);
    c.job.model.tower.count = 0;
    dense_case_batch(&c, 12, 9, false);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

/* ---- bits, and other backends ---------------------------------------------------------------- */

START_TEST(same_step_gives_the_same_bits)
{
    struct dense_case one, two;
    mix_case(&one, MODEL_PLE, 3, 2);
    mix_case(&two, MODEL_PLE, 3, 2);
    one.job.model.norm = two.job.model.norm = NORM_BATCH;
    dense_case_batch(&one, 700, 9, true);
    dense_case_batch(&two, 700, 9, true);
    ck_assert(same_step(&one, &two));
    dense_case_free(&one);
    dense_case_free(&two);
}
END_TEST

/* If two gates are nearly equal, the backends may choose differently: with top_k the curves are
 * short and the batch is a fixed one of which this is not so. */
START_TEST(curves_of_the_backends_go_together)
{
    static const struct {
        enum model_kind kind;
        enum norm_kind norm;
        uint32_t top_k, steps;
        double balance;
    } of[] = {{MODEL_MMOE, NORM_NONE, 0, 20, 0}, {MODEL_MMOE, NORM_BATCH, 0, 20, 0},
              {MODEL_PLE, NORM_NONE, 0, 20, 0},  {MODEL_PLE, NORM_BATCH, 0, 20, 0},
              {MODEL_MMOE, NORM_LAYER, 2, 4, 0}, {MODEL_PLE, NORM_NONE, 2, 4, 0.1}};
    struct dense_case cpu, other;
    struct backend *b = dense_backend_named("cudahost");
    if (b == NULL)
        return;
    mix_case(&cpu, of[_i].kind, 2, of[_i].top_k);
    mix_case(&other, of[_i].kind, 2, of[_i].top_k);
    cpu.job.model.balance = other.job.model.balance = of[_i].balance;
    cpu.job.model.norm = other.job.model.norm = of[_i].norm;
    cpu.backend = dense_backend_named("cpu");
    other.backend = b;
    dense_case_batch(&cpu, 60, 9, true);
    dense_case_batch(&other, 60, 9, true);
    ck_assert_double_lt(dense_case_apart(&cpu, &other, of[_i].steps, 0.3f), 1e-4);
    dense_case_free(&cpu);
    dense_case_free(&other);
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

static void built(const struct dense_case *c)
{
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    ck_assert_ptr_nonnull(p);
    ck_assert_msg(models_plan(&c->job, &c->shape, p, &e) == 0, "%s", e.text);
    free(p);
}

START_TEST(gate_of_too_few_experts_is_refused)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, 2, SHARED + OWN + 1);
    refused(&c, "model.top_k is 6, but a gate chooses among 5 experts");
    mix_case(&c, MODEL_MMOE, 2, SHARED + 1); /* mmoe has no own_experts */
    refused(&c, "model.top_k is 4, but a gate chooses among 3 experts");
    c.job.model.top_k = 0;
    c.job.model.experts = 0;
    refused(&c, "model.experts is 0");
    c.job.model.experts = 65;
    refused(&c, "model.experts is 65");
    mix_case(&c, MODEL_PLE, 2, SHARED + OWN);
    built(&c);
    c.job.model.balance = 0.01;
    refused(&c, "model.balance is 0.01, but every example has all 5 experts of its gate");
    c.job.model.top_k = 0;
    refused(&c, "model.balance is 0.01");
    c.job.model.top_k = 1;
    refused(&c, "model.balance is 0.01, but with model.top_k 1");
    c.job.model.top_k = 2;
    built(&c);
    mix_case(&c, MODEL_MMOE, 2, 0);
    c.job.model.experts = 3;
    c.job.model.tower.at[0] = 0;
    refused(&c, "model.tower");
    mix_case(&c, MODEL_PLE, 8, 0);
    c.job.model.experts = c.job.model.own_experts = 15; /* 8 x 15 + 15 */
    built(&c);
    c.job.model.levels = 2;
    refused(&c, "model.levels is 2, and a gate of the shared experts chooses among all 135, but "
                "can among 128");
    mix_case(&c, MODEL_DEEPFM, 2, 0);
    refused(&c, "has one task");
}
END_TEST

START_TEST(model_of_too_many_layers_is_refused)
{
    struct dense_case c;
    mix_case(&c, MODEL_PLE, 8, 0);
    c.job.model.experts = c.job.model.own_experts = 64;
    refused(&c, "ple of this size is more than 512 layers");
    c.job.model.hidden.count = 1; /* one layer of all experts fits */
    built(&c);
}
END_TEST

START_TEST(jobs_that_ship_are_built)
{
    static const struct {
        const char *path;
        enum model_kind kind;
    } ship[] = {{"deploy/jobs/synth-mmoe.yaml", MODEL_MMOE},
                {"deploy/jobs/synth-ple.yaml", MODEL_PLE}};
    for (size_t i = 0; i < sizeof ship / sizeof *ship; i++) {
        struct dense_case c;
        struct err e = {0};
        dense_case_job(&c, MODEL_LR);
        ck_assert_msg(job_load(ship[i].path, NULL, &c.job, &e) == 0, "%s: %s", ship[i].path,
                      e.text);
        ck_assert_int_eq(c.job.model.kind, ship[i].kind);
        c.shape = (struct model_shape){.fields = 5, .numerics = 3, .tasks = c.job.data.label_count};
        ck_assert_uint_eq(c.shape.tasks, 2);
        built(&c);
        job_free(&c.job);
    }
}
END_TEST

static void many_tensors(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    for (uint32_t i = 0; i < PLAN_TENSORS_MAX; i++)
        plan_tensor(p, 1);
    plan_head(p, input, 0);
}

static void many_gradients(struct plan *p)
{
    struct view v = plan_input(p, true, 0);
    /* no layer reads them: each gradient is zeroed, in a place of its own */
    for (int i = 0; i < 250; i++)
        plan_linear(p, v, 3, ACT_NONE, 0, NORM_NONE, VIEW_NONE);
    for (uint32_t i = 0; i < PLAN_TENSORS_MAX - 268; i++)
        plan_state(p, 1);
}

static void many_parameters(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    for (int i = 0; i < 600; i++)
        plan_zeros(p, "bias", 1);
    plan_head(p, input, 0);
}

static void many_statistics(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    for (int i = 0; i < 600; i++)
        plan_statistic(p, "mean", 1, 1.0f);
    plan_head(p, input, 0);
}

START_TEST(plan_of_too_much_is_refused)
{
    void (*const build[])(struct plan *) = {many_tensors, many_gradients, many_parameters,
                                            many_statistics};
    struct plan_kind kind = {.name = "big", .build = build[_i], .vectors = true};
    struct dense_case c;
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    dense_case_job(&c, MODEL_FM);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(plan_build_kind(&c.job, &c.shape, &kind, p, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "big of this size") != NULL, "%s", e.text);
    free(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_mix");
    TCase *t = tcase_create("model_mix");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, gradient_of_numbers_and_missing_labels_is_that_of_the_loss, 0, 3);
    tcase_add_loop_test(t, missing_label_is_a_weight_of_0, 0, 2);
    tcase_add_test(t, label_that_no_row_has_gives_no_gradient);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(t, gradient_holds_over_several_ranges);
    tcase_add_test(t, gradient_check_notices_a_gate_that_lets_another_through);
    tcase_add_loop_test(t, ple_is_the_formula_by_hand, 0, 2);
    tcase_add_test(t, ple_of_two_levels_is_the_formula_by_hand);
    tcase_add_test(t, expert_that_no_example_chose_gets_no_gradient);
    tcase_add_loop_test(t, experts_compute_a_batch_of_one, 0, 2);
    tcase_add_test(t, loads_are_those_of_the_gates);
    tcase_add_loop_test(t, gate_that_is_not_a_number_is_shown, 0, 2);
    tcase_add_test(t, balance_moves_gates_towards_other_experts);
    tcase_add_test(t, task_of_weight_0_trains_nothing_of_its_own);
    tcase_add_test(t, ple_without_own_experts_is_mmoe);
    tcase_add_test(t, top_k_of_all_is_no_top_k);
    tcase_add_test(t, tower_may_be_left_out);
    tcase_add_test(t, same_step_gives_the_same_bits);
    tcase_add_loop_test(t, curves_of_the_backends_go_together, 0, 6);
    tcase_add_test(t, gate_of_too_few_experts_is_refused);
    tcase_add_test(t, model_of_too_many_layers_is_refused);
    tcase_add_test(t, jobs_that_ship_are_built);
    tcase_add_loop_test(t, plan_of_too_much_is_refused, 0, 4);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
