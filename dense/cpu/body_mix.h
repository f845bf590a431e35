/* body_mix.h: gates of experts, the examples of each expert, and the mixtures of their outputs. */
#ifndef DENSE_CPU_BODY_MIX_H
#define DENSE_CPU_BODY_MIX_H

#include "dense/cpu/body_act.h"
#include "dense/ops_mix.h"
#include "proto/base/minmax.h"

#include <math.h>

/* -infinity where the lane is beyond the gate's end, or where top_k values come before it. A larger
 * value comes before it, and so does an equal one with a lower index. A NaN has none before it. */
KERNEL_INLINE vf mix_passed(const float *gate, uint32_t choices, uint32_t top_k, uint32_t at)
{
    vf v = vector_load_n(gate + at, vector_left(choices, at));
    vi number = (vi)lane_numbers + (int32_t)at, before = {0};
    for (uint32_t e = 0; e < choices && top_k > 0; e++) {
        vf other = vector_all(gate[e]);
        before -= (other > v) | ((other == v) & (number > (int32_t)e));
    }
    vi passed = number < (int32_t)choices;
    if (top_k > 0)
        passed &= before < (int32_t)top_k;
    return vector_choose(passed, v, vector_all(-INFINITY));
}

KERNEL_INLINE float mix_largest(vf v)
{
    float part[VECTOR], most = -INFINITY;
    vector_store(part, v);
    for (uint32_t i = 0; i < VECTOR; i++)
        most = MAX(part[i], most);
    return most;
}

static void mix_share(const float *gate, uint32_t choices, uint32_t top_k, float *share)
{
    vf passed[MIX_GATE_MAX / VECTOR];
    float most = -INFINITY, sum = 0.0f;
    for (uint32_t at = 0; at < choices; at += VECTOR) {
        vf v = passed[at / VECTOR] = mix_passed(gate, choices, top_k, at);
        float of_v = mix_largest(v);
        most = MAX(of_v, most);
    }
    for (uint32_t at = 0; at < choices; at += VECTOR) {
        vf v = passed[at / VECTOR];
        v = vector_choose(v == vector_all(-INFINITY), (vf){0}, vector_exp(v - most));
        passed[at / VECTOR] = v;
        sum += vector_sum(v);
    }
    for (uint32_t at = 0; at < choices; at += VECTOR)
        vector_store_n(share + at, passed[at / VECTOR] / sum, vector_left(choices, at));
}

/* y = the sum of share times output over the experts with a share. */
static void mix_outputs(const struct mix_args *a, uint32_t i, uint32_t t, const float *share,
                        float *y)
{
    const float *output[MIX_GATE_MAX];
    float weight[MIX_GATE_MAX];
    uint32_t count = 0;
    for (uint32_t e = 0; e < a->shared + a->own; e++)
        if (share[e] != 0.0f) {
            uint32_t block = mix_expert(a, t, e);
            output[count] = a->x + (size_t)mix_row(a, i, block) * a->ldx + (size_t)block * a->width;
            weight[count++] = share[e];
        }
    for (uint32_t j = 0; j < a->width; j += VECTOR) {
        uint32_t n = vector_left(a->width, j);
        vf sum = {0};
        for (uint32_t e = 0; e < count; e++)
            sum += vector_load_n(output[e] + j, n) * weight[e];
        vector_store_n(y + j, sum, n);
    }
}

static void body_mix_share(struct stream *s, const struct mix_args *a)
{
    uint32_t choices = a->shared + a->own;
    (void)s;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t t = 0; t < a->tasks; t++)
            mix_share(a->gate + (size_t)i * a->ldgate + t * choices, choices, a->top_k,
                      a->share + ((size_t)i * a->tasks + t) * choices);
}

static void body_mix_forward(struct stream *s, const struct mix_args *a)
{
    uint32_t choices = a->shared + a->own;
    (void)s;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t t = 0; t < a->tasks; t++)
            mix_outputs(a, i, t, a->share + ((size_t)i * a->tasks + t) * choices,
                        a->y + (size_t)i * a->ldy + t * a->width);
}

/* dx = (add ? dx : 0) + share * dy. Returns dy . x. */
KERNEL_INLINE float mix_expert_backward(uint32_t width, float share, const float *x,
                                        const float *dy, bool add, float *dx)
{
    vf sum = {0};
    for (uint32_t j = 0; j < width; j += VECTOR) {
        uint32_t n = vector_left(width, j);
        vf d = vector_load_n(dy + j, n), to = d * share;
        sum += d * vector_load_n(x + j, n);
        vector_put_n(dx + j, to, n, add);
    }
    return vector_sum(sum);
}

