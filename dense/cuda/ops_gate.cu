/* ops_gate.cu: one stream multiplied with another: gates, and the products of two streams that make
 * a logit. */
#include "dense/cuda/attention.h"

#define DOTS_LANES 32u /* parts that a row is summed in: neighbours read neighbouring columns */

struct gate_kernel_args {
    uint32_t width, ldx, ldg, ldy, lddg, lddx, dx_width;
    float factor;
    bool add;
    const float *x, *g, *dy;
    float *y, *dg, *dx;
};

#define gate_forward_args gate_kernel_args
#define gate_backward_args gate_kernel_args

BODY void gate_forward_at(const struct gate_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    a->y[(size_t)p.row * a->ldy + p.column] = a->x[(size_t)p.row * a->ldx + p.column] *
                                              a->g[(size_t)p.row * a->ldg + p.column] * a->factor;
}
KERNEL(gate_forward)

BODY void gate_backward_at(const struct gate_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    float dy = a->dy[(size_t)p.row * a->ldy + p.column] * a->factor;
    a->dg[(size_t)p.row * a->lddg + p.column] = a->x[(size_t)p.row * a->ldx + p.column] * dy;
    if (p.column < a->dx_width) {
        float *to = a->dx + (size_t)p.row * a->lddx + p.column;
        *to = (a->add ? *to : 0.0f) + a->g[(size_t)p.row * a->ldg + p.column] * dy;
    }
}
KERNEL(gate_backward)

static void gate_forward(struct stream *s, uint32_t count, uint32_t width, float factor,
                         const float *x, uint32_t ldx, const float *g, uint32_t ldg, float *y,
                         uint32_t ldy)
{
    struct gate_kernel_args a = {width, ldx, ldg, ldy,  0, 0,    0,   factor,
                                 false, x,   g,   NULL, y, NULL, NULL};
    gate_forward_run(s, (size_t)count * width, &a);
}

static void gate_backward(struct stream *s, uint32_t count, uint32_t width, float factor,
                          const float *x, uint32_t ldx, const float *g, uint32_t ldg,
                          const float *dy, uint32_t lddy, float *dg, uint32_t lddg, float *dx,
                          uint32_t lddx, uint32_t dx_width, bool add)
{
    struct gate_kernel_args a = {width, ldx, ldg, lddy, lddg, lddx, dx_width, factor,
                                 add,   x,   g,   dy,   NULL, dg,   dx};
    gate_backward_run(s, (size_t)count * width, &a);
}

struct dots_kernel_args {
    uint32_t width, ldt, ldz, stride, lddz, lanes;
    bool add;
    float *t;
    const float *z, *dlogit;
    float *logit, *dz;
    float *sums; /* (count, lanes) */
};

#define dots_lane_args dots_kernel_args
#define dots_logit_args dots_kernel_args
#define dots_backward_args dots_kernel_args

/* Columns lane, lane + lanes, .. of a row. */
BODY void dots_lane_at(const struct dots_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->lanes);
    const float *t = a->t + (size_t)p.row * a->ldt, *z = a->z + (size_t)p.row * a->ldz;
    float sum = 0.0f;
    for (uint32_t j = p.column; j < a->width; j += a->lanes)
        sum += t[j] * z[j];
    a->sums[i] = sum;
}
KERNEL(dots_lane)

BODY void dots_logit_at(const struct dots_kernel_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t lane = 0; lane < a->lanes; lane++)
        sum += a->sums[i * a->lanes + lane];
    a->logit[i * a->stride] += sum;
}
KERNEL(dots_logit)

BODY void dots_backward_at(const struct dots_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    float d = a->dlogit[(size_t)p.row * a->stride];
    float *t = a->t + (size_t)p.row * a->ldt + p.column,
          *dz = a->dz + (size_t)p.row * a->lddz + p.column;
    *dz = (a->add ? *dz : 0.0f) + *t * d;
    *t = a->z[(size_t)p.row * a->ldz + p.column] * d;
}
KERNEL(dots_backward)

static void dots_forward(struct stream *s, uint32_t count, uint32_t width, const float *t,
                         uint32_t ldt, const float *z, uint32_t ldz, float *logit, uint32_t stride)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t lanes = width < DOTS_LANES ? width : DOTS_LANES;
    float *sums = (float *)cuda_scratch(s, (size_t)count * lanes * sizeof *sums);
    struct dots_kernel_args a = {width,      ldt, ldz,  stride, 0,    lanes, false,
                                 (float *)t, z,   NULL, logit,  NULL, sums};
    if (sums == NULL)
        return;
    dots_lane_run(s, (size_t)count * lanes, &a);
    dots_logit_run(s, count, &a);
    cuda_scratch_return(s, mark);
}

static void dots_backward(struct stream *s, uint32_t count, uint32_t width, float *t, uint32_t ldt,
                          const float *z, uint32_t ldz, const float *dlogit, uint32_t stride,
                          float *dz, uint32_t lddz, bool add)
{
    struct dots_kernel_args a = {width, ldt, ldz,    stride, lddz, 0,   add,
                                 t,     z,   dlogit, NULL,   dz,   NULL};
    dots_backward_run(s, (size_t)count * width, &a);
}

void cuda_gate_fill(struct attention_ops *o)
{
    o->gate_forward = gate_forward;
    o->gate_backward = gate_backward;
    o->dots_forward = dots_forward;
    o->dots_backward = dots_backward;
}
