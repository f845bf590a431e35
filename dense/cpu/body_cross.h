/* body_cross.h: the element-wise step of a cross layer, one pass over the activations each way. */
#ifndef DENSE_CPU_BODY_CROSS_H
#define DENSE_CPU_BODY_CROSS_H

#include "dense/cpu/vector.h"
#include "dense/ops_interact.h"

static void body_cross_forward(struct stream *s, const struct cross_args *a)
{
    (void)s;
    for (uint32_t i = 0; i < a->count; i++) {
        const float *x0 = a->x0 + (size_t)i * a->ldx0, *x = a->x + (size_t)i * a->ldx,
                    *u = a->u + (size_t)i * a->width;
        float *y = a->y + (size_t)i * a->ldy;
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vf factor = vector_load_n(u + j, n) + vector_load_n(a->bias + j, n);
            vector_store_n(y + j, vector_load_n(x0 + j, n) * factor + vector_load_n(x + j, n), n);
        }
    }
}

/* One row; the switches are known to the compiler. */
KERNEL_INLINE void cross_back_row(const struct cross_args *a, uint32_t i, bool add, bool first)
{
    const float *x0 = a->x0 + (size_t)i * a->ldx0, *dy = a->dy + (size_t)i * a->lddy;
    float *u = a->u + (size_t)i * a->width,
          *dx0 = a->dx0 != NULL ? a->dx0 + (size_t)i * a->lddx0 : NULL;
    for (uint32_t j = 0; j < a->width; j += VECTOR) {
        uint32_t n = vector_left(a->width, j);
        vf d = vector_load_n(dy + j, n);
        if (j < a->dx0_width) {
            uint32_t wanted = vector_left(a->dx0_width, j);
            vf to = d * (vector_load_n(u + j, n) + vector_load_n(a->bias + j, n));
            if (first)
                to += d;
            if (add)
                to += vector_load_n(dx0 + j, wanted);
            vector_store_n(dx0 + j, to, wanted);
        }
        d = d * vector_load_n(x0 + j, n);
        vector_store_n(u + j, d, n);
        vector_store_n(a->dbias + j, vector_load_n(a->dbias + j, n) + d, n);
    }
}

static void body_cross_backward(struct stream *s, const struct cross_args *a)
{
    (void)s;
    for (uint32_t i = 0; i < a->count && a->first; i++)
        cross_back_row(a, i, a->add, true);
    for (uint32_t i = 0; i < a->count && !a->first && a->add; i++)
        cross_back_row(a, i, true, false);
    for (uint32_t i = 0; i < a->count && !a->first && !a->add; i++)
        cross_back_row(a, i, false, false);
}

#endif
