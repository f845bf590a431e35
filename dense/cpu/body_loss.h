/* body_loss.h: the losses, and operations on whole gradients: scale, measure, clip. */
#ifndef DENSE_CPU_BODY_LOSS_H
#define DENSE_CPU_BODY_LOSS_H

#include "dense/cpu/vector.h"
#include "proto/base/minmax.h"

#include <math.h>

/* One example's loss, score and derivative. */
struct loss_one {
    double loss, score, slope;
};

/* In double and by libm, which costs little: there is one value for each example and task. */
static inline struct loss_one body_loss_one(enum loss_kind kind, double delta, double z, double y)
{
    double error = z - y;
    if (kind == LOSS_MSE)
        return (struct loss_one){error * error, z, 2.0 * error};
    if (kind == LOSS_HUBER && fabs(error) > delta)
        return (struct loss_one){delta * (fabs(error) - 0.5 * delta), z, copysign(delta, error)};
    if (kind == LOSS_HUBER)
        return (struct loss_one){0.5 * error * error, z, error};
    double e = exp(-fabs(z)), score = (z >= 0 ? 1.0 : e) / (1.0 + e);
    return (struct loss_one){(z > 0 ? z : 0.0) - z * y + log1p(e), score, score - y};
}

static void body_loss(struct stream *s, uint32_t count, const uint32_t *live, uint32_t tasks,
                      const struct loss_spec *spec, const float *logit, float offset,
                      const float *label, const float *weight, const float *factor, double *loss,
                      float *scores, float *dlogit)
{
    (void)s;
    (void)live;
    for (uint32_t i = 0; i < count; i++) {
        double of_example = 1.0;
        if (weight != NULL)
            of_example = (double)weight[i];
        for (uint32_t t = 0; t < tasks; t++) {
            size_t at = (size_t)i * tasks + t;
            double z = (double)logit[at] + (double)offset, y = (double)label[at];
            bool there = !isnan(y);
            struct loss_one one = body_loss_one(spec->kind[t], spec->delta, z, y);
            if (there)
                loss[t] += of_example * one.loss;
            if (isnan(z))
                loss[t] = (double)NAN; /* fabs and the comparisons above would hide it */
            if (scores != NULL)
                scores[at] = (float)one.score;
            if (dlogit != NULL)
                dlogit[at] = there ? (float)((double)factor[t] * of_example * one.slope) : 0.0f;
        }
    }
}

static void body_scale(struct stream *s, size_t count, float factor, const float *x, float *y)
{
    (void)s;
    if (factor == 0.0f) {
        memset(y, 0, count * sizeof *y);
        return;
    }
    size_t i = 0;
    for (; i + VECTOR <= count; i += VECTOR)
        vector_store(y + i, vector_load(x + i) * factor);
    for (; i < count; i++)
        y[i] = x[i] * factor;
}

static void body_scale_by(struct stream *s, size_t count, const float *factor, float *y)
{
    body_scale(s, count, *factor, y, y);
}

static void body_add(struct stream *s, uint32_t count, uint32_t width, const float *x, uint32_t ldx,
                     float *y, uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, y += ldy)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(y + j, vector_load_n(y + j, n) + vector_load_n(x + j, n), n);
        }
}

/* the number of squares that are summed in float before their sum is added in double */
#define SQUARE_BLOCK 1024u

/* One block's sum; it is computed in double where a float overflows. */
static double square_block(const float *x, uint32_t count)
{
    uint32_t i = 0;
    vf part = {0};
    for (; i + VECTOR <= count; i += VECTOR) {
        vf v = vector_load(x + i);
        part += v * v;
    }
    if (i < count) {
        vf v = vector_load_part(x + i, count - i);
        part += v * v;
    }
    double sum = (double)vector_sum(part);
    if (isfinite(sum))
        return sum;
    sum = 0.0;
    for (i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static void body_square_sum(struct stream *s, size_t count, const float *x, double *sum)
{
    double total = 0.0;
    (void)s;
    for (size_t at = 0; at < count; at += SQUARE_BLOCK) {
        size_t left = count - at;
        total += square_block(x + at, (uint32_t)MIN(left, SQUARE_BLOCK));
    }
    *sum += total;
}

static void body_clip(struct stream *s, size_t count, double limit, const double *square, float *x)
{
    double norm = sqrt(*square);
    if (norm > limit && isfinite(norm))
        body_scale(s, count, (float)(limit / norm), x, x);
}

static void body_clip_rows(struct stream *s, uint32_t count, uint32_t width, float limit, float *x)
{
    for (uint32_t i = 0; i < count; i++, x += width) {
        double square = 0.0;
        body_square_sum(s, width, x, &square);
        body_clip(s, width, (double)limit, &square, x);
    }
}

#endif