/* Example i. slope (tasks, choices): dy . output. */
static void mix_example_backward(const struct mix_args *a, uint32_t i, float *slope)
{
    uint32_t choices = a->shared + a->own;
    const float *share = a->share + (size_t)i * a->tasks * choices,
                *dy = a->dy + (size_t)i * a->lddy;
    memset(slope, 0, (size_t)a->tasks * choices * sizeof *slope);
    for (uint32_t e = 0; e < a->shared + a->tasks * a->own; e++) {
        uint32_t at = 0, end = a->tasks; /* the tasks whose gates may choose this expert */
        if (e >= a->shared) {
            at = (e - a->shared) / a->own;
            end = at + 1;
        }
        uint32_t row = mix_row(a, i, e);
        if (row == MIX_NOWHERE)
            continue;
        const float *x = a->x + (size_t)row * a->ldx + (size_t)e * a->width;
        float *to = a->dx + (size_t)row * a->lddx + (size_t)e * a->width;
        bool add = a->add;
        for (uint32_t t = at; t < end; t++) {
            uint32_t choice = t * choices + e;
            if (e >= a->shared)
                choice -= t * a->own;
            if (share[choice] == 0.0f)
                continue;
            slope[choice] =
                mix_expert_backward(a->width, share[choice], x, dy + (size_t)t * a->width, add, to);
            add = true;
        }
        if (!add)
            memset(to, 0, a->width * sizeof *to);
    }
}

static void mix_gate_backward(uint32_t choices, const float *share, const float *slope, bool add,
                              float *dgate)
{
    float mean = 0.0f;
    for (uint32_t e = 0; e < choices; e++)
        mean += share[e] * slope[e];
    for (uint32_t e = 0; e < choices; e++)
        dgate[e] = sum_begin(&dgate[e], add) + share[e] * (slope[e] - mean);
}

static void body_mix_backward(struct stream *s, const struct mix_args *a)
{
    uint32_t choices = a->shared + a->own;
    float slope[LIMIT_TASKS * MIX_GATE_MAX];
    (void)s;
    for (uint32_t i = 0; i < a->count; i++) {
        const float *share = a->share + (size_t)i * a->tasks * choices;
        mix_example_backward(a, i, slope);
        for (uint32_t t = 0; t < a->tasks; t++)
            mix_gate_backward(choices, share + t * choices, slope + t * choices, a->add_gate,
                              a->dgate + (size_t)i * a->lddgate + t * choices);
    }
}

/* ---- packed rows ----------------------------------------------------------------------------- */

static void body_mix_choose(struct stream *s, const struct mix_choose_args *a)
{
    const struct mix_rows *r = &a->rows;
    (void)s;
    memset(r->load, 0, r->experts * sizeof *r->load);
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t e = 0; e < r->experts; e++) {
            uint32_t place = MIX_NOWHERE;
            if (mix_chosen(a, i, e)) {
                place = r->load[e]++;
                r->row[(size_t)e * r->count + place] = i;
            }
            r->place[(size_t)i * r->experts + e] = place;
        }
    for (uint32_t e = 0; e < r->experts; e++)
        a->load[e] += r->load[e];
}

static void body_mix_gather(struct stream *s, const struct mix_gather_args *a)
{
    const uint32_t *row = a->rows.row + (size_t)a->expert * a->rows.count;
    (void)s;
    for (uint32_t i = 0; i < a->rows.load[a->expert]; i++)
        memcpy(a->y + (size_t)i * a->ldy, a->x + (size_t)row[i] * a->ldx, a->width * sizeof *a->y);
}

static void body_mix_scatter(struct stream *s, const struct mix_gather_args *a)
{
    const uint32_t *place = a->rows.place + a->expert;
    (void)s;
    for (uint32_t i = 0; i < a->rows.count; i++, place += a->rows.experts) {
        float *to = a->dx + (size_t)i * a->lddx;
        if (*place == MIX_NOWHERE) {
            if (!a->add)
                memset(to, 0, a->width * sizeof *to);
            continue;
        }
        const float *from = a->dy + (size_t)*place * a->lddy;
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vector_put_n(to + j, vector_load_n(from + j, n), n, a->add);
        }
    }
}

/* ---- balance --------------------------------------------------------------------------------- */

static void body_balance_gather(struct stream *s, const struct mix_balance_args *a)
{
    uint32_t width = a->gates * a->choices;
    (void)s;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < width; j++)
            a->sum[j] += (double)a->share[(size_t)i * width + j];
}

static void body_balance_settle(struct stream *s, const struct mix_balance_args *a)
{
    double n = a->examples;
    (void)s;
    for (uint32_t j = 0; j < a->gates * a->choices; j++)
        a->slope[j] = (float)((double)*a->factor * 2.0 * a->choices * a->sum[j] / (n * n));
}

static void body_balance_backward(struct stream *s, const struct mix_balance_args *a)
{
    uint32_t width = a->gates * a->choices;
    (void)s;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < width; j += a->choices)
            mix_gate_backward(a->choices, a->share + (size_t)i * width + j, a->slope + j, true,
                              a->dgate + (size_t)i * a->lddgate + j);
}

static void body_mix_fill(struct mix_ops *o)
{
    o->share = body_mix_share;
    o->forward = body_mix_forward;
    o->backward = body_mix_backward;
    o->choose = body_mix_choose;
    o->gather = body_mix_gather;
    o->scatter = body_mix_scatter;
    o->balance_gather = body_balance_gather;
    o->balance_settle = body_balance_settle;
    o->balance_backward = body_balance_backward;
}

#endif
