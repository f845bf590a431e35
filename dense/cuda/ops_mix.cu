/* ops_mix.cu: gates of experts, the examples of each expert, and the mixtures of their outputs
 * (dense/ops_mix.h). */
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
    float sum = 0.0f;
    for (uint32_t e = 0; e < a->choices; e++) {
        uint32_t block = mix_expert(&a->m, task, e), row = mix_row(&a->m, at.row, block);
        if (share[e] != 0.0f && row != MIX_NOWHERE)
            sum += a->m.x[(size_t)row * a->m.ldx + (size_t)block * a->m.width + column] * share[e];
    }
    a->m.y[(size_t)at.row * a->m.ldy + at.column] = sum;
}
KERNEL(mix_output)

static void cuda_mix_share(struct stream *s, const struct mix_args *m)
{
    struct mix_share_args share;
    share.m = *m;
    share.choices = m->shared + m->own;
    mix_share_run(s, (size_t)m->count * m->tasks, &share);
}

static void cuda_mix_forward(struct stream *s, const struct mix_args *m)
{
    struct mix_output_args output;
    output.m = *m;
    output.choices = m->shared + m->own;
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
             block = mix_expert(&a->m, task, at.column - task * a->choices),
             row = mix_row(&a->m, at.row, block);
    const float *dy = a->m.dy + (size_t)at.row * a->m.lddy + (size_t)task * a->m.width;
    float sum = 0.0f;
    if (a->m.share[i / MIX_LANES] != 0.0f && row != MIX_NOWHERE) {
        const float *x = a->m.x + (size_t)row * a->m.ldx + (size_t)block * a->m.width;
        for (uint32_t j = lane; j < a->m.width; j += MIX_LANES)
            sum += x[j] * dy[j];
    }
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
    uint32_t expert = at.column / a->m.width, column = at.column - expert * a->m.width,
             row = mix_row(&a->m, at.row, expert);
    bool of_all = expert < a->m.shared;
    if (row == MIX_NOWHERE)
        return;
    /* [task, end): the tasks whose gates may choose this expert */
    uint32_t task = 0, end = a->m.tasks;
    if (!of_all) {
        task = (expert - a->m.shared) / a->m.own;
        end = task + 1;
    }
    const float *share = a->m.share + (size_t)at.row * a->m.tasks * a->choices;
    const float *dy = a->m.dy + (size_t)at.row * a->m.lddy + column;
    float *to = a->m.dx + (size_t)row * a->m.lddx + at.column;
    float sum = sum_begin(to, a->m.add);

    for (; task < end; task++) {
        float of_task = share[task * a->choices + (of_all ? expert : expert - task * a->m.own)];
        if (of_task != 0.0f)
            sum += of_task * dy[(size_t)task * a->m.width];
    }
    *to = sum;
}
KERNEL(mix_expert)

#define mix_behind_args mix_expert_args

/* Zeroes the rows behind an expert's last one: its layers run over the whole range, whose size a
 * recorded section fixes, and these rows must add nothing. */
BODY void mix_behind_at(const struct mix_behind_args *a, size_t i)
{
    struct place at = place_of(i, a->experts * a->m.width);
    if (at.row >= a->m.rows.load[at.column / a->m.width])
        a->m.dx[(size_t)at.row * a->m.lddx + at.column] = 0.0f;
}
KERNEL(mix_behind)

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
    if (m->rows.load && !m->add)
        mix_behind_run(s, (size_t)m->count * expert.experts * m->width, &expert);
    cuda_scratch_return(s, mark);
}

/* ---- packed rows ----------------------------------------------------------------------------- */

/* The examples of each expert are numbered in stages: each chunk is counted, the chunks of an
 * expert are given their first rows in order, and each chunk places its examples. */
#define MIX_CHUNK 64u

struct mix_chunk_args {
    struct mix_choose_args c;
    uint32_t chunks;
    uint32_t *at; /* (chunks, experts): examples of the chunk, then its first row */
};

BODY void mix_count_at(const struct mix_chunk_args *a, size_t i)
{
    struct place at = place_of(i, a->c.rows.experts);
    uint32_t end = part_end(at.row, MIX_CHUNK, a->c.rows.count), count = 0;
    for (uint32_t j = at.row * MIX_CHUNK; j < end; j++)
        count += mix_chosen(&a->c, j, at.column);
    a->at[i] = count;
}
#define mix_count_args mix_chunk_args
KERNEL(mix_count)

BODY void mix_begin_at(const struct mix_chunk_args *a, size_t expert)
{
    uint32_t load = 0;
    for (uint32_t chunk = 0; chunk < a->chunks; chunk++) {
        uint32_t *at = a->at + (size_t)chunk * a->c.rows.experts + expert;
        uint32_t count = *at;
        *at = load;
        load += count;
    }
    a->c.rows.load[expert] = load;
    a->c.load[expert] += load;
}
#define mix_begin_args mix_chunk_args
KERNEL(mix_begin)

BODY void mix_place_at(const struct mix_chunk_args *a, size_t i)
{
    const struct mix_rows *r = &a->c.rows;
    struct place at = place_of(i, r->experts);
    uint32_t end = part_end(at.row, MIX_CHUNK, r->count), next = a->at[i];
    for (uint32_t j = at.row * MIX_CHUNK; j < end; j++) {
        uint32_t *place = r->place + (size_t)j * r->experts + at.column;
        *place = MIX_NOWHERE;
        if (mix_chosen(&a->c, j, at.column)) {
            *place = next++;
            r->row[(size_t)at.column * r->count + *place] = j;
        }
    }
}
#define mix_place_args mix_chunk_args
KERNEL(mix_place)

