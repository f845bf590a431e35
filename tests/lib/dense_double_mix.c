/* dense_double_mix.c: layers of dense/ops_mix.h in double. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_double.h"

#include <math.h>
#include <string.h>

/* Takes the largest value `top_k` times; of equal ones the first that is left. */
static void gate_pass(const double *gate, uint32_t choices, uint32_t top_k, bool *passed)
{
    memset(passed, top_k == 0, choices * sizeof *passed);
    for (uint32_t k = 0; k < top_k; k++) {
        uint32_t most = choices;
        for (uint32_t e = 0; e < choices; e++)
            if (!passed[e] && (most == choices || gate[e] > gate[most]))
                most = e;
        passed[most] = true;
    }
}

static void mixture(const double *gate, const bool *passed, uint32_t choices,
                    const double *const *output, uint32_t width, double *y)
{
    double sum = 0;
    for (uint32_t e = 0; e < choices; e++)
        sum += passed[e] ? exp(gate[e]) : 0;
    for (uint32_t j = 0; j < width; j++) {
        y[j] = 0;
        for (uint32_t e = 0; e < choices; e++)
            y[j] += passed[e] ? exp(gate[e]) / sum * output[e][j] : 0;
    }
}

static void mix_forward(const struct layer *l, struct double_pass *p)
{
    uint32_t tasks = l->number_of[MIX_TASKS], shared = l->number_of[MIX_SHARED],
             own = l->number_of[MIX_OWN];
    uint32_t choices = shared + own, width = l->y.width / tasks;
    const double *output[MIX_GATE_MAX];
    bool passed[MIX_GATE_MAX];
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t t = 0; t < tasks; t++) {
            const double *gate = double_at(p, l->z, i) + t * choices, *x = double_at(p, l->x, i);
            for (uint32_t e = 0; e < shared; e++)
                output[e] = x + e * width;
            for (uint32_t e = 0; e < own; e++)
                output[shared + e] = x + (shared + t * own + e) * width;
            gate_pass(gate, choices, l->number_of[MIX_TOP_K], passed);
            mixture(gate, passed, choices, output, width, double_at(p, l->y, i) + t * width);
        }
}

/* The choice of experts saves work and changes no value: every expert is computed for every example
 * here, and the mixtures mask the others. */
static void choose_forward(const struct layer *l, struct double_pass *p)
{
    (void)l;
    (void)p;
}

/* Returns the squared coefficient of variation of the importances of one gate's experts. */
static double variation(const struct double_pass *p, struct view gate, uint32_t top_k)
{
    double importance[MIX_GATE_MAX] = {0}, mean = 0, variance = 0;
    bool passed[MIX_GATE_MAX];
    for (uint32_t i = 0; i < p->c->in.examples; i++) {
        const double *of = double_at(p, gate, i);
        double sum = 0;
        gate_pass(of, gate.width, top_k, passed);
        for (uint32_t e = 0; e < gate.width; e++)
            sum += passed[e] ? exp(of[e]) : 0;
        for (uint32_t e = 0; e < gate.width; e++)
            importance[e] += passed[e] ? exp(of[e]) / sum : 0;
    }
    for (uint32_t e = 0; e < gate.width; e++)
        mean += importance[e] / gate.width;
    for (uint32_t e = 0; e < gate.width; e++)
        variance += (importance[e] - mean) * (importance[e] - mean) / gate.width;
    return variance / (mean * mean);
}

static void balanced_forward(const struct layer *l, struct double_pass *p)
{
    uint32_t tasks = l->number_of[MIX_TASKS], choices = l->x.width / tasks;
    for (uint32_t t = 0; t < tasks; t++)
        p->balance +=
            variation(p, plan_columns(l->x, t * choices, choices), l->number_of[MIX_TOP_K]);
    if (l->z.tensor != TENSOR_NONE)
        p->balance += variation(p, l->z, l->number_of[MIX_TOP_K]);
}

const struct double_layer double_layers_mix[] = {{&layer_mix, mix_forward},
                                                 {&layer_choose, choose_forward},
                                                 {&layer_choose_balanced, balanced_forward},
                                                 {NULL, NULL}};
