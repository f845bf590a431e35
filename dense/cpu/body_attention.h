/* body_attention.h: gates and sequences, and the table of dense/ops_attention.h. */
#ifndef DENSE_CPU_BODY_ATTENTION_H
#define DENSE_CPU_BODY_ATTENTION_H

#include "dense/backend_ops.h"
#include "dense/cpu/body_attend.h"
#include "dense/cpu/body_norm.h"
#include "dense/cpu/vector.h"
#include "proto/base/minmax.h"

/* ---- gates ----------------------------------------------------------------------------------- */

/* Products of two streams: gates, and the products that are summed to a logit. */

static void body_gate_forward(struct stream *s, uint32_t count, uint32_t width, float factor,
                              const float *x, uint32_t ldx, const float *g, uint32_t ldg, float *y,
                              uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, g += ldg, y += ldy)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(y + j, vector_load_n(x + j, n) * vector_load_n(g + j, n) * factor, n);
        }
}

static void body_gate_backward(struct stream *s, uint32_t count, uint32_t width, float factor,
                               const float *x, uint32_t ldx, const float *g, uint32_t ldg,
                               const float *dy, uint32_t lddy, float *dg, uint32_t lddg, float *dx,
                               uint32_t lddx, uint32_t dx_width, bool add)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, g += ldg, dy += lddy, dg += lddg) {
        float *to = dx + (size_t)i * lddx;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(dg + j, vector_load_n(x + j, n) * vector_load_n(dy + j, n) * factor, n);
        }
        for (uint32_t j = 0; j < dx_width; j += VECTOR) {
            uint32_t n = vector_left(dx_width, j);
            vf v = vector_load_n(g + j, n) * vector_load_n(dy + j, n) * factor;
            vector_put_n(to + j, v, n, add);
        }
    }
}

static void body_dots_forward(struct stream *s, uint32_t count, uint32_t width, const float *t,
                              uint32_t ldt, const float *z, uint32_t ldz, float *logit,
                              uint32_t stride)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, t += ldt, z += ldz) {
        vf sum = {0};
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            sum += vector_load_n(t + j, n) * vector_load_n(z + j, n);
        }
        logit[(size_t)i * stride] += vector_sum(sum);
    }
}

static void body_dots_backward(struct stream *s, uint32_t count, uint32_t width, float *t,
                               uint32_t ldt, const float *z, uint32_t ldz, const float *dlogit,
                               uint32_t stride, float *dz, uint32_t lddz, bool add)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, t += ldt, z += ldz, dz += lddz) {
        float d = dlogit[(size_t)i * stride];
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(t + j, n) * d;
            vector_store_n(t + j, vector_load_n(z + j, n) * d, n);
            vector_put_n(dz + j, v, n, add);
        }
    }
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* The values of one field, each by itself. A chunk packs the values of that field only, so short
 * sequences cost no more than their length. */

/* Enough rows for a matrix product at nearly its full rate, few enough that a chunk's activations
 * stay in the cache. */
#define SEQUENCE_CHUNK 1024u

static void *body_sequence_begin(struct stream *s, const struct sequence_args *a, bool back)
{
    (void)s;
    for (uint32_t i = 0; i < a->count && !back; i++)
        memset(a->y + (size_t)i * a->ldy, 0, a->dim * sizeof *a->y);
    return NULL;
}

static bool body_sequence_next(struct stream *s, const struct sequence_args *a,
                               struct sequence_chunk *c)
{
    uint32_t room = MIN(a->room, SEQUENCE_CHUNK);
    (void)s;
    for (c->rows = 0; c->example < a->count && c->rows < room;) {
        uint32_t slot = (a->first + c->example) * a->fields + a->field;
        uint32_t begin = slot_begin(a->offset, slot), end = slot_begin(a->offset, slot + 1);
        for (; begin + c->place < end && c->rows < room; c->place++, c->rows++) {
            c->owner[c->rows] = c->example;
            c->value[c->rows] = begin + c->place;
        }
        if (begin + c->place >= end) {
            c->example++;
            c->place = 0;
        }
    }
    return c->rows > 0;
}

KERNEL_INLINE const float *sequence_vector(const struct sequence_args *a,
                                           const struct sequence_chunk *c, uint32_t row)
{
    return a->rows + (size_t)a->index[c->value[row]] * (a->first_order + a->dim) + a->first_order;
}

