/* ops_mix.cu: gates of experts, and the mixtures of their outputs (dense/ops_mix.h). */
#include "dense/cuda/kernel.h"

/* The number of elements that share a product of two rows, each taking every MIX_LANES-th column:
 * together they read whole sectors. */
#define MIX_LANES 8u

/* ---- forward --------------------------------------------------------------------------------- */

struct mix_share_args {
    struct mix_args m;
    uint32_t choices;
};

/* True when value e is among the top_k: fewer than top_k values come before it. A larger value
 * comes before it, and so does an equal one with a lower index. A NaN has none before it. */
BODY bool mix_passes(const float *gate, uint32_t choices, uint32_t top_k, uint32_t e)
{
    uint32_t before = 0;
    for (uint32_t k = 0; k < choices; k++)
        before += gate[k] > gate[e] || (gate[k] == gate[e] && k < e);
    return before < top_k;
}

/* Softmax of gate i, of one row and task. */
BODY void mix_share_at(const struct mix_share_args *a, size_t i)
{
    struct place at = place_of(i, a->m.tasks);
    const float *gate = a->m.gate + (size_t)at.row * a->m.ldgate + at.column * a->choices;
    float *share = a->m.share + i * a->choices;
    float most = -INFINITY, sum = 0.0f;
    for (uint32_t e = 0; e < a->choices; e++) {
        share[e] =
            a->m.top_k == 0 || mix_passes(gate, a->choices, a->m.top_k, e) ? gate[e] : -INFINITY;
        most = share[e] > most ? share[e] : most;
    }
    for (uint32_t e = 0; e < a->choices; e++) {
        share[e] = share[e] == -INFINITY ? 0.0f : expf(share[e] - most);
        sum += share[e];
    }
    for (uint32_t e = 0; e < a->choices; e++)
        share[e] /= sum;
}
KERNEL(mix_share)

struct mix_output_args {
    struct mix_args m;
    uint32_t choices;
};

BODY void mix_output_at(const struct mix_output_args *a, size_t i)
{
    struct place at = place_of(i, a->m.tasks * a->m.width);
    uint32_t task = at.column / a->m.width, column = at.column - task * a->m.width;
    const float *share = a->m.share + ((size_t)at.row * a->m.tasks + task) * a->choices;
    const float *x = a->m.x + (size_t)at.row * a->m.ldx + column;
    float sum = 0.0f;
    for (uint32_t e = 0; e < a->choices; e++)
        if (share[e] != 0.0f)
            sum += x[(size_t)mix_expert(&a->m, task, e) * a->m.width] * share[e];
    a->m.y[(size_t)at.row * a->m.ldy + at.column] = sum;
}
KERNEL(mix_output)

static void cuda_mix_forward(struct stream *s, const struct mix_args *m)
{
    struct mix_share_args share;
    struct mix_output_args output;
    share.m = output.m = *m;
    share.choices = output.choices = m->shared + m->own;
    mix_share_run(s, (size_t)m->count * m->tasks, &share);
    mix_output_run(s, (size_t)m->count * m->tasks * m->width, &output);
}

/* ---- back ------------------------------------------------------------------------------------ */

struct mix_slope_args {
    struct mix_args m;
    uint32_t choices;
    float *part; /* (count, tasks * choices, MIX_LANES) */
};

/* dy . output over the columns of one lane. */
BODY void mix_slope_at(const struct mix_slope_args *a, size_t i)
{
    uint32_t lane = (uint32_t)(i % MIX_LANES);
    struct place at = place_of(i / MIX_LANES, a->m.tasks * a->choices);
    uint32_t task = at.column / a->choices,
             block = mix_expert(&a->m, task, at.column - task * a->choices);
    const float *x = a->m.x + (size_t)at.row * a->m.ldx + (size_t)block * a->m.width;
    const float *dy = a->m.dy + (size_t)at.row * a->m.lddy + (size_t)task * a->m.width;
    bool passed = a->m.share[i / MIX_LANES] != 0.0f;
    float sum = 0.0f;
    for (uint32_t j = lane; j < a->m.width && passed; j += MIX_LANES)
        sum += x[j] * dy[j];
    a->part[i] = sum;
}
KERNEL(mix_slope)

