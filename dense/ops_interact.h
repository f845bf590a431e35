/* ops_interact.h: kernels of products of field vectors (FwFM, IPNN, DLRM, DCNv2, xDeepFM). Part of
 * struct backend_ops (backend_ops.h): its words on memory, streams, layout and order hold here
 * too. */
#ifndef DENSE_OPS_INTERACT_H
#define DENSE_OPS_INTERACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

/* Pairs of `vectors` vectors. */
static inline uint32_t products_pairs(uint32_t vectors)
{
    return vectors * (vectors - 1) / 2;
}

/* Place of the product of vectors i and j < i: row by row below the diagonal. */
static inline uint32_t products_at(uint32_t i, uint32_t j)
{
    return i * (i - 1) / 2 + j;
}

/* Floats of work space that the kernels need, whatever the batch. */
static inline uint32_t products_work_floats(uint32_t vectors, uint32_t dim)
{
    return (vectors + 15) / 16 * 16 * dim;
}

/* Inner products of all pairs of vectors. */
struct products_args {
    uint32_t count, vectors, dim;
    bool keep;      /* y begins with a copy of the last vector */
    const float *x; /* (count, vectors * dim) */
    uint32_t ldx;
    float *y; /* (count, [dim,] pairs) */
    uint32_t ldy;
    float *work; /* products_work_floats, 64-byte aligned */
    /* the way back */
    const float *dy;
    uint32_t lddy;
    float *dx;
    uint32_t lddx;
    bool add; /* dx +=, else = */
};

/* The element-wise part of a cross layer (interact.c): y = x0 * (u + bias) + x, u = x w'. */
struct cross_args {
    uint32_t count, width;
    const float *x0; /* (count, width) */
    uint32_t ldx0;
    const float *x; /* (count, width) */
    uint32_t ldx;
    const float *bias; /* (width) */
    float *u;          /* (count, width) */
    uint32_t ldu;
    float *y;
    uint32_t ldy;
    /* the way back */
    const float *dy; /* (count, width) */
    uint32_t lddy;
    float *dbias; /* += */
    /* (count, dx0_width): the leading columns that are wanted; NULL when dx0_width is 0 */
    float *dx0;
    uint32_t lddx0, dx0_width;
    bool add;   /* dx0 +=, else = */
    bool first; /* x is x0: its gradient dy goes to dx0 too */
};

/* The element-wise part of a layer of the compressed interaction network (layer_cin). A row is one
 * number of the vectors' `dim`; rows follow one another without gaps. */
struct cin_args {
    uint32_t rows, maps, fields;
    const float *x;  /* (rows, maps): the layer below */
    const float *x0; /* (rows, fields): the vectors, turned */
    float *z;        /* (rows, fields * maps): z[f * maps + m] = x0[f] x[m] */
    /* the way back */
    const float *dz; /* (rows, fields * maps) */
    float *dx;       /* (rows, maps) */
    float *dx0;      /* (rows, fields); dx itself where x is x0 */
    bool add, add0;  /* dx, dx0 +=, else = */
};

struct interact_ops {
    void (*products_forward)(struct stream *s, const struct products_args *a);
    /* dx of vector i = sum over the others of dy * vector; in the order of the vectors. The copy's
     * gradient goes to the last vector. */
    void (*products_backward)(struct stream *s, const struct products_args *a);

    void (*cross_forward)(struct stream *s, const struct cross_args *a);
    /* dx0 = (add ? dx0 : 0) + dy * (u + bias) (+ dy when first); then u becomes its gradient, dy *
     * x0, of which a device's section may keep only what matrix products read; dbias += sum of it
     * over the rows. */
    void (*cross_backward)(struct stream *s, const struct cross_args *a);

    /* y (count, dim, fields) = x (count, fields, dim), each example turned. */
    void (*turn)(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim, const float *x,
                 uint32_t ldx, bool add, float *y, uint32_t ldy);
    void (*cin_outer)(struct stream *s, const struct cin_args *a);
    /* dx0[f] = sum over m of dz x[m], first; then dx[m] = sum over f of dz x0[f]. */
    void (*cin_outer_backward)(struct stream *s, const struct cin_args *a);
    /* y (count, maps) = sum of x (count, dim, maps) over dim. */
    void (*cin_pool)(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps, const float *x,
                     uint32_t ldx, float *y, uint32_t ldy);
    /* dx (count, dim, maps) = (add ? dx : 0) + dy, for each of dim. */
    void (*cin_pool_backward)(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps,
                              const float *dy, uint32_t lddy, bool add, float *dx, uint32_t lddx);
};

#endif