static void body_sequence_features(struct stream *s, const struct sequence_args *a,
                                   const struct sequence_chunk *c)
{
    (void)s;
    for (uint32_t r = 0; r < c->rows; r++) {
        const float *value = sequence_vector(a, c, r),
                    *target = a->target + (size_t)c->owner[r] * a->ldtarget;
        float *to = a->features + (size_t)r * 4 * a->dim;
        for (uint32_t d = 0; d < a->dim; d += VECTOR) {
            uint32_t n = vector_left(a->dim, d);
            vf h = vector_load_n(value + d, n), t = vector_load_n(target + d, n);
            vector_store_n(to + d, h, n);
            vector_store_n(to + a->dim + d, t, n);
            vector_store_n(to + 2 * a->dim + d, h - t, n);
            vector_store_n(to + 3 * a->dim + d, h * t, n);
        }
    }
}

static void body_sequence_pool(struct stream *s, const struct sequence_args *a,
                               const struct sequence_chunk *c)
{
    (void)s;
    for (uint32_t r = 0; r < c->rows; r++) {
        const float *h = a->features + (size_t)r * 4 * a->dim;
        float *y = a->y + (size_t)c->owner[r] * a->ldy;
        for (uint32_t d = 0; d < a->dim; d += VECTOR) {
            uint32_t n = vector_left(a->dim, d);
            vector_store_n(y + d, vector_load_n(y + d, n) + vector_load_n(h + d, n) * a->weight[r],
                           n);
        }
    }
}

static void body_sequence_pool_backward(struct stream *s, const struct sequence_args *a,
                                        const struct sequence_chunk *c)
{
    (void)s;
    for (uint32_t r = 0; r < c->rows; r++) {
        const float *h = a->features + (size_t)r * 4 * a->dim,
                    *dy = a->dy + (size_t)c->owner[r] * a->lddy;
        vf sum = {0};
        for (uint32_t d = 0; d < a->dim; d += VECTOR) {
            uint32_t n = vector_left(a->dim, d);
            sum += vector_load_n(h + d, n) * vector_load_n(dy + d, n);
        }
        a->dweight[r] = vector_sum(sum);
    }
}

static void body_sequence_features_backward(struct stream *s, const struct sequence_args *a,
                                            const struct sequence_chunk *c)
{
    (void)s;
    for (uint32_t r = 0; r < c->rows; r++) {
        uint32_t i = c->owner[r];
        const float *h = a->features + (size_t)r * 4 * a->dim,
                    *g = a->dfeatures + (size_t)r * 4 * a->dim;
        const float *t = h + a->dim, *dy = a->dy + (size_t)i * a->lddy;
        float *dt = a->dtarget + (size_t)i * a->lddtarget;
        float *dh = a->row_gradients + (size_t)a->index[c->value[r]] * (a->first_order + a->dim) +
                    a->first_order;
        for (uint32_t d = 0; d < a->dim; d += VECTOR) {
            uint32_t n = vector_left(a->dim, d);
            vf of_difference = vector_load_n(g + 2 * a->dim + d, n),
               of_product = vector_load_n(g + 3 * a->dim + d, n);
            vf to_value =
                vector_load_n(g + d, n) + of_difference + of_product * vector_load_n(t + d, n);
            vf to_target = vector_load_n(g + a->dim + d, n) - of_difference +
                           of_product * vector_load_n(h + d, n);
            to_value += vector_load_n(dy + d, n) * a->weight[r];
            vector_store_n(dh + d, vector_load_n(dh + d, n) + to_value, n);
            vector_store_n(dt + d, vector_load_n(dt + d, n) + to_target, n);
        }
    }
}

/* The gradients were added to the rows already. */
static void body_sequence_end(struct stream *s, const struct sequence_args *a)
{
    (void)s;
    (void)a;
}

static void body_attention_fill(struct attention_ops *o)
{
    o->layer_norm_forward = body_layer_norm_forward;
    o->layer_norm_backward = body_layer_norm_backward;
    o->attend_forward = body_attend_forward;
    o->attend_backward = body_attend_backward;
    o->gate_forward = body_gate_forward;
    o->gate_backward = body_gate_backward;
    o->dots_forward = body_dots_forward;
    o->dots_backward = body_dots_backward;
    o->sequence_begin = body_sequence_begin;
    o->sequence_next = body_sequence_next;
    o->sequence_features = body_sequence_features;
    o->sequence_pool = body_sequence_pool;
    o->sequence_pool_backward = body_sequence_pool_backward;
    o->sequence_features_backward = body_sequence_features_backward;
    o->sequence_end = body_sequence_end;
}

#endif