struct mix_slope_sum_args {
    const float *part;
    float *slope; /* (count, tasks * choices) */
};

BODY void mix_slope_sum_at(const struct mix_slope_sum_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t lane = 0; lane < MIX_LANES; lane++)
        sum += a->part[i * MIX_LANES + lane];
    a->slope[i] = sum;
}
KERNEL(mix_slope_sum)

struct mix_gate_args {
    struct mix_args m;
    uint32_t choices;
    const float *slope;
};

BODY void mix_gate_at(const struct mix_gate_args *a, size_t i)
{
    struct place at = place_of(i, a->m.tasks * a->choices);
    size_t first = i - at.column % a->choices; /* the first element of this gate */
    float *to = a->m.dgate + (size_t)at.row * a->m.lddgate + at.column;
    float mean = 0.0f;
    for (uint32_t e = 0; e < a->choices; e++)
        mean += a->m.share[first + e] * a->slope[first + e];
    *to = sum_begin(to, a->m.add_gate) + a->m.share[i] * (a->slope[i] - mean);
}
KERNEL(mix_gate)

struct mix_expert_args {
    struct mix_args m;
    uint32_t choices, experts;
};

BODY void mix_expert_at(const struct mix_expert_args *a, size_t i)
{
    struct place at = place_of(i, a->experts * a->m.width);
    uint32_t expert = at.column / a->m.width, column = at.column - expert * a->m.width;
    bool of_all = expert < a->m.shared;
    /* [task, end): the tasks whose gates may choose this expert */
    uint32_t task = 0, end = a->m.tasks;
    if (!of_all) {
        task = (expert - a->m.shared) / a->m.own;
        end = task + 1;
    }
    const float *share = a->m.share + (size_t)at.row * a->m.tasks * a->choices;
    const float *dy = a->m.dy + (size_t)at.row * a->m.lddy + column;
    float *to = a->m.dx + (size_t)at.row * a->m.lddx + at.column;
    float sum = sum_begin(to, a->m.add);

    for (; task < end; task++) {
        float of_task = share[task * a->choices + (of_all ? expert : expert - task * a->m.own)];
        if (of_task != 0.0f)
            sum += of_task * dy[(size_t)task * a->m.width];
    }
    *to = sum;
}
KERNEL(mix_expert)

static void cuda_mix_backward(struct stream *s, const struct mix_args *m)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t choices = m->shared + m->own;
    size_t gates = (size_t)m->count * m->tasks * choices;
    struct mix_slope_args slope;
    struct mix_slope_sum_args sum;
    struct mix_gate_args gate;
    struct mix_expert_args expert;
    slope.m = gate.m = expert.m = *m;
    slope.choices = gate.choices = expert.choices = choices;
    expert.experts = m->shared + m->tasks * m->own;
    slope.part = (float *)cuda_scratch(s, gates * MIX_LANES * sizeof(float));
    sum.part = slope.part;
    sum.slope = (float *)cuda_scratch(s, gates * sizeof(float));
    gate.slope = sum.slope;
    if (!slope.part || !sum.slope)
        return;
    mix_slope_run(s, gates * MIX_LANES, &slope);
    mix_slope_sum_run(s, gates, &sum);
    mix_gate_run(s, gates, &gate);
    mix_expert_run(s, (size_t)m->count * expert.experts * m->width, &expert);
    cuda_scratch_return(s, mark);
}

void cuda_mix_fill(struct mix_ops *o)
{
    o->forward = cuda_mix_forward;
    o->backward = cuda_mix_backward;
}