static void cuda_mix_choose(struct stream *s, const struct mix_choose_args *c)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct mix_chunk_args a;
    size_t parts;
    a.c = *c;
    a.chunks = (c->rows.count + MIX_CHUNK - 1) / MIX_CHUNK;
    parts = (size_t)a.chunks * c->rows.experts;
    a.at = (uint32_t *)cuda_scratch(s, parts * sizeof(uint32_t));
    if (!a.at)
        return;
    mix_count_run(s, parts, &a);
    mix_begin_run(s, c->rows.experts, &a);
    mix_place_run(s, parts, &a);
    cuda_scratch_return(s, mark);
}

BODY void mix_gather_at(const struct mix_gather_args *a, size_t i)
{
    struct place at = place_of(i, a->width);
    float x = 0.0f;
    if (at.row < a->rows.load[a->expert]) {
        uint32_t row = a->rows.row[(size_t)a->expert * a->rows.count + at.row];
        x = a->x[(size_t)row * a->ldx + at.column];
    }
    a->y[(size_t)at.row * a->ldy + at.column] = x;
}
KERNEL(mix_gather)

static void cuda_mix_gather(struct stream *s, const struct mix_gather_args *a)
{
    mix_gather_run(s, (size_t)a->count * a->width, a);
}

BODY void mix_scatter_at(const struct mix_gather_args *a, size_t i)
{
    struct place at = place_of(i, a->width);
    uint32_t row = a->rows.place[(size_t)at.row * a->rows.experts + a->expert];
    float *to = a->dx + (size_t)at.row * a->lddx + at.column;
    float sum = sum_begin(to, a->add);
    if (row != MIX_NOWHERE)
        sum += a->dy[(size_t)row * a->lddy + at.column];
    *to = sum;
}
#define mix_scatter_args mix_gather_args
KERNEL(mix_scatter)

static void cuda_mix_scatter(struct stream *s, const struct mix_gather_args *a)
{
    mix_scatter_run(s, (size_t)a->rows.count * a->width, a);
}

/* ---- balance --------------------------------------------------------------------------------- */

struct mix_importance_args {
    struct mix_balance_args b;
    uint32_t width;
    double *partial; /* (chunks, width) */
};

BODY void mix_importance_at(const struct mix_importance_args *a, size_t i)
{
    struct place at = place_of(i, a->width);
    uint32_t end = part_end(at.row, SUM_CHUNK, a->b.count);
    double sum = 0.0;
    for (uint32_t j = at.row * SUM_CHUNK; j < end; j++)
        if (!a->b.live || j < *a->b.live)
            sum += (double)a->b.share[(size_t)j * a->width + at.column];
    a->partial[i] = sum;
}
KERNEL(mix_importance)

static void cuda_balance_gather(struct stream *s, const struct mix_balance_args *b)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct mix_importance_args a;
    uint32_t chunks = sum_chunks(b->count);
    a.b = *b;
    a.width = b->gates * b->choices;
    a.partial = (double *)cuda_scratch(s, (size_t)chunks * a.width * sizeof(double));
    if (!a.partial)
        return;
    mix_importance_run(s, (size_t)chunks * a.width, &a);
    cuda_columns_add_double(s, a.partial, chunks, a.width, b->sum);
    cuda_scratch_return(s, mark);
}

BODY void mix_balance_at(const struct mix_balance_args *a, size_t i)
{
    double n = a->live ? *a->live : a->examples;
    a->slope[i] = (float)((double)*a->factor * 2.0 * a->choices * a->sum[i] / (n * n));
}
KERNEL(mix_balance)

static void cuda_balance_settle(struct stream *s, const struct mix_balance_args *b)
{
    mix_balance_run(s, (size_t)b->gates * b->choices, b);
}

/* The copies that fill the batch up have no part in the importances. */
BODY void mix_lean_at(const struct mix_balance_args *a, size_t i)
{
    uint32_t width = a->gates * a->choices;
    struct place at = place_of(i, width);
    uint32_t first = at.column - at.column % a->choices; /* first column of its gate */
    const float *share = a->share + (size_t)at.row * width;
    float mean = 0.0f;
    if (a->live && at.row >= *a->live)
        return;
    for (uint32_t e = first; e < first + a->choices; e++)
        mean += share[e] * a->slope[e];
    a->dgate[(size_t)at.row * a->lddgate + at.column] +=
        share[at.column] * (a->slope[at.column] - mean);
}
#define mix_lean_args mix_balance_args
KERNEL(mix_lean)

static void cuda_balance_backward(struct stream *s, const struct mix_balance_args *b)
{
    mix_lean_run(s, (size_t)b->count * b->gates * b->choices, b);
}

void cuda_mix_fill(struct mix_ops *o)
{
    o->share = cuda_mix_share;
    o->forward = cuda_mix_forward;
    o->backward = cuda_mix_backward;
    o->choose = cuda_mix_choose;
    o->gather = cuda_mix_gather;
    o->scatter = cuda_mix_scatter;
    o->balance_gather = cuda_balance_gather;
    o->balance_settle = cuda_balance_settle;
    o->balance_backward = cuda_balance_backward;
}
