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

const struct double_layer double_layers_mix[] = {{&layer_mix, mix_forward}, {NULL, NULL}};
